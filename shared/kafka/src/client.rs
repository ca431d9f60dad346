//! What consumers and producers share: tokens, and what the client says of its connections.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::client::{Client, ClientContext, OAuthToken};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::Metadata;
use rdkafka::util::Timeout;

use crate::error::Error;
use crate::settings::{Login, Settings};

/// A bearer token. Not shown.
pub struct Token {
    /// What is sent.
    pub value: String,
    /// When it ends, in milliseconds since the epoch.
    pub expires_ms: i64,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("expires_ms", &self.expires_ms).finish_non_exhaustive()
    }
}

/// Makes tokens. Called from the client's own threads whenever the last one nears its end.
pub trait Tokens: fmt::Debug + Send + Sync {
    /// A new one.
    ///
    /// # Errors
    /// Why there is none, without a secret.
    fn token(&self) -> Result<Token, String>;
}

/// How long a client waits for the first answer of a cluster, try by try. Between two tries it is heard why there was none:
/// a wrong password is known long before the last of them.
const FIRST: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];

/// How often, and how long each time, a client listens to what is said of its connections: each time hands over one thing.
pub(crate) const HEAR_TIMES: usize = 20;
pub(crate) const HEAR: Duration = Duration::from_millis(10);

/// What librdkafka's log says where the other side closed a connection.
const CLOSED: &[&str] = &["closed by peer", "reset by peer", "Broken pipe"];

/// The principal of a token: MSK asks for one, and looks into the token for who it is.
const PRINCIPAL: &str = "frazil";

/// Keeps the last thing that the client said of its connections: errors of single calls say only that time ran out.
pub(crate) struct Context {
    servers: String,
    tokens: Option<Arc<dyn Tokens>>,
    last: Mutex<Option<Error>>,
    /// Whether the other side ever closed a connection.
    closed: AtomicBool,
}

