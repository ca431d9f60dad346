//! What a registry answers.

use codec::schema::Kind;
use http::{HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};

use crate::TEXT_BYTES_MAX;

/// Codes that say that a subject, a version or a schema is not there.
const NOT_THERE: [i64; 3] = [40401, 40402, 40403];

/// Characters of a registry's own words that are passed on.
const WORDS_MAX: usize = 200;

/// Reads the body of an answer that there is something; what is wrong with it, for a person.
pub(super) type Said<T> = fn(&[u8]) -> Result<T, String>;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) kind: Kind,
    pub(super) text: String,
    pub(super) references: Vec<Reference>,
    pub(super) version: Option<u32>,
}

/// A schema that another one refers to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Reference {
    pub(super) name: String,
    pub(super) subject: String,
    pub(super) version: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SchemaBody {
    schema: String,
    schema_type: Option<String>,
    references: Option<Vec<Reference>>,
    version: Option<u32>,
}

#[derive(Deserialize)]
struct ErrorBody {
    error_code: i64,
    message: Option<String>,
}

/// Where a schema that was sent is among a subject's versions.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Placed {
    At {
        id: u32,
        version: Option<u32>,
        /// What it refers to, where the registry says so.
        references: Option<Vec<Reference>>,
    },
    NotThere,
    /// Why the registry does not want it.
    Refused(String),
}

#[derive(Deserialize)]
struct PlacedBody {
    id: u32,
    version: Option<u32>,
    references: Option<Vec<Reference>>,
}

/// Reads the answer to a schema that was sent, as [`read`] does.
pub(super) fn placed(status: StatusCode, content_type: Option<&HeaderValue>, body: &[u8]) -> Result<Placed, String> {
    is_json(status, content_type)?;
    if status.is_success() {
        let body: PlacedBody = serde_json::from_slice(body)
            .map_err(|error| format!("it tells no id (line {}, column {})", error.line(), error.column()))?;
        return Ok(Placed::At { id: body.id, version: body.version, references: body.references });
    }
    match refusal(status, body)? {
        None => Ok(Placed::NotThere),
        // Incompatible, and no schema in its eyes.
        Some(message) if matches!(status.as_u16(), 409 | 422) => Ok(Placed::Refused(message)),
        Some(message) => Err(message),
    }
}

/// Reads an answer whose status is neither a refusal nor a failure of the server: nothing where that is what it says. What is wrong
/// with it, for a person.
pub(super) fn read<T>(
    status: StatusCode,
    content_type: Option<&HeaderValue>,
    body: &[u8],
    said: Said<T>,
) -> Result<Option<T>, String> {
    is_json(status, content_type)?;
    if status.is_success() {
        return said(body).map(Some);
    }
    refusal(status, body)?.map_or(Ok(None), Err)
}

/// What is wrong with an answer that is no JSON.
fn is_json(status: StatusCode, content_type: Option<&HeaderValue>) -> Result<(), String> {
    let given = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let json = essence == "application/json"
        || essence.strip_prefix("application/").is_some_and(|kind| kind.starts_with("vnd.") && kind.ends_with("+json"));
    if json {
        return Ok(());
    }
    let kind = if essence.is_empty() { "nothing that it names".to_owned() } else { format!("`{}`", words(&essence)) };
    Err(format!("it is no registry's (HTTP {}, {kind} instead of JSON): is the URL right?", status.as_u16()))
}

/// What a refusal says; nothing where it says that what was asked for is not there.
fn refusal(status: StatusCode, body: &[u8]) -> Result<Option<String>, String> {
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(error) if status == StatusCode::NOT_FOUND && NOT_THERE.contains(&error.error_code) => Ok(None),
        Ok(error) => {
            let message = error.message.as_deref().map_or_else(String::new, |message| format!(": {}", words(message)));
            Ok(Some(format!("HTTP {}, code {}{message}", status.as_u16(), error.error_code)))
        }
        Err(_) => Err(format!("HTTP {}, and no code that tells why: is the URL right?", status.as_u16())),
    }
}

/// The numbers of a subject's versions.
pub(super) fn versions(body: &[u8]) -> Result<Vec<u32>, String> {
    serde_json::from_slice(body)
        .map_err(|error| format!("it holds no list of versions (line {}, column {})", error.line(), error.column()))
}

/// A schema.
pub(super) fn schema(body: &[u8]) -> Result<Found, String> {
    // The position is enough: an answer's own words may be anybody's.
    let body: SchemaBody = serde_json::from_slice(body)
        .map_err(|error| format!("it holds no schema (line {}, column {})", error.line(), error.column()))?;
    let kind = match body.schema_type.as_deref() {
        None | Some("AVRO") => Kind::Avro,
        Some("PROTOBUF") => Kind::Protobuf,
        Some("JSON") => Kind::Json,
        Some(other) => return Err(format!("it is a schema of the type `{}`", words(other))),
    };
    if body.schema.len() > TEXT_BYTES_MAX {
        return Err(format!("the schema has more than {TEXT_BYTES_MAX} bytes"));
    }
    let references = body.references.unwrap_or_default();
    Ok(Found { kind, text: body.schema, references, version: body.version })
}

/// The beginning of somebody else's words, on one line.
fn words(text: &str) -> String {
    text.chars().take(WORDS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
