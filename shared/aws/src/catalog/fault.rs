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

/// What to do where nobody says who asks.
pub(super) const CREDENTIALS: &str = "give credentials as to any AWS SDK: a role of the machine or the function, AWS_PROFILE, or AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY";

/// What to do where nobody knows who asks.
const EXPIRED: &str =
    "the credentials are not valid there or have run out: get new ones, and see that the clock is right";

/// What to do where an account has as many as it may.
const QUOTA: &str = "the account has as many of them as it may: drop some, or ask AWS for a higher quota";

/// What to do where what encrypts the catalog can't be used.
const KEY: &str =
    "give who runs this kms:Decrypt, kms:Encrypt and kms:GenerateDataKey on the key that the catalog is encrypted with";

/// What to do where there was no connection. It may pass by itself, or never.
const UNREACHABLE: &str = "run the same command again; where it stays so, check the region, AWS_ENDPOINT_URL, and the way there: network, VPC endpoint, proxy, and whether this machine trusts its certificate";

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
            // Done, and told in a way that the SDK can't read: that is no refusal.
            SdkError::ServiceError(answer) if answer.raw().status().is_success() => {
                let status = answer.raw().status().as_u16();
                let why = sdk::causes(answer.err());
                return Self::Unanswered(format!("{service} answers HTTP {status} in a way that can't be read: {why}"));
            }
            SdkError::ServiceError(refusal) => {
                let (raw, error) = (refusal.raw(), refusal.err());
                let (status, code) = (raw.status().as_u16(), error.code().unwrap_or_default().to_owned());
                let said: String = error.message().unwrap_or_default().chars().take(WORDS_MAX).collect();
                let mut words = format!("{service} answers HTTP {status}");
                let request = ["x-amzn-requestid", "x-amz-request-id"].iter().find_map(|name| raw.headers().get(name));
                let request = request.map(|id| format!("request {id}"));
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
            Self::Unasked { kind, message } => {
                let remedy = if kind == Kind::Misconfigured { CREDENTIALS } else { UNREACHABLE };
                Error::failed(kind, format!("could not {doing}: {message}")).with_remedy(remedy)
            }
            Self::Unanswered(message) => Error::failed(Kind::Retry, format!("could not {doing}: {message}")),
            Self::Refused { status, code, words } => {
                let failed = |kind| Error::failed(kind, format!("could not {doing}: {words}"));
                match meaning(status, &code) {
                    Meaning::Later | Meaning::Broken => failed(Kind::Retry),
                    Meaning::Rights => failed(Kind::Misconfigured).with_remedy(remedy),
                    Meaning::Credentials => failed(Kind::Misconfigured).with_remedy(EXPIRED),
                    Meaning::No => match code.as_str() {
                        "ResourceNumberLimitExceededException" => failed(Kind::Misconfigured).with_remedy(QUOTA),
                        "GlueEncryptionException" => failed(Kind::Misconfigured).with_remedy(KEY),
                        _ => failed(Kind::Misconfigured),
                    },
                }
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
