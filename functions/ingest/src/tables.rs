//! Where an event's rows go: to the pipeline's table, or each to the one that its record's route names.

use std::collections::HashMap;
use std::sync::Arc;

use codec::columns;
use codec::protobuf::Decoder;
use codec::routing::{self, Router};
use codec::texts::Texts;
use codec::{Class, Rejected};
use model::clock::Minute;
use model::coverage::Filtered;
use model::secret::Secret;
use pipeline::resolved::Pipeline;
use prost_reflect::MessageDescriptor;
use staging::object::TableRows;
use staging::record_columns;

use crate::Error;
use crate::event::Record;
use crate::ingest::TIMESTAMP_SOURCE;
use crate::plan::Fate;
use crate::target::Target;

/// Tables that one event's records may go to. A field that is different in every record was hardly meant to name tables, and
/// each of them would take a row group.
const TABLES_MAX: usize = 1000;
/// Tables whose buffers are kept for the next event.
const KEPT_MAX: usize = 100;
/// Rows that a table's buffers have room for at first, where there may be many tables.
const ROWS_EACH: usize = 64;

/// What makes the rows of a pipeline's tables.
#[derive(Debug)]
pub(crate) struct Making {
    pub(crate) message: MessageDescriptor,
    pub(crate) columns: columns::Tables,
    pub(crate) salt: Option<Secret>,
}

impl Making {
    fn target(&self, table: &str) -> Result<Target, Error> {
        let name = table.rsplit_once('.').map_or(table, |(_, name)| name);
        let columns = self.columns.of(name);
        let decoder = Decoder::salted(&self.message, columns, self.salt.as_ref())?;
        let texts = Texts::new(columns, self.salt.as_ref())?;
        // The other fields of a record are always there.
        let timestamp_required = columns.columns.iter().any(|c| c.required && c.source == TIMESTAMP_SOURCE);
        Ok(Target::new(table.to_owned(), decoder, texts, timestamp_required))
    }
}

/// The tables of one event at a time.
pub(crate) struct Tables {
    making: Arc<Making>,
    /// The only table's name, where there is one.
    only: Option<String>,
    router: Option<Router>,
    targets: Vec<Target>,
    by_name: HashMap<String, usize>,
    /// What comes of the event for each target, as far as it has rows.
    rows: Vec<Option<Rows>>,
    used: usize,
    minute: Minute,
    capacity: usize,
    /// Where the next records come from, and how many times that was said.
    from: (String, i32, usize),
}

/// Where one table's rows come from.
struct Rows {
    builder: record_columns::Builder,
    /// As `Tables::from` counts.
    started: usize,
}

impl Tables {
    pub(crate) fn new(making: Arc<Making>, pipeline: &Pipeline) -> Result<Self, Error> {
        let router = match &pipeline.route {
            None => None,
            Some(route) => Some(Router::new(route, &making.message, &making.columns)?),
        };
        let only = router.is_none().then(|| pipeline.table.name.to_string());
        let mut tables = Self {
            making,
            only,
            router,
            targets: Vec::new(),
            by_name: HashMap::new(),
            rows: Vec::new(),
            used: 0,
            minute: model::clock::Timestamp::from_micros(0).minute(),
            capacity: 0,
            from: (String::new(), 0, 0),
        };
        // What can't be made is found before there is an event.
        match tables.only.clone() {
            Some(only) => drop(tables.target(&only)?),
            None => drop(tables.making.target("")?),
        }
        Ok(tables)
    }

    /// Begins an event of so many records.
    pub(crate) fn begin(&mut self, minute: Minute, records: usize) -> Result<(), Error> {
        if self.targets.len() > KEPT_MAX {
            self.targets.clear();
            self.by_name.clear();
        }
        self.rows.clear();
        self.rows.resize_with(self.targets.len(), || None);
        self.used = 0;
        self.minute = minute;
        self.from.2 = 0;
        self.capacity = if self.only.is_some() { records } else { ROWS_EACH.min(records) };
        // The only table is in every object, if without a row.
        if let Some(only) = self.only.clone() {
            let only = self.target(&only)?;
            self.use_target(only);
        }
        Ok(())
    }

