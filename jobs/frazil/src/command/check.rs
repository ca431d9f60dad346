//! `frazil check`: every fault of a project's files, offline.

use std::path::PathBuf;

use pipeline::Fault;
use serde::Serialize;

use crate::Session;
use crate::arguments;
use crate::examination::{Examination, shown};
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;

/// The document's body.
#[derive(Debug, Serialize)]
struct Body<'a> {
    env: &'a str,
    /// The pipeline files that were looked at.
    pipelines: Vec<PathBuf>,
    faults: Vec<Fault>,
    /// What is no fault, and may still not be meant.
    warnings: Vec<Fault>,
}

/// The check is done whatever it finds: that the files are not right is an answer, and no failure of the command.
pub(crate) async fn run(arguments: &arguments::Check, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let wanted = arguments.pipeline.as_deref();
    let examination = Examination::of(wanted, arguments.all || wanted.is_none(), false, session).await?;
    let (mut faults, mut warnings) = (examination.faults(), examination.warnings());
    for fault in faults.iter_mut().chain(&mut warnings) {
        fault.file = shown(&fault.file, session);
    }
    let pipelines = examination.pipelines.iter().map(|examinee| shown(&examinee.path, session)).collect();
    let body = Body { env: &examination.environment.name, pipelines, faults, warnings };
    session.output.reply("check", &body, human)?;
    Ok(if body.faults.is_empty() { Exit::Done } else { Exit::No })
}

fn human(body: &Body<'_>) -> String {
    let files = body.pipelines.len();
    let looked = format!("{files} pipeline{} in the environment `{}`", if files == 1 { "" } else { "s" }, body.env);
    let mut lines: Vec<String> = body.warnings.iter().map(|warning| format!("warning: {warning}")).collect();
    lines.extend(body.faults.iter().map(ToString::to_string));
    let count = body.faults.len();
    if count == 0 {
        lines.push(format!("no faults: {looked}"));
        return lines.join("\n");
    }
    lines.push(format!("{count} fault{}: {looked}", if count == 1 { "" } else { "s" }));
    lines.join("\n")
}
