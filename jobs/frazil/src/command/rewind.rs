//! `frazil rollback`, `frazil recover` and `frazil reset-source`: a person's decisions about what a table has settled.

use fold::rewind::{Choice, RecoverPlan, Rewound, RollbackPlan, Target, never_folded};
use fold::{Fold, Reset, ResetPlan};
use model::settlement::Offsets;
use serde::Serialize;

use crate::Session;
use crate::arguments;
use crate::environment;
use crate::manners::consent;
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;
use crate::moment;
use crate::tables::Tables;

use super::fold::failed;

/// The document's body: the plan, and whether it was carried out.
#[derive(Debug, Serialize)]
struct Body<'a, P> {
    pipeline: &'a str,
    dry_run: bool,
    /// Main's newest snapshot after it.
    snapshot_id: Option<i64>,
    /// Offsets that are no longer settled.
    rewound: u64,
    /// Those of them that nothing staged holds any more.
    missing: Vec<&'a Offsets>,
    #[serde(flatten)]
    plan: &'a P,
}

impl<'a, P: Serialize> Body<'a, P> {
    fn new(pipeline: &'a str, dry_run: bool, snapshot_id: Option<i64>, parts: &'a [Rewound], plan: &'a P) -> Self {
        let rewound = parts.iter().map(|part| part.offsets).sum();
        let missing = parts.iter().flat_map(|part| &part.missing).collect();
        Self { pipeline, dry_run, snapshot_id, rewound, missing, plan }
    }
}

/// The pipeline's fold over what is there already: none of these commands makes a table or an id.
pub(super) async fn open(named: &arguments::Named, session: &Session<'_>) -> Result<Fold, Failure> {
    let environment = environment::settings(session)?;
    let pipeline = environment::pipeline(&environment, named.pipeline.as_deref(), session)?;
    environment::must_exist(&environment)?;
    let store = environment::store(&environment, session).await?;
    let id = environment::known_id(store.as_ref(), &pipeline.name, session.ids.as_ref()).await?;
    if !environment::has_catalog(&environment) {
        // A catalog that was lost is another matter than one that never was: settlements tell.
        let markers = store.list(&staging::key::tables_prefix(&id), None, None).await;
        let met = markers.map_err(|e| failed(&e.into()))?.objects;
        let met = met.iter().filter_map(|object| object.key.rsplit_once('/')?.1.parse().ok());
        for table in met.chain([pipeline.table.name.clone()]) {
            never_folded(store.as_ref(), &id, &table).await.map_err(|e| failed(&e))?;
        }
    }
    let tables = Tables::existing(&environment, session).await?;
    Ok(tables.fold(pipeline, id, store, false, session))
}

/// The fold of one of the pipeline's tables: the one that is named, or the only one.
async fn of_table(fold: Fold, table: Option<&str>) -> Result<Fold, Failure> {
    let tables = fold.tables().await.map_err(|e| failed(&e))?;
    let names = || tables.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match (table, tables.first()) {
        (Some(name), _) => match tables.iter().find(|table| table.to_string() == name) {
            Some(table) => Ok(fold.of(table)),
            None => {
                Err(Failure::usage("usage", format!("`{name}` is no table of the pipeline, which has: {}", names()))
                    .at("--table")
                    .remedy("name one of them"))
            }
        },
        (None, Some(only)) if tables.len() == 1 => Ok(fold.of(only)),
        (None, None) => {
            let message = "the pipeline has many tables, and has met none of them yet";
            Err(Failure::usage("fold.no_table", message).remedy("fold something first"))
        }
        (None, Some(_)) => {
            Err(Failure::usage("usage", format!("the pipeline has {} tables: {}", tables.len(), names()))
                .at("--table")
                .remedy("say which of them is meant with --table"))
        }
    }
}

