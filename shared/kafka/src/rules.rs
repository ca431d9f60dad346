//! What becomes of each line that is not about login, trust or identity.

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// librdkafka's setting of this name, for every client.
    Both(&'static str),
    /// For consumers.
    Consumer(&'static str),
    /// For producers.
    Producer(&'static str),
    /// Why it has no effect here, and what to do.
    Refused(&'static str, &'static str),
}

const DELETE: &str = "delete the line";
const OTHER_LOGIN: &str = "use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, AWS_MSK_IAM, or a client certificate";

use Rule::{Both, Consumer, Producer, Refused};

/// By the name in Apache Kafka's documentation; those that only librdkafka has come last.
const RULES: &[(&str, Rule)] = &[
    ("client.id", Both("client.id")),
    ("client.rack", Consumer("client.rack")),
    ("client.dns.lookup", Both("client.dns.lookup")),
    ("connections.max.idle.ms", Both("connections.max.idle.ms")),
    ("metadata.max.age.ms", Both("metadata.max.age.ms")),
    ("reconnect.backoff.ms", Both("reconnect.backoff.ms")),
    ("reconnect.backoff.max.ms", Both("reconnect.backoff.max.ms")),
    ("request.timeout.ms", Both("socket.timeout.ms")),
    ("retry.backoff.ms", Both("retry.backoff.ms")),
    ("retry.backoff.max.ms", Both("retry.backoff.max.ms")),
    ("socket.connection.setup.timeout.ms", Both("socket.connection.setup.timeout.ms")),
    ("receive.buffer.bytes", Both("socket.receive.buffer.bytes")),
    ("send.buffer.bytes", Both("socket.send.buffer.bytes")),
    ("group.id", Consumer("group.id")),
    ("isolation.level", Consumer("isolation.level")),
    ("check.crcs", Consumer("check.crcs")),
    ("fetch.min.bytes", Consumer("fetch.min.bytes")),
    ("fetch.max.bytes", Consumer("fetch.max.bytes")),
    ("fetch.max.wait.ms", Consumer("fetch.wait.max.ms")),
    ("max.partition.fetch.bytes", Consumer("max.partition.fetch.bytes")),
    ("acks", Producer("acks")),
    ("batch.size", Producer("batch.size")),
    ("compression.type", Producer("compression.type")),
    ("delivery.timeout.ms", Producer("delivery.timeout.ms")),
    ("enable.idempotence", Producer("enable.idempotence")),
    ("linger.ms", Producer("linger.ms")),
    ("max.in.flight.requests.per.connection", Producer("max.in.flight.requests.per.connection")),
    ("max.request.size", Producer("message.max.bytes")),
    ("retries", Producer("retries")),
    ("auto.offset.reset", Refused("is decided by where reading starts", "use --from, and delete the line")),
    ("enable.auto.commit", Refused("has no effect: offsets are committed once records are stored", DELETE)),
    ("auto.commit.interval.ms", Refused("has no effect: offsets are committed once records are stored", DELETE)),
    ("max.poll.records", Refused("is the size of a batch here", "use --batch, and delete the line")),
    ("max.poll.interval.ms", Refused("has no effect: partitions are not shared out by the group", DELETE)),
    ("session.timeout.ms", Refused("has no effect: partitions are not shared out by the group", DELETE)),
    ("heartbeat.interval.ms", Refused("has no effect: partitions are not shared out by the group", DELETE)),
    ("group.instance.id", Refused("has no effect: partitions are not shared out by the group", DELETE)),
    ("group.protocol", Refused("has no effect: partitions are not shared out by the group", DELETE)),
    ("partition.assignment.strategy", Refused("has no effect: partitions are not shared out by the group", DELETE)),
    ("allow.auto.create.topics", Refused("has no effect: no topic is made by reading", DELETE)),
    ("exclude.internal.topics", Refused("has no effect: topics are named", DELETE)),
    ("default.api.timeout.ms", Refused("is a setting of Java's clients", DELETE)),
    ("buffer.memory", Refused("is a setting of Java's clients", DELETE)),
    ("max.block.ms", Refused("is a setting of Java's clients", DELETE)),
    ("partitioner.class", Refused("names a Java class, which only a Java client can load", DELETE)),
    ("interceptor.classes", Refused("names Java classes, which only a Java client can load", DELETE)),
    ("metric.reporters", Refused("names Java classes, which only a Java client can load", DELETE)),
    ("key.deserializer", Refused("names a Java class, which only a Java client can load", DELETE)),
    ("value.deserializer", Refused("names a Java class, which only a Java client can load", DELETE)),
    ("key.serializer", Refused("names a Java class, which only a Java client can load", DELETE)),
    ("value.serializer", Refused("names a Java class, which only a Java client can load", DELETE)),
    ("sasl.login.class", Refused("names a Java class, which only a Java client can load", DELETE)),
    ("security.providers", Refused("names Java classes, which only a Java client can load", DELETE)),
    ("ssl.engine.factory.class", Refused("names a Java class, which only a Java client can load", DELETE)),
    ("ssl.provider", Refused("names a provider of Java's", DELETE)),
    ("ssl.protocol", Refused("is a setting of Java's: the newest that both sides know is taken", DELETE)),
    ("ssl.enabled.protocols", Refused("is a setting of Java's: the newest that both sides know is taken", DELETE)),
    ("ssl.keymanager.algorithm", Refused("is a setting of Java's", DELETE)),
    ("ssl.trustmanager.algorithm", Refused("is a setting of Java's", DELETE)),
    ("ssl.secure.random.implementation", Refused("is a setting of Java's", DELETE)),
    ("ssl.cipher.suites", Refused("holds Java's names of ciphers, and OpenSSL has others", DELETE)),
    ("sasl.oauthbearer.config", Refused("is for tokens of one's own, which this client does not make", OTHER_LOGIN)),
    ("sasl.oauthbearer.token", Refused("is for tokens of one's own, which this client does not carry", OTHER_LOGIN)),
    (
        "sasl.oauthbearer.token.endpoint.url",
        Refused("is for OpenID Connect, which this client does not speak", OTHER_LOGIN),
    ),
    ("sasl.kerberos.service.name", Refused("is for Kerberos, which is not built into this client", DELETE)),
    ("transactional.id", Refused("has no effect: nothing is sent in transactions", DELETE)),
    // librdkafka's own names, which kcat's users have in their files.
    ("ssl.ca.location", Both("ssl.ca.location")),
    ("ssl.ca.pem", Both("ssl.ca.pem")),
    ("ssl.certificate.location", Both("ssl.certificate.location")),
    ("ssl.certificate.pem", Both("ssl.certificate.pem")),
    ("ssl.key.location", Both("ssl.key.location")),
    ("ssl.key.pem", Both("ssl.key.pem")),
    ("enable.ssl.certificate.verification", Both("enable.ssl.certificate.verification")),
    ("sasl.username", Both("sasl.username")),
    ("sasl.password", Both("sasl.password")),
    ("broker.address.family", Both("broker.address.family")),
    ("socket.keepalive.enable", Both("socket.keepalive.enable")),
    ("queued.max.messages.kbytes", Consumer("queued.max.messages.kbytes")),
    ("queue.buffering.max.kbytes", Producer("queue.buffering.max.kbytes")),
    ("compression.level", Producer("compression.level")),
];

/// Keys that are read with others, before the table above.
const READ_TOGETHER: &[&str] = &[
    "bootstrap.servers",
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "ssl.truststore.location",
    "ssl.truststore.type",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.keystore.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
];

/// The rule of a key.
pub(crate) fn of(key: &str) -> Option<Rule> {
    RULES.iter().find(|(name, _)| *name == key).map(|(_, rule)| *rule)
}

/// The known key that a misspelled one was likely to be.
pub(crate) fn nearest(key: &str) -> Option<&'static str> {
    let known = RULES.iter().map(|(name, _)| *name).chain(READ_TOGETHER.iter().copied());
    let (near, distance) = known.map(|name| (name, strsim::damerau_levenshtein(name, key))).min_by_key(|(_, d)| *d)?;
    (distance <= 3).then_some(near)
}
