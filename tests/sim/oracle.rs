//! The judge. It stands outside the code: it knows what Kafka holds and what was acknowledged, and reads the table's files
//! and what is stored by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType};
use iceberg::spec::{DataContentType, DataFile, Manifest, ManifestList, TableMetadata};
use model::coordinate::TopicPartition;
use model::id::PipelineId;
use model::interval::{Interval, Intervals};
use model::ledger::{self, Ledger};
use model::settlement::Settlement;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use pipeline::resolved::TableName;
use staging::footer::Footer;
use staging::object::{Object, Projection};
use table::catalog::Loaded;

use crate::files::Disk;
use crate::kafka::{Cluster, Nature, Place, Record, TOPIC};
use crate::store::Bucket;
use crate::world::World;

/// Who commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    /// A fold of a pipeline, by the number of its cluster.
    Fold(usize),
    /// A person who rolls back, recovers with what main holds, or resets.
    Operator(usize),
    /// A person who recovers and lets go of what main does not hold.
    Keeper(usize),
    /// Another engine.
    Other,
}

/// How rows are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparing {
    /// Not at all: mode `append`.
    Nothing,
    /// By key over the whole table.
    Keys,
    /// By key, within a lookback in microseconds.
    Within(i64),
    /// By key: the one of the latest event time stays.
    Newest,
}

/// The live files of a table.
#[derive(Clone, Debug, Default)]
struct Live {
    data: BTreeSet<String>,
    /// Files of positions of rows that are gone.
    deletes: BTreeSet<String>,
}

/// A row as it stands in a file.
#[derive(Clone, Debug)]
struct Row {
    id: i64,
    key: i64,
    shard: Option<i64>,
    at_micros: i64,
    partition: i32,
    offset: i64,
}

/// What one acknowledgement means for a record.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    acknowledged: bool,
    /// Acknowledged with a value that can be decoded.
    intact: bool,
}

/// One table.
#[derive(Debug)]
struct Seen {
    current: Loaded,
    /// What a person has let go of in it.
    let_go: BTreeSet<Place>,
    /// What was gone, settled by others, when it got its first ledger of a pipeline: it may count as never delivered here.
    gone_before: BTreeSet<Place>,
    /// The pipelines that it has, or had, a ledger of.
    begun: BTreeSet<usize>,
}

#[derive(Debug, Default)]
struct Judge {
    truth: BTreeMap<i64, (Place, Record)>,
    places: BTreeMap<Place, i64>,
    words: BTreeMap<Place, Word>,
    /// Handed over in a form that could not be decoded.
    spoiled: BTreeSet<Place>,
    /// Passed over by the mapping, or gone before they were acknowledged: they may count as never delivered.
    absent: BTreeSet<Place>,
    tables: BTreeMap<TableName, Seen>,
    /// The ledgers that others took away, by table and cluster.
    taken: BTreeMap<(TableName, usize), Ledger>,
    /// Of objects that were removed, where there are many tables.
    gone: BTreeSet<Place>,
    /// The tables that maintenance finds, by cluster.
    maintained: BTreeMap<(usize, u64), BTreeSet<TableName>>,
    maintenances: u64,
    files: BTreeMap<String, Arc<Vec<Row>>>,
    /// By delete file the positions that it names, with their files.
    positions: BTreeMap<String, Arc<Vec<(String, i64)>>>,
    /// By manifest the files that are live in it, and whether they are data.
    manifests: BTreeMap<String, Arc<Vec<(String, bool)>>>,
    folds: u64,
}

impl Judge {
    /// What stands at a place, as it was sent.
    fn record(&self, place: &Place) -> Option<&Record> {
        self.places.get(place).and_then(|id| self.truth.get(id)).map(|(_, record)| record)
    }

    fn is_let_go(&self, table: &TableName, place: &Place) -> bool {
        self.tables.get(table).is_some_and(|seen| seen.let_go.contains(place))
    }
}

/// The table of a record.
fn table_of(record: &Record) -> TableName {
    let name = record.shard.map_or_else(|| "orders".to_owned(), |shard| format!("orders_{shard}"));
    TableName { namespace: "db".to_owned(), name }
}

fn is_row_elsewhere(record: &Record, table: &TableName) -> bool {
    record.nature == Nature::Row && table_of(record) != *table
}

/// The judge of one history.
#[derive(Debug)]
pub(crate) struct Oracle {
    world: Arc<World>,
    disk: Arc<Disk>,
    bucket: OnceLock<Arc<Bucket>>,
    clusters: Vec<Arc<Cluster>>,
    pipelines: Vec<PipelineId>,
    comparing: Comparing,
    judge: Mutex<Judge>,
}

impl Oracle {
    pub(crate) fn new(
        world: &Arc<World>,
        disk: &Arc<Disk>,
        clusters: &[Arc<Cluster>],
        pipelines: &[PipelineId],
        comparing: Comparing,
    ) -> Arc<Self> {
        Arc::new(Self {
            world: Arc::clone(world),
            disk: Arc::clone(disk),
            bucket: OnceLock::new(),
            clusters: clusters.to_vec(),
            pipelines: pipelines.to_vec(),
            comparing,
            judge: Mutex::default(),
        })
    }

    /// Where objects are; given once.
    pub(crate) fn sees(&self, bucket: &Arc<Bucket>) {
        drop(self.bucket.set(Arc::clone(bucket)));
    }

    fn judge(&self) -> MutexGuard<'_, Judge> {
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn body(&self, key: &str) -> Option<bytes::Bytes> {
        self.bucket.get().and_then(|bucket| bucket.body(key))
    }

