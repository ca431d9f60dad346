//! What is staged: two listing passes, and every object's footer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use futures::stream::{self, StreamExt};
use model::clock::{Minute, Timestamp};
use model::coordinate::TopicPartition;
use model::coverage::Coverage;
use model::id::PipelineId;
use model::ledger::Ledger;
use model::mutation::{self, Mutation};
use model::verdict::{self, Staged};
use staging::footer::Footer;
use staging::list::{self, Listed, Passes};
use staging::object::{self, Object};
use staging::store::{self, Store};

use crate::error::Error;

/// Footers that are read at once. One takes about 20 milliseconds of waiting from an object store, and 64 KiB of memory.
pub(crate) const FOOTERS_AT_ONCE: usize = 32;

/// A staged object with its footer.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its key.
    pub key: String,
    /// The minute in its key.
    pub minute: Minute,
    /// Bytes.
    pub size: u64,
    /// What it says of itself, its partitions as the ledger counts them.
    pub footer: Footer,
    /// How much of it may be used now: all when absent.
    pub limits: Option<BTreeMap<TopicPartition, i64>>,
}

/// Everything that a plan is made from, beside the table.
#[derive(Clone, Debug)]
pub struct Intake {
    /// Objects that may be used now, in order of their keys.
    pub objects: Vec<Found>,
    /// Objects that only the second pass saw and of which nothing may be used yet.
    pub later: Vec<Minute>,
    /// Objects that can't be read: key, minute, reason.
    pub quarantined: Vec<(String, Minute, String)>,
    /// Keys under the prefix that are no staged objects.
    pub foreign: Vec<String>,
    /// The store's time before the first page was read.
    pub date: Timestamp,
    /// Whether the mapping may pass records over.
    pub may_skip: bool,
}

impl Intake {
    /// Of objects that were found before, at some time of the store's.
    pub(crate) fn of(objects: Vec<Found>, date: Timestamp) -> Self {
        let (later, quarantined, foreign) = <_>::default();
        Self { objects, later, quarantined, foreign, date, may_skip: false }
    }

    /// Whether an offset missing between objects may still come: from an object that can't be read, or by another way
    /// than the mapping.
    pub(crate) fn open_holes(&self) -> bool {
        self.may_skip || !self.quarantined.is_empty()
    }

    /// The object whose word on columns counts: of the newest pipeline file and schema.
    pub(crate) fn newest(&self) -> Option<&Found> {
        self.objects.iter().max_by_key(|found| (found.footer.precedence(), &found.key))
    }
}

impl Found {
    /// The object as the protocol's judgement sees it.
    #[must_use]
    pub fn staged(&self) -> Staged<'_> {
        Staged {
            key: &self.key,
            precedence: self.footer.precedence(),
            origin: self.footer.origin,
            coverage: &self.footer.coverage,
            limits: self.limits.clone(),
        }
    }
}

/// What the tables of one run share: what is listed, and the footers that were read for one of them.
#[derive(Debug)]
pub(crate) struct Shared {
    /// When the listing was asked for, by this host's clock.
    pub(crate) asked: Timestamp,
    passes: Passes,
    /// By key, those that could be read.
    footers: Mutex<BTreeMap<String, Footer>>,
}

impl Shared {
    /// Lists what is staged.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn list(
        store: &dyn Store,
        pipeline: &PipelineId,
        low_minute: Option<Minute>,
        asked: Timestamp,
    ) -> Result<Self, Error> {
        let passes = list::two_passes(store, pipeline, low_minute).await?;
        Ok(Self { asked, passes, footers: Mutex::default() })
    }

    /// Every object that was listed, in either pass.
    pub(crate) fn objects(&self) -> BTreeSet<&Listed> {
        self.passes.first.objects.iter().chain(&self.passes.second.objects).collect()
    }

    /// The store's time when the listing began.
    pub(crate) const fn date(&self) -> Timestamp {
        self.passes.first.date
    }

    /// The passes as they would be from a minute on.
    fn since(&self, low_minute: Option<Minute>) -> Passes {
        let mut passes = self.passes.clone();
        if let Some(low_minute) = low_minute {
            for pass in [&mut passes.first, &mut passes.second] {
                pass.objects.retain(|listed| listed.key.minute >= low_minute);
            }
        }
        passes
    }

    fn known(&self, key: &str) -> Option<Footer> {
        self.footers.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn keep(&self, key: &str, footer: &Footer) {
        self.footers.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), footer.clone());
    }

    /// An object's footer, read once.
    async fn footer(&self, store: &dyn Store, key: &str, size: u64) -> Result<Footer, object::Error> {
        if let Some(footer) = self.known(key) {
            return Ok(footer);
        }
        let footer = Object::read_footer(store, key, size).await?;
        self.keep(key, &footer);
        Ok(footer)
    }

    /// The tables that some objects have rows for. What can't be read is passed over: whoever uses it will say so.
    ///
    /// # Errors
    /// When the store fails.
    pub(crate) async fn tables(
        &self,
        store: &dyn Store,
        objects: impl IntoIterator<Item = Listed>,
    ) -> Result<BTreeSet<String>, Error> {
        let mut tables = BTreeSet::new();
        let mut footers = stream::iter(objects)
            .map(|listed| async move { self.footer(store, &listed.key.to_string(), listed.size).await })
            .buffered(FOOTERS_AT_ONCE);
        while let Some(footer) = footers.next().await {
            match footer {
                Ok(footer) => tables.extend(footer.tables.into_iter().filter(|t| t.rows > 0).map(|t| t.name)),
                Err(object::Error::Store(error)) if !error.is_not_found() => return Err(error.into()),
                Err(_) => {}
            }
        }
        Ok(tables)
    }
}

