//! `frazil demo`: a topic's worth of events through ingest and fold, and the accounts of it.

mod accounts;
mod folder;
mod project;
mod usage;

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use fold::Fold;
use ingest::{Ingest, IngestConfig};
use model::clock::{Clock, Timestamp};
use model::failure::Kind;
use pipeline::environment::{Catalog, Environment, Location};
use pipeline::resolved::Pipeline;
use serde::Serialize;

use crate::Session;
use crate::arguments::{Demo, Mode};
use crate::command::{fold::failed as fold_failed, ingest::failed as ingest_failed};
use crate::cost::figures;
use crate::environment;
use crate::generator::{Generator, Options, START_MS};
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;
use crate::query::Engine;
use crate::tables::Tables;
use accounts::Accounts;
use usage::{Spent, Started};

/// Where a demo goes when no folder is chosen.
const FOLDER: &str = ".frazil/demo";

/// The document's body.
#[derive(Debug, Serialize)]
struct Body {
    #[serde(flatten)]
    accounts: Accounts,
    snapshots: u64,
    metadata_location: String,
    ingest: IngestSpeed,
    fold: FoldSpeed,
    peak_rss_bytes: Option<u64>,
    events: u64,
    seed: u64,
    #[serde(flatten)]
    place: Place,
    table: String,
}

/// Where a demo runs: in a folder of its own, or in an environment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Place {
    Dir(PathBuf),
    Env(String),
}

#[derive(Debug, Default, Serialize)]
struct IngestSpeed {
    seconds: f64,
    core_seconds: f64,
    records_per_second_per_core: u64,
}

#[derive(Debug, Default, Serialize)]
struct FoldSpeed {
    seconds: f64,
    core_seconds: f64,
    rows_per_second_per_core: u64,
}

/// What a dry run says.
#[derive(Debug, Serialize)]
struct Intention {
    dry_run: bool,
    #[serde(flatten)]
    place: Place,
    replaces_earlier_demo: bool,
    records: u64,
    folds: u32,
    seed: u64,
}

/// The time of the stream: that of the newest record sent.
#[derive(Debug)]
struct StreamClock(AtomicI64);

impl StreamClock {
    const fn new() -> Self {
        Self(AtomicI64::new(START_MS))
    }

    fn reach(&self, ms: i64) {
        self.0.fetch_max(ms, Ordering::Relaxed);
    }
}

impl Clock for StreamClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed).saturating_mul(1000))
    }
}

/// A run, under way.
struct Run {
    ingest: Ingest,
    fold: Fold,
    accounts: Accounts,
    /// Duplicates that the last fold found and did not commit.
    known_again: u64,
    ingested: u64,
    ingest_time: Spent,
    folded: u64,
    fold_time: Spent,
}