    /// A record was sent.
    pub(crate) fn produced(&self, place: Place, record: Record) {
        let mut judge = self.judge();
        judge.places.insert(place, record.id);
        judge.truth.insert(record.id, (place, record));
    }

    /// A record was acknowledged to Kafka: from now on it is owed.
    pub(crate) fn acknowledged(&self, place: Place, intact: bool) {
        let mut judge = self.judge();
        let word = judge.words.entry(place).or_default();
        word.acknowledged = true;
        word.intact |= intact;
    }

    /// A record was handed over in a form that can't be decoded.
    pub(crate) fn spoiled(&self, place: Place) {
        self.judge().spoiled.insert(place);
    }

    /// A record was passed over, or is gone.
    pub(crate) fn absent(&self, place: Place) {
        self.judge().absent.insert(place);
    }

    /// Commits of folds so far.
    pub(crate) fn folds(&self) -> u64 {
        self.judge().folds
    }

    /// Good records of a cluster that were spoiled every time they were acknowledged.
    pub(crate) fn replayable(&self, cluster: usize, incarnation: usize) -> Vec<(Place, Record)> {
        let judge = self.judge();
        let lost = judge.words.iter().filter(|(place, word)| {
            place.cluster == cluster && place.incarnation == incarnation && word.acknowledged && !word.intact
        });
        lost.filter_map(|(place, _)| {
            let (place, record) = judge.truth.get(judge.places.get(place)?)?;
            (record.nature == Nature::Row).then(|| (*place, record.clone()))
        })
        .collect()
    }

    /// Whether everything acknowledged of a cluster is settled: in its own table, where that can be told of many.
    pub(crate) fn drained(&self, cluster: usize) -> bool {
        let judge = self.judge();
        let ledgers: BTreeMap<&TableName, Ledger> = judge
            .tables
            .iter()
            .filter_map(|(table, seen)| Some((table, self.ledger(&seen.current.metadata, cluster)?)))
            .collect();
        let mut owed = judge.words.iter().filter(|(place, word)| place.cluster == cluster && word.acknowledged);
        if ledgers.is_empty() {
            return judge.words.keys().all(|place| place.cluster != cluster);
        }
        owed.all(|(place, _)| {
            let Some(record) = judge.record(place) else { return true };
            if record.shard.is_some() && record.nature != Nature::Row {
                return true;
            }
            ledgers.get(&table_of(record)).is_some_and(|ledger| self.has_reached(ledger, *place))
        })
    }

    /// Whether a ledger has passed a place.
    fn has_reached(&self, ledger: &Ledger, place: Place) -> bool {
        ledger.partitions().any(|(at, partition)| {
            partition.reached.contains(place.offset) && self.place(ledger, &at, place.offset) == Some(place)
        })
    }

    /// Whether a ledger knows of a place's partition, and nothing as far on.
    fn is_ahead(&self, ledger: &Ledger, place: Place) -> bool {
        ledger.partitions().any(|(at, partition)| {
            partition.reached.last().is_some_and(|last| last < place.offset)
                && self.place(ledger, &at, place.offset) == Some(place)
        })
    }

    /// The tables that a pipeline of many has met.
    pub(crate) fn met(&self, cluster: usize) -> BTreeSet<TableName> {
        let Some((bucket, id)) = self.bucket.get().zip(self.pipelines.get(cluster)) else { return BTreeSet::new() };
        let prefix = staging::key::tables_prefix(id);
        let keys = bucket.under(&prefix).into_iter();
        keys.filter_map(|key| key.strip_prefix(&prefix)?.parse().ok()).collect()
    }

    /// A pipeline's ledger as a table's metadata holds it.
    fn ledger(&self, metadata: &TableMetadata, cluster: usize) -> Option<Ledger> {
        let id = self.pipelines.get(cluster)?;
        let text = metadata.properties().get(&ledger::property(id))?;
        let pointer: Option<ledger::Pointer> = serde_json::from_str(text).ok();
        let text = match pointer {
            Some(pointer) => String::from_utf8(self.body(&pointer.object)?.to_vec()).ok()?,
            None => text.clone(),
        };
        Ledger::from_json(&text).ok()
    }

    /// A pipeline's ledger as the settlement of its newest commit on main holds it.
    fn ledger_of_main(&self, metadata: &TableMetadata, cluster: usize) -> Option<Ledger> {
        let key = model::settlement::summary_key(self.pipelines.get(cluster)?);
        let summary = |s: &iceberg::spec::SnapshotRef| s.summary().additional_properties.get(&key).cloned();
        let named = table::snapshot::ancestry(metadata).find_map(summary)?;
        let (_, settlement) = named.split_once(' ')?;
        Some(Settlement::from_json(&self.body(settlement)?).ok()?.ledger)
    }

    /// The place of a ledger's coordinate: a topic made again counts under a source of its own.
    fn place(&self, ledger: &Ledger, at: &TopicPartition, offset: i64) -> Option<Place> {
        let origin = ledger.origin(&at.source);
        let cluster = self.clusters.iter().find(|cluster| cluster.source == *origin)?;
        let incarnation = match at.source == cluster.source {
            true => 0,
            false => 1 + ledger.epochs.iter().position(|epoch| epoch.counts_as == at.source)?,
        };
        (at.topic == TOPIC).then_some(Place { cluster: cluster.number, incarnation, partition: at.partition, offset })
    }

    /// Places of a set of a ledger's coordinates.
    fn places(&self, ledger: &Ledger, of: impl Fn(&ledger::PartitionLedger) -> Intervals) -> BTreeSet<Place> {
        let mut places = BTreeSet::new();
        for (at, partition) in ledger.partitions() {
            for interval in of(partition).as_slice() {
                places.extend((interval.first()..=interval.last()).filter_map(|n| self.place(ledger, &at, n)));
            }
        }
        places
    }

