//! The event source mapping: it polls, cuts batches, invokes the function, tries again until it answers, and only then goes
//! on. It hands over at least once, and in order, unless something between takes a hand in it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64_simd::STANDARD;
use ingest::{Ingest, IngestConfig};
use model::clock::Clock;
use model::verdict::Origin;
use serde_json::json;
use staging::object::{self, Object, Projection, TableRows};
use staging::store::Store;

use crate::fault::Fault;
use crate::kafka::{self, Cluster, Entry, Nature, Place, Record, TOPIC};
use crate::oracle::Oracle;
use crate::store::{Bucket, RemoteStore};
use crate::world::{Process, World};

/// A function's longest time.
const LIMIT: Duration = Duration::from_secs(14 * 60);

/// One cluster's mapping.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) world: Arc<World>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) bucket: Arc<Bucket>,
    pub(crate) oracle: Arc<Oracle>,
    /// The pipeline, in the versions of its file.
    pub(crate) configs: Vec<IngestConfig>,
    pub(crate) state: Mutex<State>,
}

/// How far it is.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The next offset of each partition.
    positions: Vec<i64>,
    invocations: u64,
    /// While the topic is gone nothing is polled.
    pub(crate) closed: bool,
    pub(crate) ended: bool,
    busy: u64,
}

/// Some records of each partition, with what was passed over to get there.
#[derive(Clone, Debug, Default)]
struct Batch {
    records: Vec<(Place, Record)>,
    next: BTreeMap<usize, i64>,
}

impl Mapping {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts over, in a topic made again.
    pub(crate) fn reopen(&self) {
        let mut state = self.state();
        state.positions = vec![0; self.cluster.partitions()];
        state.closed = false;
    }

    /// Whether no invocation is waited for.
    pub(crate) fn is_idle(&self) -> bool {
        self.state().busy == 0
    }

    /// Polls some partitions until told to end and nothing is left.
    pub(crate) async fn poll(self: Arc<Self>, partitions: Vec<usize>) {
        loop {
            self.world.wait_ms(2_000, 30_000).await;
            let (closed, ended) = {
                let state = self.state();
                (state.closed, state.ended)
            };
            if closed {
                continue;
            }
            if !ended {
                self.take_a_hand(&partitions);
            }
            let batch = self.cut(&partitions);
            if batch.records.is_empty() {
                if ended {
                    return;
                }
                continue;
            }
            self.deliver(&partitions, batch).await;
        }
    }

    /// Moves positions back or on, as consumers' offsets are moved.
    fn take_a_hand(self: &Arc<Self>, partitions: &[usize]) {
        let pick = usize::try_from(self.world.below(partitions.len() as u64)).unwrap_or(0);
        let Some(&partition) = partitions.get(pick) else { return };
        let incarnation = self.cluster.incarnation();
        let back = i64::try_from(self.world.between(1, 8)).unwrap_or(1);
        if self.world.happens(Fault::Redelivered)
            && let Some(position) = self.state().positions.get_mut(partition)
        {
            *position = (*position - back).max(0);
        }
        let end = self.cluster.state().logs.get(incarnation).and_then(|logs| logs.get(partition)).map_or(0, Vec::len);
        let from = self.state().positions.get(partition).copied().unwrap_or(0);
        let to = (from + back).min(i64::try_from(end).unwrap_or(0));
        // Below the first offset that was ever settled lie backfills: holes are left open there.
        if from > 0 && to > from && self.world.happens(Fault::Skipped) {
            let cluster = self.cluster.number;
            let place = move |offset| Place { cluster, incarnation, partition: partition as i32, offset };
            // Those that were acknowledged before are owed all the same.
            for offset in from..to {
                self.oracle.absent(place(offset));
            }
            if let Some(position) = self.state().positions.get_mut(partition) {
                *position = to;
            }
            self.world.note(|| format!("mapping {}: passes over {partition}:{from}..{to}", self.cluster.number));
            drop(tokio::spawn(Arc::clone(self).hand_over_later(incarnation, (from..to).map(place).collect())));
        }
    }

    /// Hands over what was passed over, unless the topic is gone by then.
    async fn hand_over_later(self: Arc<Self>, incarnation: usize, places: Vec<Place>) {
        self.world.wait_ms(60_000, 1_800_000).await;
        if self.cluster.incarnation() != incarnation || self.state().closed {
            return;
        }
        let mut batch = Batch::default();
        for place in places {
            if let Some(Entry::Record(record)) = self.cluster.entry(place) {
                batch.records.push((place, record));
            }
        }
        if !batch.records.is_empty() {
            self.deliver(&[], batch).await;
        }
    }