pub(crate) async fn run(arguments: &Demo, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let dedup = arguments.mode == Mode::Dedup;
    let (place, environment, replaces_earlier_demo) = look(session, dedup).await?;
    if arguments.dry_run {
        let intention = Intention {
            dry_run: true,
            place,
            replaces_earlier_demo,
            records: arguments.records,
            folds: arguments.folds,
            seed: arguments.seed,
        };
        session.output.reply("demo", &intention, intended)?;
        return Ok(Exit::Done);
    }
    let file = match &place {
        Place::Dir(dir) => {
            folder::prepare(dir, dedup)?;
            dir.join("pipelines/employee.toml")
        }
        Place::Env(_) => project::prepare(&environment, dedup, session)?,
    };
    // Lateness is about when events were staged: they are staged at the times they were sent, not as fast as they come.
    let stream = Arc::new(StreamClock::new());
    if dedup {
        session.clock = Arc::clone(&stream) as Arc<dyn Clock>;
    }
    // Opened first: that it can't be written should not come out after the work.
    let truth = arguments.truth.as_ref().map(|path| Truth::create(session.folder.join(path))).transpose()?;
    session.output.note(&format!("demo in {place}"));
    let pipeline = pipeline::file::load(&file, &environment).map_err(|e| environment::misread(&e))?;
    let tables = Tables::open(&environment, session).await?;
    let mut run = start(&environment, &tables, pipeline.clone(), session).await?;
    let mut generator =
        Generator::new(Options { records: arguments.records, bad: arguments.bad, seed: arguments.seed, dedup });
    let events = run.through(&mut generator, arguments.folds, &stream, session).await?;
    if let Some(truth) = truth {
        truth.write(&generator)?;
    }
    let sent = Accounts::new(generator.sent());
    let mut accounts = Accounts {
        duplicates_dropped: run.accounts.duplicates_dropped + run.known_again,
        dead_letters: run.accounts.dead_letters,
        late_found: dedup.then(|| run.accounts.late_found.unwrap_or(0)),
        ..sent
    };
    accounts.rows_in_table = count(tables.clone(), &pipeline).await?;
    let loaded = tables.load(&pipeline.table.name).await?.ok_or_else(|| {
        Failure::new(Kind::Bug, "demo.table", "the folds made no table").at(pipeline.table.name.to_string())
    })?;
    let body = Body {
        accounts,
        snapshots: loaded.metadata.snapshots().len() as u64,
        metadata_location: loaded.metadata_location.clone(),
        ingest: IngestSpeed {
            seconds: run.ingest_time.clock.as_secs_f64(),
            core_seconds: run.ingest_time.cores.as_secs_f64(),
            records_per_second_per_core: run.ingest_time.per_second_per_core(run.ingested),
        },
        fold: FoldSpeed {
            seconds: run.fold_time.clock.as_secs_f64(),
            core_seconds: run.fold_time.cores.as_secs_f64(),
            rows_per_second_per_core: run.fold_time.per_second_per_core(run.folded),
        },
        peak_rss_bytes: usage::peak_rss_bytes(),
        events,
        seed: arguments.seed,
        place,
        table: pipeline.table.name.to_string(),
    };
    body.accounts.check(dedup.then(|| generator.late_rows()))?;
    let chosen = body.place.as_typed(&session.folder);
    session.output.reply("demo", &body, |body| human(body, &chosen, &environment))?;
    Ok(Exit::Done)
}

/// Where the demo is to run, and whether an earlier one there would be replaced; changes nothing.
async fn look(session: &Session<'_>, dedup: bool) -> Result<(Place, Environment, bool), Failure> {
    if session.env.is_some() {
        let environment = environment::settings(session)?;
        if dedup && !matches!(environment.store, Location::File(_)) {
            // An object staged hours after its minute by the store's own time counts as late.
            let message = "in mode `dedup` the demo stages events at the times they were sent, and S3 goes by its own";
            return Err(Failure::usage("demo.environment", message)
                .at(environment.store.to_string())
                .remedy("leave `--mode` out, or choose an environment whose store is a folder"));
        }
        project::look(&environment, dedup, session).await?;
        return Ok((Place::Env(environment.name.clone()), environment, false));
    }
    let dir = session.dir.clone().unwrap_or_else(|| PathBuf::from(FOLDER));
    let dir = environment::absolute(&session.folder, &dir)?;
    let replaces = folder::look(&dir)? == folder::Found::Demo;
    Ok((Place::Dir(dir.clone()), Environment::embedded(dir), replaces))
}

async fn start(
    environment: &Environment,
    tables: &Tables,
    pipeline: Pipeline,
    session: &Session<'_>,
) -> Result<Run, Failure> {
    let store = environment::store(environment, session).await?;
    let id = environment::pipeline_id(store.as_ref(), &pipeline.name, session.ids.as_ref()).await?;
    let config = IngestConfig::load(pipeline.clone(), id.clone(), Arc::clone(&store), Arc::clone(&session.clock));
    let salt = ingest::salt(&pipeline, environment, &session.variable).map_err(|e| ingest_failed(&e))?;
    let ingest = Ingest::new(config.map_err(|e| ingest_failed(&e))?.salted(salt)).map_err(|e| ingest_failed(&e))?;
    let fold = tables.fold(pipeline, id, store, false, session);
    Ok(Run {
        ingest,
        fold,
        accounts: Accounts::default(),
        known_again: 0,
        ingested: 0,
        ingest_time: Spent::default(),
        folded: 0,
        fold_time: Spent::default(),
    })
}

