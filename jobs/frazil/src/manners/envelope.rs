//! The one JSON document that a command leaves on stdout under `--json`, whether it succeeded or not.

use serde::Serialize;

use super::failure::Failure;

/// The version of every envelope this build writes: fields are only added within it.
const VERSION: u32 = 1;

/// The `schema` member of a command's document: `frazil.<command>/1`; `frazil/1` where no command was understood.
#[must_use]
pub fn schema(command: Option<&str>) -> String {
    match command {
        Some(command) => format!("frazil.{command}/{VERSION}"),
        None => format!("frazil/{VERSION}"),
    }
}

/// `{"schema":"frazil.fold/1","ok":true, …}`: the body's own members follow the two fixed ones.
#[derive(Debug, Serialize)]
pub(crate) struct Success<'a, T: Serialize> {
    schema: String,
    ok: bool,
    #[serde(flatten)]
    body: &'a T,
}

/// `{"schema":"frazil.fold/1","ok":false,"error":{"kind","code","message","where","remedy"}}`.
#[derive(Debug, Serialize)]
pub(crate) struct Refusal<'a> {
    schema: String,
    ok: bool,
    error: Error<'a>,
}

/// The same, with what the command got to beside it.
#[derive(Debug, Serialize)]
pub(crate) struct RefusalBeside<'a, T: Serialize> {
    #[serde(flatten)]
    refusal: Refusal<'a>,
    #[serde(flatten)]
    body: &'a T,
}

#[derive(Debug, Serialize)]
struct Error<'a> {
    kind: &'static str,
    code: &'a str,
    message: &'a str,
    r#where: Option<&'a str>,
    remedy: Option<&'a str>,
}

pub(crate) fn success<'a, T: Serialize>(command: Option<&str>, body: &'a T) -> Success<'a, T> {
    Success { schema: schema(command), ok: true, body }
}

pub(crate) fn refusal<'a>(command: Option<&str>, failure: &'a Failure) -> Refusal<'a> {
    Refusal {
        schema: schema(command),
        ok: false,
        error: Error {
            kind: failure.kind.as_str(),
            code: &failure.code,
            message: &failure.message,
            r#where: failure.place.as_deref(),
            remedy: failure.advice(),
        },
    }
}

pub(crate) fn refusal_beside<'a, T: Serialize>(
    command: Option<&str>,
    failure: &'a Failure,
    body: &'a T,
) -> RefusalBeside<'a, T> {
    RefusalBeside { refusal: refusal(command, failure), body }
}