    /// What is there, up to a number of records.
    fn cut(&self, partitions: &[usize]) -> Batch {
        let incarnation = self.cluster.incarnation();
        let mut left = self.world.between(1, 20);
        let mut batch = Batch::default();
        let start = usize::try_from(self.world.below(partitions.len().max(1) as u64)).unwrap_or(0);
        for n in 0..partitions.len() {
            let Some(&partition) = partitions.get((start + n) % partitions.len()) else { continue };
            let mut position = self.state().positions.get(partition).copied().unwrap_or(0);
            while left > 0 {
                let place =
                    Place { cluster: self.cluster.number, incarnation, partition: partition as i32, offset: position };
                let Some(entry) = self.cluster.entry(place) else { break };
                position += 1;
                let Entry::Record(record) = entry else { continue };
                // What tells a topic made again from the one before is its first record, above all.
                let first = position == 1 && self.world.has(Fault::Recreated);
                if self.world.happens(Fault::Compacted) && !first {
                    self.oracle.absent(place);
                    let mut state = self.cluster.state();
                    let log = state.logs.get_mut(incarnation).and_then(|logs| logs.get_mut(partition));
                    if let Some(entry) = log.and_then(|log| log.get_mut(usize::try_from(place.offset).unwrap_or(0))) {
                        *entry = Entry::Nothing;
                    }
                    continue;
                }
                batch.records.push((place, record));
                batch.next.insert(partition, position);
                left -= 1;
            }
        }
        batch
    }

    /// Invokes the function until it answers.
    async fn deliver(&self, partitions: &[usize], batch: Batch) {
        self.state().busy += 1;
        self.invoke_until_answered(partitions, batch).await;
        self.state().busy -= 1;
    }

    async fn invoke_until_answered(&self, partitions: &[usize], mut batch: Batch) {
        for attempt in 0.. {
            let abandoned = self.world.happens(Fault::Rebalanced);
            if let Some(spoiled) = self.invoke(&batch, abandoned).await {
                let mut state = self.state();
                for (partition, next) in &batch.next {
                    if let Some(position) = state.positions.get_mut(*partition) {
                        *position = *next;
                    }
                }
                for (place, _) in &batch.records {
                    self.oracle.acknowledged(*place, !spoiled.contains(place));
                }
                self.world.note(|| format!("mapping {}: acknowledged", self.cluster.number));
                return;
            }
            if attempt > 500 {
                return self
                    .world
                    .violated("stuck", format!("mapping {}: a batch can't be delivered", self.cluster.number));
            }
            self.world.wait_ms(200, 20_000).await;
            if !partitions.is_empty() && self.world.happens(Fault::Recut) {
                batch = self.cut(partitions);
                if batch.records.is_empty() {
                    return;
                }
            }
        }
    }

    fn process(&self, what: &str) -> Arc<Process> {
        let number = {
            let mut state = self.state();
            state.invocations += 1;
            state.invocations
        };
        let world = &self.world;
        let kill_at = world.happens(Fault::IngestKilled).then(|| world.below(8));
        let ahead =
            world.happens(Fault::IngestClock).then(|| world.below(4 * 3_600_000_000).cast_signed() - 2 * 3_600_000_000);
        Process::new(world, format!("{what} {}/{number}", self.cluster.number), ahead.unwrap_or(0), kill_at)
    }

    fn ingest(&self, process: &Arc<Process>) -> Option<Ingest> {
        let which = usize::from(self.world.happens(Fault::FileChanged)).min(self.configs.len() - 1);
        let store: Arc<dyn Store> = Arc::new(RemoteStore {
            bucket: Arc::clone(&self.bucket),
            process: Arc::clone(process),
            oracle: Arc::clone(&self.oracle),
        });
        let config = self.configs.get(which)?.clone();
        Ingest::new(IngestConfig { store, clock: Arc::clone(process) as Arc<dyn Clock>, ..config }).ok()
    }