impl Run {
    /// Sends everything, folding in between, and gives the number of events.
    async fn through(
        &mut self,
        generator: &mut Generator,
        folds: u32,
        stream: &StreamClock,
        session: &mut Session<'_>,
    ) -> Result<u64, Failure> {
        let records = generator.options().records;
        let bar = session.progress.bar("records", records);
        let mut events = 0;
        let mut folds_done = 0;
        while let Some(delivery) = generator.next_delivery() {
            events += 1;
            stream.reach(delivery.sent_ms);
            let started = Started::now();
            let outcome = self.ingest.handle(&delivery.body, None).await.map_err(|e| ingest_failed(&e))?;
            self.ingest_time.add_since(&started);
            self.ingested += outcome.records;
            if outcome.already_stored {
                self.accounts.duplicates_dropped += outcome.records;
            }
            bar.set_position(generator.sent().records);
            // The last fold comes after the last redelivery.
            let due = u64::from(folds_done + 1) * records / u64::from(folds);
            if folds_done + 1 < folds && generator.sent().records >= due {
                self.fold().await?;
                folds_done += 1;
            }
        }
        bar.finish_and_clear();
        let spinner = session.progress.spinner("folding");
        let folded = self.fold().await;
        spinner.finish_and_clear();
        folded.map(|()| events)
    }

    async fn fold(&mut self) -> Result<(), Failure> {
        let started = Started::now();
        let report = self.fold.drain(|_| ()).await.map_err(|e| fold_failed(&e))?;
        self.fold_time.add_since(&started);
        for table in &report.tables {
            self.folded += table.rows_added;
            // Without a commit nothing remembers what was found to be known, and the next fold finds it again.
            self.known_again = if table.committed { 0 } else { table.duplicates };
            if table.committed {
                self.accounts.duplicates_dropped += table.duplicates;
            }
            self.accounts.dead_letters += table.dead_letters;
            *self.accounts.late_found.get_or_insert_default() += table.late;
        }
        Ok(())
    }
}

/// Counts the table's rows as anybody would.
async fn count(tables: Tables, pipeline: &Pipeline) -> Result<u64, Failure> {
    let engine = Engine::open(tables).await?;
    let name = &pipeline.table.name;
    let sql = format!("SELECT count(*) AS n FROM \"{}\".\"{}\"", name.namespace, name.name);
    let mut answer = engine.ask(&sql).await?;
    let wrong = || Failure::new(Kind::Bug, "demo.count", "a count is one number");
    let batch = answer.next().await?.ok_or_else(wrong)?;
    let column = batch.columns().first().ok_or_else(wrong)?;
    let count = arrow::array::AsArray::as_primitive_opt::<arrow::datatypes::Int64Type>(column.as_ref());
    let count = count.and_then(|c| c.iter().next().flatten()).ok_or_else(wrong)?;
    u64::try_from(count).map_err(|_| wrong())
}

/// The file that `--truth` names.
struct Truth {
    path: PathBuf,
    file: File,
}

impl Truth {
    fn create(path: PathBuf) -> Result<Self, Failure> {
        match File::create(&path) {
            Ok(file) => Ok(Self { path, file }),
            Err(e) => Err(Failure::io("demo.truth", path.display().to_string(), &e)),
        }
    }

    fn write(mut self, generator: &Generator) -> Result<(), Failure> {
        let mut text = serde_json::to_vec_pretty(&generator.truth().fingerprint())
            .map_err(|e| Failure::of(Kind::Bug, "demo.truth", &e))?;
        text.push(b'\n');
        self.file.write_all(&text).map_err(|e| Failure::io("demo.truth", self.path.display().to_string(), &e))
    }
}

