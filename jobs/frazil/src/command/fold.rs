//! `frazil fold`: folds what is staged, now, in as many runs as memory asks for.

use fold::{Report, TableFailure, TableReport};
use serde::Serialize;

use crate::Session;
use crate::arguments;
use crate::environment;
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;
use crate::tables::Tables;

/// The document's body.
#[derive(Debug, Serialize)]
struct Body<'a> {
    pipeline: &'a str,
    dry_run: bool,
    #[serde(flatten)]
    report: &'a Report,
}

pub(crate) async fn run(arguments: &arguments::Fold, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let environment = environment::settings(session)?;
    let pipeline = environment::pipeline(&environment, arguments.named.pipeline.as_deref(), session)?;
    let name = pipeline.name.clone();
    let dry_run = arguments.dry_run;
    let mut nothing = Report::default();
    if !pipeline.has_many() {
        nothing.tables.push(TableReport { name: pipeline.table.name.to_string(), ..TableReport::default() });
    }
    let report = if dry_run && environment::must_exist(&environment).is_err() {
        nothing
    } else {
        environment::must_exist(&environment)?;
        let store = environment::store(&environment, session).await?;
        let id = if dry_run {
            environment::known_id(store.as_ref(), &name, session.ids.as_ref()).await?
        } else {
            environment::pipeline_id(store.as_ref(), &name, session.ids.as_ref()).await?
        };
        let tables = match dry_run {
            true => Tables::untouched(&environment, session).await?,
            false => Tables::open(&environment, session).await?,
        };
        let fold = tables.fold(pipeline, id, store, dry_run, session);
        let spinner = session.progress.spinner("folding");
        let (mut runs, mut rows) = (0, 0);
        let report = fold.drain(|run| {
            runs += run.runs;
            rows += run.tables.iter().map(|table| table.rows_added).sum::<u64>();
        });
        let report = report.await;
        spinner.finish_and_clear();
        if report.is_err() && runs > 0 {
            session.output.warn(&format!("frazil: {runs} runs before this one added {rows} rows, which stay"));
        }
        report.map_err(|e| failed(&e))?
    };
    for (key, why) in &report.quarantined {
        session.output.warn(&format!(
            "frazil: {key} can't be read and was left where it is: {why}\n  bring it back from a backup or from the bucket's \
             versions, and fold again; until then its records are not in the table, and offsets around it stay open"
        ));
    }
    for (table, failure) in report.failures() {
        let remedy = failure.remedy.as_deref().unwrap_or("fold again");
        session.output.warn(&format!("frazil: {table} was not folded: {}\n  {remedy}", failure.message));
    }
    if let Some(failure) = failed_table(&report).filter(|_| report.tables.iter().all(|table| table.failure.is_some())) {
        return Err(failure);
    }
    session.output.reply("fold", &Body { pipeline: &name, dry_run, report: &report }, human)?;
    // What could be folded is; whether all was is the question that a schedule's alarm asks.
    let is_all = report.quarantined.is_empty() && report.failures().next().is_none();
    Ok(if is_all { Exit::Done } else { Exit::No })
}

/// Why some of many tables were not folded, where there are such.
pub(crate) fn failed_table(report: &Report) -> Option<Failure> {
    let (table, TableFailure { kind, code, message, remedy }) = report.failures().next()?;
    let more = report.failures().count() - 1;
    let more = if more == 0 { String::new() } else { format!("; {more} more tables were not folded") };
    let failure = Failure::new(*kind, code.clone(), format!("{message}{more}")).at(table.to_owned());
    Some(failure.remedy_if(remedy.as_deref()))
}

/// A fold's failure, as the command line says it.
pub(crate) fn failed(error: &fold::Error) -> Failure {
    Failure::of(error.kind(), error.code(), error).advised(error.remedy())
}

fn human(body: &Body<'_>) -> String {
    let report = body.report;
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_BORDERS_ONLY);
    table.set_header(["table", "rows added", "duplicates", "dead letters", "filtered", "undelivered", "snapshot"]);
    for t in &report.tables {
        let snapshot = match (t.snapshot_id, body.dry_run) {
            _ if t.failure.is_some() => "NOT FOLDED".to_owned(),
            (Some(id), _) => id.to_string(),
            (None, true) => "(dry run)".to_owned(),
            (None, false) => "nothing to add".to_owned(),
        };
        let filtered: u64 = t.filtered.values().sum();
        let counts = [t.rows_added, t.duplicates, t.dead_letters, filtered, t.undelivered];
        let mut row = vec![t.name.clone()];
        row.extend(counts.iter().map(ToString::to_string));
        row.push(snapshot);
        table.add_row(row);
    }
    let changes = report.tables.iter().flat_map(|t| t.column_changes.iter().map(move |change| (&t.name, change)));
    let changes: String = changes.map(|(table, change)| format!("\n{table}: column {change}")).collect();
    let differences = report.tables.iter().flat_map(|t| t.differences.iter().map(move |said| (&t.name, said)));
    let differences: String = differences.map(|(table, said)| format!("\n{table}: {said}")).collect();
    let mut text = format!(
        "{table}{changes}{differences}\n{} staged objects, {} bytes",
        report.staged_objects, report.staged_bytes
    );
    if report.runs > 1 {
        text.push_str(&format!(", in {} runs", report.runs));
    }
    if report.objects_left > 0 {
        text.push_str(&format!("; {} more wait for the next fold", report.objects_left));
    }
    text
}
