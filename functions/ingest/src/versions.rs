//! The versions of the schemas that records were met with, values' and keys', and the columns of them all.

use std::collections::HashMap;
use std::sync::Arc;

use codec::Rejected;
use codec::columns::{self, Reading, United};
use codec::framing::{Message, Reference};
use codec::payload::Schema;
use pipeline::resolved::{self, Format, Pipeline, UnknownFields};

use crate::schemas::{Known, Version};
use crate::tables::Making;

/// Versions that are remembered as met. One that is forgotten is looked at again, and brings nothing new.
const MET_MAX: usize = 1000;

/// What rows are made by, as more versions of the schemas are met. Columns only come.
pub(crate) struct Versions {
    making: Arc<Making>,
    values: Met,
    keys: Option<Met>,
}

/// The versions of one schema.
pub(crate) struct Met {
    /// The pipeline that reads them; of keys, that of keys in the place of values.
    pipeline: Arc<Pipeline>,
    /// The pipeline's own.
    own: Schema,
    judged: columns::Versions,
    /// The schemas that were looked at, and why those can't be read that can't.
    met: HashMap<Reference, Result<Arc<Reading>, Rejected>>,
}

impl Met {
    pub(crate) fn new(pipeline: Arc<Pipeline>, own: Schema, judged: columns::Versions) -> Self {
        Self { pipeline, own, judged, met: HashMap::new() }
    }

    /// What records of the pipeline's own schema are read as.
    pub(crate) const fn own(&self) -> &Arc<Reading> {
        self.judged.own()
    }

    /// The columns of the pipeline's own schema, with what else the table may know them by, which other versions tell.
    pub(crate) fn united(&self) -> United {
        let mut united = United::of(self.own());
        self.judged.name(&mut united);
        united
    }

    fn adds(&self) -> bool {
        self.pipeline.table.unknown_fields == UnknownFields::Add
    }

    /// The pipeline's own schema, where its registry may list versions of it that have no verdict: some of those that an event names.
    pub(crate) fn unjudged(&self, known: &Known) -> Option<Schema> {
        let is_listed = matches!(self.pipeline.value.schema, resolved::Schema::Registered { .. });
        if !is_listed || !self.adds() {
            return None;
        }
        let is_new = |(reference, found): (&Reference, &Result<Version, Rejected>)| {
            let Ok(version) = found else { return false };
            !self.met.contains_key(reference)
                && self.schema(version).is_some_and(|schema| !self.judged.is_judged(&schema))
        };
        known.iter().any(is_new).then(|| self.own.clone())
    }

    /// Judges versions that were registered since, in their order: the newest comes first.
    pub(crate) fn judge(&mut self, listed: &[(u32, Schema)]) {
        for (_, version) in listed.iter().rev() {
            // Its records say so.
            drop(self.judged.judge(&self.pipeline, version));
        }
    }

    /// Gives what is known its readings, and asks `take` to take each in that was not met before. A schema whose fields can't be columns
    /// is taken out: its records are dead letters.
    fn meet(&mut self, known: &mut Known, mut take: impl FnMut(&Reading, &columns::Versions) -> Result<(), Rejected>) {
        if self.met.len() > MET_MAX {
            self.met.clear();
        }
        for (reference, found) in known {
            let Ok(version) = found else { continue };
            if !self.met.contains_key(reference) {
                // What is wrong with the schema as a whole, each of its records says.
                let Some(schema) = self.schema(version) else { continue };
                let verdict = self.judged.judge(&self.pipeline, &schema).and_then(|reading| {
                    take(&reading, &self.judged)?;
                    Ok(reading)
                });
                self.met.insert(*reference, verdict);
            }
            match self.met.get(reference) {
                Some(Ok(reading)) => version.reading = Some(Arc::clone(reading)),
                Some(Err(rejected)) => *found = Err(rejected.clone()),
                None => {}
            }
        }
    }

    fn schema(&self, version: &Version) -> Option<Schema> {
        let named = (self.pipeline.value.format == Format::Protobuf).then(|| self.judged.own().reader.name());
        version.written.schema(Message::Unsaid, named).ok()
    }
}

impl Versions {
    pub(crate) const fn new(making: Arc<Making>, values: Met, keys: Option<Met>) -> Self {
        Self { making, values, keys }
    }

    pub(crate) const fn values(&mut self) -> &mut Met {
        &mut self.values
    }

    pub(crate) const fn keys(&mut self) -> Option<&mut Met> {
        self.keys.as_mut()
    }

    /// See [`crate::Ingest`].
    pub(crate) fn meet(&mut self, known: &mut Known, known_keys: &mut Known) -> Arc<Making> {
        let Self { making, values, keys } = self;
        values.meet(known, |reading, judged| {
            if let Some(more) = making.with(reading, judged)? {
                *making = Arc::new(more);
            }
            Ok(())
        });
        if let Some(keys) = keys {
            keys.meet(known_keys, |reading, judged| {
                if let Some(more) = making.with_key(reading, judged)? {
                    *making = Arc::new(more);
                }
                Ok(())
            });
        }
        Arc::clone(making)
    }
}