/// `snapshot:ID`, or a time.
fn target(text: &str, session: &Session<'_>) -> Result<Target, Failure> {
    let bad = |message: String| {
        let remedy =
            "say snapshot:ID (the table's `snapshots`, or `snapshot_id` of a fold's answer), 2026-11-01T00:00Z or -2h";
        Failure::usage("rollback.to", message).at("--to").remedy(remedy)
    };
    match text.strip_prefix("snapshot:") {
        Some(id) => id.parse().map(Target::Snapshot).map_err(|_| bad(format!("`{id}` is not a snapshot's id"))),
        None => moment::parse(text, session.clock.now()).map(Target::Time).map_err(bad),
    }
}

pub(crate) async fn rollback(arguments: &arguments::Rollback, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let target = target(&arguments.to, session)?;
    let fold = of_table(open(&arguments.named, session).await?, arguments.table.as_deref()).await?;
    let plan = fold.plan_rollback(target).await.map_err(|e| failed(&e))?;
    let missing = plan.pipelines.iter().any(|part| !part.missing.is_empty());
    let name = fold.pipeline.name.clone();
    if arguments.dry_run {
        let body = Body::new(&name, true, Some(plan.from), &plan.pipelines, &plan);
        session.output.reply("rollback", &body, |body| rollback_text(body.plan))?;
        return Ok(if missing { Exit::No } else { Exit::Done });
    }
    if !missing {
        consent::ask(session, arguments.yes, &rollback_text(&plan))?;
    }
    let plan = fold.rollback(Target::Snapshot(plan.to)).await.map_err(|e| failed(&e))?;
    let body = Body::new(&name, false, Some(plan.to), &plan.pipelines, &plan);
    session.output.reply("rollback", &body, |body| {
        format!("{}\ndone; `frazil recover --refold` or `--keep-ledger` decides what follows", rollback_text(body.plan))
    })?;
    Ok(Exit::Done)
}

pub(crate) async fn recover(arguments: &arguments::Recover, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let choice = if arguments.refold { Choice::Refold } else { Choice::KeepLedger };
    let fold = of_table(open(&arguments.named, session).await?, arguments.table.as_deref()).await?;
    let plan = fold.plan_recover(choice).await.map_err(|e| failed(&e))?;
    let missing = !plan.rewound.missing.is_empty();
    let name = fold.pipeline.name.clone();
    if arguments.dry_run {
        let body = Body::new(&name, true, Some(plan.snapshot), std::slice::from_ref(&plan.rewound), &plan);
        session.output.reply("recover", &body, |body| recover_text(body.plan))?;
        return Ok(if missing { Exit::No } else { Exit::Done });
    }
    if !missing {
        consent::ask(session, arguments.yes, &recover_text(&plan))?;
    }
    let (plan, table) = fold.recover(choice).await.map_err(|e| failed(&e))?;
    let snapshot_id = table.and_then(|table| table.snapshot_id).or(Some(plan.snapshot));
    let body = Body::new(&name, false, snapshot_id, std::slice::from_ref(&plan.rewound), &plan);
    session.output.reply("recover", &body, |body| format!("{}\ndone", recover_text(body.plan)))?;
    Ok(Exit::Done)
}

