//! `frazil ingest`: the ingest function on one captured event.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use fold::pause;
use ingest::{Ingest, IngestConfig, Outcome};
use model::failure::Kind;
use model::run::Stage;
use serde::Serialize;

use crate::Session;
use crate::arguments;
use crate::environment;
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;

/// Lambda hands over 6 MB; a captured event may have been indented since.
const EVENT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How long registries may take where nothing is stored.
const PATIENCE: Duration = Duration::from_secs(60);

/// The document's body.
#[derive(Debug, Serialize)]
struct Body<'a> {
    pipeline: &'a str,
    pipeline_id: &'a str,
    dry_run: bool,
    #[serde(flatten)]
    outcome: &'a Outcome,
}

pub(crate) async fn run(arguments: &arguments::Ingest, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let environment = environment::settings(session)?;
    let pipeline = environment::pipeline(&environment, arguments.named.pipeline.as_deref(), session)?;
    let body = event(&arguments.event, session)?;
    let name = pipeline.name.clone();
    let store = if arguments.dry_run {
        environment::existing_store(&environment, session).await?
    } else {
        environment::store(&environment, session).await?
    };
    pause::refuse(store.as_ref(), &name, Stage::Ingest).await.map_err(|e| super::fold::failed(&e))?;
    let id = if arguments.dry_run {
        environment::known_id(store.as_ref(), &name, session.ids.as_ref()).await?
    } else {
        environment::pipeline_id(store.as_ref(), &name, session.ids.as_ref()).await?
    };
    let clock = session.clock.clone();
    let minute = clock.now().minute();
    let config = IngestConfig::open(pipeline, &environment, &session.variable, id.clone(), store, clock);
    let ingest = Ingest::new(Box::pin(config).await.map_err(|e| failed(&e))?).map_err(|e| failed(&e))?;
    let outcome = if arguments.dry_run {
        ingest.stage(&body, minute, PATIENCE).await.map_err(|e| failed(&e))?.outcome
    } else {
        ingest.handle(&body, None).await.map_err(|e| failed(&e))?
    };
    let body = Body { pipeline: &name, pipeline_id: id.as_str(), dry_run: arguments.dry_run, outcome: &outcome };
    session.output.reply("ingest", &body, human)?;
    Ok(Exit::Done)
}

/// The event's bytes, from a file or, for `-`, from stdin.
fn event(path: &Path, session: &mut Session<'_>) -> Result<Vec<u8>, Failure> {
    let (place, mut body) = (path.display().to_string(), Vec::new());
    let fault = |e: std::io::Error| Failure::io("ingest.event_file", place.clone(), &e);
    if path == Path::new("-") {
        (&mut *session.stdin).take(EVENT_BYTES_MAX + 1).read_to_end(&mut body).map_err(fault)?;
    } else {
        let file = std::fs::File::open(session.folder.join(path)).map_err(fault)?;
        file.take(EVENT_BYTES_MAX + 1).read_to_end(&mut body).map_err(fault)?;
    }
    if body.len() as u64 > EVENT_BYTES_MAX {
        let message = format!("the event is larger than {} MiB, which Lambda never hands over", EVENT_BYTES_MAX >> 20);
        return Err(Failure::usage("ingest.event_file", message)
            .at(place)
            .remedy("give one event as Lambda hands it over: one invocation's JSON"));
    }
    Ok(body)
}

/// An ingest's failure, as the command line says it.
pub(crate) fn failed(error: &ingest::Error) -> Failure {
    let code = match error {
        ingest::Error::Event(_) => "ingest.event",
        ingest::Error::NoSource { .. } => "ingest.no_source",
        ingest::Error::ForeignTopics { .. } => "ingest.foreign_topics",
        ingest::Error::Decode(_) => "pipeline.schema",
        ingest::Error::Columns { .. } => "pipeline.columns",
        ingest::Error::Salt { .. } => "environment.pii_salt",
        ingest::Error::NotStored { .. } => "ingest.not_stored",
        ingest::Error::Late { .. } => "ingest.late",
        ingest::Error::Registries(_) | ingest::Error::NoAnswer { .. } => "registry",
        ingest::Error::Registry { .. } | ingest::Error::NoRegistry { .. } => "environment.registry",
        ingest::Error::HandedOver { .. } => "environment.mapping",
        ingest::Error::Schema { .. } => "pipeline.schema",
        ingest::Error::Store(_) => "store",
        ingest::Error::Pipeline(e) => return environment::misread(e),
        _ => "ingest",
    };
    let remedy = match error {
        ingest::Error::Event(_) => {
            Some("give one event as Lambda hands it over: the whole JSON of an MSK or Kafka invocation")
        }
        ingest::Error::NoSource { .. } => Some("set `name` under [source] in the pipeline file"),
        ingest::Error::ForeignTopics { .. } => {
            Some("choose the pipeline that takes these topics, or add them under [source]")
        }
        ingest::Error::Decode(e) if e.kind() == Kind::Misconfigured => {
            Some("mend the schema, or the `[value]` block that names it")
        }
        ingest::Error::Salt { .. } => Some(
            "set `pii_salt = \"env:NAME\"` in the environment's block of frazil.toml, and the variable to the salt",
        ),
        ingest::Error::Registries(e) if e.kind() == Kind::Misconfigured => {
            Some("let this account read the registry: see its block under `registries` in frazil.toml")
        }
        ingest::Error::Registries(e) if e.kind() == Kind::Corrupt => Some(
            "see that its `url` in frazil.toml leads to a registry, and not to what stands before it; of a folder, mend the file that \
             it names; nothing was taken",
        ),
        ingest::Error::Registry { .. } => Some("mend the registry's block under `registries` in frazil.toml"),
        ingest::Error::HandedOver { .. } => Some("have the mapping hand payloads over as they are: SOURCE"),
        ingest::Error::NoRegistry { .. } => Some("name one under `registries` of the environment in frazil.toml"),
        ingest::Error::Schema { .. } => Some("mend the `[value]` block that names it, or register it"),
        ingest::Error::Columns { .. } => Some("change the pipeline file where that says, or the message"),
        ingest::Error::Store(e) | ingest::Error::NotStored { source: Some(e), .. }
            if e.kind() == Kind::Misconfigured =>
        {
            Some("let this account read and write the store that it names, then try again")
        }
        _ => None,
    };
    Failure::of(error.kind(), code, error).remedy_if(remedy)
}

fn human(body: &Body<'_>) -> String {
    let outcome = body.outcome;
    let filtered: u64 = outcome.filtered.values().sum();
    let verb = if body.dry_run { "would be staged as" } else { "staged as" };
    let mut text = format!("{} records {verb} {}", outcome.records, outcome.staged.join(", "));
    if outcome.already_stored {
        text.push_str("\nthat object was there already: the event had been delivered before");
    }
    if outcome.records_with_unknown_fields > 0 {
        let count = outcome.records_with_unknown_fields;
        text.push_str(&format!("\n{count} records have fields that the schema does not know, which are in no column"));
    }
    if outcome.dead_letters > 0 {
        text.push_str(&format!("\n{} dead letters in {}", outcome.dead_letters, outcome.dead_letter_keys.join(", ")));
    }
    if filtered > 0 {
        text.push_str(&format!("\n{filtered} filtered"));
    }
    if outcome.duplicates_in_event > 0 {
        text.push_str(&format!("\n{} records were in the event twice", outcome.duplicates_in_event));
    }
    text
}
