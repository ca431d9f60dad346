//! Several registries as one, with a memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codec::framing::Reference;
use codec::schema::Registered;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use lru::LruCache;
use model::clock::{Clock, Timestamp};
use tokio::sync::{OnceCell, Semaphore};

use crate::{Error, Source, Wanted};

/// How registries are asked, and how much is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most answers that are remembered.
    pub answers_max: NonZeroUsize,
    /// The most bytes of schema texts that are remembered.
    pub text_bytes_max: usize,
    /// How often a schema is asked for that no registry knows: it may be on its way.
    pub tries: u32,
    /// How long is waited between these.
    pub pause: Duration,
    /// How many schemas are being asked for at a time; those that wait for another try are not.
    pub at_once: usize,
    /// How long one registry may take for one answer, what the schema refers to included.
    pub answer_within: Duration,
    /// How long it is remembered that there is no such schema. Short: whoever registers it now writes with it next.
    pub missing_for: Duration,
    /// How long the newest version of a name is taken for the newest.
    pub latest_for: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            answers_max: NonZeroUsize::MIN.saturating_add(999),
            text_bytes_max: 64 << 20,
            tries: 3,
            pause: Duration::from_millis(500),
            at_once: 16,
            answer_within: Duration::from_secs(10),
            missing_for: Duration::from_secs(10),
            latest_for: Duration::from_secs(60),
        }
    }
}

/// From how many look-ups on those that nobody waits for any more are cleared away.
const GIVEN_UP_MAX: usize = 64;

/// A schema, or why there is none.
pub type Answer = Result<Arc<Registered>, Error>;

/// Registries, tried in order.
///
/// - A registry that does not know the schema passes the question on.
/// - A number or a name means another schema in another registry. Where one can't answer, the next isn't asked: the
///   failure is the answer.
/// - A UUID, a GUID or a fingerprint means the same schema everywhere. There the next is asked as well, and the failure is
///   the answer only if no other knows the schema.
/// - "No such schema" is the answer once every registry said so, `tries` times.
///
/// What a record's name means is remembered until room is needed; a failure never is.
#[derive(Debug)]
pub struct Registries {
    sources: Vec<Arc<dyn Source>>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    asking: Semaphore,
    memory: Mutex<Memory>,
}

#[derive(Debug)]
struct Memory {
    answers: LruCache<Wanted, Remembered>,
    text_bytes: usize,
    /// What is being asked, by whoever came first; others wait for the same answer.
    under_way: HashMap<Wanted, Arc<OnceCell<Answer>>>,
}

#[derive(Debug)]
struct Remembered {
    answer: Answer,
    text_bytes: usize,
    until: Option<Timestamp>,
}

