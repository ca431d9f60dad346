//! One call: what it is about, and what was seen of it on the wire.

use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_s3::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::{Builder, ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use chrono::DateTime;
use model::clock::Timestamp;
use staging::store::{Error, Operation};

use super::{S3, fault};

/// What a call is about.
#[derive(Clone, Debug)]
pub(super) struct Call<'a> {
    pub(super) s3: &'a S3,
    pub(super) operation: Operation,
    /// The object as the caller names it: a store's key, a file's location.
    pub(super) name: &'a str,
    pub(super) bucket: &'a str,
    /// The whole key (of a listing: the prefix) in the bucket.
    pub(super) key: &'a str,
}

/// For calls that the SDK must not repeat by itself: each answer is looked at.
pub(super) fn once() -> Builder {
    Builder::new().retry_config(RetryConfig::disabled())
}

/// Looks on while the SDK sends and receives: an operation's output holds no `Date`, and its last error does not tell
/// what became of the attempts before.
#[derive(Clone, Debug, Default)]
pub(super) struct Wire {
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    date: Option<String>,
    /// The last attempt may have been carried out although no answer said so.
    last_unsure: bool,
    /// One before it may have been.
    earlier_unsure: bool,
    sent: bool,
}

impl Wire {
    fn with<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether anything was sent at all.
    pub(super) fn sent(&self) -> bool {
        self.with(|seen| seen.sent)
    }

    /// Whether an attempt before the last one may have been carried out.
    pub(super) fn unsure(&self) -> bool {
        self.with(|seen| seen.earlier_unsure)
    }

    /// S3's own time of the last answer.
    pub(super) fn date(&self, call: &Call<'_>) -> Result<Timestamp, Error> {
        let corrupt = |message| Error::Corrupt { operation: call.operation, key: call.name.to_owned(), message };
        let text = self.with(|seen| seen.date.clone()).ok_or_else(|| corrupt("the answer has no `Date`".to_owned()))?;
        http_date(&text).ok_or_else(|| corrupt(format!("the answer's `Date` is no date: {text:?}")))
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<Timestamp> {
    DateTime::parse_from_rfc2822(text).ok().map(|time| Timestamp::from_micros(time.timestamp_micros()))
}

impl Intercept for Wire {
    fn name(&self) -> &'static str {
        "Wire"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.with(|seen| {
            seen.earlier_unsure |= seen.last_unsure;
            seen.last_unsure = true;
            seen.sent = true;
            seen.date = None;
        });
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response();
        let status = response.status().as_u16();
        self.with(|seen| {
            // 503 turns a request away; other faults of the server may come after the deed.
            seen.last_unsure = status >= 500 && status != 503;
            seen.date = response.headers().get("date").map(str::to_owned);
        });
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(Err(error)) = context.output_or_error()
            && error.as_connector_error().is_some_and(|e| fault::is_unreachable(e))
        {
            self.with(|seen| seen.last_unsure = false);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_http() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(http_date(text).map(|t| t.to_string()).as_deref(), expected, "{text}");
        };
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some("1994-11-06T08:49:37.000000Z"));
        check("Sun, 29 Nov 2026 23:59:59 GMT", Some("2026-11-29T23:59:59.000000Z"));
        check("2026-11-29T23:59:59Z", None);
        check("yesterday", None);
        check("", None);
    }
}
