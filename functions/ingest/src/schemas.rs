//! The schemas that records name, looked up in registries and compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use codec::framing::{Message, Reference};
use codec::payload::Schema;
use codec::written::Written;
use codec::{Class, Rejected};
use lru::LruCache;
use pipeline::resolved::{self, Format, Pipeline};
use registry::{Registries, Wanted};

use crate::Error;

/// Compiled schemas that are kept for events to come. A topic is written with a few, and each takes as much as some megabytes.
const KEPT_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(99);

/// Schemas that the records of one event may name. Whoever names more names at random, and each is asked for.
pub(crate) const NAMED_MAX: usize = 1000;

/// A version of a schema.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) written: Written,
    /// Its number in the registry, where that says one.
    pub(crate) number: Option<u32>,
}

/// What registries say of the schemas that an event names: each is there, or its records are dead letters.
pub(crate) type Known = BTreeMap<Reference, Result<Arc<Version>, Rejected>>;

/// Looks schemas up.
#[derive(Debug)]
pub(crate) struct Schemas {
    registries: Arc<Registries>,
    format: Format,
    compiled: Mutex<LruCache<Reference, Result<Arc<Version>, Rejected>>>,
}

impl Schemas {
    pub(crate) fn new(registries: Arc<Registries>, format: Format) -> Self {
        Self { registries, format, compiled: Mutex::new(LruCache::new(KEPT_MAX)) }
    }

    /// Those of them that are compiled already, and the others.
    pub(crate) fn remembered(&self, references: &BTreeSet<Reference>) -> (Known, BTreeSet<Reference>) {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut known, mut others) = (Known::new(), BTreeSet::new());
        for reference in references {
            match compiled.get(reference) {
                Some(found) => drop(known.insert(*reference, found.clone())),
                None => drop(others.insert(*reference)),
            }
        }
        (known, others)
    }

    /// All of them, of which some may have to be asked for. `is_unwrapped` is whether the mapping knows a registry.
    ///
    /// # Errors
    /// [`Error::NoRegistry`] where it does and we don't: all of its records would be dead letters for it.
    /// [`Error::Registries`] where a registry's failure says nothing of a schema, [`Error::NoAnswer`] when time is up. Nothing is
    /// known then, and the event comes again.
    pub(crate) async fn look_up(
        &self,
        references: &BTreeSet<Reference>,
        is_unwrapped: bool,
        within: Duration,
    ) -> Result<Known, Error> {
        let (mut known, others) = self.remembered(references);
        if others.is_empty() {
            return Ok(known);
        }
        if self.registries.is_empty() && is_unwrapped {
            let needs = "the mapping that hands these records over names schemas of one".to_owned();
            return Err(Error::NoRegistry { needs });
        }
        let wanted: BTreeSet<Wanted> = others.into_iter().map(Wanted::Named).collect();
        let answers = tokio::time::timeout(within, self.registries.schemas(wanted)).await;
        let late = |_| Error::NoAnswer { waited_ms: u64::try_from(within.as_millis()).unwrap_or(u64::MAX) };
        for (wanted, answer) in answers.map_err(late)?? {
            let Wanted::Named(reference) = wanted else { continue };
            let found = match answer {
                Ok(schema) => {
                    let version = Written::compile(&schema, self.format)
                        .map(|written| Arc::new(Version { written, number: schema.version }));
                    let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
                    compiled.put(reference, version.clone());
                    version
                }
                // It may be registered the moment after: nothing remembers this but the registries, for a while.
                Err(missing) => Err(unknown(missing.to_string())),
            };
            known.insert(reference, found);
        }
        Ok(known)
    }
}

/// A record whose schema nobody has.
pub(crate) fn unknown(message: String) -> Rejected {
    Rejected { class: Class::UnknownSchema, path: String::new(), message }
}

/// The pipeline's own schema: of a file, of its columns, or the newest version of a name.
///
/// # Errors
/// [`Error::Decode`] for a file's, [`Error::Registries`] where a registry can't be asked, [`Error::Schema`] where it has no such
/// schema, or one that can't be the pipeline's.
pub async fn own_schema(pipeline: &Pipeline, registries: &Registries) -> Result<Schema, Error> {
    let value = &pipeline.value;
    let resolved::Schema::Registered { name, message, .. } = &value.schema else {
        return Ok(Schema::of(pipeline)?);
    };
    let unusable = |why: String| Error::Schema { name: name.clone(), why };
    let newest = match registries.schema(&Wanted::Latest(name.clone())).await {
        Ok(newest) => newest,
        Err(missing @ registry::Error::NotFound { .. }) => return Err(unusable(missing.to_string())),
        Err(error) => return Err(error.into()),
    };
    let schema = Written::compile(&newest, value.format)
        .and_then(|written| written.schema(Message::Unsaid, message.as_deref()))
        .map_err(|rejected| unusable(rejected.message))?;
    Ok(schema)
}
