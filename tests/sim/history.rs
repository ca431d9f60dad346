//! One history, from its seed to its judgement.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use fold::rewind::Choice;
use ingest::IngestConfig;
use model::clock::Clock;
use model::id::PipelineId;
use pipeline::environment::Environment;
use pipeline::resolved::{Pipeline, TableName};
use staging::store::Store;

use crate::catalog::Tables;
use crate::fault::Fault;
use crate::files::Disk;
use crate::folds::{Ended, Folds};
use crate::foreign::{Foreign, Taken};
use crate::kafka::Cluster;
use crate::mapping::Mapping;
use crate::oracle::{Comparing, Oracle};
use crate::store::{Bucket, RemoteStore};
use crate::world::{Many, Process, Violation, World};

/// Ordinary faults that a history holds at least.
pub(crate) const FAULTS_MIN: u64 = 5;
/// Commits of folds that it holds at least.
pub(crate) const FOLDS_MIN: u64 = 2;
/// About how long what is settled is listed again.
const LISTED: Duration = Duration::from_secs(60 * 60);
/// How often its stream is gone on with to get there.
const PHASES_MAX: u64 = 6;

/// What of a history is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) seed: u64,
    /// Kinds of faults that stay away.
    pub(crate) without: BTreeSet<Fault>,
    /// Minutes in which records are sent.
    pub(crate) minutes: Option<u64>,
    /// Whether its pipelines have many tables.
    pub(crate) many: Many,
    /// Whether its mode is `upsert`.
    pub(crate) upsert: bool,
}

/// How a history ended.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) violations: Vec<Violation>,
    pub(crate) faults: BTreeMap<Fault, u64>,
    pub(crate) folds: u64,
    pub(crate) records: i64,
    /// Tables, where there are many.
    pub(crate) tables: u64,
    pub(crate) trace: Vec<String>,
}

/// Lives through a history.
pub(crate) fn run(chosen: &Chosen) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime of one thread can be made");
    runtime.block_on(live(chosen))
}

/// The modes there are, and of them those with `upsert`.
const MODES: usize = 5;
const UPSERTS: [usize; 2] = [3, 4];

/// The pipelines in their variants, read once: two versions of the file in each of the modes, with one table and then
/// with many.
fn pipelines() -> &'static Vec<Vec<(Pipeline, IngestConfig)>> {
    static LOADED: OnceLock<Vec<Vec<(Pipeline, IngestConfig)>>> = OnceLock::new();
    LOADED.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let modes: [&str; MODES] = [
            "mode = \"append\"\npartition_by = [\"bucket(2, key)\"]",
            "mode = \"dedup\"\nprimary_key = [\"key\"]\npartition_by = [\"bucket(2, key)\"]",
            "mode = \"dedup\"\nprimary_key = [\"key\"]\npartition_by = [\"hour(at)\"]\n\
             dedup_within = { column = \"at\", lookback = \"10m\" }",
            "mode = \"upsert\"\nprimary_key = [\"key\"]\norder_by = [\"at\"]\npartition_by = [\"hour(at)\"]\n\
             write = \"merge-on-read\"\ndeletes = \"ignore\"",
            "mode = \"upsert\"\nprimary_key = [\"key\"]\norder_by = [\"at\"]\npartition_by = [\"bucket(2, key)\"]\n\
             deletes = \"ignore\"",
        ];
        let all = [false, true].into_iter().flat_map(|many| modes.iter().map(move |mode| (many, mode)));
        all.map(|(many, mode)| versions(folder.path(), many, mode)).collect()
    })
}

const PROTO: &str = "syntax = \"proto3\";\npackage sim;\nimport \"google/protobuf/timestamp.proto\";\n\
    message Order { int64 id = 1; int64 key = 2; google.protobuf.Timestamp at = 3; }\n";

/// Of many tables: its shard names each order's.
const PROTO_OF_MANY: &str = "syntax = \"proto3\";\npackage sim;\nimport \"google/protobuf/timestamp.proto\";\n\
    message Order { int64 id = 1; int64 key = 2; google.protobuf.Timestamp at = 3; int64 shard = 4; }\n";

