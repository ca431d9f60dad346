//! One fold in a process of its own: the most memory that the process held is then the fold's.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use fold::{Budget, Fold, Settings};
use model::clock::{Clock, ManualClock, Timestamp};
use model::id::SeededIds;
use serde_json::{Value, json};
use staging::local::LocalStore;
use table::catalog::sqlite::SqliteCatalog;
use table::storage;

use super::{Bench, Cores, peak};

/// What is folded, and with how much memory.
pub(super) struct Order<'a> {
    /// The folder of a [`Bench`].
    pub(super) folder: &'a Path,
    /// Bytes that the fold may come to.
    pub(super) memory_bytes: u64,
    /// The time on its clock.
    pub(super) now: Timestamp,
    /// Of its ids: no two folds of a table may have the same.
    pub(super) seed: u64,
}

/// What one fold took.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) seconds: f64,
    pub(super) cores: Cores,
    pub(super) rows_added: u64,
    pub(super) deduplicated: u64,
    pub(super) rows_updated: u64,
    pub(super) superseded: u64,
    pub(super) data_files: u64,
    pub(super) runs: u64,
    pub(super) peak_rss_bytes: u64,
}

impl Taken {
    /// The rows that the fold took in, whether they entered or not.
    pub(super) const fn rows(&self) -> u64 {
        self.rows_added + self.deduplicated + self.rows_updated + self.superseded
    }

    pub(super) fn rows_per_second_per_core(&self) -> f64 {
        self.rows() as f64 / self.cores.all()
    }
}

impl Order<'_> {
    /// Folds in another process until nothing waits, and gives what that took.
    pub(super) fn carry_out(&self) -> Taken {
        let child = Command::new(std::env::current_exe().unwrap())
            .arg("--fold")
            .arg(self.folder)
            .args(["--memory", &self.memory_bytes.to_string()])
            .args(["--now", &self.now.micros().to_string(), "--seed", &self.seed.to_string()])
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
        let said: Value = serde_json::from_slice(&child.stdout).unwrap();
        let number = |name: &str| said[name].as_u64().unwrap();
        let seconds = |name: &str| said[name].as_f64().unwrap();
        Taken {
            seconds: seconds("seconds"),
            cores: Cores { user: seconds("user"), system: seconds("system") },
            rows_added: number("rows_added"),
            deduplicated: number("deduplicated"),
            rows_updated: number("rows_updated"),
            superseded: number("superseded"),
            data_files: number("data_files"),
            runs: number("runs"),
            peak_rss_bytes: number("peak_rss_bytes"),
        }
    }
}

/// The other process: folds, and says what that took.
pub(super) fn here(folder: PathBuf, memory_bytes: u64, now: i64, seed: u64) -> Value {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(Timestamp::from_micros(now)));
    let bench = Bench::open(folder, Arc::clone(&clock));
    let ids = Arc::new(SeededIds::new(seed));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let warehouse = storage::location_of(&bench.folder.join("warehouse")).unwrap();
        let catalog_file = bench.folder.join("catalog.db");
        let catalog =
            SqliteCatalog::open(&catalog_file, &warehouse, storage::local(), Arc::clone(&clock), ids.clone()).await;
        let fold = Fold {
            pipeline: Arc::new(bench.pipeline.clone()),
            id: bench.id.clone(),
            store: Arc::new(LocalStore::open(&bench.folder, Arc::clone(&clock)).unwrap()),
            catalog: Arc::new(catalog.unwrap()),
            io: storage::local(),
            clock,
            ids,
            settings: Settings { budget: Budget::of(memory_bytes, None, None), dry_run: false, may_skip: false },
        };
        let (started, cores) = (Instant::now(), Cores::now());
        let report = fold.drain(|_| ()).await.unwrap();
        let (seconds, cores) = (started.elapsed().as_secs_f64(), Cores::now().since(cores));
        let table = &report.tables[0];
        json!({
            "seconds": seconds,
            "user": cores.user,
            "system": cores.system,
            "rows_added": table.rows_added,
            "deduplicated": table.deduplicated,
            "rows_updated": table.rows_updated,
            "superseded": table.superseded,
            "data_files": table.data_files,
            "runs": report.runs,
            "peak_rss_bytes": peak(),
        })
    })
}

/// The median, the least and the greatest of some figures.
pub(super) fn spread(figures: impl Iterator<Item = f64>) -> Value {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    let (least, greatest) = (figures[0], figures[figures.len() - 1]);
    json!({ "median": median(figures.into_iter()), "least": least, "greatest": greatest })
}

pub(super) fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
