//! What a failed call means: whether something was done, whether it may work later, and what a person must change.

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use staging::store::{Cause, Error, Operation};

use super::call::{Call, Wire};
pub(super) use crate::sdk::is_unreachable;
use crate::sdk::{causes, find};

/// Characters of a service's own words that are passed on.
const WORDS_MAX: usize = 500;

/// The status of the answer, where there was one.
pub(super) fn status<E>(error: &SdkError<E, HttpResponse>) -> Option<u16> {
    error.raw_response().map(|response| response.status().as_u16())
}

/// The service's code for the failure, where it gave one.
pub(super) fn code<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> Option<&str> {
    error.as_service_error().and_then(ProvideErrorMetadata::code)
}

/// What a failed call means.
pub(super) fn of<E>(call: &Call<'_>, error: SdkError<E, HttpResponse>, wire: &Wire) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match error {
        SdkError::ServiceError(refusal) => {
            let error = refused(call, &Answer::of(refusal.raw(), refusal.err()));
            if wire.unsure() && call.operation.writes() { unknown(call, error.to_string(), None) } else { error }
        }
        error => unanswered(call, error, wire),
    }
}

/// An error in a body that was being received.
pub(super) fn cut_off(call: &Call<'_>, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let message = format!("the body broke off: {}", causes(&error));
    retry(call, message, Some(Box::new(error)))
}

fn retry(call: &Call<'_>, message: String, source: Option<Cause>) -> Error {
    Error::Retry { operation: call.operation, key: call.name.to_owned(), message, source }
}

fn unknown(call: &Call<'_>, message: String, source: Option<Cause>) -> Error {
    Error::OutcomeUnknown { operation: call.operation, key: call.name.to_owned(), message, source }
}

fn misconfigured(call: &Call<'_>, message: String, source: Option<Cause>) -> Error {
    Error::Misconfigured { operation: call.operation, key: call.name.to_owned(), message, source }
}