fn versions(folder: &Path, many: bool, mode: &str) -> Vec<(Pipeline, IngestConfig)> {
    let world = OnceLock::new();
    let proto = folder.join("order.proto");
    let file = folder.join("pipelines/orders.toml");
    std::fs::create_dir_all(folder.join("pipelines")).expect("a temporary folder can be made");
    let (text, table) = if many { (PROTO_OF_MANY, "db.orders_{field:shard}") } else { (PROTO, "db.orders") };
    std::fs::write(proto, text).expect("a temporary file can be written");
    ["", "\"write.parquet.compression-codec\" = \"zstd\"\n"]
        .iter()
        .map(|property| {
            let text = format!(
                "[source]\ntopics = [\"orders\"]\n[value]\nformat = \"protobuf\"\nframing = \"bare\"\n\
                 schema = {{ proto = \"order.proto\", message = \"sim.Order\" }}\n[table]\nname = \"{table}\"\n{mode}\n\
                 [table.properties]\n{property}\n[staging]\nretention = \"40m\"\n"
            );
            std::fs::write(&file, text).expect("a temporary file can be written");
            let environment = Environment::embedded(folder);
            let pipeline = pipeline::file::load(&file, &environment).expect("the pipeline file is right");
            // Store and clock are put in per process; these are never asked.
            let nobody = world.get_or_init(nobody);
            let id = PipelineId::new("orders", &model::id::SeededIds::new(0));
            let config = IngestConfig::load(pipeline.clone(), id, nobody.0.clone(), nobody.1.clone());
            (pipeline, config.expect("the pipeline goes with its schema"))
        })
        .collect()
}

type Nobody = (Arc<dyn Store>, Arc<dyn Clock>);

fn nobody() -> Nobody {
    let world = World::new(0, &BTreeSet::new(), Many::Never);
    let process = Process::new(&world, "nobody".to_owned(), 0, None);
    let oracle = Oracle::new(&world, &Arc::default(), &[], &[], Comparing::Nothing);
    let store = RemoteStore { bucket: Bucket::new(&world), process: Arc::clone(&process), oracle };
    (Arc::new(store), process)
}

/// Everything of one history.
struct Stage {
    world: Arc<World>,
    oracle: Arc<Oracle>,
    clusters: Vec<Arc<Cluster>>,
    mappings: Vec<Arc<Mapping>>,
    folds: Vec<Arc<Folds>>,
    foreign: Arc<Foreign>,
    pollers: tokio::task::JoinSet<()>,
    schedules: tokio::task::JoinSet<()>,
    next_id: i64,
    keys: u64,
}

impl Stage {
    fn new(chosen: &Chosen) -> Self {
        let world = World::new(chosen.seed, &chosen.without, chosen.many);
        // Two of six are of mode `append`.
        let drawn = usize::try_from(world.below(MODES as u64 + 1)).unwrap_or(0).saturating_sub(1);
        let mode = if chosen.upsert { UPSERTS[drawn % UPSERTS.len()] } else { drawn };
        let comparing = match mode {
            0 => Comparing::Nothing,
            1 => Comparing::Keys,
            2 => Comparing::Within(600_000_000),
            _ => Comparing::Newest,
        };
        let versions = &pipelines()[if world.has_many() { mode + MODES } else { mode }];
        // A table whose rows are changed has one pipeline.
        let two = comparing != Comparing::Newest && world.happens(Fault::TwoClusters);
        let count = if two { 2 } else { 1 };
        let clusters: Vec<Arc<Cluster>> =
            (0..count).map(|n| Cluster::new(n, world.between(1, 4) as usize, world.has_many())).collect();
        let ids: Vec<PipelineId> = (0..count)
            .map(|number| PipelineId::new(if number == 0 { "orders" } else { "orders-too" }, world.ids().as_ref()))
            .collect();
        let disk: Arc<Disk> = Arc::default();
        let oracle = Oracle::new(&world, &disk, &clusters, &ids, comparing);
        let bucket = Bucket::new(&world);
        oracle.sees(&bucket);
        let tables = Tables::new(&world, &oracle, &disk);
        let properties: Arc<Mutex<Taken>> = Arc::default();
        let mut mappings = Vec::new();
        let mut folds = Vec::new();
        for (cluster, id) in clusters.iter().zip(&ids) {
            let of = |(pipeline, config): &(Pipeline, IngestConfig)| {
                let pipeline = Pipeline { name: id.name().to_owned(), ..pipeline.clone() };
                IngestConfig { pipeline, pipeline_id: id.clone(), ..config.clone() }
            };
            let configs: Vec<IngestConfig> = versions.iter().map(of).collect();
            let pipeline = configs[0].pipeline.clone();
            mappings.push(Arc::new(Mapping {
                world: Arc::clone(&world),
                cluster: Arc::clone(cluster),
                bucket: Arc::clone(&bucket),
                oracle: Arc::clone(&oracle),
                configs,
                state: Mutex::default(),
            }));
            folds.push(Arc::new(Folds {
                world: Arc::clone(&world),
                cluster: cluster.number,
                pipeline: Arc::new(pipeline),
                id: id.clone(),
                bucket: Arc::clone(&bucket),
                disk: Arc::clone(&disk),
                tables: Arc::clone(&tables),
                oracle: Arc::clone(&oracle),
                properties: Arc::clone(&properties),
                state: Mutex::default(),
            }));
        }
        let foreign = Arc::new(Foreign {
            world: Arc::clone(&world),
            tables,
            disk,
            ids: world.ids(),
            table: versions[0].0.table.name.clone(),
            properties,
            before: Mutex::default(),
        });
        let keys = world.between(3, 200);
        Self {
            world,
            oracle,
            clusters,
            mappings,
            folds,
            foreign,
            pollers: tokio::task::JoinSet::new(),
            schedules: tokio::task::JoinSet::new(),
            next_id: 1,
            keys,
        }
    }

