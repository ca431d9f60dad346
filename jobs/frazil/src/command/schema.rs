//! `frazil schema`: the JSON Schema of both files, for editors.

use model::failure::Kind;
use serde::Serialize;
use serde_json::Value;

use crate::Session;
use crate::arguments::{self, Described};
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;

/// The document's body.
#[derive(Debug, Serialize)]
struct Body {
    json_schema: Value,
}

pub(crate) fn run(arguments: &arguments::Schema, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let described = match arguments.file {
        Described::Pipeline => pipeline::schema::pipeline(),
        Described::Environment => pipeline::schema::environment(),
    };
    let bug = |e: serde_json::Error| Failure::of(Kind::Bug, "schema.text", &e);
    let body = Body { json_schema: described.map_err(bug)? };
    let text = serde_json::to_string_pretty(&body.json_schema).map_err(bug)?;
    session.output.reply("schema", &body, |_| text)?;
    Ok(Exit::Done)
}