/// Nothing came back, or nothing that could be read.
fn unanswered<E>(call: &Call<'_>, error: SdkError<E, HttpResponse>, wire: &Wire) -> Error
where
    E: std::error::Error + Send + Sync + 'static,
{
    let timed_out = matches!(error, SdkError::TimeoutError(_));
    let source: Cause = error.into_source().unwrap_or_else(|error| error.to_string().into());
    if let Some(fault) = find::<CredentialsError>(source.as_ref()) {
        return no_credentials(call, fault);
    }
    let text = causes(source.as_ref());
    if wire.unsure() && call.operation.writes() {
        return unknown(call, format!("S3 did not answer: {text}"), Some(source));
    }
    if !wire.sent() {
        return if timed_out {
            retry(call, format!("the request could not be made in time: {text}"), Some(source))
        } else {
            misconfigured(call, format!("the request could not be made: {text}"), Some(source))
        };
    }
    if is_unreachable(source.as_ref()) {
        retry(call, format!("S3 could not be reached: {text}"), Some(source))
    } else if call.operation.writes() {
        unknown(call, format!("S3 did not answer: {text}"), Some(source))
    } else {
        retry(call, format!("S3 did not answer: {text}"), Some(source))
    }
}

/// The causes are said, the error itself is not kept: a provider's answer may be among its parts.
fn no_credentials(call: &Call<'_>, fault: &CredentialsError) -> Error {
    let text = causes(fault);
    match fault {
        CredentialsError::ProviderTimedOut(_) => {
            retry(call, format!("AWS credentials did not come in time: {text}"), None)
        }
        CredentialsError::CredentialsNotLoaded(_) => misconfigured(
            call,
            "there are no AWS credentials: neither in the environment, a profile, a web identity, a container nor an \
             instance; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                .to_owned(),
            None,
        ),
        _ => misconfigured(
            call,
            format!("AWS credentials could not be had: {text} (after single sign-on has run out: `aws sso login`)"),
            None,
        ),
    }
}

/// What S3 answered.
#[derive(Debug)]
struct Answer {
    status: u16,
    code: String,
    message: String,
    date: Option<String>,
    bucket_region: Option<String>,
    request: Option<String>,
}

impl Answer {
    fn of(response: &HttpResponse, error: &impl ProvideErrorMetadata) -> Self {
        let header = |name: &str| response.headers().get(name).map(str::to_owned);
        Self {
            status: response.status().as_u16(),
            code: error.code().unwrap_or_default().to_owned(),
            message: error.message().unwrap_or_default().chars().take(WORDS_MAX).collect(),
            date: header("date"),
            bucket_region: header("x-amz-bucket-region"),
            request: header("x-amz-request-id"),
        }
    }

    /// In S3's own words, for those who ask AWS about it.
    fn words(&self) -> String {
        let mut words = format!("HTTP {}", self.status);
        for text in [&self.code, &self.message] {
            if !text.is_empty() {
                words.push_str(", ");
                words.push_str(text);
            }
        }
        if let Some(request) = &self.request {
            words.push_str(&format!(", request {request}"));
        }
        words
    }
}

fn refused(call: &Call<'_>, answer: &Answer) -> Error {
    let (bucket, words) = (call.bucket, answer.words());
    let retry = |message: String| retry(call, message, None);
    let fix = |message: String| misconfigured(call, message, None);
    let elsewhere = answer.bucket_region.as_deref().filter(|region| Some(*region) != call.s3.region());
    match (answer.status, answer.code.as_str()) {
        (_, "NoSuchBucket") => fix(format!("there is no bucket `{bucket}` ({words})")),
        (404, _) if !call.operation.writes() && call.operation != Operation::List => {
            Error::NotFound { key: call.name.to_owned() }
        }
        // A new bucket's name is not known everywhere at once.
        (307, _) => retry(format!("the bucket `{bucket}` is still being made known ({words})")),
        (301, _) | (_, "PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException") => {
            wrong_region(call, answer)
        }
        (400, _) if elsewhere.is_some() => wrong_region(call, answer),
        (_, "RequestTimeTooSkewed" | "RequestExpired") => {
            let theirs = answer.date.as_deref().unwrap_or("not told");
            fix(format!("this machine's clock is wrong: S3's own time is {theirs} ({words})"))
        }
        (
            _,
            "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "InvalidToken"
            | "ExpiredToken"
            | "TokenRefreshRequired"
            | "InvalidSecurity",
        ) => fix(format!("the AWS credentials were refused ({words})")),
        (_, "InvalidObjectState") => fix(format!(
            "the object was archived by a storage class that can't be read at once: restore it, and take the bucket's \
             rule back ({words})"
        )),
        (403, _) => denied(call, &words),
        // Another conditional put of this key is under way: nothing was stored by this one.
        (409, _) => retry(format!("another request for this key is under way ({words})")),
        (429, _)
        | (503, "SlowDown" | "ServiceUnavailable")
        | (
            _,
            "SlowDown"
            | "Throttling"
            | "ThrottlingException"
            | "RequestLimitExceeded"
            | "RequestThrottled"
            | "TooManyRequestsException"
            | "BandwidthLimitExceeded",
        ) => retry(format!("S3 asks for fewer requests ({words})")),
        (_, "RequestTimeout" | "IncompleteBody") => retry(format!("S3 did not get all of the request ({words})")),
        (501, _) => fix(format!("this service does not know what frazil needs, such as a conditional put ({words})")),
        (500.., _) if call.operation.writes() => unknown(call, format!("S3 failed at it ({words})"), None),
        (500.., _) => retry(format!("S3 failed at it ({words})")),
        // HEAD has no body, so that no code says which.
        (400, "" | "BadRequest") => fix(format!(
            "S3 does not take the request: are the credentials out of date, is the region right? ({words})"
        )),
        _ => fix(format!("S3 does not take the request ({words})")),
    }
}

fn wrong_region(call: &Call<'_>, answer: &Answer) -> Error {
    let ours = call.s3.region().unwrap_or("none");
    let (bucket, words) = (call.bucket, answer.words());
    let message = match &answer.bucket_region {
        Some(theirs) => format!(
            "the bucket `{bucket}` is in {theirs}, and the client's region is {ours}: set AWS_REGION={theirs} ({words})"
        ),
        None => format!("the bucket `{bucket}` is not in {ours}, the client's region: set AWS_REGION ({words})"),
    };
    misconfigured(call, message, None)
}

fn denied(call: &Call<'_>, words: &str) -> Error {
    let (bucket, key) = (call.bucket, call.key);
    let message = match call.operation {
        Operation::PutNew | Operation::Put => {
            format!("s3:PutObject on arn:aws:s3:::{bucket}/{key} is denied ({words})")
        }
        Operation::Delete => format!("s3:DeleteObject on arn:aws:s3:::{bucket}/{key} is denied ({words})"),
        Operation::List => format!("s3:ListBucket on arn:aws:s3:::{bucket} (prefix {key}) is denied ({words})"),
        // Without the right to list, S3 does not tell that an object is not there.
        Operation::Get | Operation::GetRange | Operation::Head => format!(
            "s3:GetObject on arn:aws:s3:::{bucket}/{key} is denied, or it is not there and s3:ListBucket on \
             arn:aws:s3:::{bucket} is not granted ({words})"
        ),
    };
    misconfigured(call, message, None)
}
