//! The versions of the schema that records were met with, and the columns of them all.

use std::collections::HashMap;
use std::sync::Arc;

use codec::Rejected;
use codec::columns::{self, Reading};
use codec::framing::{Message, Reference};
use codec::payload::Schema;
use pipeline::resolved::{self, Format, Pipeline, UnknownFields};

use crate::schemas::{Known, Version};
use crate::tables::Making;

/// Versions that are remembered as met. One that is forgotten is looked at again, and brings nothing new.
const MET_MAX: usize = 1000;

/// What rows are made by, as more versions of the schema are met. Columns only come.
pub(crate) struct Versions {
    making: Arc<Making>,
    judged: columns::Versions,
    /// The schemas that were looked at, and why those can't be read that can't.
    met: HashMap<Reference, Result<Arc<Reading>, Rejected>>,
}

impl Versions {
    pub(crate) fn new(making: Arc<Making>, judged: columns::Versions) -> Self {
        Self { making, judged, met: HashMap::new() }
    }

    /// The pipeline's own schema, where its registry may list versions of it that have no verdict: some of those that an event names.
    pub(crate) fn unjudged(&self, pipeline: &Pipeline, known: &Known) -> Option<Schema> {
        let is_listed = matches!(pipeline.value.schema, resolved::Schema::Registered { .. });
        if !is_listed || pipeline.table.unknown_fields != UnknownFields::Add {
            return None;
        }
        let is_new = |(reference, found): (&Reference, &Result<Version, Rejected>)| {
            let Ok(version) = found else { return false };
            !self.met.contains_key(reference)
                && self.schema(pipeline, version).is_some_and(|schema| !self.judged.is_judged(&schema))
        };
        known.iter().any(is_new).then(|| self.making.schema.clone())
    }

    /// Judges versions that were registered since, in their order: the newest comes first.
    pub(crate) fn judge(&mut self, pipeline: &Pipeline, listed: &[(u32, Schema)]) {
        for (_, version) in listed.iter().rev() {
            // Its records say so.
            drop(self.judged.judge(pipeline, version));
        }
    }

    /// See [`crate::Ingest`].
    pub(crate) fn meet(&mut self, pipeline: &Pipeline, known: &mut Known) -> Arc<Making> {
        if self.met.len() > MET_MAX {
            self.met.clear();
        }
        for (reference, found) in known {
            let Ok(version) = found else { continue };
            if !self.met.contains_key(reference) {
                // What is wrong with the schema as a whole, each of its records says.
                let Some(schema) = self.schema(pipeline, version) else { continue };
                let verdict = self.judged.judge(pipeline, &schema).and_then(|reading| {
                    if let Some(making) = self.making.with(&reading, &self.judged)? {
                        self.making = Arc::new(making);
                    }
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
        Arc::clone(&self.making)
    }

    fn schema(&self, pipeline: &Pipeline, version: &Version) -> Option<Schema> {
        let named = (pipeline.value.format == Format::Protobuf).then(|| self.making.own.reader.name());
        version.written.schema(Message::Unsaid, named).ok()
    }
}
