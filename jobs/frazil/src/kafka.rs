//! Kafka as the command line reaches it: the flags of Kafka's own tools, and failures as commands say them.

use std::path::Path;
use std::sync::Arc;

use kafka::{Given, Login, Settings, Tokens};
use pipeline::environment::Environment;

use crate::Session;
use crate::arguments;
use crate::manners::failure::Failure;

/// The cluster that a command works with, as far as `frazil.toml` says it. Whoever names brokers or client settings means
/// another one: then the block says nothing.
fn block<'e>(flags: &arguments::Kafka, environment: &'e Environment) -> Option<&'e pipeline::environment::Kafka> {
    let names_brokers = |property: &String| property.split('=').next().is_some_and(|k| k.trim() == "bootstrap.servers");
    let is_named = flags.bootstrap_server.is_some()
        || flags.command_config.is_some()
        || flags.command_property.iter().any(names_brokers);
    environment.kafka.as_ref().filter(|_| !is_named)
}

/// The client settings that the flags name, or else the environment. Every fault is said at once, and what has no effect beside
/// it.
///
/// # Errors
/// When the file can't be read, or a line of it can't be used.
pub(crate) fn settings(
    flags: &arguments::Kafka,
    environment: &Environment,
    session: &mut Session<'_>,
) -> Result<Settings, Failure> {
    let block = block(flags, environment);
    let path = flags.command_config.as_ref().or(block.and_then(|block| block.command_config.as_ref()));
    let text = path.map(|path| {
        std::fs::read_to_string(session.folder.join(path))
            .map_err(|e| Failure::io("kafka.settings", path.display().to_string(), &e))
    });
    let text = text.transpose()?;
    let name = path.map(|path| path.display().to_string()).unwrap_or_default();
    let given = Given {
        bootstrap_servers: flags
            .bootstrap_server
            .as_deref()
            .or(block.and_then(|block| block.bootstrap_servers.as_deref())),
        file: text.as_deref().map(|text| (name.as_str(), text)),
        properties: &flags.command_property,
    };
    let settings = Settings::read(&given).map_err(|faults| match &faults.0[..] {
        [fault] => {
            let message = format!("{}: {}", fault.place, fault.message);
            Failure::usage("kafka.settings", message).remedy(&fault.remedy)
        }
        several => {
            let lines: Vec<String> = several.iter().map(ToString::to_string).collect();
            let message = format!("client settings that can't be used:\n{}", lines.join("\n"));
            Failure::usage("kafka.settings", message).remedy("mend these lines")
        }
    })?;
    for line in settings.without_effect() {
        session.output.note(line);
    }
    Ok(settings)
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

/// What is wrong with the client settings that an environment names.
pub(crate) fn faults(environment: &Environment) -> Vec<pipeline::Fault> {
    let Some(block) = &environment.kafka else { return Vec::new() };
    let file = environment.root.clone().unwrap_or_default().join(pipeline::environment::FILE);
    let fault = |file: &Path, (line, column): (usize, usize), message: String| pipeline::Fault {
        file: file.to_owned(),
        line,
        column,
        code: pipeline::fault::code::CLIENT,
        message,
        nearest: None,
    };
    let text = match &block.command_config {
        None => None,
        Some(path) => match std::fs::read_to_string(path) {
            Ok(text) => Some(text),
            Err(error) => {
                let message = format!("the client settings {} can't be read: {error}", path.display());
                return vec![fault(&file, block.command_config_at, message)];
            }
        },
    };
    let given = Given {
        bootstrap_servers: block.bootstrap_servers.as_deref(),
        file: text.as_deref().map(|text| ("", text)),
        properties: &[],
    };
    let Err(faults) = Settings::read(&given) else { return Vec::new() };
    let line = |place: &str| place.rsplit(':').next().and_then(|line| line.parse().ok());
    let said = |f: &kafka::Fault| {
        let message = format!("{}; {}", f.message, f.remedy);
        match (line(&f.place), &block.command_config) {
            (Some(line), Some(file)) => fault(file, (line, 1), message),
            // What is in no line: there should be one, here or there.
            _ => fault(&file, block.at, message),
        }
    };
    faults.0.iter().map(said).collect()
}

/// A client's failure, as the command line says it.
pub(crate) fn failed(error: &kafka::Error) -> Failure {
    Failure::of(error.kind(), error.code(), error).remedy(error.remedy())
}
