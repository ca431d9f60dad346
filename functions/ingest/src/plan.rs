//! From an event's bytes to the bytes of its objects, without I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use codec::Rejected;
use codec::framing::Reference;
use model::clock::Minute;
use model::coordinate::{Sample, SourceId, TopicPartition};
use model::coverage::{Coverage, Filtered, PartitionCoverage};
use model::interval::Intervals;
use model::stored::Tag;
use staging::dead_letter::{self, Class, DeadLetter, Part, Payload};
use staging::footer::Footer;
use staging::hash::{ObjectHasher, RawRecord};
use staging::key::StagedKey;
use staging::object;

use crate::event::{self, Event, Partition, Record};
use crate::schemas::Known;
use crate::tables::Tables;
use crate::target::Key;
use crate::writers::{OWN, Writers};
use crate::{Error, Ingest, Outcome, Response};

/// The version of the mapping from source types to column types. A table remembers the one it was made with.
pub const MAPPING_VERSION: u32 = 1;

/// One object to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its key.
    pub key: String,
    /// Its body.
    pub body: Bytes,
}

/// What an event comes to: the objects to store, in this order, and what to answer when they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The bad records, where there are any. Stored first.
    pub dead_letters: Option<Planned>,
    /// The rows and the coverage. Stored always.
    pub object: Planned,
    /// What came of it, once both are durable.
    pub outcome: Outcome,
}

/// The buffers of one invocation, kept for the next.
pub(crate) struct Scratch {
    reader: event::Reader,
    writers: Writers,
    keys: Option<Writers>,
    tables: Tables,
}

impl Scratch {
    pub(crate) const fn new(writers: Writers, keys: Option<Writers>, tables: Tables) -> Self {
        Self { reader: event::Reader::new(), writers, keys, tables }
    }
}

/// What becomes of one record.
pub(crate) enum Fate {
    Row,
    Filtered(Filtered),
    Dead(Rejected),
}

impl Ingest {
    /// Plans the objects of an event for a minute, without asking anybody. The same event in the same minute gives the same objects.
    ///
    /// # Errors
    /// [`Error`]; never for a bad record, which is part of the plan. [`Error::Unasked`] where records name schemas that no event
    /// before has named: see [`Ingest::stage`].
    pub fn plan(&self, body: &[u8], minute: Minute) -> Result<Staged, Error> {
        let mut scratch = self.scratch()?;
        let Scratch { reader, writers, keys, tables } = &mut scratch;
        let event = reader.read(body)?;
        let source = self.check(&event)?;
        let (mut known, _) = self.schemas.remembered(&named(writers, &event));
        let mut known_keys = match (keys.as_ref(), &self.keys) {
            (Some(writers), Some(keys)) => keys.schemas.remembered(&writers.references(&event)).0,
            _ => Known::new(),
        };
        self.prepare((&mut known, &mut known_keys), writers, keys.as_mut(), tables)?;
        let known = (&known, &known_keys);
        let staged = self.plan_event(&event, &source, known, (writers, keys.as_mut()), tables, minute)?;
        // After a failure rows of it may be left behind: those buffers are not kept.
        self.keep(scratch);
        Ok(staged)
    }

