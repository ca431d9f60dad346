//! The schema that a pipeline's columns are planned from: in its file, or in a registry.

use std::sync::Arc;

use codec::columns::Own;
use codec::payload::Schema;
use pipeline::Fault;
use pipeline::environment::{Environment, Registry};
use pipeline::fault::code;
use pipeline::file::Examined;
use pipeline::resolved::{self, Pipeline};

use super::Asked;
use crate::manners::failure::Failure;

/// The schema that a pipeline's columns are planned from.
pub(super) enum Found {
    /// Nothing is known of it.
    Unknown,
    /// What is wrong with it was said.
    Wrong,
    Usable(Box<Own>),
}

/// Looks for a pipeline's schema.
///
/// # Errors
/// When a registry can't be asked that may be.
pub(super) async fn find(
    examined: &Examined,
    environment: &Environment,
    asked: &Asked,
    faults: &mut Vec<Fault>,
) -> Result<Found, Failure> {
    if faults.iter().any(|fault| fault.code == code::SCHEMA_MISSING) {
        return Ok(Found::Unknown);
    }
    let named = match examined.pipeline.as_ref().map(|pipeline| ingest::registries_of(pipeline, environment)) {
        Some(Ok(named)) => Some(named),
        Some(Err(error)) => {
            let place = match error {
                ingest::Error::HandedOver { .. } => Some(("value.format", code::MISFIT)),
                ingest::Error::NoRegistry { .. } => Some(("value.framing", code::NO_REGISTRY)),
                // Of a registry that is not there the file's own reader has told.
                _ => None,
            };
            faults.extend(place.map(|(place, code)| examined.fault(place, code, error.to_string(), None)));
            None
        }
        None => None,
    };
    if let Some(schema) = examined.schema.as_ref().filter(|schema| !is_registered(schema)) {
        let loaded = match (&examined.pipeline, schema) {
            (Some(pipeline), _) => Schema::of(pipeline),
            // Nothing can be declared by what could not be read.
            (None, resolved::Schema::Declared) => return Ok(Found::Unknown),
            (None, schema) => Schema::load(schema),
        };
        return Ok(match loaded {
            Ok(schema) => Found::Usable(Box::new(Own::alone(schema))),
            Err(error) => {
                faults.push(schema_fault(examined, error));
                Found::Wrong
            }
        });
    }
    let (Some(pipeline), Some(named)) = (&examined.pipeline, named) else { return Ok(Found::Unknown) };
    if !asked.services && named.iter().any(|(_, registry)| !matches!(registry, Registry::Files { .. })) {
        return Ok(Found::Unknown);
    }
    let registries = ingest::registries(pipeline, environment, &asked.variable, Arc::clone(&asked.clock));
    let found = match Box::pin(registries).await {
        Ok(registries) => ingest::own_schema(pipeline, &registries).await,
        Err(error) => Err(error),
    };
    match found {
        Ok(own) => Ok(Found::Usable(Box::new(own))),
        Err(error @ ingest::Error::Schema { .. }) => {
            faults.push(examined.fault("value.schema.name", code::SCHEMA, error.to_string(), None));
            Ok(Found::Wrong)
        }
        Err(error) => Err(crate::command::ingest::failed(&error)),
    }
}

/// Looks for the schema of a pipeline's keys, where they are read; `of_key` is of keys in the place of values. What can't be looked for
/// as the value's schema can't was said there.
///
/// # Errors
/// When a registry can't be asked that may be.
pub(super) async fn find_key(
    examined: &Examined,
    of_key: &Pipeline,
    environment: &Environment,
    asked: &Asked,
    faults: &mut Vec<Fault>,
) -> Result<Found, Failure> {
    let schema = &of_key.value.schema;
    let loaded = if is_registered(schema) {
        let Ok(named) = ingest::registries_of(of_key, environment) else { return Ok(Found::Unknown) };
        if !asked.services && named.iter().any(|(_, registry)| !matches!(registry, Registry::Files { .. })) {
            return Ok(Found::Unknown);
        }
        let registries = ingest::registries(of_key, environment, &asked.variable, Arc::clone(&asked.clock));
        match Box::pin(registries).await {
            Ok(registries) => ingest::own_schema(of_key, &registries).await,
            Err(error) => Err(error),
        }
    } else {
        Schema::of(of_key).map(Own::alone).map_err(ingest::Error::from)
    };
    match loaded {
        Ok(own) => Ok(Found::Usable(Box::new(own))),
        Err(error @ (ingest::Error::Schema { .. } | ingest::Error::Decode(_))) => {
            let message = Failure::of(error.kind(), "", &error).message;
            let place = if is_registered(schema) { "key.schema.name" } else { "key.schema" };
            faults.push(examined.fault(place, code::SCHEMA, message, None));
            Ok(Found::Wrong)
        }
        Err(error) => Err(crate::command::ingest::failed(&error)),
    }
}

const fn is_registered(schema: &resolved::Schema) -> bool {
    matches!(schema, resolved::Schema::Registered { .. })
}

/// What is wrong with a schema: in its own file where its compiler says where, else at what names it.
fn schema_fault(examined: &Examined, error: codec::Error) -> Fault {
    let place = match &examined.schema {
        Some(resolved::Schema::Proto { .. }) => "value.schema.proto",
        Some(resolved::Schema::Descriptor { .. }) => "value.schema.descriptor",
        Some(resolved::Schema::Avro { .. }) => "value.schema.avsc",
        Some(resolved::Schema::Json { .. }) => "value.schema.json_schema",
        Some(resolved::Schema::Declared) => "value",
        Some(resolved::Schema::Registered { .. }) | None => "value.schema.name",
    };
    match error {
        codec::Error::UnknownMessage { ref nearest, .. } => {
            examined.fault("value.schema.message", code::SCHEMA, error.to_string(), nearest.clone())
        }
        codec::Error::Schema { ref path, ref message } => match placed(message) {
            Some((name, line, column, message)) => Fault {
                file: path.with_file_name(name),
                line,
                column,
                code: code::SCHEMA,
                message: message.to_owned(),
                nearest: None,
            },
            None => examined.fault(place, code::SCHEMA, error.to_string(), None),
        },
        error => {
            let message = Failure::of(error.kind(), "", &error).message;
            examined.fault(place, code::SCHEMA, message, None)
        }
    }
}

/// `employee.proto:3:13: what is wrong`.
fn placed(message: &str) -> Option<(&str, usize, usize, &str)> {
    let mut parts = message.splitn(4, ':');
    let (name, line, column, rest) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    Some((name, line.parse().ok()?, column.parse().ok()?, rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compilers_place_is_told_from_other_text() {
        assert_eq!(placed("a.proto:3:13: expected a name"), Some(("a.proto", 3, 13, "expected a name")));
        assert_eq!(placed("a.proto is written in an edition: x: y: z"), None);
    }
}