    /// One invocation. Gives the places whose values it was given in a form that can't be decoded, once all is stored.
    async fn invoke(&self, batch: &Batch, abandoned: bool) -> Option<Vec<Place>> {
        let process = self.process("ingest");
        let mut spoiled = Vec::new();
        if self.world.happens(Fault::Undecodable) {
            for (place, record) in &batch.records {
                if record.nature == Nature::Row && self.world.below(2) == 0 {
                    self.oracle.spoiled(*place);
                    spoiled.push(*place);
                }
            }
        }
        self.world.note(|| {
            let places: Vec<String> =
                batch.records.iter().map(|(p, _)| format!("{}:{}", p.partition, p.offset)).collect();
            format!("{}: {} spoiled {}", process.name, places.join(" "), spoiled.len())
        });
        let body = event(&self.cluster, &batch.records, &spoiled);
        let ingest = self.ingest(&process)?;
        let limit = if abandoned {
            Duration::from_millis(self.world.between(1, 400))
        } else if self.world.happens(Fault::ShortTime) {
            Duration::from_millis(self.world.between(20, 3_000))
        } else {
            LIMIT
        };
        // It knows its time, or is ended before it is up.
        let told = limit.mul_f64(self.world.between(1, 20) as f64 / 10.0).min(LIMIT);
        let deadline = process.now().plus_micros(i64::try_from(told.as_micros()).unwrap_or(i64::MAX));
        let name = process.name.clone();
        let world = Arc::clone(&self.world);
        let work = async move {
            let outcome = ingest.handle(&body, Some(deadline)).await;
            if let Err(error) = &outcome {
                world.note(|| format!("{name}: {error}"));
                if matches!(error.kind(), model::failure::Kind::Bug | model::failure::Kind::Corrupt) {
                    world.violated("stuck", format!("{name}: {error}"));
                }
            }
            outcome.is_ok()
        };
        let stored = process.run(limit, work, abandoned).await;
        (stored == Some(true)).then_some(spoiled)
    }

    /// Hands dead letters over once more, decoded this time, as a replay does: once or twice.
    pub(crate) async fn replay(&self, letters: &[(Place, Record)], times: u64) {
        for _ in 0..times {
            let process = self.process("replay");
            let Some(ingest) = self.ingest(&process) else { return };
            let body = event(&self.cluster, letters, &[]);
            let minute = self.world.now().minute();
            let Ok(staged) = ingest.plan(&body, minute) else { return };
            let Some(body) = as_replay(staged.object.body) else {
                return self.world.violated("stuck", "a replay object can't be made");
            };
            let store = RemoteStore {
                bucket: Arc::clone(&self.bucket),
                process: Arc::clone(&process),
                oracle: Arc::clone(&self.oracle),
            };
            let key = staged.object.key;
            let stored = process.run(LIMIT, async move { store.put_new(&key, body).await.is_ok() }, false).await;
            if stored == Some(true) {
                for (place, _) in letters {
                    self.oracle.acknowledged(*place, true);
                }
            }
            self.world.wait_ms(1_000, 120_000).await;
        }
    }
}

/// The same object, as a replay's.
fn as_replay(body: bytes::Bytes) -> Option<bytes::Bytes> {
    let object = Object::open(body).ok()?;
    let mut footer = object.footer().clone();
    footer.origin = Origin::Replay;
    let mut rows = Vec::new();
    for table in footer.tables.iter().map(|table| &table.name) {
        for batch in object.rows(table, &Projection::default()).ok()? {
            let batch = batch.ok()?;
            let kept: Vec<usize> =
                (0..batch.num_columns()).filter(|n| batch.schema().field(*n).name() != "_table").collect();
            rows.push(TableRows { table: table.clone(), batch: batch.project(&kept).ok()? });
        }
    }
    object::encode(&footer, &rows).ok()
}

/// The event as Lambda has it.
fn event(cluster: &Cluster, records: &[(Place, Record)], spoiled: &[Place]) -> Vec<u8> {
    let mut lists: BTreeMap<String, Vec<serde_json::Value>> = BTreeMap::new();
    for (place, record) in records {
        let value = if spoiled.contains(place) { Some(vec![0x1a, 0x7f]) } else { kafka::value(record) };
        lists.entry(format!("{TOPIC}-{}", place.partition)).or_default().push(json!({
            "topic": TOPIC,
            "partition": place.partition,
            "offset": place.offset,
            "timestamp": record.timestamp_ms,
            "timestampType": "CREATE_TIME",
            "value": value.map(|bytes| STANDARD.encode_to_string(bytes)),
            "headers": [],
        }));
    }
    json!({ "eventSource": "aws:kafka", "eventSourceArn": cluster.arn, "records": lists }).to_string().into_bytes()
}