    /// Pollers over the partitions, one or more a cluster.
    fn open(&mut self) {
        for mapping in &self.mappings {
            mapping.reopen();
            let partitions = mapping.cluster.partitions();
            let pollers = usize::try_from(self.world.between(1, partitions as u64)).unwrap_or(1);
            for poller in 0..pollers {
                let mine = (0..partitions).filter(|partition| partition % pollers == poller).collect();
                self.pollers.spawn(Arc::clone(mapping).poll(mine));
            }
        }
        for folds in &self.folds {
            self.schedules.spawn(Arc::clone(folds).schedule());
        }
    }

    /// Records are sent for some minutes, while everything happens.
    async fn stream(&mut self, minutes: u64) {
        let end = self.world.elapsed() + Duration::from_secs(minutes * 60);
        let mut others = self.world.elapsed();
        while self.world.elapsed() < end {
            self.world.wait_ms(3_000, 45_000).await;
            for cluster in &self.clusters {
                for (place, record) in cluster.produce(&self.world, &mut self.next_id, self.keys) {
                    self.oracle.produced(place, record);
                }
            }
            if self.world.elapsed() >= others {
                others = self.world.elapsed() + Duration::from_secs(self.world.between(60, 480));
                self.others().await;
            }
        }
    }

    /// Other hands, and the less frequent ones of our own.
    async fn others(&self) {
        self.foreign.act().await;
        for (folds, mapping) in self.folds.iter().zip(&self.mappings) {
            if self.world.happens(Fault::Maintained) {
                folds.maintain().await;
            }
            if self.world.happens(Fault::Replayed) {
                let mut letters = self.oracle.replayable(folds.cluster, mapping.cluster.incarnation());
                letters.truncate(5);
                if !letters.is_empty() {
                    mapping.replay(&letters, self.world.between(1, 2)).await;
                }
            }
            if self.world.happens(Fault::OwnRollback) {
                let back = usize::try_from(self.world.between(1, 3)).unwrap_or(1);
                let table = self.one_of(folds);
                folds.roll_back(&table, back).await;
                self.world.wait_ms(1_000, 400_000).await;
                // The rollback paused every pipeline of the table.
                let choice = if self.world.below(3) == 0 { Choice::KeepLedger } else { Choice::Refold };
                for folds in self.folds.iter().filter(|folds| folds.met().contains(&table)) {
                    folds.recover(&table, choice).await;
                }
            }
        }
    }

    /// One of the tables that a pipeline has met.
    fn one_of(&self, folds: &Folds) -> TableName {
        let met: Vec<TableName> = folds.met().into_iter().collect();
        let pick = if met.len() > 1 { self.world.below(met.len() as u64) } else { 0 };
        met.get(pick as usize).unwrap_or(&folds.pipeline.table.name).clone()
    }

