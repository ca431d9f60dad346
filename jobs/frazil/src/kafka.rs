//! Kafka as the command line reaches it: the flags of Kafka's own tools, and failures as commands say them.

use std::sync::Arc;

use kafka::{Given, Login, Settings, Tokens};

use crate::Session;
use crate::arguments;
use crate::manners::failure::Failure;

/// The client settings that the flags name. Every fault is said at once.
///
/// # Errors
/// When the file can't be read, or a line of it can't be used.
pub(crate) fn settings(flags: &arguments::Kafka, session: &Session<'_>) -> Result<Settings, Failure> {
    let path = flags.command_config.as_ref();
    let text = path.map(|path| {
        std::fs::read_to_string(session.folder.join(path))
            .map_err(|e| Failure::io("kafka.settings", path.display().to_string(), &e))
    });
    let text = text.transpose()?;
    let name = path.map(|path| path.display().to_string()).unwrap_or_default();
    let given = Given {
        bootstrap_servers: flags.bootstrap_server.as_deref(),
        file: text.as_deref().map(|text| (name.as_str(), text)),
        properties: &flags.command_property,
    };
    Settings::read(&given).map_err(|faults| match &faults.0[..] {
        [fault] => {
            let message = format!("{}: {}", fault.place, fault.message);
            Failure::usage("kafka.settings", message).remedy(&fault.remedy)
        }
        several => {
            let lines: Vec<String> = several.iter().map(ToString::to_string).collect();
            let message = format!("client settings that can't be used:\n{}", lines.join("\n"));
            Failure::usage("kafka.settings", message).remedy("mend these lines")
        }
    })
}

/// Whoever makes the tokens that these settings ask for, once one was made; none where they ask for none.
///
/// # Errors
/// When no token can be made.
pub(crate) fn tokens(settings: &Settings, session: &Session<'_>) -> Result<Option<Arc<dyn Tokens>>, Failure> {
    match settings.login() {
        Login::Plain => Ok(None),
        Login::MskIam(told) => {
            crate::msk::tokens(told, settings.bootstrap_servers(), Arc::clone(&session.clock)).map(Some)
        }
    }
}

/// A client's failure, as the command line says it.
pub(crate) fn failed(error: &kafka::Error) -> Failure {
    Failure::of(error.kind(), error.code(), error).remedy(error.remedy())
}
