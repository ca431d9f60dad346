//! The schemas that records name, looked up in registries and compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use codec::columns::{Own, Reading};
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

/// Schemas that are asked for at once.
const ASKED_MAX: usize = 1000;

/// Schemas that the records of one event may be written with; those that nobody knows hide none. More are hardly a topic's.
const WRITTEN_MAX: usize = 1000;

/// The newest versions of a schema that are judged before there is an event. A schema that has more is not evolved, but generated.
const VERSIONS_MAX: usize = 100;

/// A schema that records name.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) written: Arc<Written>,
    /// Its number in the registry, where that says one.
    pub(crate) number: Option<u32>,
    /// What its records are read as, where that is not what those of the pipeline's own schema are.
    pub(crate) reading: Option<Arc<Reading>>,
}

/// What registries say of the schemas that an event names: each is there, or its records are dead letters.
pub(crate) type Known = BTreeMap<Reference, Result<Version, Rejected>>;

/// Looks schemas up.
#[derive(Debug)]
pub(crate) struct Schemas {
    registries: Arc<Registries>,
    format: Format,
    compiled: Mutex<LruCache<Reference, Result<Version, Rejected>>>,
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
    /// [`Error::Registries`] where a registry's failure says nothing of a schema. Nothing is known then, and the event comes again.
    pub(crate) async fn look_up(&self, references: &BTreeSet<Reference>, is_unwrapped: bool) -> Result<Known, Error> {
        let (mut known, others) = self.remembered(references);
        if others.is_empty() {
            return Ok(known);
        }
        if self.registries.is_empty() && is_unwrapped {
            let needs = "the mapping that hands these records over names schemas of one".to_owned();
            return Err(Error::NoRegistry { needs });
        }
        let mut others = others.into_iter().peekable();
        while others.peek().is_some() {
            let wanted: BTreeSet<Wanted> = others.by_ref().take(ASKED_MAX).map(Wanted::Named).collect();
            self.ask(wanted, &mut known).await?;
        }
        Ok(known)
    }

    async fn ask(&self, wanted: BTreeSet<Wanted>, known: &mut Known) -> Result<(), Error> {
        let mut written = known.values().filter(|found| found.is_ok()).count();
        for (wanted, answer) in self.registries.schemas(wanted).await? {
            let Wanted::Named(reference) = wanted else { continue };
            let found = match answer {
                Ok(_) if written >= WRITTEN_MAX => {
                    Err(unknown(format!("the records of its event are written with more than {WRITTEN_MAX} schemas")))
                }
                Ok(schema) => {
                    written += 1;
                    let version = Written::compile(&schema, self.format).map(|written| Version {
                        written: Arc::new(written),
                        number: schema.version,
                        reading: None,
                    });
                    let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
                    compiled.put(reference, version.clone());
                    version
                }
                // It may be registered the moment after: nothing remembers this but the registries, for a while.
                Err(missing) => Err(unknown(missing.to_string())),
            };
            known.insert(reference, found);
        }
        Ok(())
    }

    /// The versions that there are of a schema, as [`versions`] has them.
    pub(crate) async fn versions(&self, pipeline: &Pipeline, own: &Schema) -> Result<Vec<(u32, Schema)>, Error> {
        versions(pipeline, own, &self.registries).await
    }
}

/// A record whose schema nobody has.
pub(crate) fn unknown(message: String) -> Rejected {
    Rejected { class: Class::UnknownSchema, path: String::new(), message }
}

/// The pipeline's own schema: of a file, of its columns, or the newest version of a name, beside which are the others that its
/// registry lists.
///
/// # Errors
/// [`Error::Decode`] for a file's, [`Error::Registries`] where a registry can't be asked, [`Error::Schema`] where it has no such
/// schema, or one that can't be the pipeline's.
pub async fn own_schema(pipeline: &Pipeline, registries: &Registries) -> Result<Own, Error> {
    let value = &pipeline.value;
    let resolved::Schema::Registered { name, message, .. } = &value.schema else {
        return Ok(Own::alone(Schema::of(pipeline)?));
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
    let versions = versions(pipeline, &schema, registries).await?;
    Ok(Own::new(schema, versions))
}

/// The newest versions of the pipeline's schema that its registry lists, the newest first; none where it is in no registry. What can't
/// be used, or is another record's, is left out: whoever names it is told.
async fn versions(pipeline: &Pipeline, own: &Schema, registries: &Registries) -> Result<Vec<(u32, Schema)>, Error> {
    let resolved::Schema::Registered { name, .. } = &pipeline.value.schema else { return Ok(Vec::new()) };
    let listed = match registries.versions(name, VERSIONS_MAX).await {
        Ok(listed) => listed,
        Err(registry::Error::NotFound { .. }) => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let format = pipeline.value.format;
    let named = (format == Format::Protobuf).then(|| own.name());
    let usable = listed.into_iter().filter_map(|(number, version)| {
        let schema = Written::compile(&version, format).ok()?.schema(Message::Unsaid, named).ok()?;
        (schema.name() == own.name()).then_some((number, schema))
    });
    Ok(usable.collect())
}
