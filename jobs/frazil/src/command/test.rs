//! `frazil test`: sample records against the rows that are expected of them, through the ingest that production runs.
//!
//! What a fold decides of rows (which repeat a key, which come too late) is not asked: it depends on what is in the table.

mod expected;
mod samples;
mod trial;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use ingest::IngestConfig;
use model::id::PipelineId;
use pipeline::Environment;
use pipeline::environment::Registry;
use pipeline::file::project_folder;
use pipeline::resolved::Pipeline;
use registry::files::Folder;
use registry::{Error, Limits, Registered, Registries, Source, Wanted};
use serde::Serialize;

use crate::Session;
use crate::arguments;
use crate::command::ingest::failed;
use crate::environment::{self, absolute};
use crate::examination::shown;
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;
use expected::{Difference, Expected, FILE};
use trial::Trial;

/// Where samples are, in the folder of a project: in one of the pipeline's name.
const FOLDER: &str = "samples";

/// The document's body.
#[derive(Debug, Serialize)]
struct Body<'a> {
    pipeline: &'a str,
    samples: PathBuf,
    /// Samples that came to what was expected.
    passed: usize,
    /// Those that did not, and those that are expected and not there.
    failed: usize,
    differences: Vec<Difference>,
    /// Whether what is expected was written, or would be.
    updated: bool,
    dry_run: bool,
}

pub(crate) async fn run(arguments: &arguments::Test, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let environment = environment::settings(session)?;
    let file = environment::pipeline_file(&environment, arguments.named.pipeline.as_deref(), session)?;
    let pipeline = pipeline::file::load(&file, &environment).map_err(|e| environment::misread(&e))?;
    let folder = match &arguments.samples {
        Some(folder) => absolute(&session.folder, folder)?,
        None => project_folder(&environment, &file).join(FOLDER).join(&pipeline.name),
    };
    let samples = samples::read(&folder, &pipeline)?;
    if samples.is_empty() {
        return Err(Failure::usage("test.samples", "there are no samples, so that nothing would be tested")
            .at(folder.display().to_string())
            .remedy("put records there, values.hex with one a line say, or name another folder with --samples"));
    }
    let mut expected = Expected::read(&folder.join(FILE))?;
    let name = pipeline.name.clone();
    let trial = Trial::of(Box::pin(config(pipeline, &environment, session)).await?);
    let (mut passed, mut failed) = (0, 0);
    let mut differences = Vec::new();
    let mut met = Vec::new();
    for sample in &samples {
        for (id, found) in Box::pin(trial.hold(sample)).await? {
            let before = differences.len();
            expected.compare(&id, &found, &mut differences);
            match differences.len() == before {
                true => passed += 1,
                false => failed += 1,
            }
            met.push((id, found));
        }
    }
    failed += expected.gone(&met, &mut differences);
    let updated = arguments.update && !differences.is_empty();
    if updated && !arguments.dry_run {
        expected.write(met, &differences)?;
    }
    let body = Body {
        pipeline: &name,
        samples: shown(&folder, session),
        passed,
        failed,
        differences,
        updated,
        dry_run: arguments.dry_run,
    };
    session.output.reply("test", &body, human)?;
    Ok(if body.failed == 0 || arguments.update { Exit::Done } else { Exit::No })
}

/// The ingest of a pipeline whose registries are asked where they are folders, and only there.
async fn config(pipeline: Pipeline, environment: &Environment, session: &Session<'_>) -> Result<IngestConfig, Failure> {
    let named = ingest::registries_of(&pipeline, environment).map_err(|e| failed(&e))?;
    let source = |(name, registry): (&str, &Registry)| -> Arc<dyn Source> {
        match registry {
            Registry::Files { dir } => Arc::new(Folder::new(name, dir)),
            Registry::Glue { .. } | Registry::Confluent { .. } => Arc::new(Unasked(name.to_owned())),
        }
    };
    let sources = named.into_iter().map(source).collect();
    let registries = Registries::new(sources, Arc::clone(&session.clock), Limits::default());
    let id = PipelineId::new(&pipeline.name, session.ids.as_ref());
    let (store, clock) = (environment::no_store(session), Arc::clone(&session.clock));
    let config = IngestConfig::asking(registries, pipeline, environment, &session.variable, id, store, clock);
    Box::pin(config).await.map_err(|error| match error {
        ingest::Error::Registries(Error::Denied { .. }) => unasked(&error),
        error => failed(&error),
    })
}

/// A registry that is a service: what a test says must not hang on what it answers today.
#[derive(Debug)]
struct Unasked(String);

#[async_trait]
impl Source for Unasked {
    fn name(&self) -> &str {
        &self.0
    }

    fn keeps(&self, _: &Wanted) -> bool {
        true
    }

    async fn schema(&self, wanted: &Wanted) -> Result<Registered, Error> {
        let message = "it is a service, and a test asks none".to_owned();
        Err(Error::Denied { registry: self.0.clone(), wanted: wanted.clone(), message })
    }

    async fn versions(&self, name: &str) -> Result<Vec<u32>, Error> {
        self.schema(&Wanted::Latest(name.to_owned())).await.map(|_| Vec::new())
    }
}

/// That only a service has a schema.
fn unasked(error: &ingest::Error) -> Failure {
    Failure::of(error.kind(), "test.registry", error).remedy(
        "keep what the samples name in a folder, and choose an environment with --env whose registry of this name is of the kind \
         \"files\"",
    )
}

fn human(body: &Body<'_>) -> String {
    let mut lines = Vec::new();
    let mut last = None;
    for difference in &body.differences {
        difference.say(last == Some(&difference.sample), &mut lines);
        last = Some(&difference.sample);
    }
    let count = |n: usize| format!("{n} sample{}", if n == 1 { "" } else { "s" });
    let file = Path::new(&body.samples).join(FILE);
    lines.push(match (body.updated, body.dry_run) {
        _ if body.failed == 0 => format!("{} as expected", count(body.passed)),
        (true, true) => format!("{} would be written anew, {} as expected", count(body.failed), body.passed),
        (true, false) => {
            format!("{} written anew to {}, {} as expected", count(body.failed), file.display(), body.passed)
        }
        (false, _) => format!(
            "{} not as expected, {} as expected; where what was found is right, --update writes it to {}",
            count(body.failed),
            body.passed,
            file.display()
        ),
    });
    lines.join("\n")
}
