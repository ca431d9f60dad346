//! One set of client settings for everything that speaks Kafka: what Kafka's own tools take (`--bootstrap-server`,
//! `--command-config FILE`, `--command-property KEY=VALUE`), in terms of librdkafka.
//!
//! Names are those of Apache Kafka's Java clients (`kafka.apache.org/documentation`, "Consumer Configs" and "Producer
//! Configs"); librdkafka's (its `CONFIGURATION.md`) are taken where Java has no counterpart. Every line has an effect, or
//! is refused by name with what to do instead: one that is passed over in silence would be believed in. What only other
//! lines leave without effect, as Kafka's own tools let them, is said ([`Settings::without_effect`]).

use std::collections::BTreeMap;
use std::fmt;

use crate::properties;
use crate::rules::{self, Rule};

mod certificates;
mod login;

/// Where lines come from.
#[derive(Clone, Debug, Default)]
pub struct Given<'a> {
    /// `--bootstrap-server`: wins over the others' `bootstrap.servers`.
    pub bootstrap_servers: Option<&'a str>,
    /// `--command-config`: the file's name and text.
    pub file: Option<(&'a str, &'a str)>,
    /// `--command-property`: win over the file's, the last over those before.
    pub properties: &'a [String],
}

/// How a client shows who it is, beyond what librdkafka's settings say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// Nothing more is needed.
    Plain,
    /// Amazon MSK's IAM: a token for each connection, made from AWS credentials.
    MskIam(MskIam),
}

/// What the login module was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MskIam {
    /// `awsProfileName`
    pub profile: Option<String>,
    /// `awsRoleArn`
    pub role_arn: Option<String>,
    /// `awsRoleSessionName`
    pub role_session_name: Option<String>,
    /// `awsRoleExternalId`
    pub role_external_id: Option<String>,
    /// `awsStsRegion`: whose STS is asked for the role. Tokens are for the region of the brokers.
    pub sts_region: Option<String>,
}

/// Settings that every line of was understood.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    bootstrap_servers: String,
    both: BTreeMap<String, String>,
    consumer: BTreeMap<String, String>,
    producer: BTreeMap<String, String>,
    login: Login,
    without_effect: Vec<String>,
}

/// Values may be secrets.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("bootstrap_servers", &self.bootstrap_servers)
            .field("keys", &self.both.keys().collect::<Vec<_>>())
            .field("login", &self.login)
            .finish_non_exhaustive()
    }
}

/// A line that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// `client.properties:3`, `--command-property`.
    pub place: String,
    /// What is wrong; no value that may be a secret.
    pub message: String,
    /// What to do instead.
    pub remedy: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.message, self.remedy)
    }
}

/// All lines that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Faults(pub Vec<Fault>);

/// One line that holds: the last of its key.
struct Line {
    place: String,
    value: String,
}

/// What is left of the lines while they are translated.
struct Reading {
    lines: BTreeMap<String, Line>,
    /// Where every line stands, by its key.
    places: BTreeMap<String, String>,
    faults: Vec<Fault>,
    both: BTreeMap<String, String>,
    consumer: BTreeMap<String, String>,
    producer: BTreeMap<String, String>,
    login: Login,
}

impl Settings {
    /// Translates all lines.
    ///
    /// # Errors
    /// [`Faults`] with everything that is wrong: unknown and Java-only keys, values that are not of their kind, logins that
    /// this client does not have, no bootstrap servers.
    pub fn read(given: &Given<'_>) -> Result<Self, Faults> {
        let mut reading = Reading {
            lines: BTreeMap::new(),
            places: BTreeMap::new(),
            faults: Vec::new(),
            both: BTreeMap::new(),
            consumer: BTreeMap::new(),
            producer: BTreeMap::new(),
            login: Login::Plain,
        };
        reading.collect(given);
        reading.login();
        reading.trust();
        reading.identity();
        reading.rest();
        reading.authorities();
        let bootstrap_servers = reading.bootstrap(given);
        let without_effect = reading.without_effect(given);
        let Reading { faults, both, consumer, producer, login, .. } = reading;
        match faults.is_empty() {
            true => Ok(Self { bootstrap_servers, both, consumer, producer, login, without_effect }),
            false => Err(Faults(faults)),
        }
    }

    /// `host:port`, separated by commas.
    #[must_use]
    pub fn bootstrap_servers(&self) -> &str {
        &self.bootstrap_servers
    }

    /// How a client shows who it is.
    #[must_use]
    pub const fn login(&self) -> &Login {
        &self.login
    }

    /// `group.id`, where one is named.
    #[must_use]
    pub fn group(&self) -> Option<&str> {
        self.consumer.get("group.id").map(String::as_str)
    }

    /// Lines that others leave without effect, each with its place, its key and why. Kafka's own tools take such files, so that
    /// they are no faults.
    #[must_use]
    pub fn without_effect(&self) -> &[String] {
        &self.without_effect
    }

    /// librdkafka's settings for a consumer.
    pub(crate) fn for_consumer(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs(&self.consumer)
    }