    /// Looks the schemas up that an event's records name, and plans its objects for a minute: [`Ingest::plan`].
    ///
    /// # Errors
    /// [`Error`]; never for a bad record. Where a registry can't answer `within` this time, nothing is planned: the event comes again.
    pub async fn stage(&self, body: &[u8], minute: Minute, within: Duration) -> Result<Staged, Error> {
        let mut scratch = self.scratch()?;
        let Scratch { reader, writers, keys, tables } = &mut scratch;
        let event = reader.read(body)?;
        let source = self.check(&event)?;
        let (named, is_unwrapped) = (named(writers, &event), event.names_schemas());
        let of_keys = keys.as_ref().zip(self.keys.as_ref());
        let of_keys = of_keys.map(|(writers, keys)| (&keys.schemas, writers.references(&event)));
        // Boxed, for it holds the futures of the registries.
        let asked = Box::pin(async {
            let known = self.schemas.look_up(&named, is_unwrapped).await?;
            let known_keys = match &of_keys {
                Some((schemas, named)) => schemas.look_up(named, is_unwrapped).await?,
                None => Known::new(),
            };
            self.judge_newer(&known, &known_keys).await?;
            Ok::<_, Error>((known, known_keys))
        });
        let late = |_| Error::NoAnswer { waited_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX) };
        let (mut known, mut known_keys) = tokio::time::timeout(within, asked).await.map_err(late)??;
        self.prepare((&mut known, &mut known_keys), writers, keys.as_mut(), tables)?;
        let known = (&known, &known_keys);
        let staged = self.plan_event(&event, &source, known, (writers, keys.as_mut()), tables, minute)?;
        self.keep(scratch);
        Ok(staged)
    }

    /// Makes sure that the columns are there of all that the event's records are written with.
    fn prepare(
        &self,
        (known, known_keys): (&mut Known, &mut Known),
        writers: &mut Writers,
        keys: Option<&mut Writers>,
        tables: &mut Tables,
    ) -> Result<(), Error> {
        let making = self.making(known, known_keys);
        if !Arc::ptr_eq(tables.making(), &making) {
            *tables = Tables::new(making, Arc::clone(&self.pipeline))?;
            writers.forget();
            keys.into_iter().for_each(Writers::forget);
        }
        Ok(())
    }

    /// Where an event of this pipeline comes from.
    fn check(&self, event: &Event<'_>) -> Result<SourceId, Error> {
        let source = self.source(event)?;
        self.only_own_topics(event)?;
        Ok(source)
    }

    fn plan_event(
        &self,
        event: &Event<'_>,
        source: &SourceId,
        (known, known_keys): (&Known, &Known),
        (writers, mut keys): (&mut Writers, Option<&mut Writers>),
        tables: &mut Tables,
        minute: Minute,
    ) -> Result<Staged, Error> {
        let is_bare = writers.is_bare(event);
        if tables.tidy() {
            writers.forget();
            keys.as_deref_mut().into_iter().for_each(Writers::forget);
        }
        writers.begin();
        keys.as_deref_mut().into_iter().for_each(Writers::begin);
        tables.begin(minute, event.len())?;
        let mut hasher = ObjectHasher::new(source, &self.pipeline_file_hash);
        hasher.origin(self.origin);
        let mut coverage = Coverage::default();
        let mut letters = Vec::new();
        for partition in event.partitions() {
            let mut covered = Covered::default();
            tables.start(partition.topic(), partition.partition());
            for record in partition.records() {
                hasher.record(RawRecord {
                    topic: record.topic(),
                    partition: record.partition(),
                    offset: record.offset(),
                    timestamp_ms: record.timestamp_ms(),
                    key: record.key(),
                    value: record.value(),
                    headers: record.headers(),
                });
                let key = match (&mut keys, record.key()) {
                    (Some(keys), Some(_)) => match keys.split(&record, known_keys, &mut tables.keys())? {
                        Ok((writer, payload)) => Key::Written { writer, payload },
                        Err(rejected) => Key::Rejected(rejected),
                    },
                    _ => Key::Nothing,
                };
                let fate = match record.value() {
                    None => tables.delete(&record, &key)?,
                    Some(payload) if is_bare => tables.take(&record, payload, OWN, &key)?,
                    Some(_) => match writers.split(&record, known, tables)? {
                        Ok((writer, payload)) => tables.take(&record, payload, writer, &key)?,
                        Err(rejected) => Fate::Dead(rejected),
                    },
                };
                covered.add(&record, &fate);
                if let Fate::Dead(rejected) = fate {
                    let (part, rejected) = part(rejected);
                    let schema_id = match (part, &keys) {
                        (Part::Key, Some(keys)) => keys.schema_id(&record),
                        (Part::Key, None) => record.key_schema().and_then(|said| said.schema_id.clone()),
                        (Part::Value, _) if is_bare => None,
                        (Part::Value, _) => writers.schema_id(&record),
                    };
                    letters.push(self.letter(source, minute, &record, schema_id, part, rejected));
                }
            }
            covered.finish(source, &partition, &mut coverage)?;
        }

        let rows = tables.finish()?;
        let outcome = Outcome { records_with_unknown_fields: tables.take_ignoring(), ..outcome(event, &coverage) };
        let key = StagedKey { pipeline: self.pipeline_id.clone(), minute, hash: hasher.finish(&coverage) };
        let footer = Footer {
            schemas: writers.versions(),
            columns: tables.making().footer.clone(),
            ..self.footer(&key, coverage)
        };
        let body = object::encode(&footer, &rows)?;
        let dead_letters = if letters.is_empty() {
            None
        } else {
            Some(Planned { key: key.dead_letters().to_string(), body: dead_letter::encode(&letters)? })
        };
        let object = Planned { key: key.to_string(), body };
        let outcome = Outcome {
            staged: vec![object.key.clone()],
            dead_letter_keys: dead_letters.iter().map(|letters| letters.key.clone()).collect(),
            ..outcome
        };
        Ok(Staged { dead_letters, object, outcome })
    }

    fn source(&self, event: &Event<'_>) -> Result<SourceId, Error> {
        let name = event.source_arn().or(self.pipeline.source.name.as_deref());
        name.map(SourceId::of).ok_or_else(|| Error::NoSource { pipeline: self.pipeline.name.clone() })
    }

    /// A topic that is not the pipeline's means that a mapping was attached to the wrong function. Its records would be
    /// read with a schema that is not theirs, so nothing is taken.
    fn only_own_topics(&self, event: &Event<'_>) -> Result<(), Error> {
        let source = &self.pipeline.source;
        let mut topics: Vec<String> = event
            .partitions()
            .filter(|p| !p.is_empty() && !source.takes(p.topic()))
            .map(|p| p.topic().to_owned())
            .collect();
        if topics.is_empty() {
            return Ok(());
        }
        topics.sort_unstable();
        topics.dedup();
        Err(Error::ForeignTopics { topics, pipeline: self.pipeline.name.clone(), known: source.topics.clone() })
    }

    fn letter(
        &self,
        source: &SourceId,
        minute: Minute,
        record: &Record<'_>,
        schema_id: Option<String>,
        part: Part,
        rejected: Rejected,
    ) -> DeadLetter {
        DeadLetter {
            schema: Tag::of::<DeadLetter>(),
            pipeline_id: self.pipeline_id.clone(),
            minute,
            source: source.clone(),
            topic: record.topic().to_owned(),
            partition: record.partition(),
            offset: record.offset(),
            timestamp_ms: record.timestamp_ms(),
            timestamp_type: record.timestamp_type().map(|t| match t {
                event::TimestampType::CreateTime => dead_letter::TimestampType::CreateTime,
                event::TimestampType::LogAppendTime => dead_letter::TimestampType::LogAppendTime,
            }),
            key: record.key().map(Payload::from),
            value: record.value().map(Payload::from),
            headers: record.headers().map(|(name, value)| (name.to_owned(), value.map(Payload::from))).collect(),
            schema_id,
            class: class(rejected.class),
            part,
            path: rejected.path,
            message: rejected.message,
            ordinal: None,
            table: None,
            staged: None,
            row: None,
        }
    }

    fn footer(&self, key: &StagedKey, coverage: Coverage) -> Footer {
        Footer {
            schema: Tag::of::<Footer>(),
            pipeline_id: self.pipeline_id.clone(),
            pipeline_file_hash: self.pipeline_file_hash.clone(),
            apply_sequence: self.apply_sequence,
            mapping_version: MAPPING_VERSION,
            minute: key.minute,
            hash: Some(key.hash),
            origin: self.origin,
            writer: env!("CARGO_PKG_VERSION").to_owned(),
            coverage,
            event_time_bounds: None,
            schemas: Vec::new(),
            tables: Vec::new(),
            columns: Vec::new(),
        }
    }
}

