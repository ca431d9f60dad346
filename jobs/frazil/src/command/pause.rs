//! `frazil pause` and `frazil unpause`: holding a pipeline's folds or ingests back, and letting them go on.

use fold::pause::{self, Pause};
use model::run::Stage;
use serde::Serialize;

use crate::Session;
use crate::arguments;
use crate::environment;
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;

/// The document's body.
#[derive(Debug, Serialize)]
struct Body<'a> {
    pipeline: &'a str,
    dry_run: bool,
    /// `paused` or `running`.
    state: &'static str,
    #[serde(flatten)]
    pause: Option<&'a Pause>,
}

fn stage(held: Option<arguments::Held>) -> Option<Stage> {
    held.map(|held| match held {
        arguments::Held::Ingest => Stage::Ingest,
        arguments::Held::Fold => Stage::Fold,
    })
}

pub(crate) async fn run(arguments: &arguments::Pause, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let environment = environment::settings(session)?;
    let name = environment::pipeline(&environment, arguments.named.pipeline.as_deref(), session)?.name;
    let store = environment::existing_store(&environment, session).await?;
    let before = pause::read(store.as_ref(), &name).await.map_err(|e| super::fold::failed(&e))?;
    let after = pause::with(before, stage(arguments.stage), arguments.why.clone(), session.clock.now());
    if !arguments.dry_run {
        // A pipeline may be paused before anything was stored.
        let store = environment::store(&environment, session).await?;
        pause::write(store.as_ref(), &name, Some(&after)).await.map_err(|e| super::fold::failed(&e))?;
    }
    reply("pause", &name, arguments.dry_run, Some(&after), session)
}

pub(crate) async fn lift(arguments: &arguments::Unpause, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let environment = environment::settings(session)?;
    let name = environment::pipeline(&environment, arguments.named.pipeline.as_deref(), session)?.name;
    let store = environment::existing_store(&environment, session).await?;
    let before = pause::read(store.as_ref(), &name).await.map_err(|e| super::fold::failed(&e))?;
    // What a person paused beside it is lifted; the rollback's stays.
    let by_rollback = |pause: &&pause::Pause| pause.rollback_alone;
    if before.as_ref().filter(by_rollback).is_some() && arguments.stage != Some(arguments::Held::Ingest) {
        return Err(Failure::usage("pipeline.rolled_back", format!("pipeline {name} was paused by a rollback"))
            .remedy(
                "`frazil recover` decides what follows, after a look at what would be missing, and lifts the pause",
            ));
    }
    let was = before.is_some();
    let after = before.and_then(|before| pause::without(before, stage(arguments.stage)));
    if was && !arguments.dry_run {
        pause::write(store.as_ref(), &name, after.as_ref()).await.map_err(|e| super::fold::failed(&e))?;
    }
    reply("unpause", &name, arguments.dry_run, after.as_ref(), session)
}

fn reply(
    command: &str,
    name: &str,
    dry_run: bool,
    pause: Option<&Pause>,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let state = if pause.is_some() { "paused" } else { "running" };
    session.output.reply(command, &Body { pipeline: name, dry_run, state, pause }, human)?;
    Ok(Exit::Done)
}

fn human(body: &Body<'_>) -> String {
    let verb = if body.dry_run { "would be" } else { "is" };
    let Some(pause) = body.pause else { return format!("{} {verb} running", body.pipeline) };
    let stage = match (pause.holds(Stage::Fold), pause.holds(Stage::Ingest)) {
        (true, false) => Stage::Fold.as_str(),
        (false, true) => Stage::Ingest.as_str(),
        _ => "everything",
    };
    let why: Vec<&str> = pause.why.iter().chain(&pause.rollback).map(String::as_str).collect();
    let why = if why.is_empty() { String::new() } else { format!(": {}", why.join("; and ")) };
    format!("{} {verb} paused ({stage}){why}", body.pipeline)
}
