//! The versions of the schema that records were met with, and the columns of them all.

use std::collections::HashMap;
use std::sync::Arc;

use codec::Rejected;
use codec::columns;
use codec::framing::{Message, Reference};
use pipeline::resolved::{Format, Pipeline, UnknownFields};

use crate::schemas::Known;
use crate::tables::Making;

/// Versions that are remembered as met. One that is forgotten is looked at again, and brings nothing new.
const MET_MAX: usize = 1000;

/// What rows are made by, as more versions of the schema are met. Columns only come.
pub(crate) struct Versions {
    making: Arc<Making>,
    /// The schemas that were looked at, and why those can't be read that can't.
    met: HashMap<Reference, Option<Rejected>>,
}

impl Versions {
    pub(crate) fn new(making: Arc<Making>) -> Self {
        Self { making, met: HashMap::new() }
    }

    /// See [`crate::Ingest`].
    pub(crate) fn meet(&mut self, pipeline: &Pipeline, known: &mut Known) -> Arc<Making> {
        if pipeline.table.unknown_fields != UnknownFields::Add {
            return Arc::clone(&self.making);
        }
        if self.met.len() > MET_MAX {
            self.met.clear();
        }
        for (reference, found) in known {
            let Ok(version) = found else { continue };
            if !self.met.contains_key(reference) {
                let named = (pipeline.value.format == Format::Protobuf).then(|| self.making.reader.name());
                // What is wrong with the schema as a whole, each of its records says.
                let Ok(schema) = version.written.schema(Message::Unsaid, named) else { continue };
                let united = columns::united(pipeline, &self.making.reader, &self.making.columns, &schema);
                let rejected = match united {
                    Ok(None) => None,
                    Ok(Some((reader, columns))) => {
                        self.making = Arc::new(self.making.with(reader, columns));
                        None
                    }
                    Err(rejected) => Some(rejected),
                };
                self.met.insert(*reference, rejected);
            }
            if let Some(Some(rejected)) = self.met.get(reference) {
                *found = Err(rejected.clone());
            }
        }
        Arc::clone(&self.making)
    }
}
