//! What goes wrong between us and a cluster, by what happens next.

use model::failure::Kind;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

/// Why a cluster could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A setting that the client does not take.
    #[error("the Kafka client does not take its settings: {0}")]
    Settings(String),
    /// No broker answers.
    #[error("no broker of {servers} answers: {why}")]
    Unreachable {
        /// The bootstrap servers.
        servers: String,
        /// What the client says of the last try.
        why: String,
    },
    /// The cluster refuses who we say we are, or we refuse it.
    #[error("{servers} and this client do not agree on who they are: {why}")]
    Refused {
        /// The bootstrap servers.
        servers: String,
        /// What the client says of the last try.
        why: String,
    },
    /// Whoever makes tokens has none.
    #[error("no token could be made: {0}")]
    NoToken(String),
    /// There is no such topic.
    #[error("there is no topic `{0}`")]
    NoTopic(String),
    /// The cluster does not let us.
    #[error("the cluster does not allow it: {0}")]
    NotAllowed(String),
    /// A message larger than the cluster or the client takes.
    #[error("a record is too large to be sent: {0}")]
    TooLarge(String),
    /// Anything else.
    #[error("Kafka: {0}")]
    Other(String),
}

/// Settings that name files.
const FILES: &[&str] = &["ssl.ca.location", "ssl.certificate.location", "ssl.keystore.location", "ssl.key.location"];

/// What librdkafka says where a connection that was made breaks off again for a reason that trying again does not mend: a
/// listener of another protocol, an alert of TLS.
const HINTS: &[&str] = &["broker listener", "tls alert"];

impl Error {
    /// What happens next.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Unreachable { .. } | Self::Other(_) => Kind::Retry,
            Self::Settings(_) | Self::Refused { .. } | Self::NoToken(_) | Self::NoTopic(_) | Self::NotAllowed(_) => {
                Kind::Misconfigured
            }
            Self::TooLarge(_) => Kind::Poison,
        }
    }

    /// Stable, for scripts.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Settings(_) => "kafka.settings",
            Self::Unreachable { .. } => "kafka.unreachable",
            Self::Refused { .. } => "kafka.refused",
            Self::NoToken(_) => "kafka.no_token",
            Self::NoTopic(_) => "kafka.no_topic",
            Self::NotAllowed(_) => "kafka.not_allowed",
            Self::TooLarge(_) => "kafka.too_large",
            Self::Other(_) => "kafka",
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Settings(_) => "mend the client settings",
            Self::Unreachable { .. } => {
                "check the addresses and ports given with -b, that the cluster is up, and that this machine may reach it"
            }
            Self::Refused { .. } => {
                "check `security.protocol`, user and password, and the certificates on both sides: whom they name, who signed \
                 them, and until when they hold"
            }
            Self::NoToken(_) => "set region and credentials as for any AWS SDK: AWS_REGION, AWS_PROFILE, a role",
            Self::NoTopic(_) => "check its name, or make it first",
            Self::NotAllowed(_) => "let this user read the topic and use the consumer group (or write, to produce)",
            Self::TooLarge(_) => "raise `max.request.size` here, and `max.message.bytes` of the topic",
            Self::Other(_) => "try again",
        }
    }

    /// From a code of librdkafka and what it says.
    pub(crate) fn of(code: RDKafkaErrorCode, why: &str, servers: &str) -> Self {
        use RDKafkaErrorCode as Code;
        let servers = || servers.to_owned();
        let why = why.to_owned();
        match code {
            Code::BrokerTransportFailure if HINTS.iter().any(|hint| why.contains(hint)) => {
                Self::Refused { servers: servers(), why }
            }
            Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::Resolve
            | Code::OperationTimedOut
            | Code::BrokerNotAvailable => Self::Unreachable { servers: servers(), why },
            Code::Authentication | Code::SaslAuthenticationFailed | Code::SSL => {
                Self::Refused { servers: servers(), why }
            }
            Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition => Self::NoTopic(why),
            Code::TopicAuthorizationFailed | Code::GroupAuthorizationFailed | Code::ClusterAuthorizationFailed => {
                Self::NotAllowed(why)
            }
            Code::MessageSizeTooLarge => Self::TooLarge(why),
            _ => Self::Other(format!("{why} ({code:?})")),
        }
    }

    /// From an error of rdkafka.
    pub(crate) fn from_kafka(error: &KafkaError, servers: &str) -> Self {
        match error {
            KafkaError::ClientConfig(_, why, key, _) => Self::Settings(format!("`{key}`: {why}")),
            KafkaError::ClientCreation(why) => Self::Settings(why.clone()),
            other => match other.rdkafka_error_code() {
                Some(code) => Self::of(code, &other.to_string(), servers),
                None => Self::Other(other.to_string()),
            },
        }
    }

    /// From an error of rdkafka in making a client: librdkafka names settings, not the files that they name.
    pub(crate) fn creating(error: &KafkaError, config: &ClientConfig, servers: &str) -> Self {
        match Self::from_kafka(error, servers) {
            Self::Settings(why) => {
                let file = FILES.iter().filter(|key| why.contains(**key)).find_map(|key| config.get(key));
                Self::Settings(file.map_or(why.clone(), |file| format!("{why} ({file})")))
            }
            other => other,
        }
    }

    /// Whether it says who, what or where, and not just that nothing came.
    pub(crate) const fn is_telling(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::NoToken(_) | Self::NotAllowed(_) | Self::NoTopic(_))
    }
}