impl Context {
    pub(crate) fn new(settings: &Settings, tokens: Option<Arc<dyn Tokens>>) -> Result<Self, Error> {
        if matches!(settings.login(), Login::MskIam(_)) && tokens.is_none() {
            return Err(Error::Settings(
                "AWS_MSK_IAM needs AWS credentials, and this build has nothing that asks for them".to_owned(),
            ));
        }
        Ok(Self {
            servers: settings.bootstrap_servers().to_owned(),
            tokens,
            last: Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// What is wrong, as exactly as it is known: the call's own error, or what was last said of the connections.
    pub(crate) fn error(&self, error: &KafkaError) -> Error {
        let own = Error::from_kafka(error, &self.servers);
        match (own, self.last()) {
            (Error::Unreachable { .. } | Error::Other(_), Some(last)) => last,
            (own, _) => own,
        }
    }

    /// What was last said of the connections, unless they work again.
    pub(crate) fn last(&self) -> Option<Error> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Something came through.
    pub(crate) fn well(&self) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some() {
            *last = None;
        }
    }

    fn say(&self, error: Error, is_summary: bool) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let keeps = last.as_ref().is_some_and(|last| is_summary || (last.is_telling() && !error.is_telling()));
        if !keeps {
            *last = Some(error);
        }
    }
}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, fac: &str, message: &str) {
        // A connection that the other side closes is no error to librdkafka; it is in its log alone.
        if fac == "FAIL" && CLOSED.iter().any(|words| message.contains(words)) {
            self.closed.store(true, Ordering::Relaxed);
        }
        match level {
            RDKafkaLogLevel::Debug | RDKafkaLogLevel::Info => tracing::debug!(fac, message, "librdkafka"),
            // What matters comes as an error, too; this is for those who look closer.
            _ => tracing::info!(fac, message, "librdkafka"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        // That a partition has no further record comes this way, too.
        if let Some(code) = error.rdkafka_error_code().filter(|code| *code != RDKafkaErrorCode::PartitionEOF) {
            // "All brokers are down" follows on what says why.
            let is_summary = code == RDKafkaErrorCode::AllBrokersDown;
            self.say(Error::of(code, reason, &self.servers), is_summary);
        }
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        let tokens = self.tokens.as_ref().ok_or("no tokens are to be had")?;
        match tokens.token() {
            Ok(Token { value, expires_ms }) => {
                Ok(OAuthToken { token: value, principal_name: PRINCIPAL.to_owned(), lifetime_ms: expires_ms })
            }
            Err(why) => {
                self.say(Error::NoToken(why.clone()), false);
                Err(why.into())
            }
        }
    }
}

/// The partitions of a topic, by a client's first question to its cluster. `hear` hands over what is said of the
/// connections; a token is made there, too.
pub(crate) fn partitions<C: ClientContext>(
    client: &Client<C>,
    context: &Context,
    topic: &str,
    hear: impl Fn(),
) -> Result<Vec<i32>, Error> {
    let metadata = metadata(client, context, Some(topic), hear)?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    let partitions = found.map_or(&[][..], |found| found.partitions());
    match found.and_then(|found| found.error()).map(RDKafkaErrorCode::from) {
        None if !partitions.is_empty() => Ok(partitions.iter().map(|partition| partition.id()).collect()),
        Some(code) => Err(match Error::of(code, topic, &context.servers) {
            Error::Other(_) if partitions.is_empty() => Error::NoTopic(topic.to_owned()),
            error => error,
        }),
        None => Err(Error::NoTopic(topic.to_owned())),
    }
}

/// The topics that a client may see. `hear` is as for [`partitions`].
pub(crate) fn topics<C: ClientContext>(
    client: &Client<C>,
    context: &Context,
    hear: impl Fn(),
) -> Result<Vec<String>, Error> {
    let metadata = metadata(client, context, None, hear)?;
    Ok(metadata.topics().iter().map(|topic| topic.name().to_owned()).collect())
}

/// What a cluster says of itself, to whom it may be the first question.
fn metadata<C: ClientContext>(
    client: &Client<C>,
    context: &Context,
    topic: Option<&str>,
    hear: impl Fn(),
) -> Result<Metadata, Error> {
    let mut failed = None;
    hear();
    for (n, wait) in FIRST.into_iter().enumerate() {
        if let Some(error) = context.last().filter(Error::is_telling) {
            return Err(error);
        }
        if n >= 2 && context.closed.load(Ordering::Relaxed) {
            let why =
                "they close connections without an answer, as listeners do that another `security.protocol` is for";
            return Err(Error::Refused { servers: context.servers.clone(), why: why.to_owned() });
        }
        let error = match client.fetch_metadata(topic, Timeout::After(wait)) {
            Ok(metadata) => return Ok(metadata),
            Err(error) => error,
        };
        hear();
        failed = Some(context.error(&error));
    }
    Err(failed.unwrap_or_else(|| Error::Other("no answer".to_owned())))
}

/// A configuration of these pairs.
pub(crate) fn config<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set_log_level(RDKafkaLogLevel::Info);
    for (key, value) in pairs {
        config.set(key, value);
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Given;

    #[test]
    fn the_end_of_a_partition_is_no_trouble_and_what_says_most_is_kept() {
        let settings = Settings::read(&Given { bootstrap_servers: Some("b:1"), ..Given::default() }).unwrap();
        let context = Context::new(&settings, None).unwrap();
        let hear = |code, reason| ClientContext::error(&context, KafkaError::Global(code), reason);
        hear(RDKafkaErrorCode::PartitionEOF, "no more");
        assert_eq!(context.last(), None);
        hear(RDKafkaErrorCode::Authentication, "who are you");
        hear(RDKafkaErrorCode::PartitionEOF, "no more");
        hear(RDKafkaErrorCode::AllBrokersDown, "1/1 brokers are down");
        assert!(matches!(context.last(), Some(Error::Refused { why, .. }) if why == "who are you"));
        context.well();
        assert_eq!(context.last(), None);
    }
}
