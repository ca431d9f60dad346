//! One set of client settings for everything that speaks Kafka: what Kafka's own tools take (`--bootstrap-server`,
//! `--command-config FILE`, `--command-property KEY=VALUE`), in terms of librdkafka.
//!
//! Names are those of Apache Kafka's Java clients (`kafka.apache.org/documentation`, "Consumer Configs" and "Producer
//! Configs"); librdkafka's (its `CONFIGURATION.md`) are taken where Java has no counterpart. Every line has an effect, or
//! is refused by name with what to do instead: one that is passed over in silence would be believed in.

use std::collections::BTreeMap;
use std::fmt;

use crate::jaas;
use crate::properties;
use crate::rules::{self, Rule};

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

/// What `IAMLoginModule` was told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MskIam {
    /// `awsProfileName`
    pub profile: Option<String>,
    /// `awsRoleArn`
    pub role_arn: Option<String>,
    /// `awsRoleSessionName`
    pub role_session_name: Option<String>,
    /// `awsStsRegion`
    pub region: Option<String>,
}

/// Settings that every line of was understood.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    bootstrap_servers: String,
    both: BTreeMap<String, String>,
    consumer: BTreeMap<String, String>,
    producer: BTreeMap<String, String>,
    login: Login,
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
        let bootstrap_servers = reading.bootstrap(given);
        let Reading { faults, both, consumer, producer, login, .. } = reading;
        match faults.is_empty() {
            true => Ok(Self { bootstrap_servers, both, consumer, producer, login }),
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
                Err(bad) => self.fault(name, bad.to_string(), "write it as Java's properties are written"),
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
            self.fault("bootstrap.servers", "no broker is named", "name some with -b HOST:PORT,HOST:PORT");
        }
        servers.trim().to_owned()
    }

    /// Mechanism and credentials.
    fn login(&mut self) {
        let protocol = self.take("security.protocol");
        let mechanism = self.take("sasl.mechanism");
        let entry = self.take("sasl.jaas.config");
        let handler = self.take("sasl.client.callback.handler.class");
        let mut is_sasl = false;
        if let Some(Line { place, value }) = protocol {
            let name = value.trim().to_ascii_uppercase();
            match name.as_str() {
                "PLAINTEXT" | "SSL" => self.set("security.protocol", name),
                "SASL_PLAINTEXT" | "SASL_SSL" => {
                    is_sasl = true;
                    self.set("security.protocol", name);
                }
                _ => self.fault(
                    place,
                    format!("`security.protocol` can't be `{value}`"),
                    "it takes PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
                ),
            }
        }
        if let Some(Line { place, value }) = &handler
            && !value.ends_with(".IAMClientCallbackHandler")
        {
            self.fault(
                place,
                "`sasl.client.callback.handler.class` names a Java class, which only a Java client can load",
                "delete the line, and use PLAIN, SCRAM, or AWS_MSK_IAM",
            );
        }
        if mechanism.is_none() && entry.is_none() {
            if is_sasl && !self.lines.contains_key("sasl.username") {
                self.fault(
                    "sasl.mechanism",
                    "the security protocol asks for a login, and no mechanism is named",
                    "add `sasl.mechanism` and `sasl.jaas.config`",
                );
            }
            return;
        }
        // What Java's clients take when nothing is said.
        let unsaid = || Line { place: "sasl.mechanism".to_owned(), value: "GSSAPI".to_owned() };
        let mechanism = mechanism.unwrap_or_else(unsaid);
        let (place, name) = (mechanism.place, mechanism.value.trim().to_ascii_uppercase());
        if !is_sasl {
            self.fault(
                &place,
                "a SASL mechanism has no effect under this `security.protocol`",
                "set `security.protocol` to SASL_SSL (or SASL_PLAINTEXT)",
            );
        }
        let login = entry.and_then(|line| match jaas::parse(&line.value) {
            Ok(login) => Some((line.place, login)),
            Err(wrong) => {
                self.fault(
                    line.place,
                    format!("`sasl.jaas.config` can't be read: {wrong}"),
                    "write it as Kafka documents it",
                );
                None
            }
        });
        match name.as_str() {
            "PLAIN" | "SCRAM-SHA-256" | "SCRAM-SHA-512" => {
                self.set("sasl.mechanism", &name);
                self.password(login, if name == "PLAIN" { "PlainLoginModule" } else { "ScramLoginModule" });
            }
            "AWS_MSK_IAM" => {
                // On the wire it is a bearer token, which only a signer makes.
                self.set("sasl.mechanism", "OAUTHBEARER");
                self.msk_iam(login);
            }
            "OAUTHBEARER" => self.fault(
                place,
                "OAUTHBEARER is not among the mechanisms of this client",
                "use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, AWS_MSK_IAM, or a client certificate",
            ),
            "GSSAPI" => self.fault(
                place,
                "GSSAPI (Kerberos), which Java's clients take when no mechanism is named, is not built into this client",
                "use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, AWS_MSK_IAM, or a client certificate",
            ),
            _ => self.fault(
                place,
                format!("there is no mechanism `{name}`"),
                "`sasl.mechanism` takes PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or AWS_MSK_IAM",
            ),
        }
    }

    fn password(&mut self, login: Option<(String, jaas::Login)>, module: &str) {
        let Some((place, mut login)) = login else {
            if !self.lines.contains_key("sasl.username") || !self.lines.contains_key("sasl.password") {
                self.fault(
                    "sasl.jaas.config",
                    "the mechanism needs a user name and a password, and there are none",
                    format!("add `sasl.jaas.config={module} required username=\"…\" password=\"…\";`"),
                );
            }
            return;
        };
        if login.module != module {
            let message =
                format!("`sasl.jaas.config` names `{}`, which is not the module of this mechanism", login.module);
            self.fault(&place, message, format!("its module is {module}"));
        }
        for (option, key) in [("username", "sasl.username"), ("password", "sasl.password")] {
            match login.options.remove(option) {
                Some(value) => self.set(key, value),
                None => {
                    self.fault(&place, format!("`sasl.jaas.config` names no {option}"), format!("add {option}=\"…\""))
                }
            }
        }
        self.unused(&place, &login);
    }

    fn msk_iam(&mut self, login: Option<(String, jaas::Login)>) {
        let mut told = MskIam::default();
        if let Some((place, mut login)) = login {
            if login.module != "IAMLoginModule" {
                let message =
                    format!("`sasl.jaas.config` names `{}`, which is not the module of this mechanism", login.module);
                self.fault(&place, message, "its module is software.amazon.msk.auth.iam.IAMLoginModule");
            }
            told.profile = login.options.remove("awsProfileName");
            told.role_arn = login.options.remove("awsRoleArn");
            told.role_session_name = login.options.remove("awsRoleSessionName");
            told.region = login.options.remove("awsStsRegion");
            // It only says how Java's client logs.
            login.options.remove("awsDebugCreds");
            self.unused(&place, &login);
        }
        self.login = Login::MskIam(told);
    }

    fn unused(&mut self, place: &str, login: &jaas::Login) {
        for option in login.options.keys() {
            let message = format!("`sasl.jaas.config` has an option `{option}`, which this client does not know");
            self.fault(place, message, "delete the option");
        }
    }

    /// Whom a client trusts.
    fn trust(&mut self) {
        let kind = self.take("ssl.truststore.type");
        let location = self.take("ssl.truststore.location");
        let inline = self.take("ssl.truststore.certificates");
        // PEM files have none.
        let _password = self.take("ssl.truststore.password");
        let name = kind.as_ref().map_or("JKS", |line| line.value.trim()).to_ascii_uppercase();
        match (location, inline) {
            (None, None) => {}
            (None, Some(line)) => self.set("ssl.ca.pem", line.value),
            (Some(location), _) if name == "PEM" => self.set("ssl.ca.location", location.value),
            (Some(location), _) => self.fault(
                location.place,
                format!("a trust store of type {name} is Java's own, and can't be read here"),
                "export it as PEM (keytool -exportcert -rfc), and say `ssl.truststore.type=PEM`",
            ),
        }
        if let Some(Line { place, value }) = self.take("ssl.endpoint.identification.algorithm") {
            match value.trim() {
                "" => self.set("ssl.endpoint.identification.algorithm", "none"),
                "https" => self.set("ssl.endpoint.identification.algorithm", "https"),
                other => {
                    let message = format!("`ssl.endpoint.identification.algorithm` can't be `{other}`");
                    self.fault(place, message, "it takes https, or nothing for no check of host names");
                }
            }
        }
    }

    /// The certificate that a client shows.
    fn identity(&mut self) {
        let kind = self.take("ssl.keystore.type");
        let location = self.take("ssl.keystore.location");
        let store_password = self.take("ssl.keystore.password");
        let key_password = self.take("ssl.key.password");
        let (chain, key) = (self.take("ssl.keystore.certificate.chain"), self.take("ssl.keystore.key"));
        let name = kind.as_ref().map_or("JKS", |line| line.value.trim()).to_ascii_uppercase();
        match (location, name.as_str()) {
            (None, _) => {}
            // A PEM key store holds key and chain in one file.
            (Some(location), "PEM") => {
                self.set("ssl.certificate.location", location.value.clone());
                self.set("ssl.key.location", location.value);
            }
            (Some(location), "PKCS12") => {
                self.set("ssl.keystore.location", location.value);
                if let Some(password) = store_password {
                    self.set("ssl.keystore.password", password.value);
                }
            }
            (Some(location), _) => self.fault(
                location.place,
                format!("a key store of type {name} is Java's own, and can't be read here"),
                "convert it (keytool -importkeystore -deststoretype PKCS12), and say `ssl.keystore.type=PKCS12`",
            ),
        }
        if let Some(chain) = chain {
            self.set("ssl.certificate.pem", chain.value);
        }
        if let Some(key) = key {
            self.set("ssl.key.pem", key.value);
        }
        if let Some(password) = key_password {
            self.set("ssl.key.password", password.value);
        }
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