    /// A cluster's topic is deleted and made again, once no invocation of it runs any more. Whether all that it held is folded
    /// by then, chance says.
    async fn recreate(&self) {
        for (mapping, folds) in self.mappings.iter().zip(&self.folds) {
            if !self.world.happens(Fault::Recreated) {
                continue;
            }
            mapping.state().closed = true;
            let undrained = self.world.below(2) == 0;
            folds.hold(undrained);
            // A frozen invocation may go on for 25 minutes, and its put arrive late.
            tokio::time::sleep(Duration::from_secs(45 * 60)).await;
            for _ in 0..40 {
                if mapping.is_idle() && (undrained || self.oracle.drained(folds.cluster)) {
                    break;
                }
                tokio::time::sleep(Duration::from_secs(120)).await;
            }
            if mapping.is_idle() && (undrained || self.oracle.drained(folds.cluster)) {
                self.world.note(|| format!("cluster {}: the topic is made again", folds.cluster));
                mapping.cluster.recreate();
                tokio::time::sleep(Duration::from_secs(120)).await;
                mapping.reopen();
            } else {
                mapping.state().closed = false;
            }
            if undrained {
                let minutes = self.world.between(0, 10);
                tokio::time::sleep(Duration::from_secs(minutes * 60)).await;
                folds.hold(false);
            }
        }
    }

    /// Faults are over; what is under way comes to its end, and is folded.
    async fn settle(&mut self) {
        self.world.quiet();
        for mapping in &self.mappings {
            mapping.state().ended = true;
        }
        while self.pollers.join_next().await.is_some() {}
        // Frozen invocations, late puts and commits.
        tokio::time::sleep(Duration::from_secs(45 * 60)).await;
        for folds in &self.folds {
            folds.end();
        }
        while self.schedules.join_next().await.is_some() {}
        self.fold_all().await;
    }

    /// Folds until nothing is left.
    async fn fold_all(&self) {
        for folds in &self.folds {
            let mut last = None;
            for _ in 0..60 {
                let ended = folds.once().await;
                match &ended {
                    Ended::Done { more: false } => {
                        last = None;
                        break;
                    }
                    Ended::Done { more: true } => {}
                    Ended::Later => {
                        // A pause that a rollback left.
                        for table in folds.met() {
                            folds.recover(&table, Choice::Refold).await;
                        }
                    }
                    Ended::Stopped(stops) => folds.mend(stops.clone()).await,
                }
                last = Some(ended);
                tokio::time::sleep(Duration::from_secs(61)).await;
            }
            if let Some(ended) = last {
                self.world.violated("stuck", format!("folds of {} do not come to an end: {ended:?}", folds.cluster));
            }
        }
    }
}

async fn live(chosen: &Chosen) -> Outcome {
    let mut stage = Stage::new(chosen);
    let world = Arc::clone(&stage.world);
    for cluster in &stage.clusters {
        cluster.state().is_held_back = world.has_late_table();
    }
    stage.open();
    let minutes = world.between(10, 40);
    let minutes = chosen.minutes.unwrap_or(minutes);
    for phase in 0..PHASES_MAX {
        stage.stream(minutes).await;
        if phase == 0 && world.has(Fault::Recreated) {
            stage.recreate().await;
            stage.stream(minutes).await;
        }
        if world.faults().values().sum::<u64>() >= FAULTS_MIN && stage.oracle.folds() >= FOLDS_MIN {
            break;
        }
    }
    if world.has_late_table() {
        tokio::time::sleep(LISTED * 2).await;
        for cluster in &stage.clusters {
            cluster.state().is_held_back = false;
        }
        stage.stream(minutes).await;
    }
    stage.settle().await;
    if world.has_many() && world.violations().is_empty() {
        // Rows wait for nothing; ledgers without new rows follow after an hour.
        stage.oracle.rows_are_there();
        // What they have not settled stays until then.
        for folds in &stage.folds {
            folds.maintain().await;
        }
        tokio::time::sleep(Duration::from_secs(62 * 60)).await;
        stage.fold_all().await;
    }
    // Of a history that went wrong no more is asked.
    if world.violations().is_empty() {
        stage.oracle.end();
    }
    Outcome {
        violations: world.violations(),
        faults: world.faults(),
        folds: stage.oracle.folds(),
        records: stage.next_id - 1,
        tables: if world.has_many() { stage.foreign.tables.names().len() as u64 } else { 0 },
        trace: world.trace(),
    }
}