    /// librdkafka's settings for a producer.
    pub(crate) fn for_producer(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs(&self.producer)
    }

    fn pairs<'s>(&'s self, own: &'s BTreeMap<String, String>) -> impl Iterator<Item = (&'s str, &'s str)> {
        let servers = std::iter::once(("bootstrap.servers", self.bootstrap_servers.as_str()));
        servers.chain(self.both.iter().chain(own).map(|(key, value)| (key.as_str(), value.as_str())))
    }
}

impl Reading {
    fn fault(&mut self, place: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) {
        self.faults.push(Fault { place: place.into(), message: message.into(), remedy: remedy.into() });
    }

    fn collect(&mut self, given: &Given<'_>) {
        if let Some((name, text)) = given.file {
            match properties::parse(text) {
                Ok(properties) => {
                    for property in properties {
                        let line = Line { place: format!("{name}:{}", property.line), value: property.value };
                        self.lines.insert(property.key, line);
                    }
                }
                Err(bad) => {
                    let place = format!("{name}:{}", bad.line);
                    self.fault(place, bad.to_string(), "write it as Java's properties are written");
                }
            }
        }
        for property in given.properties {
            match property.split_once('=') {
                Some((key, value)) if !key.trim().is_empty() => {
                    let line = Line { place: "--command-property".to_owned(), value: value.to_owned() };
                    self.lines.insert(key.trim().to_owned(), line);
                }
                // The text may be a password with its key forgotten.
                _ => self.fault("--command-property", "it has no key", "write it as KEY=VALUE"),
            }
        }
        self.places = self.lines.iter().map(|(key, line)| (key.clone(), line.place.clone())).collect();
    }

    /// Where a key stands; its name, where it is nowhere.
    fn place_of(&self, key: &str) -> String {
        self.places.get(key).map_or_else(|| key.to_owned(), String::clone)
    }

    fn take(&mut self, key: &str) -> Option<Line> {
        self.lines.remove(key)
    }

    fn set(&mut self, key: &str, value: impl Into<String>) {
        self.both.insert(key.to_owned(), value.into());
    }

    fn bootstrap(&mut self, given: &Given<'_>) -> String {
        let line = self.take("bootstrap.servers");
        let servers = given.bootstrap_servers.map(str::to_owned).or(line.map(|line| line.value)).unwrap_or_default();
        if servers.trim().is_empty() {
            let place = self.place_of("bootstrap.servers");
            self.fault(place, "no broker is named", "name some with -b HOST:PORT,HOST:PORT");
        }
        // Not repeated: brokers are named in every message about them, and this may be a password.
        if servers.contains('@') {
            let place = match given.bootstrap_servers {
                Some(_) => "--bootstrap-server".to_owned(),
                None => self.place_of("bootstrap.servers"),
            };
            let remedy = "write HOST:PORT; user and password belong in `sasl.jaas.config` of the client settings";
            self.fault(place, "a broker's address has no `@`", remedy);
        }
        servers.trim().to_owned()
    }

    /// Lines that others leave without effect.
    fn without_effect(&self, given: &Given<'_>) -> Vec<String> {
        let protocol = self.both.get("security.protocol").map_or("PLAINTEXT", String::as_str);
        let (is_tls, is_sasl) = (protocol.ends_with("SSL"), protocol.starts_with("SASL"));
        let why = |key: &str| match key {
            "bootstrap.servers" if given.bootstrap_servers.is_some() => {
                Some("brokers are named by -b (FRAZIL_BOOTSTRAP_SERVER), or in frazil.toml".to_owned())
            }
            _ if (key.starts_with("ssl.") || key == "enable.ssl.certificate.verification") && !is_tls => {
                Some(format!("`security.protocol` is {protocol}: nothing is encrypted"))
            }
            _ if key.starts_with("sasl.") && !is_sasl => {
                Some(format!("`security.protocol` is {protocol}: nobody logs in by SASL"))
            }
            _ => None,
        };
        let said = |(key, place): (&String, &String)| Some(format!("{place}: `{key}` has no effect: {}", why(key)?));
        self.places.iter().filter_map(said).collect()
    }

    /// Everything that is one line for one setting.
    fn rest(&mut self) {
        let servers = self.lines.remove_entry("bootstrap.servers");
        for (key, Line { place, value }) in std::mem::take(&mut self.lines) {
            match rules::of(&key) {
                Some(Rule::Both(name)) => self.set(name, value),
                Some(Rule::Consumer(name)) => {
                    self.consumer.insert(name.to_owned(), value);
                }
                Some(Rule::Producer(name)) => {
                    self.producer.insert(name.to_owned(), value);
                }
                Some(Rule::Refused(why, remedy)) => self.fault(place, format!("`{key}` {why}"), remedy),
                None => {
                    let remedy = match rules::nearest(&key) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => "delete the line".to_owned(),
                    };
                    self.fault(place, format!("`{key}` is not a setting that this client knows"), remedy);
                }
            }
        }
        self.lines.extend(servers);
    }
}

#[cfg(test)]
mod tests;