    /// The live data files of a table.
    fn live(&self, judge: &mut Judge, metadata: &TableMetadata) -> Result<Live, String> {
        let Some(snapshot) = metadata.current_snapshot() else { return Ok(Live::default()) };
        let read = |path: &str| self.disk.read(path).ok_or_else(|| format!("there is no file {path}"));
        let list = read(snapshot.manifest_list())?;
        let list = ManifestList::parse_with_version(&list, metadata.format_version()).map_err(|e| e.to_string())?;
        let mut live = Live::default();
        for entry in list.entries() {
            let path = &entry.manifest_path;
            let files = match judge.manifests.get(path) {
                Some(files) => Arc::clone(files),
                None => {
                    let manifest = Manifest::parse_avro(&read(path)?).map_err(|e| e.to_string())?;
                    let alive = manifest.entries().iter().filter(|e| e.is_alive());
                    let is_data = |file: &DataFile| file.content_type() == DataContentType::Data;
                    let file = |file: &DataFile| (file.file_path().to_owned(), is_data(file));
                    let files: Arc<Vec<(String, bool)>> = Arc::new(alive.map(|e| file(e.data_file())).collect());
                    judge.manifests.insert(path.clone(), Arc::clone(&files));
                    files
                }
            };
            for (file, is_data) in files.iter() {
                let all = if *is_data { &mut live.data } else { &mut live.deletes };
                if !all.insert(file.clone()) {
                    self.world.violated("I2", format!("{file} is in the table twice"));
                }
            }
        }
        Ok(live)
    }