/// The part of its record that a rejection is about, and the rejection with its path there. The key is a part of its own; headers
/// and the record's own fields are named by their source.
fn part(rejected: Rejected) -> (Part, Rejected) {
    let (part, path) = match rejected.path.strip_prefix("@key") {
        Some("") => (Part::Key, String::new()),
        Some(inner) if inner.starts_with('.') => (Part::Key, inner.trim_start_matches('.').to_owned()),
        _ => return (Part::Value, rejected),
    };
    (part, Rejected { path, ..rejected })
}

/// The schemas that an event's records name.
fn named(writers: &Writers, event: &Event<'_>) -> BTreeSet<Reference> {
    if writers.is_bare(event) { BTreeSet::new() } else { writers.references(event) }
}

/// What is covered of one partition, while its records come.
#[derive(Default)]
struct Covered {
    delivered: Intervals,
    filtered: BTreeMap<Filtered, Intervals>,
    dead: Intervals,
    first: Option<Sample>,
    last: Option<Sample>,
}

impl Covered {
    #[inline]
    fn add(&mut self, record: &Record<'_>, fate: &Fate) {
        let offset = record.offset();
        let sample = Sample { offset, timestamp_ms: record.timestamp_ms() };
        if self.first.is_none_or(|first| offset < first.offset) {
            self.first = Some(sample);
        }
        if self.last.is_none_or(|last| offset > last.offset) {
            self.last = Some(sample);
        }
        self.delivered.push(offset);
        match fate {
            Fate::Row => {}
            Fate::Filtered(why) => self.filtered.entry(*why).or_default().push(offset),
            Fate::Dead(_) => self.dead.push(offset),
        }
    }

