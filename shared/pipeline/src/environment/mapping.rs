//! `kafka` and `mapping` of an environment: the cluster, and how its event source mapping hands records over. Limits are
//! those of Lambda's `CreateEventSourceMapping`.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::DeValue;

use crate::document::Section;
use crate::expectation::{Literal, literal_of};
use crate::fault::code;
use crate::quantity;
use crate::reader::{Reader, Text};

/// Records of one event at most.
const BATCH_MAX: i64 = 10_000;
const WINDOW_SECONDS_MAX: u64 = 300;
const POLLERS_MIN_MAX: i64 = 200;
const POLLERS_MAX_MAX: i64 = 2_000;
const RETRIES_MAX: i64 = 10_000;
const MAX_AGE_SECONDS_MIN: u64 = 60;
const MAX_AGE_SECONDS_MAX: u64 = 604_800;
/// Letters of one filter pattern.
const FILTER_LENGTH_MAX: usize = 4_096;

/// How the environment's cluster is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kafka {
    /// `host:port`, separated by commas; where there are none, the client settings name them.
    pub bootstrap_servers: Option<String>,
    /// The client settings, a properties file as Kafka's own tools read it.
    pub command_config: Option<PathBuf>,
    /// Line and column of what is said here.
    pub at: (usize, usize),
    /// Line and column of `command_config`'s value, where it is there.
    pub command_config_at: (usize, usize),
}

/// Where partitions are read from that were never read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The oldest record there is.
    TrimHorizon,
    /// What comes from now on.
    Latest,
    /// The first record of this time or later, in milliseconds since 1970-01-01T00:00:00Z.
    At(i64),
}

/// What a mapping that knows a schema registry hands over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordFormat {
    /// `SOURCE`: the payload as it is, without its framing.
    #[default]
    Source,
    /// `JSON`: text made of it.
    Json,
}

/// An event source mapping's settings. What is left out has Lambda's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Records of an event at most, 1 to 10,000.
    pub batch: Option<usize>,
    /// How long an event may be filled, in seconds, 0 to 300.
    pub window_seconds: Option<u64>,
    /// Where new partitions are read from.
    pub start: Option<Start>,
    /// The least and the greatest number of pollers: provisioned mode.
    pub pollers: Option<(usize, usize)>,
    /// Whether an answer names the records that were not stored.
    pub partial_answers: bool,
    /// How often an event that failed is tried again; for ever where there is none.
    pub retries: Option<u16>,
    /// How old a record may become before it is given up, in seconds; for ever where there is none.
    pub max_age_seconds: Option<u64>,
    /// Whether an event that failed is cut in two.
    pub bisect: bool,
    /// Filter patterns, JSON text: other records are never handed over.
    pub filter: Vec<String>,
    /// The registry whose schemas the mapping decodes with.
    pub registry: Option<String>,
    /// What it hands over then.
    pub record_format: RecordFormat,
}

impl Mapping {
    /// The settings with which the mapping may pass records over without handing them to anybody. An offset between two
    /// others then says nothing: it is not taken for never delivered.
    #[must_use]
    pub fn skips(&self) -> Vec<&'static str> {
        let set = [
            ("retries", self.retries.is_some()),
            ("max_age", self.max_age_seconds.is_some()),
            ("bisect", self.bisect),
            ("filter", !self.filter.is_empty()),
            ("registry", self.registry.is_some()),
        ];
        set.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect()
    }
}

pub(super) fn kafka<'t>(reader: &mut Reader<'t>, environment: Section<'t>, root: &Path) -> Option<Kafka> {
    let section = reader.section(environment, "kafka")?;
    let servers = reader.text(section, "bootstrap_servers");
    if let Some(text) = &servers
        && !text.value.split(',').all(|server| is_server(server.trim()))
    {
        let message = "`bootstrap_servers` are brokers as \"host:port\", separated by commas";
        reader.fault(text.at, code::INVALID, message);
    }
    let config = reader.text(section, "command_config");
    if let Some(text) = &config
        && text.value.is_empty()
    {
        reader.fault(text.at, code::INVALID, "`command_config` is a properties file, beside this one");
    }
    // A key that is misspelled was reported as that.
    if section.entries().is_empty() {
        let message = "`kafka` needs `bootstrap_servers`, or a `command_config` that names them";
        reader.fault(section.at, code::MISSING, message);
    }
    let at = reader.place(section.at);
    Some(Kafka {
        at,
        command_config_at: config.as_ref().map_or(at, |text| reader.place(text.at)),
        bootstrap_servers: servers.map(|text| text.value),
        command_config: config.map(|text| super::plain(&root.join(text.value))),
    })
}

fn is_server(server: &str) -> bool {
    let Some((host, port)) = server.rsplit_once(':') else { return false };
    let named = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']' | '%');
    !host.is_empty() && host.chars().all(named) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