    fn rows(&self, judge: &mut Judge, file: &str) -> Result<Arc<Vec<Row>>, String> {
        if let Some(rows) = judge.files.get(file) {
            return if self.disk.read(file).is_some() { Ok(Arc::clone(rows)) } else { Err(format!("{file} is gone")) };
        }
        let bytes = self.disk.read(file).ok_or_else(|| format!("there is no file {file}"))?;
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).and_then(|b| b.build());
        let mut rows = Vec::new();
        for batch in reader.map_err(|e| e.to_string())? {
            rows.extend(rows_of(&batch.map_err(|e| e.to_string())?).ok_or("a file lacks columns")?);
        }
        let rows = Arc::new(rows);
        judge.files.insert(file.to_owned(), Arc::clone(&rows));
        Ok(rows)
    }

    /// The rows of data files that are not gone.
    fn all_rows(&self, judge: &mut Judge, live: &Live) -> Vec<Row> {
        self.rows_in(judge, &live.data, &live.deletes)
    }

    fn rows_in(&self, judge: &mut Judge, files: &BTreeSet<String>, deletes: &BTreeSet<String>) -> Vec<Row> {
        let mut gone: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
        for file in deletes {
            match self.positions(judge, file) {
                Ok(positions) => {
                    for (of, position) in positions.iter() {
                        gone.entry(of.clone()).or_default().insert(*position);
                    }
                }
                Err(why) => self.world.violated("I1", why),
            }
        }
        let mut all = Vec::new();
        for file in files {
            match (self.rows(judge, file), gone.get(file)) {
                (Ok(rows), None) => all.extend(rows.iter().cloned()),
                (Ok(rows), Some(gone)) => {
                    let kept = (0..).zip(rows.iter()).filter(|(position, _)| !gone.contains(position));
                    all.extend(kept.map(|(_, row)| row.clone()));
                }
                (Err(why), _) => self.world.violated("I1", why),
            }
        }
        all
    }

    /// What a delete file names.
    fn positions(&self, judge: &mut Judge, file: &str) -> Result<Arc<Vec<(String, i64)>>, String> {
        if let Some(known) = judge.positions.get(file) {
            return Ok(Arc::clone(known));
        }
        let bytes = self.disk.read(file).ok_or_else(|| format!("there is no file {file}"))?;
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).and_then(|b| b.build());
        let mut named = Vec::new();
        for batch in reader.map_err(|e| e.to_string())? {
            let batch = batch.map_err(|e| e.to_string())?;
            let columns = batch.column_by_name("file_path").zip(batch.column_by_name("pos"));
            let (paths, positions) = columns.ok_or("a delete file lacks columns")?;
            let (paths, positions) = (paths.as_string::<i32>(), positions.as_primitive::<Int64Type>());
            named.extend(paths.iter().flatten().map(str::to_owned).zip(positions.iter().flatten()));
        }
        let named = Arc::new(named);
        judge.positions.insert(file.to_owned(), Arc::clone(&named));
        Ok(named)
    }

    /// Rows of one key, where there may be one of each.
    fn is_unique(&self, rows: &[Row]) {
        let mut keys = BTreeSet::new();
        if let (Comparing::Newest, Some(row)) = (self.comparing, rows.iter().find(|row| !keys.insert(row.key))) {
            self.world.violated("I2", format!("there are two rows of the key of {row:?}"));
        }
    }

    /// Whether a row may be left out because another one of its key is there.
    fn excused_by(&self, record: &Record, rows: &[Row]) -> bool {
        let near = |row: &&Row| match self.comparing {
            Comparing::Nothing => false,
            Comparing::Keys => true,
            Comparing::Within(lookback) => (row.at_micros - record.at_micros).abs() <= lookback,
            // Of equal ones that which came later.
            Comparing::Newest => row.at_micros >= record.at_micros,
        };
        rows.iter().filter(|row| row.key == record.key && row.id != record.id).any(|row| near(&row))
    }

    /// A commit was made.
    pub(crate) fn committed(&self, actor: Actor, before: Option<&Loaded>, after: &Loaded) {
        let mut judge = self.judge();
        let judge = &mut *judge;
        let table = &after.name;
        for (cluster, id) in self.pipelines.iter().enumerate() {
            let has = |loaded: &Loaded| loaded.metadata.properties().contains_key(&ledger::property(id));
            if let Some(before) = before.filter(|before| has(before) && !has(after))
                && let Some(ledger) = self.ledger(&before.metadata, cluster)
            {
                judge.taken.insert((table.clone(), cluster), ledger);
            }
        }
        match judge.tables.get_mut(table) {
            Some(seen) => seen.current = after.clone(),
            None => {
                let (let_go, gone_before, begun) = Default::default();
                let seen = Seen { current: after.clone(), let_go, gone_before, begun };
                judge.tables.insert(table.clone(), seen);
            }
        }
        for (cluster, id) in self.pipelines.iter().enumerate().filter(|_| self.world.has_many()) {
            // A fold's commit or a reset's.
            if let Some(seen) = judge.tables.get_mut(table)
                && after.metadata.properties().contains_key(&ledger::property(id))
                && seen.begun.insert(cluster)
            {
                seen.gone_before.extend(judge.gone.iter().filter(|place| place.cluster == cluster));
            }
        }
        match actor {
            Actor::Fold(cluster) => {
                judge.folds += 1;
                if let Some(before) = before {
                    self.folded(judge, cluster, table, &before.metadata, &after.metadata);
                }
            }
            Actor::Keeper(cluster) => self.kept(judge, cluster, table, &after.metadata),
            Actor::Operator(_) | Actor::Other => {}
        }
    }

    /// What a person lets go of by keeping a ledger: all that it calls settled and main does not hold.
    fn kept(&self, judge: &mut Judge, cluster: usize, table: &TableName, metadata: &TableMetadata) {
        let Some(ledger) = self.ledger(metadata, cluster) else { return };
        let Ok(live) = self.live(judge, metadata) else { return };
        let there: BTreeSet<i64> = self.all_rows(judge, &live).iter().map(|row| row.id).collect();
        let mut gone = self.places(&ledger, |p| p.reached.clone());
        gone.retain(|place| judge.places.get(place).is_some_and(|id| !there.contains(id)));
        gone.retain(|place| judge.record(place).is_some_and(|record| !is_row_elsewhere(record, table)));
        if let Some(seen) = judge.tables.get_mut(table) {
            seen.let_go.extend(gone);
        }
    }

    fn folded(
        &self,
        judge: &mut Judge,
        cluster: usize,
        table: &TableName,
        before: &TableMetadata,
        after: &TableMetadata,
    ) {
        let world = &self.world;
        let (old, new) = match (self.live(judge, before), self.live(judge, after)) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(why), _) | (_, Err(why)) => return world.violated("I1", why),
        };
        let changes = self.comparing == Comparing::Newest;
        if let Some(gone) = old.data.difference(&new.data).next().filter(|_| !changes) {
            world.violated("I1", format!("a fold took {gone} out of the table"));
        }
        let gone = old.deletes.difference(&new.deletes).chain(new.deletes.difference(&old.deletes)).next();
        if let Some(file) = gone.filter(|_| !changes) {
            world.violated("I1", format!("a fold that changes no row has to do with {file}"));
        }
        let (was, is) = (self.ledger(before, cluster), self.ledger(after, cluster));
        let Some(is) = is else { return world.violated("I3", "a fold committed without its ledger") };
        let was = was.unwrap_or_else(|| Ledger::empty(is.low_minute));
        let settled = |l: &ledger::PartitionLedger| l.reached.subtract(&l.dead);
        let (reached_was, reached_is) =
            (self.places(&was, |l| l.reached.clone()), self.places(&is, |l| l.reached.clone()));
        if let Some(lost) = reached_was.difference(&reached_is).next() {
            world.violated("I4", format!("a fold's ledger forgets {lost:?}"));
        }
        let (settled_was, settled_is) = (self.places(&was, settled), self.places(&is, settled));

        let mut there: BTreeSet<i64> = self.all_rows(judge, &old).iter().map(|row| row.id).collect();
        let added: BTreeSet<String> = new.data.difference(&old.data).cloned().collect();
        let mut entered = BTreeSet::new();
        let rows_now = self.all_rows(judge, &new);
        if changes {
            self.is_unique(&rows_now);
            let now: BTreeSet<i64> = rows_now.iter().map(|row| row.id).collect();
            for id in there.difference(&now) {
                let Some((place, record)) = judge.truth.get(id) else { continue };
                if !self.excused_by(record, &rows_now) {
                    world.violated("I1", format!("a fold took the row of {place:?} out of the table"));
                }
            }
        }
        for row in self.rows_in(judge, &added, &new.deletes) {
            // A file is written anew without what goes.
            if changes && there.contains(&row.id) {
                continue;
            }
            let Some((place, record)) = judge.truth.get(&row.id) else {
                world.violated("I2", format!("a row of no record: {row:?}"));
                continue;
            };
            let same = place.partition == row.partition
                && place.offset == row.offset
                && record.key == row.key
                && record.shard == row.shard
                && record.at_micros == row.at_micros;
            if !same {
                world.violated("I2", format!("{row:?} is not {record:?} of {place:?}"));
            }
            if table_of(record) != *table {
                world.violated("I2", format!("{place:?} entered {table}, which is not its table"));
            }
            if !there.insert(row.id) {
                world.violated("I2", format!("{place:?} entered twice"));
            }
            if place.cluster != cluster || !settled_is.contains(place) {
                world.violated("I3", format!("{place:?} entered and its ledger does not say so"));
            }
            entered.insert(*place);
        }
        for place in &entered {
            let Some(record) = judge.record(place) else { continue };
            if !changes && self.excused_by(record, &rows_now) {
                world.violated("I2", format!("{place:?} entered beside a row of its key"));
            }
        }
        let (met, mut unmet) = (self.met(cluster), BTreeSet::new());
        // Where somebody took the ledger away while the fold was at work, all of it is new, and most rows are there.
        for place in settled_is.difference(&settled_was).filter(|place| !entered.contains(place)) {
            let Some(record) = judge.record(place) else { continue };
            if there.contains(&record.id) {
                continue;
            }
            if is_row_elsewhere(record, table) {
                // Nobody would look for it any more.
                let is_staged = judge.words.get(place).is_some_and(|word| word.intact) && !judge.absent.contains(place);
                let other = table_of(record);
                if is_staged && !met.contains(&other) && unmet.insert(other.clone()) {
                    world.violated("I1", format!("{place:?} was passed by {table} before {other} was met"));
                }
                continue;
            }
            let let_go = judge.is_let_go(table, place) || judge.absent.contains(place);
            if record.nature != Nature::Row || let_go || self.excused_by(record, &rows_now) {
                continue;
            }
            let owed = judge.words.get(place).is_some_and(|word| word.intact);
            world.violated(if owed { "I1" } else { "I5" }, format!("{place:?} was settled without its row"));
        }
        let dead = |l: &ledger::PartitionLedger| l.dead.clone();
        for place in self.places(&is, dead).difference(&self.places(&was, dead)) {
            let good = judge.record(place).is_some_and(|record| record.nature == Nature::Row);
            if good && !judge.spoiled.contains(place) {
                world.violated("I5", format!("{place:?} counts as a dead letter and is none"));
            }
        }
        self.settlement_agrees(cluster, after, &is);
    }

    /// The settlement that the newest snapshot names holds the ledger that the table has (I3).
    fn settlement_agrees(&self, cluster: usize, after: &TableMetadata, ledger: &Ledger) {
        let Some(id) = self.pipelines.get(cluster) else { return };
        let key = model::settlement::summary_key(id);
        let summary = after.current_snapshot().and_then(|s| s.summary().additional_properties.get(&key).cloned());
        let Some(named) = summary.as_deref().and_then(|text| text.split_once(' ')).map(|(_, key)| key.to_owned())
        else {
            return self.world.violated("I3", "a fold's snapshot names no settlement");
        };
        match self.body(&named).map(|body| Settlement::from_json(&body)) {
            Some(Ok(settlement)) if settlement.ledger == *ledger => {}
            Some(Ok(_)) => self.world.violated("I3", "a snapshot's settlement holds another ledger than the table"),
            Some(Err(error)) => self.world.violated("I3", error.to_string()),
            None => self.world.violated("I3", format!("there is no settlement {named}")),
        }
    }

    /// An object is about to be stored: the letters of the records that it calls dead are there before it (I1).
    pub(crate) fn staged(&self, key: &str, body: &bytes::Bytes) {
        let Some(rest) = key.strip_prefix("staging/").and_then(|rest| rest.strip_suffix(".parquet")) else { return };
        let Ok(object) = Object::open(body.clone()) else { return };
        let dead = object.footer().coverage.iter().any(|(_, covered)| !covered.dead.is_empty());
        if dead && self.body(&format!("dead-letters/{rest}.jsonl")).is_none() {
            self.world.violated("I1", format!("{key} is stored before its dead letters"));
        }
    }

    /// An object is about to be removed.
    pub(crate) fn removed(&self, key: &str) {
        if !key.starts_with("staging/") {
            return;
        }
        let Some(body) = self.body(key) else { return };
        let mut judge = self.judge();
        let judge = &mut *judge;
        let Ok(object) = Object::open(body) else { return };
        let footer = object.footer();
        let Some(cluster) = self.pipelines.iter().position(|id| *id == footer.pipeline_id) else { return };
        // Every table that was met must have settled it, and every one that it has rows for, met or not.
        let mut tables: BTreeSet<TableName> = footer.tables.iter().filter_map(|t| t.name.parse().ok()).collect();
        // One that is met while maintenance is at work has no row in what went before.
        // Of several at work, one frozen say, it is not known which removes: the one that knew least.
        let at_work = judge.maintained.iter().filter(|((of, _), _)| *of == cluster).map(|(_, met)| met);
        tables.extend(at_work.min_by_key(|met| met.len()).into_iter().flatten().cloned());
        for table in tables {
            let Some(seen) = judge.tables.get(&table) else {
                self.world.violated("I1", format!("{key} was removed before there was {table}"));
                continue;
            };
            self.removed_from(judge, seen, cluster, key, footer);
        }
        self.rows_are_settled(judge, cluster, key, &object);
        if self.world.has_many() {
            self.remember(judge, cluster, footer);
        }
    }

    /// Each row of an object that goes is settled as what it is: an offset may have stood for another record, before its topic was
    /// made again.
    fn rows_are_settled(&self, judge: &Judge, cluster: usize, key: &str, object: &Object) {
        for staged in object.footer().tables.iter().filter(|staged| staged.rows > 0) {
            let Ok(table) = staged.name.parse::<TableName>() else { continue };
            // Where there is none, or no ledger, it was said already.
            let Some(seen) = judge.tables.get(&table) else { continue };
            let Some(ledger) = self.ledger(&seen.current.metadata, cluster) else { continue };
            let Ok(batches) = object.rows(&staged.name, &Projection::default()) else { continue };
            for row in batches.filter_map(Result::ok).filter_map(|batch| rows_of(&batch)).flatten() {
                let Some((place, _)) = judge.truth.get(&row.id) else { continue };
                if !self.has_reached(&ledger, *place) {
                    self.world
                        .violated("I1", format!("{key} was removed with the row of {place:?}, which {table} lacks"));
                }
            }
        }
    }

    /// Remembers the places of an object that goes, as the first table's ledger has them.
    fn remember(&self, judge: &mut Judge, cluster: usize, footer: &Footer) {
        let ledgers = judge.tables.values().filter_map(|seen| self.ledger(&seen.current.metadata, cluster));
        let Some(ledger) = ledgers.max_by_key(|ledger| ledger.epochs.len()) else { return };
        for (at, covered) in footer.coverage.iter() {
            let at = ledger.counted(at, footer.minute);
            let offsets = covered.delivered.as_slice().iter().flat_map(|i| i.first()..=i.last());
            judge.gone.extend(offsets.filter_map(|n| self.place(&ledger, &at, n)));
        }
    }

    /// Maintenance of a pipeline begins, and is at work until what this gives is dropped.
    pub(crate) fn maintenance_begins(self: &Arc<Self>, cluster: usize) -> AtWork {
        let met = if self.world.has_many() {
            self.met(cluster)
        } else {
            BTreeSet::from([TableName { namespace: "db".to_owned(), name: "orders".to_owned() }])
        };
        let mut judge = self.judge();
        judge.maintenances += 1;
        let number = judge.maintenances;
        judge.maintained.insert((cluster, number), met);
        drop(judge);
        AtWork { oracle: Arc::clone(self), number: (cluster, number) }
    }

    fn removed_from(&self, judge: &Judge, seen: &Seen, cluster: usize, key: &str, footer: &Footer) {
        let (current, table) = (&seen.current, &seen.current.name);
        // Somebody may take the ledger away while maintenance is at work: then main's newest commit says what is settled; and where that
        // has been expired, the ledger that was taken away.
        let taken = || judge.taken.get(&(table.clone(), cluster)).cloned();
        let ledger = self.ledger(&current.metadata, cluster);
        let ledger = ledger.or_else(|| self.ledger_of_main(&current.metadata, cluster)).or_else(taken);
        let Some(ledger) = ledger else {
            return self.world.violated("I1", format!("{key} was removed while {table} has no ledger"));
        };
        let minute = footer.minute;
        for (at, covered) in footer.coverage.iter() {
            let at = ledger.counted(at, minute);
            let reached = ledger.partition(&at).map(|p| p.reached.clone()).unwrap_or_default();
            // Where another object's copy could not be decoded, this one's row is the only one.
            let dead = ledger.partition(&at).map(|p| p.dead.clone()).unwrap_or_default();
            let mut rows = covered.decided().subtract(&covered.filtered_any()).intersect(&dead);
            if !rows.is_empty() {
                // Of rows elsewhere this table needs to know nothing.
                let own = |offset: &i64| {
                    let record = self.place(&ledger, &at, *offset).and_then(|place| judge.record(&place));
                    record.is_none_or(|record| !is_row_elsewhere(record, table))
                };
                let kept = rows.as_slice().iter().flat_map(|i| i.first()..=i.last()).filter(own);
                rows = kept.filter_map(|n| Interval::new(n, n).ok()).collect();
            }
            let lost = covered.delivered.subtract(&reached).union(&rows);
            if !lost.is_empty() {
                self.world.violated("I1", format!("{key} was removed with {lost} of {at} unsettled in {table}"));
            }
        }
    }

    /// Folds say that nothing waits: then no row does. Ledgers may stay behind.
    pub(crate) fn rows_are_there(&self) {
        let mut judge = self.judge();
        let judge = &mut *judge;
        let mut rows: BTreeMap<TableName, Vec<Row>> = BTreeMap::new();
        for (table, current) in currents(judge) {
            if let Ok(live) = self.live(judge, &current.metadata) {
                rows.insert(table, self.all_rows(judge, &live));
            }
        }
        for (place, word) in judge.words.iter().filter(|(_, word)| word.intact && word.acknowledged) {
            let Some(record) = judge.record(place).filter(|record| record.nature == Nature::Row) else { continue };
            let table = table_of(record);
            let there = rows.get(&table).map_or(&[][..], Vec::as_slice);
            let is_there = there.iter().any(|row| row.id == record.id);
            if !is_there && !judge.is_let_go(&table, place) && !self.excused_by(record, there) {
                let word = format!("{place:?} waits to enter {table}, and folds say that nothing is left ({word:?})");
                return self.world.violated("stuck", word);
            }
        }
    }

    /// Everything is over: each acknowledged record must be where it is owed.
    pub(crate) fn end(&self) {
        let mut judge = self.judge();
        let judge = &mut *judge;
        let world = &self.world;
        let owed: BTreeMap<Place, Word> =
            judge.words.iter().filter(|(_, word)| word.acknowledged).map(|(place, word)| (*place, *word)).collect();
        let mut ends: BTreeMap<TableName, End> = BTreeMap::new();
        for (table, current) in currents(judge) {
            match self.end_of(judge, &current) {
                Ok(end) => drop(ends.insert(table, end)),
                Err(why) => return world.violated("I1", why),
            }
        }
        let letters = self.letters(&ends);
        for (table, end) in &ends {
            let lacks = |place: &&Place| !letters.contains(*place) && !judge.is_let_go(table, place);
            if let Some(place) = end.dead.iter().find(lacks) {
                world.violated("I1", format!("{place:?} counts as a dead letter in {table}, and there is none"));
            }
        }
        let nothing = End::default();
        for (place, word) in owed {
            let Some(record) = judge.record(&place) else { continue };
            let own = table_of(record);
            // A table that was met late may never have seen it.
            let is_passed = |end: &End| {
                record.shard.is_none() || end.ledgers.values().any(|ledger| self.has_reached(ledger, place))
            };
            let is_lettered = |end: &End| letters.contains(&place) && (end.dead.contains(&place) || !is_passed(end));
            for (table, end) in ends.iter().filter(|(table, _)| **table != own) {
                if end.found.contains_key(&record.id) {
                    world.violated("I2", format!("{place:?} is in {table}, and it is for {own}"));
                }
            }
            // Who has no row is in no table's name: each one's ledger says what became of it.
            if record.shard.is_some() && record.nature != Nature::Row {
                let met = self.met(place.cluster);
                let saw = |table: &TableName| !judge.tables.get(table).is_some_and(|t| t.gone_before.contains(&place));
                for (table, end) in ends.iter().filter(|(table, _)| met.contains(table) && saw(table)) {
                    let there = end.found.contains_key(&record.id);
                    // One that is behind may come to it when nothing tells any more that it had counted it as never delivered.
                    let is_lettered = is_lettered(end) || letters.contains(&place) && judge.absent.contains(&place);
                    let fine = !there && (record.nature == Nature::Tombstone || is_lettered);
                    if !fine && !judge.is_let_go(table, &place) {
                        world.violated("I1", format!("{place:?} is not what it should be in {table} ({record:?})"));
                    }
                }
                continue;
            }
            let end = ends.get(&own).unwrap_or(&nothing);
            let there = end.found.contains_key(&record.id);
            let fine = match record.nature {
                Nature::Tombstone => !there,
                Nature::Bad => !there && is_lettered(end),
                Nature::Row => there || self.excused_by(record, &end.rows) || (!word.intact && is_lettered(end)),
            };
            if !fine && !judge.is_let_go(&own, &place) {
                world.violated("I1", format!("{place:?} was acknowledged and is not where it is owed ({record:?})"));
            }
        }
        if world.has_many() {
            self.staged_are_settled(&ends);
        }
        for (table, end) in &ends {
            for (cluster, ledger) in &end.ledgers {
                self.accounted(judge, *cluster, table, ledger, &end.found);
                let waits = |place: &Place| {
                    place.cluster == *cluster
                        && judge.words.get(place).is_some_and(|word| word.acknowledged)
                        && !judge.is_let_go(table, place)
                        // What was gone before it came stays behind it, also where something older is still staged.
                        && !judge.tables.get(table).is_some_and(|seen| seen.gone_before.contains(place))
                        && self.is_ahead(ledger, *place)
                };
                if world.has_many()
                    && let Some(place) = judge.words.keys().find(|place| waits(place))
                {
                    world.violated("stuck", format!("the ledger of {table} has not come to {place:?}"));
                }
            }
        }
    }

    /// Every table has settled what is staged still, or it would never go.
    fn staged_are_settled(&self, ends: &BTreeMap<TableName, End>) {
        let Some(bucket) = self.bucket.get() else { return };
        for key in bucket.under("staging/") {
            let Some(Ok(object)) = bucket.body(&key).map(Object::open) else { continue };
            let footer = object.footer();
            let Some(cluster) = self.pipelines.iter().position(|id| *id == footer.pipeline_id) else { continue };
            for table in self.met(cluster) {
                let Some(ledger) = ends.get(&table).and_then(|end| end.ledgers.get(&cluster)) else { continue };
                for (at, covered) in footer.coverage.iter() {
                    let at = ledger.counted(at, footer.minute);
                    let reached = ledger.partition(&at).map(|p| p.reached.clone()).unwrap_or_default();
                    let left = covered.delivered.subtract(&reached);
                    if !left.is_empty() {
                        let what = format!("{key} holds {left} of {at}, which {table} never settles");
                        return self.world.violated("stuck", what);
                    }
                }
            }
        }
    }

    /// What a table has come to.
    fn end_of(&self, judge: &mut Judge, current: &Loaded) -> Result<End, String> {
        let live = self.live(judge, &current.metadata)?;
        let mut end = End { rows: self.all_rows(judge, &live), ..End::default() };
        self.is_unique(&end.rows);
        for row in &end.rows {
            *end.found.entry(row.id).or_default() += 1;
            if !judge.truth.contains_key(&row.id) {
                self.world.violated("I2", format!("a row of no record: {row:?}"));
            }
        }
        for (id, times) in end.found.iter().filter(|(_, times)| **times > 1) {
            let place = judge.truth.get(id).map(|(place, _)| place);
            self.world.violated("I2", format!("{place:?} is there {times} times"));
        }
        for cluster in 0..self.pipelines.len() {
            if let Some(ledger) = self.ledger(&current.metadata, cluster) {
                end.dead.extend(self.places(&ledger, |l| l.dead.clone()));
                end.ledgers.insert(cluster, ledger);
            }
        }
        Ok(end)
    }

    /// Every offset between the first settled and the last is one thing or another (I5).
    fn accounted(&self, judge: &Judge, cluster: usize, table: &TableName, ledger: &Ledger, found: &BTreeMap<i64, u64>) {
        for (at, partition) in ledger.partitions() {
            let counts = &partition.counts;
            let filtered: u64 = counts.filtered.values().sum();
            let sum = counts.rows_added
                + filtered
                + counts.undelivered
                + counts.deduplicated
                + counts.rows_updated
                + counts.superseded
                + counts.late
                + partition.dead.count();
            let reached = partition.reached.count();
            let places: Vec<Place> = partition
                .reached
                .as_slice()
                .iter()
                .flat_map(|interval| interval.first()..=interval.last())
                .filter_map(|n| self.place(ledger, &at, n))
                .collect();
            // Other tables' records are passed, and not counted; but for those that were not delivered at first.
            let is_elsewhere = |p: &&Place| judge.record(p).is_some_and(|record| is_row_elsewhere(record, table));
            let elsewhere =
                places.iter().filter(|p| !partition.dead.contains(p.offset)).filter(is_elsewhere).collect::<Vec<_>>();
            let none = BTreeSet::new();
            let gone = judge.tables.get(table).map_or(&none, |seen| &seen.gone_before);
            let is_absent = |p: &Place| judge.absent.contains(p) || gone.contains(p);
            let open = elsewhere.iter().filter(|p| is_absent(p)).count() as u64;
            let (most, least) = (sum + elsewhere.len() as u64, sum + elsewhere.len() as u64 - open);
            if !(least..=most).contains(&reached) || counts.dead != partition.dead.count() {
                self.world.violated(
                    "I5",
                    format!("{at} in {table}: {reached} offsets reached, and {most} accounted for: {partition:?}"),
                );
            }
            // Below the first offset that was ever settled holes stay open, and for one that came late that is any.
            if partition.reached.as_slice().len() > 1 && gone.is_empty() {
                self.world.violated("I5", format!("{at} in {table}: holes are left: {}", partition.reached));
            }
            if places.iter().any(|place| judge.is_let_go(table, place)) || self.comparing != Comparing::Nothing {
                continue;
            }
            let rows = places.iter().filter(|p| judge.places.get(p).is_some_and(|id| found.contains_key(id))).count();
            if rows as u64 != counts.rows_added {
                self.world.violated(
                    "I5",
                    format!("{at} of cluster {cluster}: {} rows counted, {rows} in {table}", counts.rows_added),
                );
            }
            let nature = |p: &Place| judge.record(p).map(|r| r.nature);
            // What can't be a record at all must have been counted as never delivered.
            let nothing = places.iter().filter(|p| nature(p).is_none()).count() as u64;
            let absent = places.iter().filter(|p| is_absent(p)).count() as u64;
            if counts.undelivered < nothing || counts.undelivered > nothing + absent {
                self.world.violated(
                    "I5",
                    format!(
                        "{at}: {} counted as never delivered, of {nothing} holes and {absent} absent",
                        counts.undelivered
                    ),
                );
            }
        }
    }

    /// The places of all dead letters. A letter does not say which incarnation it is of: every one that it may be.
    fn letters(&self, ends: &BTreeMap<TableName, End>) -> BTreeSet<Place> {
        let mut letters = BTreeSet::new();
        let Some(bucket) = self.bucket.get() else { return letters };
        for key in bucket.under("dead-letters/") {
            let Some(body) = bucket.body(&key) else { continue };
            for line in body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let Ok(letter) = serde_json::from_slice::<serde_json::Value>(line) else {
                    self.world.violated("I1", format!("{key} holds a line that is no dead letter"));
                    continue;
                };
                let source = letter.get("source").and_then(|v| v.as_str()).unwrap_or_default();
                let Some(cluster) = self.clusters.iter().find(|c| c.source.to_string() == source) else { continue };
                let number = |name: &str| letter.get(name).and_then(serde_json::Value::as_i64).unwrap_or(-1);
                let ledgers = ends.values().filter_map(|end| end.ledgers.get(&cluster.number));
                let incarnations = ledgers.map(|ledger| ledger.epochs.len()).max().unwrap_or(0);
                for incarnation in 0..=incarnations {
                    letters.insert(Place {
                        cluster: cluster.number,
                        incarnation,
                        partition: i32::try_from(number("partition")).unwrap_or(-1),
                        offset: number("offset"),
                    });
                }
            }
        }
        letters
    }
}

