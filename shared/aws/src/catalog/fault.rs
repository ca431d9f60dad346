//! What a failed call of a catalog means.

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_glue::config::http::HttpResponse;
use aws_sdk_glue::error::{ProvideErrorMetadata, SdkError};
use model::failure::Kind;
use table::catalog::{Error, TableName};

use crate::refusal::{Meaning, meaning};
use crate::sdk;

/// Characters of a service's own words that are passed on.
const WORDS_MAX: usize = 500;

/// What came of a call that did not succeed.
#[derive(Debug)]
pub(super) enum Fault {
    /// The service said no.
    Refused {
        /// Of HTTP.
        status: u16,
        /// The service's code for it.
        code: String,
        /// In its own words, with the code and the request's id.
        words: String,
    },
    /// Nothing was asked: there was no connection, or what a request takes could not be had.
    Unasked {
        /// What happens next.
        kind: Kind,
        /// Why.
        message: String,
    },
    /// It was asked, and no answer tells whether it was done.
    Unanswered(String),
}

impl Fault {
    pub(super) fn of<E>(service: &str, error: SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let error = match error {
            SdkError::ServiceError(refusal) => {
                let (raw, error) = (refusal.raw(), refusal.err());
                let (status, code) = (raw.status().as_u16(), error.code().unwrap_or_default().to_owned());
                let said: String = error.message().unwrap_or_default().chars().take(WORDS_MAX).collect();
                let mut words = format!("{service} answers HTTP {status}");
                let request = raw.headers().get("x-amzn-requestid").map(|id| format!("request {id}"));
                for text in [code.clone(), said].into_iter().chain(request).filter(|text| !text.is_empty()) {
                    words.push_str(", ");
                    words.push_str(&text);
                }
                return Self::Refused { status, code, words };
            }
            error => error,
        };
        let source: Box<dyn std::error::Error + Send + Sync> =
            error.into_source().unwrap_or_else(|error| error.to_string().into());
        match sdk::find::<CredentialsError>(&*source) {
            // The causes are said, the error is not kept: a provider's answer may be among its parts.
            Some(fault @ CredentialsError::ProviderTimedOut(_)) => Self::Unasked {
                kind: Kind::Retry,
                message: format!("AWS credentials did not come in time: {}", sdk::causes(fault)),
            },
            Some(fault) => Self::Unasked {
                kind: Kind::Misconfigured,
                message: format!("AWS credentials could not be had: {}", sdk::causes(fault)),
            },
            None if sdk::is_unreachable(&*source) => Self::Unasked {
                kind: Kind::Retry,
                message: format!("{service} could not be reached: {}", sdk::causes(&*source)),
            },
            None => Self::Unanswered(format!("{service} did not answer: {}", sdk::causes(&*source))),
        }
    }

    /// The service's code, where it said no.
    pub(super) fn code(&self) -> &str {
        match self {
            Self::Refused { code, .. } => code,
            _ => "",
        }
    }

    /// Of a call that only reads, with what to do about a refusal: `remedy` where rights are missing.
    pub(super) fn reading(self, doing: &str, remedy: &str) -> Error {
        match self {
            Self::Unasked { kind, message } => Error::failed(kind, format!("could not {doing}: {message}")),
            Self::Unanswered(message) => Error::failed(Kind::Retry, format!("could not {doing}: {message}")),
            Self::Refused { status, code, words } => {
                let (kind, advice) = match meaning(status, &code) {
                    Meaning::Later | Meaning::Broken => (Kind::Retry, String::new()),
                    Meaning::Rights => (Kind::Misconfigured, format!("; {remedy}")),
                    Meaning::Credentials => (
                        Kind::Misconfigured,
                        "; the credentials are not valid there or have run out: get new ones, and see that the clock is right"
                            .to_owned(),
                    ),
                    Meaning::No => (Kind::Misconfigured, String::new()),
                };
                Error::failed(kind, format!("could not {doing}: {words}{advice}"))
            }
        }
    }

    /// Of a call that changes the table: as a reading one, but where the service may have done it all the same.
    pub(super) fn writing(self, table: &TableName, doing: &str, remedy: &str) -> Error {
        let unknown = |detail: String| Error::OutcomeUnknown { table: table.clone(), detail, source: None };
        match self {
            Self::Unanswered(message) => unknown(message),
            Self::Refused { status, code, words } if matches!(meaning(status, &code), Meaning::Broken) => {
                unknown(words)
            }
            other => other.reading(doing, remedy),
        }
    }
}
