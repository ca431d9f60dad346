//! A producer that tells of every record what became of it.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _, ProducerContext};
use rdkafka::util::Timeout;

use crate::client::{self, Context, HEAR, HEAR_TIMES, Tokens, config};
use crate::error::Error;
use crate::settings::Settings;

/// How long a cluster may take to make a topic.
const MAKE: Duration = Duration::from_secs(1);

/// Counts what was stored, and keeps the first failure.
struct Deliveries {
    context: Context,
    servers: String,
    stored: AtomicU64,
    failed: Mutex<Option<Error>>,
}

impl ClientContext for Deliveries {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, fac: &str, message: &str) {
        self.context.log(level, fac, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        ClientContext::error(&self.context, error, reason);
    }

    fn generate_oauth_token(&self, config: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        self.context.generate_oauth_token(config)
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(_) => {
                self.stored.fetch_add(1, Ordering::Relaxed);
            }
            Err((error, _)) => {
                let error = match Error::from_kafka(error, &self.servers) {
                    Error::Other(_) | Error::Unreachable { .. } => self.context.error(error),
                    exact => exact,
                };
                self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        }
    }
}

/// A producer.
pub struct Producer {
    inner: BaseProducer<Deliveries>,
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer").field("stored", &self.stored()).finish_non_exhaustive()
    }
}

impl Producer {
    /// A producer. Unless the settings say otherwise it is idempotent and compresses with lz4.
    ///
    /// # Errors
    /// [`Error::Settings`].
    pub fn new(settings: &Settings, tokens: Option<Arc<dyn Tokens>>) -> Result<Self, Error> {
        let context = Context::new(settings, tokens)?;
        let servers = settings.bootstrap_servers().to_owned();
        let mut config = config(settings.for_producer());
        for (key, value) in
            [("client.id", "frazil"), ("enable.idempotence", "true"), ("compression.type", "lz4"), ("linger.ms", "20")]
        {
            if config.get(key).is_none() {
                config.set(key, value);
            }
        }
        let failed = Mutex::default();
        let deliveries = Deliveries { context, servers: servers.clone(), stored: AtomicU64::new(0), failed };
        let inner = config.create_with_context(deliveries).map_err(|e| Error::creating(&e, &config, &servers))?;
        Ok(Self { inner })
    }

    /// Looks for a topic, which a cluster may make when it is first asked for it.
    ///
    /// # Errors
    /// [`Error::NoTopic`], and why nobody could be asked.
    pub fn find(&self, topic: &str) -> Result<(), Error> {
        let context = &self.inner.context().context;
        let hear = || self.inner.poll(Timeout::After(HEAR * HEAR_TIMES as u32));
        let ask = || client::partitions(self.inner.client(), context, topic, hear).map(drop);
        match ask() {
            Err(Error::NoTopic(_)) => {
                self.inner.poll(Timeout::After(MAKE));
                ask()
            }
            answer => answer,
        }
    }

    /// Sends a record, with a header or without; waits where the client's queue is full. Timestamps are in milliseconds since the epoch.
    ///
    /// # Errors
    /// Why it can't be sent, or why one before it could not be stored.
    pub fn send(
        &self,
        topic: &str,
        partition: Option<i32>,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        timestamp_ms: Option<i64>,
        header: Option<(&str, &[u8])>,
    ) -> Result<(), Error> {
        let deliveries = self.inner.context();
        let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic);
        record.partition = partition;
        record.key = key;
        record.payload = value;
        record.timestamp = timestamp_ms;
        record.headers = header.map(|(key, value)| OwnedHeaders::new().insert(Header { key, value: Some(value) }));
        loop {
            self.failed()?;
            match self.inner.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), same)) => {
                    record = same;
                    self.inner.poll(Timeout::After(Duration::from_millis(50)));
                }
                Err((error, _)) => return Err(Error::from_kafka(&error, &deliveries.servers)),
            }
        }
    }

    /// Records that the cluster has stored.
    #[must_use]
    pub fn stored(&self) -> u64 {
        self.inner.context().stored.load(Ordering::Relaxed)
    }

    /// Hears what became of records that were sent.
    ///
    /// # Errors
    /// Why one of them could not be stored.
    pub fn hear(&self) -> Result<(), Error> {
        self.inner.poll(Timeout::After(Duration::ZERO));
        self.failed()
    }

    /// Waits until everything sent is stored.
    ///
    /// # Errors
    /// Why something could not be.
    pub fn flush(&self, wait: Duration) -> Result<(), Error> {
        let flushed = self.inner.flush(Timeout::After(wait));
        self.failed()?;
        flushed.map_err(|e| self.inner.context().context.error(&e))
    }

    fn failed(&self) -> Result<(), Error> {
        match &*self.inner.context().failed.lock().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }
}