    /// Says where the next records come from.
    pub(crate) fn start(&mut self, topic: &str, partition: i32) {
        self.from.0.clear();
        self.from.0.push_str(topic);
        self.from.1 = partition;
        self.from.2 += 1;
        if self.only.is_some() {
            self.use_target(0);
        }
    }

    /// Makes a record's rows.
    ///
    /// # Errors
    /// [`Error::Decode`] when a table's columns can't be filled from the message; never for a bad record.
    #[inline]
    pub(crate) fn take(&mut self, record: &Record<'_>) -> Result<Fate, Error> {
        let number = match self.only {
            Some(_) => 0,
            None => match self.routed(record)? {
                Ok(number) => number,
                Err(fate) => return Ok(fate),
            },
        };
        Ok(match (self.targets.get_mut(number), self.rows.get_mut(number)) {
            (Some(target), Some(Some(rows))) => target.take(record, &mut rows.builder),
            // Each target is used before.
            _ => Fate::Filtered(Filtered::Filter),
        })
    }

    /// The rows of each table that has some, in the order in which the tables were met.
    pub(crate) fn finish(&mut self) -> Result<Vec<TableRows>, Error> {
        let mut tables = Vec::with_capacity(self.used);
        for (target, rows) in self.targets.iter_mut().zip(&mut self.rows) {
            let Some(rows) = rows.take() else { continue };
            let batch = target.batch(rows.builder)?;
            if batch.num_rows() > 0 || self.only.is_some() {
                tables.push(TableRows { table: target.table.clone(), batch });
            }
        }
        // In what order targets are kept depends on the events before.
        tables.sort_by(|a, b| a.table.cmp(&b.table));
        Ok(tables)
    }

    /// The target of the table that a record goes to, or what becomes of it instead.
    fn routed(&mut self, record: &Record<'_>) -> Result<Result<usize, Fate>, Error> {
        let Some(router) = &mut self.router else { return Ok(Ok(0)) };
        // A tombstone makes no row in any table.
        let Some(value) = record.value() else { return Ok(Err(Fate::Filtered(Filtered::Tombstone))) };
        let name = match router.name(Some(record.topic()), &record.headers(), value) {
            Ok(name) => name,
            Err(rejected) => return Ok(Err(Fate::Dead(rejected))),
        };
        let number = match self.by_name.get(name) {
            Some(number) => *number,
            None => {
                if let Err(rejected) = routing::check(name) {
                    return Ok(Err(Fate::Dead(rejected)));
                }
                let name = name.to_owned();
                self.target(&name)?
            }
        };
        let is_new = self.rows.get(number).is_none_or(Option::is_none);
        if is_new && self.used == TABLES_MAX {
            let message = format!("the records of its event go to more than {TABLES_MAX} tables");
            return Ok(Err(Fate::Dead(Rejected { class: Class::Unroutable, path: String::new(), message })));
        }
        self.use_target(number);
        Ok(Ok(number))
    }

    /// The target of a table, which is made where it is met first.
    fn target(&mut self, name: &str) -> Result<usize, Error> {
        if let Some(number) = self.by_name.get(name) {
            return Ok(*number);
        }
        let number = self.targets.len();
        self.targets.push(self.making.target(name)?);
        self.rows.push(None);
        self.by_name.insert(name.to_owned(), number);
        Ok(number)
    }

    /// Makes sure that a target's rows are said to come from where the records do.
    fn use_target(&mut self, number: usize) {
        let Some(rows) = self.rows.get_mut(number) else { return };
        let rows = rows.get_or_insert_with(|| {
            self.used += 1;
            Rows { builder: record_columns::Builder::new(self.minute, self.capacity), started: 0 }
        });
        let (topic, partition, times) = &self.from;
        if rows.started != *times {
            rows.builder.start(topic, *partition);
            rows.started = *times;
        }
    }
}