    fn finish(self, source: &SourceId, partition: &Partition<'_>, coverage: &mut Coverage) -> Result<(), Error> {
        // A partition without records is not covered.
        let (Some(first), Some(last)) = (self.first, self.last) else { return Ok(()) };
        let at = TopicPartition {
            source: source.clone(),
            topic: partition.topic().to_owned(),
            partition: partition.partition(),
        };
        let Self { delivered, filtered, dead, .. } = self;
        Ok(coverage.insert(at, PartitionCoverage { delivered, filtered, dead, first, last })?)
    }
}

/// The counts of a plan, from its coverage.
fn outcome(event: &Event<'_>, coverage: &Coverage) -> Outcome {
    let mut filtered: BTreeMap<Filtered, u64> = BTreeMap::new();
    let mut dead_letters = 0;
    for (_, covered) in coverage.iter() {
        dead_letters += covered.dead.count();
        for (why, offsets) in &covered.filtered {
            *filtered.entry(*why).or_default() += offsets.count();
        }
    }
    Outcome {
        records: event.len() as u64,
        duplicates_in_event: event.duplicates(),
        staged: Vec::new(),
        already_stored: false,
        dead_letters,
        dead_letter_keys: Vec::new(),
        filtered,
        records_with_unknown_fields: 0,
        response: Response::default(),
    }
}

/// The decoder's class in the words of stored dead letters. Both lists are closed, and this match keeps them equal.
const fn class(class: codec::Class) -> Class {
    match class {
        codec::Class::Truncated => Class::Truncated,
        codec::Class::TrailingBytes => Class::TrailingBytes,
        codec::Class::InvalidUtf8 => Class::InvalidUtf8,
        codec::Class::TooDeep => Class::TooDeep,
        codec::Class::TooLarge => Class::TooLarge,
        codec::Class::BadFraming => Class::BadFraming,
        codec::Class::BadChecksum => Class::BadChecksum,
        codec::Class::UnknownSchema => Class::UnknownSchema,
        codec::Class::IncompatibleSchema => Class::IncompatibleSchema,
        codec::Class::WrongType => Class::WrongType,
        codec::Class::OutOfRange => Class::OutOfRange,
        codec::Class::MissingRequired => Class::MissingRequired,
        codec::Class::Expectation => Class::Expectation,
        codec::Class::NullKey => Class::NullKey,
        codec::Class::AmbiguousName => Class::AmbiguousName,
        codec::Class::EmptyValue => Class::EmptyValue,
        codec::Class::Unroutable => Class::Unroutable,
        codec::Class::Late => Class::Late,
        codec::Class::Stale => Class::Stale,
    }
}
