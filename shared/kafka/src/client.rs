//! What consumers and producers share: tokens, and what the client says of its connections.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::KafkaError;

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

/// The principal of a token: MSK asks for one, and looks into the token for who it is.
const PRINCIPAL: &str = "frazil";

/// Keeps the last thing that the client said of its connections: errors of single calls say only that time ran out.
pub(crate) struct Context {
    servers: String,
    tokens: Option<Arc<dyn Tokens>>,
    last: Mutex<Option<Error>>,
}

impl Context {
    pub(crate) fn new(settings: &Settings, tokens: Option<Arc<dyn Tokens>>) -> Result<Self, Error> {
        if matches!(settings.login(), Login::MskIam(_)) && tokens.is_none() {
            return Err(Error::Settings(
                "AWS_MSK_IAM needs AWS credentials, and this build has nothing that asks for them".to_owned(),
            ));
        }
        Ok(Self { servers: settings.bootstrap_servers().to_owned(), tokens, last: Mutex::default() })
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

    fn say(&self, error: Error) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // "All brokers are down" follows on what says why.
        if error.is_telling() || !last.as_ref().is_some_and(Error::is_telling) {
            *last = Some(error);
        }
    }
}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, fac: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Debug | RDKafkaLogLevel::Info => tracing::debug!(fac, message, "librdkafka"),
            // What matters comes as an error, too; this is for those who look closer.
            _ => tracing::info!(fac, message, "librdkafka"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if let Some(code) = error.rdkafka_error_code() {
            self.say(Error::of(code, reason, &self.servers));
        }
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        let tokens = self.tokens.as_ref().ok_or("no tokens are to be had")?;
        match tokens.token() {
            Ok(Token { value, expires_ms }) => {
                Ok(OAuthToken { token: value, principal_name: PRINCIPAL.to_owned(), lifetime_ms: expires_ms })
            }
            Err(why) => {
                self.say(Error::Refused {
                    servers: self.servers.clone(),
                    why: format!("no token could be made: {why}"),
                });
                Err(why.into())
            }
        }
    }
}

/// A configuration of these pairs.
pub(crate) fn config<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> ClientConfig {
    let mut config = ClientConfig::new();
    for (key, value) in pairs {
        config.set(key, value);
    }
    config
}