impl Place {
    /// The option that chooses it, as a person in a folder would type it.
    fn as_typed(&self, from: &Path) -> String {
        match self {
            Self::Dir(dir) => format!("--dir {}", dir.strip_prefix(from).unwrap_or(dir).display()),
            Self::Env(name) => format!("--env {name}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dir(dir) => write!(f, "{}", dir.display()),
            Self::Env(name) => write!(f, "the environment {name}"),
        }
    }
}

fn intended(intention: &Intention) -> String {
    let replaces = if intention.replaces_earlier_demo { ", in place of the earlier demo there" } else { "" };
    format!(
        "would send {} records and fold {} times in {}{replaces}",
        intention.records, intention.folds, intention.place
    )
}

fn human(body: &Body, chosen: &str, environment: &Environment) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_BORDERS_ONLY);
    let a = &body.accounts;
    let late = a.late_found.map_or_else(String::new, |late| format!(", {late} known for late"));
    let rows_note = format!("{} snapshots{late}", body.snapshots);
    let rows = [
        ("records sent", a.records_sent, format!("{} late, {} that can't be decoded", a.late_sent, a.bad_sent)),
        ("+ delivered again", a.duplicates_sent, String::new()),
        ("= rows in the table", a.rows_in_table, rows_note),
        ("+ duplicates dropped", a.duplicates_dropped, String::new()),
        ("+ dead letters", a.dead_letters, String::new()),
    ];
    for (what, count, more) in rows {
        table.add_row([what.to_owned(), grouped(count), more]);
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(comfy_table::CellAlignment::Right);
    }
    let peak = body.peak_rss_bytes.map_or_else(String::new, |peak| format!(", at most {} MiB of memory", peak >> 20));
    let location = body.metadata_location.strip_prefix("file://").unwrap_or(&body.metadata_location);
    let name = &body.table;
    let opened = match &environment.catalog {
        Catalog::Sqlite(catalog) => {
            let catalog = catalog.display();
            let warehouse = environment.warehouse.as_ref().map_or_else(String::new, ToString::to_string);
            format!(
                "SqlCatalog(\"frazil\", uri=\"sqlite:///{catalog}\", warehouse=\"{warehouse}\").load_table(\"{name}\")"
            )
        }
        Catalog::Glue { .. } => format!("load_catalog(\"glue\", type=\"glue\").load_table(\"{name}\")"),
        Catalog::S3Tables { bucket_arn, region } => {
            let signed = format!(
                "\"rest.sigv4-enabled\": \"true\", \"rest.signing-name\": \"s3tables\", \"rest.signing-region\": \"{region}\""
            );
            let domain = if bucket_arn.starts_with("arn:aws-cn:") { "amazonaws.com.cn" } else { "amazonaws.com" };
            let url = format!("https://s3tables.{region}.{domain}/iceberg");
            format!(
                "load_catalog(\"lake\", **{{\"type\": \"rest\", \"uri\": \"{url}\", \"warehouse\": \"{bucket_arn}\", {signed}}}).load_table(\"{name}\")"
            )
        }
        Catalog::Rest(rest) => {
            let url = &rest.url;
            format!("load_catalog(\"rest\", type=\"rest\", uri=\"{url}\").load_table(\"{name}\")")
        }
    };
    format!(
        "{table}
ingest {:.2} s, {} records/s a core; fold {:.2} s, {} rows/s a core{peak}

Try next:
  frazil query {chosen} \"SELECT team, count(*) FROM {name} GROUP BY team\"
  frazil decode {chosen} employee --hex 082a120544756d6d79
DuckDB:
  INSTALL iceberg; LOAD iceberg;
  SELECT count(*) FROM iceberg_scan('{location}');
PyIceberg:
  {opened}",
        body.ingest.seconds,
        grouped(body.ingest.records_per_second_per_core),
        body.fold.seconds,
        grouped(body.fold.rows_per_second_per_core),
    )
}

/// A count with its thousands apart.
fn grouped(count: u64) -> String {
    figures::grouped(&count.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped() {
        for (count, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(count), text);
        }
    }
}
