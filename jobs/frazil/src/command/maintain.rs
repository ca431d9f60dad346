//! `frazil maintain`: removes what is stored and not needed any more.

use maintain::{Maintain, Report, Settings};
use serde::Serialize;

use crate::Session;
use crate::arguments;
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;

use super::rewind;

/// The document's body.
#[derive(Debug, Serialize)]
struct Body<'a> {
    pipeline: &'a str,
    dry_run: bool,
    tables: [&'a Report; 1],
}

pub(crate) async fn run(arguments: &arguments::Maintain, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let fold = rewind::open(&arguments.named, session).await?;
    let name = fold.pipeline.name.clone();
    let maintain = Maintain { fold, settings: Settings { dry_run: arguments.dry_run } };
    let spinner = session.progress.spinner("maintaining");
    let report = maintain.run().await;
    spinner.finish_and_clear();
    let report = report.map_err(|e| failed(&e))?;
    for key in &report.overlooked {
        session.output.warn(&format!("frazil: {key} is not settled, and folds do not list it any more"));
    }
    let body = Body { pipeline: &name, dry_run: arguments.dry_run, tables: [&report] };
    session.output.reply("maintain", &body, human)?;
    Ok(Exit::Done)
}

/// A maintenance run's failure, as the command line says it.
fn failed(error: &maintain::Error) -> Failure {
    Failure::of(error.kind(), error.code(), error).remedy_if(error.remedy())
}

fn human(body: &Body<'_>) -> String {
    let [report] = body.tables;
    let verb = if body.dry_run { "would be removed" } else { "removed" };
    let staged = report.files_removed - report.settlements_removed;
    let mut text = format!(
        "{}: of {} staged objects {staged} {verb}, {} bytes; {} settlements {verb}",
        report.name, report.files_before, report.bytes, report.settlements_removed
    );
    for (count, what) in [
        (report.unsettled, "are not settled"),
        (report.unproved, "can't be shown to be settled"),
        (report.unreadable, "can't be read"),
    ] {
        if count > 0 {
            text.push_str(&format!("\n{count} older than the retention stay: they {what}"));
        }
    }
    if let Some(why) = &report.held_by {
        text.push_str(&format!("\n{why}"));
    }
    text
}
