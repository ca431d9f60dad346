//! Kafka as the command line reaches it: the flags of Kafka's own tools, and failures as commands say them.

use kafka::{Given, Login, Settings};
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

/// The client settings that the flags name, or else the environment. Every fault is said at once.
///
/// # Errors
/// When the file can't be read, or a line of it can't be used.
pub(crate) fn settings(
    flags: &arguments::Kafka,
    environment: &Environment,
    session: &Session<'_>,
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
    let settings = Settings::read(&given).map_err(|faults| {
        let lines: Vec<String> = faults.0.iter().map(ToString::to_string).collect();
        let failure =
            Failure::usage("kafka.settings", format!("client settings that can't be used:\n{}", lines.join("\n")));
        failure.remedy("mend these lines")
    })?;
    match settings.login() {
        Login::Plain => Ok(settings),
        Login::MskIam(_) => {
            Err(Failure::usage("kafka.settings", "AWS_MSK_IAM is not among the logins of this version")
                .remedy("use SASL_SSL with SCRAM-SHA-512, or a client certificate"))
        }
    }
}

/// A client's failure, as the command line says it.
pub(crate) fn failed(error: &kafka::Error) -> Failure {
    Failure::of(error.kind(), error.code(), error).remedy(error.remedy())
}