/// A maintenance that is at work.
pub(crate) struct AtWork {
    oracle: Arc<Oracle>,
    number: (usize, u64),
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.oracle.judge().maintained.remove(&self.number);
    }
}

/// What a table has come to.
#[derive(Debug, Default)]
struct End {
    rows: Vec<Row>,
    /// How often each record's row is there.
    found: BTreeMap<i64, u64>,
    /// By cluster.
    ledgers: BTreeMap<usize, Ledger>,
    dead: BTreeSet<Place>,
}

fn currents(judge: &Judge) -> Vec<(TableName, Loaded)> {
    judge.tables.iter().map(|(table, seen)| (table.clone(), seen.current.clone())).collect()
}

fn rows_of(batch: &RecordBatch) -> Option<Vec<Row>> {
    let long = |name: &str| batch.column_by_name(name)?.as_primitive_opt::<Int64Type>();
    let (ids, keys, offsets) = (long("id")?, long("key")?, long("_kafka_offset")?);
    let partitions = batch.column_by_name("_kafka_partition")?.as_primitive_opt::<Int32Type>()?;
    let times = batch.column_by_name("at")?.as_primitive_opt::<TimestampMicrosecondType>()?;
    let shards = long("shard");
    let row = |n: usize| Row {
        id: ids.value(n),
        key: keys.value(n),
        shard: shards.map(|shards| shards.value(n)),
        at_micros: times.value(n),
        partition: partitions.value(n),
        offset: offsets.value(n),
    };
    Some((0..batch.num_rows()).map(row).collect())
}