impl Registries {
    /// Over sources, the first one first.
    #[must_use]
    pub fn new(sources: Vec<Arc<dyn Source>>, clock: Arc<dyn Clock>, limits: Limits) -> Self {
        let memory = Memory { answers: LruCache::new(limits.answers_max), text_bytes: 0, under_way: HashMap::new() };
        let asking = Semaphore::new(limits.at_once.clamp(1, Semaphore::MAX_PERMITS));
        Self { sources, clock, limits, asking, memory: Mutex::new(memory) }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// A schema.
    ///
    /// # Errors
    /// [`Error::NotFound`] as above; every other error says nothing of the schema.
    pub async fn schema(&self, wanted: &Wanted) -> Answer {
        let cell = {
            let mut memory = self.memory();
            if let Some(known) = memory.recall(wanted, self.clock.now()) {
                return known;
            }
            memory.begin(wanted)
        };
        // Whoever asks may be given up: then the next of those who wait asks.
        let answer = cell
            .get_or_init(|| {
                // Boxed, for it holds the futures of a whole exchange.
                let asked: Pin<Box<dyn Future<Output = Answer> + Send + '_>> = Box::pin(self.ask(wanted));
                asked
            })
            .await
            .clone();
        let mut memory = self.memory();
        if memory.under_way.get(wanted).is_some_and(|other| Arc::ptr_eq(other, &cell)) {
            memory.under_way.remove(wanted);
            memory.remember(wanted, &answer, self.clock.now(), &self.limits);
        }
        answer
    }

    /// The schemas that the records of a batch name, several looked up at once. Those that no registry knows are there with
    /// [`Error::NotFound`].
    ///
    /// # Errors
    /// The first error that says nothing of a schema: the batch fails as a whole, and comes again.
    pub async fn schemas(&self, wanted: BTreeSet<Wanted>) -> Result<BTreeMap<Wanted, Answer>, Error> {
        let count = wanted.len();
        let answers = stream::iter(wanted).map(|wanted| async move {
            match self.schema(&wanted).await {
                answer @ (Ok(_) | Err(Error::NotFound { .. })) => Ok((wanted, answer)),
                Err(error) => Err(error),
            }
        });
        // All of them under way: a batch of names that nobody knows waits for its tries once, and not one after the other.
        answers.buffer_unordered(count.max(1)).try_collect().await
    }

    /// The newest versions of a name, the newest first and no more than `most`, each with its number. They are those of the first
    /// registry that knows the name; what was deleted meanwhile is left out.
    ///
    /// # Errors
    /// [`Error::NotFound`] where no registry knows the name; every other error says nothing of it.
    pub async fn versions(&self, name: &str, most: usize) -> Result<Vec<(u32, Arc<Registered>)>, Error> {
        let latest = Wanted::Latest(name.to_owned());
        let mut asked = Vec::new();
        for source in self.sources.iter().filter(|source| source.keeps(&latest)) {
            asked.push(source.name());
            let answer = tokio::time::timeout(self.limits.answer_within, source.versions(name)).await;
            let mut numbers = match answer {
                Ok(Ok(numbers)) => numbers,
                Ok(Err(Error::NotFound { .. })) => continue,
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(self.timed_out(source.as_ref(), &latest)),
            };
            numbers.sort_unstable_by(|a, b| b.cmp(a));
            numbers.dedup();
            let wanted = numbers.into_iter().take(most).map(|number| Wanted::Version(name.to_owned(), number));
            let answers = self.schemas(wanted.collect()).await?;
            let found = answers.into_iter().rev().filter_map(|(wanted, answer)| match wanted {
                Wanted::Version(_, number) => Some((number, answer.ok()?)),
                Wanted::Named(_) | Wanted::Latest(_) => None,
            });
            return Ok(found.collect());
        }
        Err(not_found(&latest, &asked))
    }

    fn timed_out(&self, source: &dyn Source, wanted: &Wanted) -> Error {
        Error::TimedOut {
            registry: source.name().to_owned(),
            wanted: wanted.clone(),
            waited_ms: u64::try_from(self.limits.answer_within.as_millis()).unwrap_or(u64::MAX),
        }
    }

    async fn ask(&self, wanted: &Wanted) -> Answer {
        if !self.sources.iter().any(|source| source.keeps(wanted)) {
            return Err(not_found(wanted, &[]));
        }
        let mut missing = None;
        for attempt in 0..self.limits.tries.max(1) {
            if attempt > 0 {
                tokio::time::sleep(self.limits.pause).await;
            }
            let asked = {
                // Never closed.
                let _permit = self.asking.acquire().await;
                self.ask_each(wanted).await
            };
            match asked {
                Err(error @ Error::NotFound { .. }) => missing = Some(error),
                other => return other,
            }
        }
        Err(missing.unwrap_or_else(|| not_found(wanted, &[])))
    }

    async fn ask_each(&self, wanted: &Wanted) -> Answer {
        let same_everywhere = match wanted {
            Wanted::Named(Reference::ConfluentId(_)) | Wanted::Latest(_) | Wanted::Version(..) => false,
            Wanted::Named(_) => true,
        };
        let mut asked = Vec::new();
        let mut failure = None;
        for source in self.sources.iter().filter(|source| source.keeps(wanted)) {
            asked.push(source.name());
            let answer = tokio::time::timeout(self.limits.answer_within, source.schema(wanted)).await;
            let error = match answer {
                Ok(Ok(schema)) => return Ok(Arc::new(schema)),
                Ok(Err(Error::NotFound { .. })) => continue,
                Ok(Err(error)) => error,
                Err(_) => self.timed_out(source.as_ref(), wanted),
            };
            if !same_everywhere {
                return Err(error);
            }
            failure.get_or_insert(error);
        }
        Err(failure.unwrap_or_else(|| not_found(wanted, &asked)))
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_found(wanted: &Wanted, asked: &[&str]) -> Error {
    let registries = match asked {
        [] => "any registry: none of those named keeps schemas by it".to_owned(),
        [one] => format!("the registry `{one}`"),
        several => format!("the registries `{}`", several.join("`, `")),
    };
    Error::NotFound { registries, wanted: wanted.clone() }
}

impl Memory {
    fn recall(&mut self, wanted: &Wanted, now: Timestamp) -> Option<Answer> {
        match self.answers.get(wanted) {
            Some(known) if known.until.is_none_or(|until| now < until) => Some(known.answer.clone()),
            Some(_) => {
                self.forget(wanted);
                None
            }
            None => None,
        }
    }

    /// What is under way for a schema, begun or joined.
    fn begin(&mut self, wanted: &Wanted) -> Arc<OnceCell<Answer>> {
        if self.under_way.len() >= GIVEN_UP_MAX {
            self.under_way.retain(|_, cell| Arc::strong_count(cell) > 1);
        }
        Arc::clone(self.under_way.entry(wanted.clone()).or_default())
    }

    fn remember(&mut self, wanted: &Wanted, answer: &Answer, now: Timestamp, limits: &Limits) {
        let lasts = match (answer, wanted) {
            (Ok(_), Wanted::Named(_) | Wanted::Version(..)) => None,
            (Ok(_), Wanted::Latest(_)) => Some(limits.latest_for),
            (Err(Error::NotFound { .. }), _) => Some(limits.missing_for),
            (Err(_), _) => return,
        };
        let until = lasts.map(|lasts| now.plus_micros(i64::try_from(lasts.as_micros()).unwrap_or(i64::MAX)));
        let text_bytes = answer.as_ref().map_or(0, |schema| {
            schema.imports.iter().map(|import| import.name.len() + import.text.len()).sum::<usize>() + schema.text.len()
        });
        if text_bytes > limits.text_bytes_max {
            return;
        }
        self.forget(wanted);
        while self.text_bytes + text_bytes > limits.text_bytes_max || self.answers.len() >= limits.answers_max.get() {
            let Some((_, oldest)) = self.answers.pop_lru() else { break };
            self.text_bytes -= oldest.text_bytes;
        }
        self.text_bytes += text_bytes;
        self.answers.put(wanted.clone(), Remembered { answer: answer.clone(), text_bytes, until });
    }

    fn forget(&mut self, wanted: &Wanted) {
        if let Some(known) = self.answers.pop(wanted) {
            self.text_bytes -= known.text_bytes;
        }
    }
}

#[cfg(test)]
mod tests;