pub(crate) async fn reset(arguments: &arguments::ResetSource, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let since = match &arguments.since {
        Some(text) => {
            let bad = |message: String| {
                let remedy = "say 2026-11-01T00:00Z or -2h, or leave it out";
                Failure::usage("reset_source.since", message).at("--since").remedy(remedy)
            };
            Some(moment::parse(text, session.clock.now()).map_err(bad)?.minute())
        }
        None => None,
    };
    let reset = Reset { topic: arguments.topic.clone(), partition: arguments.partition, since };
    let fold = open(&arguments.named, session).await?;
    let name = fold.pipeline.name.clone();
    let plans = fold.plan_resets(&reset).await.map_err(|e| failed(&e))?;
    let first = plans.iter().find(|(_, plan)| !plan.contradicting.is_empty()).or_else(|| plans.first());
    let since = plans.iter().map(|(_, plan)| plan.since).min();
    let Some((first, since)) = first.map(|(_, plan)| plan.clone()).zip(since) else {
        return Err(Failure::usage("fold.no_table", "nothing was folded yet").remedy("fold something first"));
    };
    let plan = Resets {
        tables: plans.iter().map(|(fold, _)| fold.pipeline.table.name.to_string()).collect(),
        plan: ResetPlan { since, rows_kept: plans.iter().map(|(_, plan)| plan.rows_kept).sum(), ..first },
    };
    if arguments.dry_run {
        let body = Body::new(&name, true, None, &[], &plan);
        session.output.reply("reset-source", &body, |body| reset_text(body.plan))?;
        return Ok(Exit::Done);
    }
    consent::ask(session, arguments.yes, &reset_text(&plan))?;
    // What was agreed to, and not a minute that went by meanwhile.
    let tables = Fold::reset_planned(&plans).await.map_err(|e| failed(&e))?;
    let snapshot_id = tables.last().and_then(|table| table.snapshot_id);
    let body = Body::new(&name, false, snapshot_id.filter(|_| plan.tables.len() == 1), &[], &plan);
    session.output.reply("reset-source", &body, |body| format!("{}\ndone", reset_text(body.plan)))?;
    Ok(Exit::Done)
}

/// A reset of each of a pipeline's tables.
#[derive(Debug, Serialize)]
struct Resets {
    /// The tables whose ledgers begin anew.
    tables: Vec<String>,
    #[serde(flatten)]
    plan: ResetPlan,
}

fn rollback_text(plan: &RollbackPlan) -> String {
    let mut text = format!(
        "{}: main goes back from snapshot {} to {} of {}, leaving {} behind",
        plan.table, plan.from, plan.to, plan.made, plan.snapshots
    );
    for part in &plan.pipelines {
        text.push_str(&format!("\npipeline {}: paused; {} offsets no longer settled", part.pipeline, part.offsets));
        text.push_str(&missing_text(&part.missing));
    }
    text
}

fn recover_text(plan: &RecoverPlan) -> String {
    let mut text = match plan.rows_gone {
        Some(rows) => format!("{}: {rows} rows that were added are not on main", plan.table),
        None => format!("{}: main's history no longer tells how many rows that were added are not on it", plan.table),
    };
    if plan.rewound.offsets > 0 {
        text.push_str(&format!("; {} offsets are folded again", plan.rewound.offsets));
    }
    if plan.commits {
        text.push_str("\nan empty snapshot brings the ledger");
    }
    if plan.unpauses {
        text.push_str("\nthe rollback's pause is lifted");
    }
    if !plan.forgotten.is_empty() {
        text.push_str(&format!(
            "\nneither the table nor its retained snapshots know the pipeline: it begins anew, and folds all that is staged; \
             {} settlements that speak of it are removed. Had one of them been committed, its rows would enter a second time",
            plan.forgotten.len()
        ));
    }
    text + &missing_text(&plan.rewound.missing)
}

fn reset_text(Resets { tables, plan }: &Resets) -> String {
    let in_tables = if tables.len() > 1 { format!("\nin the ledgers of {}", tables.join(", ")) } else { String::new() };
    let partition = plan.partition.map_or_else(String::new, |partition| format!(", partition {partition}"));
    format!(
        "topic {}{partition}: what is staged in {} or later counts anew; {} staged objects so far, {} of them contradict the \
         ledger; {} rows of the old topic stay{in_tables}",
        plan.topic,
        plan.since,
        plan.objects,
        plan.contradicting.len(),
        plan.rows_kept
    )
}

fn missing_text(missing: &[Offsets]) -> String {
    missing
        .iter()
        .map(|lost| {
            let spans: Vec<String> =
                lost.offsets.as_slice().iter().map(|span| format!("{}-{}", span.first(), span.last())).collect();
            format!(
                "\nMISSING from what is staged: topic {}, partition {}: {}",
                lost.topic,
                lost.partition,
                spans.join(", ")
            )
        })
        .collect()
}
