//! What everything here takes of the AWS SDK: its settings, its connections, its errors as text.

use std::time::Duration;

use aws_config::{BehaviorVersion, ConfigLoader};
use aws_smithy_http_client::tls;
use aws_types::sdk_config::SharedHttpClient;

/// How long a connection is kept for the next call. S3 closes idle ones after some twenty seconds; a conditional put on one
/// that is closed already would not know its outcome.
const IDLE: Duration = Duration::from_secs(15);

/// Causes of one error that are looked at: a chain is finite, but nothing proves it short.
const CAUSES_MAX: usize = 16;

/// Connections by rustls and ring.
pub(crate) fn http() -> SharedHttpClient {
    aws_smithy_http_client::Builder::new()
        .pool_idle_timeout(IDLE)
        .tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring))
        .build_https()
}

/// The SDK's own chain of settings and credentials, not asked yet. Defaults are those of one date: a later SDK must not
/// change timeouts or retries behind our back.
pub(crate) fn settings() -> ConfigLoader {
    aws_config::defaults(BehaviorVersion::v2026_01_12()).http_client(http())
}

/// An error and its causes, each said once.
pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |e| e.source()).take(CAUSES_MAX) {
        let more = cause.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
    }
    text
}

/// Whether no connection was made: then nothing was asked.
#[cfg(feature = "store")]
pub(crate) fn is_unreachable(error: &(dyn std::error::Error + 'static)) -> bool {
    find::<hyper_util::client::legacy::Error>(error).is_some_and(hyper_util::client::legacy::Error::is_connect)
}

/// The first of an error and its causes that is one of this type.
#[cfg(any(feature = "registry", feature = "store"))]
pub(crate) fn find<'a, T: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a T> {
    std::iter::successors(Some(error), |e| e.source()).take(CAUSES_MAX).find_map(|e| e.downcast_ref())
}