/// Lists a pipeline's staged objects from a minute on and reads their footers. Those of `folded` are settled whole and left
/// out; those of `damaged` are known to be unreadable, whatever their footers say. The ledger says which topics began anew.
/// With what is `shared` nothing is listed again, and no footer read twice.
pub(crate) async fn take(
    store: &dyn Store,
    pipeline: &PipelineId,
    low_minute: Option<Minute>,
    folded: &BTreeSet<String>,
    damaged: &BTreeMap<String, String>,
    ledger: Option<&Ledger>,
    shared: Option<&Shared>,
) -> Result<Intake, Error> {
    let mut passes = match shared {
        Some(shared) => shared.since(low_minute),
        None => list::two_passes(store, pipeline, low_minute).await?,
    };
    for pass in [&mut passes.first, &mut passes.second] {
        pass.objects.retain(|o| !folded.contains(&o.key.to_string()));
    }
    let date = passes.first.date;
    let known: BTreeSet<String> = passes.first.objects.iter().map(|o| o.key.to_string()).collect();
    let mut intake = Intake { foreign: passes.first.foreign, ..Intake::of(Vec::new(), date) };
    let opening = Opening { store, pipeline, damaged, ledger, shared };
    let first = opening.all(passes.first.objects, &mut intake.quarantined).await?;
    let second: Vec<Listed> =
        passes.second.objects.into_iter().filter(|o| !known.contains(&o.key.to_string())).collect();
    let second = opening.all(second, &mut intake.quarantined).await?;

    let coverages = |found: &[Found]| -> Vec<Coverage> { found.iter().map(|f| f.footer.coverage.clone()).collect() };
    let (first_coverage, second_coverage) = (coverages(&first), coverages(&second));
    let limits =
        verdict::limits(&first_coverage.iter().collect::<Vec<_>>(), &second_coverage.iter().collect::<Vec<_>>());
    intake.objects = first;
    for (mut found, limit) in second.into_iter().zip(limits) {
        if mutation::on(Mutation::SecondPassWhole) {
            intake.objects.push(found);
            continue;
        }
        match limit {
            None => intake.later.push(found.minute),
            Some(limit) => {
                found.limits = Some(limit);
                intake.objects.push(found);
            }
        }
    }
    intake.objects.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(intake)
}

/// Where the table's ledger counts a partition of an object: a topic that was made again counts under its epoch.
fn counted(ledger: Option<&Ledger>, at: &TopicPartition, minute: Minute) -> TopicPartition {
    ledger.map_or_else(|| at.clone(), |ledger| ledger.counted(at, minute))
}

/// What opening listed objects takes.
#[derive(Clone, Copy)]
struct Opening<'a> {
    store: &'a dyn Store,
    pipeline: &'a PipelineId,
    damaged: &'a BTreeMap<String, String>,
    ledger: Option<&'a Ledger>,
    shared: Option<&'a Shared>,
}

impl Opening<'_> {
    async fn footer(self, key: &str, size: u64) -> Result<Footer, object::Error> {
        match self.shared {
            Some(shared) => shared.footer(self.store, key, size).await,
            None => Object::read_footer(self.store, key, size).await,
        }
    }

    async fn all(
        self,
        listed: Vec<Listed>,
        quarantined: &mut Vec<(String, Minute, String)>,
    ) -> Result<Vec<Found>, Error> {
        let Opening { pipeline, damaged, ledger, .. } = self;
        let mut found = Vec::with_capacity(listed.len());
        // In the order listed, whichever answers first: of several failures the first one's is told.
        let mut footers = stream::iter(listed)
            .map(|object| async move {
                let key = object.key.to_string();
                let footer = match damaged.get(&key) {
                    Some(why) => Err(why),
                    None => Ok(self.footer(&key, object.size).await),
                };
                (key, object, footer)
            })
            .buffered(FOOTERS_AT_ONCE);
        while let Some((key, object, footer)) = footers.next().await {
            let (minute, hash) = (object.key.minute, object.key.hash);
            let footer = match footer {
                Ok(footer) => footer,
                Err(why) => {
                    quarantined.push((key, minute, why.clone()));
                    continue;
                }
            };
            match footer {
                Ok(footer) if footer.pipeline_id != *pipeline => {
                    let why = format!("it says that it belongs to pipeline `{}`", footer.pipeline_id);
                    quarantined.push((key, minute, why));
                }
                // Its own rows were overwritten with those of another, which would be settled in their place.
                Ok(footer) if footer.minute != minute || footer.hash.is_some_and(|own| own != hash) => {
                    let own = footer.hash.map_or_else(String::new, |own| format!(" as {own}"));
                    let why =
                        format!("it was written in minute {}{own}: it is a copy of another object", footer.minute);
                    quarantined.push((key, minute, why));
                }
                Ok(mut footer) => match footer.coverage.renamed(|at| counted(ledger, at, minute)) {
                    Ok(coverage) => {
                        footer.coverage = coverage;
                        found.push(Found { key, minute, size: object.size, footer, limits: None });
                    }
                    Err(fault) => quarantined.push((key, minute, fault.to_string())),
                },
                Err(error @ object::Error::Corrupt { .. }) => quarantined.push((key, minute, error.to_string())),
                // Maintenance removes settled objects while we list; one that is gone was settled.
                Err(object::Error::Store(store::Error::NotFound { .. })) => {}
                Err(object::Error::Store(error)) => return Err(error.into()),
                Err(source) => return Err(Error::object(key, source)),
            }
        }
        Ok(found)
    }
}