pub(super) fn mapping<'t>(reader: &mut Reader<'t>, environment: Section<'t>) -> Option<Mapping> {
    let section = reader.section(environment, "mapping")?;
    let batch = within(reader, section, "batch", 1..=BATCH_MAX);
    let window_seconds = seconds(reader, section, "window", 0, WINDOW_SECONDS_MAX);
    let start = start(reader, section);
    let pollers = pollers(reader, section);
    let partial_answers = reader.flag(section, "partial_answers", false);
    // -1 is Lambda's own word for "for ever".
    let retries = within(reader, section, "retries", -1..=RETRIES_MAX).and_then(|n| u16::try_from(n).ok());
    let max_age_seconds = seconds(reader, section, "max_age", MAX_AGE_SECONDS_MIN, MAX_AGE_SECONDS_MAX);
    let bisect = reader.flag(section, "bisect", false);
    let filter = filter(reader, section);
    let registry = registry(reader, environment, section);
    let formats = [("SOURCE", RecordFormat::Source), ("JSON", RecordFormat::Json)];
    let record_format = reader.choice(section, "record_format", &formats, &[]).unwrap_or_default();
    if let (Some(entry), None) = (section.get("record_format"), section.get("registry")) {
        let message = "`record_format` is what a mapping with a `registry` hands over";
        reader.fault(entry.key_at, code::MISSING, message);
    }
    let mapping = Mapping {
        batch: batch.and_then(|n| usize::try_from(n).ok()),
        window_seconds,
        start,
        pollers,
        partial_answers,
        retries,
        max_age_seconds,
        bisect,
        filter,
        registry,
        record_format,
    };
    let provisioned = [
        ("partial_answers", mapping.partial_answers),
        ("retries", mapping.retries.is_some()),
        ("max_age", mapping.max_age_seconds.is_some()),
        ("bisect", mapping.bisect),
        ("registry", mapping.registry.is_some()),
    ];
    if section.get("pollers").is_none() {
        for (name, _) in provisioned.into_iter().filter(|(_, set)| *set) {
            let at = section.get(name).map_or(section.at, |entry| entry.key_at);
            let message = format!("`{name}` takes a mapping in provisioned mode: say `pollers = [1, 20]`");
            reader.fault(at, code::MISSING, message);
        }
    }
    Some(mapping)
}

fn within<'t>(
    reader: &mut Reader<'t>,
    section: Section<'t>,
    name: &str,
    range: std::ops::RangeInclusive<i64>,
) -> Option<i64> {
    let (number, at) = reader.number(section, name)?;
    if range.contains(&number) {
        return Some(number);
    }
    reader.fault(at, code::INVALID, format!("`{name}` is from {} to {}", range.start(), range.end()));
    None
}

fn seconds<'t>(reader: &mut Reader<'t>, section: Section<'t>, name: &str, min: u64, max: u64) -> Option<u64> {
    let text = reader.text(section, name)?;
    let message = match quantity::duration_ms(&text.value) {
        Ok(ms) if ms % 1000 == 0 && (min..=max).contains(&(ms / 1000)) => return Some(ms / 1000),
        Ok(_) => format!("`{name}` is whole seconds, \"{min}s\" to \"{max}s\""),
        Err(message) => format!("`{name}`: {message}"),
    };
    reader.fault(text.at, code::INVALID, message);
    None
}

fn start<'t>(reader: &mut Reader<'t>, section: Section<'t>) -> Option<Start> {
    const EXPECTED: &str = "\"TRIM_HORIZON\", \"LATEST\" or a time such as 2026-11-01T00:00:00Z";
    let value: &Spanned<DeValue<'t>> = section.get("start")?.value;
    let at = value.span().start;
    let instant = |written: &toml::value::Datetime| match literal_of(written) {
        Some(Literal::Instant(micros)) => Some(Start::At(micros.div_euclid(1000))),
        _ => None,
    };
    let start = match value.get_ref() {
        DeValue::Datetime(written) => instant(written),
        _ => {
            let Text { value, .. } = reader.string("start", value, EXPECTED)?;
            match value.as_str() {
                "TRIM_HORIZON" => Some(Start::TrimHorizon),
                "LATEST" => Some(Start::Latest),
                text => text.parse().ok().as_ref().and_then(instant),
            }
        }
    };
    if start.is_none() {
        reader.fault(at, code::INVALID, format!("`start` is {EXPECTED}"));
    }
    start
}

fn pollers<'t>(reader: &mut Reader<'t>, section: Section<'t>) -> Option<(usize, usize)> {
    const EXPECTED: &str = "two whole numbers, the least and the greatest: [1, 20]";
    let entry = section.get("pollers")?;
    let at = entry.value_at();
    let DeValue::Array(array) = entry.value.get_ref() else {
        reader.expected("pollers", entry.value.get_ref(), at, EXPECTED);
        return None;
    };
    let numbers: Vec<Option<i64>> = array
        .iter()
        .map(|value| match value.get_ref() {
            DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix()).ok(),
            _ => None,
        })
        .collect();
    if let [Some(min), Some(max)] = numbers[..]
        && (1..=POLLERS_MIN_MAX).contains(&min)
        && (min..=POLLERS_MAX_MAX).contains(&max)
    {
        return usize::try_from(min).ok().zip(usize::try_from(max).ok());
    }
    let message = format!(
        "`pollers` takes {EXPECTED}; the least is 1 to {POLLERS_MIN_MAX}, the greatest at least that and at most {POLLERS_MAX_MAX}"
    );
    reader.fault(at, code::INVALID, message);
    None
}

fn filter<'t>(reader: &mut Reader<'t>, section: Section<'t>) -> Vec<String> {
    let mut patterns = Vec::new();
    for text in reader.texts(section, "filter") {
        let is_object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text.value).is_ok();
        if !is_object || text.value.chars().count() > FILTER_LENGTH_MAX {
            let message = format!(
                "a filter pattern is a JSON object of at most {FILTER_LENGTH_MAX} letters, as in '{{ \"value\": {{ \"kind\": [\"sale\"] }} }}'"
            );
            reader.fault(text.at, code::INVALID, message);
        }
        patterns.push(text.value);
    }
    patterns
}

fn registry<'t>(reader: &mut Reader<'t>, environment: Section<'t>, section: Section<'t>) -> Option<String> {
    let text = reader.text(section, "registry")?;
    let known = environment.get("registries").and_then(|entry| entry.section());
    if known.is_none_or(|known| known.get(&text.value).is_none()) {
        let message = format!("there is no registry {:?} under `registries` of this environment", text.value);
        reader.fault(text.at, code::INVALID, message);
    }
    Some(text.value)
}
