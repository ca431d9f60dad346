//! What a REST catalog answers, and what that means.

use bytes::Bytes;
use http::StatusCode;
use iceberg::spec::TableMetadata;
use model::failure::Kind;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use table::catalog::{Error, Loaded, TableName};

/// Characters of a server's own words that are passed on.
const WORDS_MAX: usize = 500;

/// What came back.
#[derive(Debug)]
pub(super) enum Answer {
    /// The server's.
    Said {
        /// Of HTTP.
        status: StatusCode,
        /// JSON, as a rule.
        body: Bytes,
    },
    /// Nothing was asked.
    Unasked(Error),
    /// It was asked, and no answer tells whether it was done.
    Nothing(String),
}

/// An answer that is not a success.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server said no.
    Refused {
        /// Of HTTP.
        status: u16,
        /// The interface's word for it, such as `NoSuchTableException`; none where the answer is not of the interface.
        kind: Option<String>,
        /// In its own words.
        words: String,
    },
    /// As the answer's.
    Unasked(Error),
    /// As the answer's.
    Nothing(String),
}

#[derive(Deserialize)]
struct Refusal {
    error: Model,
}

#[derive(Deserialize)]
struct Model {
    #[serde(default)]
    message: Option<String>,
    #[serde(rename = "type", default)]
    kind: Option<String>,
}

/// What a server says of itself.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Told {
    #[serde(default)]
    pub(super) defaults: std::collections::HashMap<String, String>,
    #[serde(default)]
    pub(super) overrides: std::collections::HashMap<String, String>,
}

/// A page of names.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    #[serde(default)]
    pub(super) namespaces: Vec<Vec<String>>,
    #[serde(default)]
    pub(super) identifiers: Vec<Identifier>,
    #[serde(rename = "next-page-token", default)]
    pub(super) next: Option<String>,
}

/// A table's name.
#[derive(Debug, Deserialize)]
pub(super) struct Identifier {
    pub(super) name: String,
}

#[derive(Deserialize)]
struct Table {
    #[serde(rename = "metadata-location", default)]
    location: Option<String>,
    metadata: TableMetadata,
}

impl Answer {
    /// What it says, where it is a success.
    pub(super) fn read<T: DeserializeOwned>(self) -> Result<T, Fault> {
        let (status, body) = self.success()?;
        serde_json::from_slice(&body).map_err(|error| Fault::Refused {
            status,
            kind: None,
            words: format!("the REST catalog answers HTTP {status} with what can't be read: {error}"),
        })
    }

    /// That it is a success, whatever it says.
    pub(super) fn done(self) -> Result<(), Fault> {
        self.success().map(|_| ())
    }

    /// The table that it says.
    pub(super) fn table(self, name: &TableName) -> Result<Loaded, Fault> {
        let table: Table = self.read()?;
        Ok(Loaded::new(name.clone(), table.metadata, table.location.unwrap_or_default()))
    }

    fn success(self) -> Result<(u16, Bytes), Fault> {
        match self {
            Self::Said { status, body } if status.is_success() => Ok((status.as_u16(), body)),
            Self::Said { status, body } => Err(Fault::of(status, &body)),
            Self::Unasked(error) => Err(Fault::Unasked(error)),
            Self::Nothing(why) => Err(Fault::Nothing(why)),
        }
    }
}

impl Fault {
    fn of(status: StatusCode, body: &[u8]) -> Self {
        let status = status.as_u16();
        let mut words = format!("the REST catalog answers HTTP {status}");
        let kind = match serde_json::from_slice::<Refusal>(body) {
            Ok(Refusal { error }) => {
                // Some servers say what they were shown.
                let said = if matches!(status, 401 | 403 | 419) { None } else { error.message };
                let said = said.unwrap_or_default().chars().take(WORDS_MAX).collect::<String>();
                for text in [error.kind.clone().unwrap_or_default(), said].iter().filter(|text| !text.is_empty()) {
                    words.push_str(", ");
                    words.push_str(text);
                }
                Some(error.kind.unwrap_or_default())
            }
            // Signatures are looked at before the interface, and refused in AWS's own words.
            Err(_) => {
                let model = serde_json::from_slice::<Model>(body).ok().filter(|_| !matches!(status, 401 | 419));
                if let Some(said) = model.and_then(|model| model.message) {
                    words.push_str(", ");
                    words.extend(said.chars().take(WORDS_MAX));
                }
                None
            }
        };
        Self::Refused { status, kind, words }
    }

    /// Whether there is no such table or namespace. Another server answers 404 as well, and a wrong path.
    pub(super) const fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { status: 404, kind: Some(_), .. })
    }

    /// Whether somebody else's change, or name, came first.
    pub(super) const fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status: 409, .. })
    }

    pub(super) fn words(&self) -> &str {
        match self {
            Self::Refused { words, .. } | Self::Nothing(words) => words,
            Self::Unasked(_) => "",
        }
    }

    /// Of a request that only reads.
    pub(super) fn reading(self, doing: &str) -> Error {
        const CREDENTIALS: &str = "check the catalog's `auth` and `secret`, or the AWS credentials and the clock";
        let failed = |kind, words: &str| Error::failed(kind, format!("could not {doing}: {words}"));
        let (words, status, kind) = match self {
            Self::Unasked(error) => return error,
            Self::Nothing(words) => return failed(Kind::Retry, &words),
            Self::Refused { words, status, kind } => (words, status, kind),
        };
        let remedy = match (status, kind.is_some()) {
            (408 | 425 | 429 | 500.., _) => return failed(Kind::Retry, &words),
            (401 | 419, _) => CREDENTIALS,
            (403, true) => "let who runs this read and write the namespace and its tables there",
            // Signatures are refused before the interface is asked.
            (403, false) => {
                "check the AWS credentials, which may have run out, and the clock; then what they may do there, and the catalog's URL"
            }
            (404, false) => "check the catalog's URL, and its `warehouse`",
            (200..=299, _) => "check the catalog's URL: this is not how the interface answers",
            (400 | 406 | 422, true) => {
                "the server does not take it: change what it names, in the pipeline file's `[table]` or on the server"
            }
            _ => return failed(Kind::Misconfigured, &words),
        };
        failed(Kind::Misconfigured, &words).with_remedy(remedy)
    }

    /// Of a request that changes the table.
    pub(super) fn writing(self, table: &TableName, doing: &str) -> Error {
        let is_open = match &self {
            Self::Nothing(_) => true,
            // A success that can't be read is one.
            Self::Refused { status, .. } => *status >= 500 || *status < 300,
            Self::Unasked(_) => false,
        };
        match is_open {
            true => Error::OutcomeUnknown { table: table.clone(), detail: self.words().to_owned(), source: None },
            false => self.reading(doing),
        }
    }
}
