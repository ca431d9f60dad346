//! A demo in an environment that somebody else laid out: nothing there is replaced, so it must hold nothing of the demo's.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use model::failure::Kind;
use pipeline::environment::Environment;

use super::folder::files;
use crate::Session;
use crate::environment;
use crate::manners::failure::Failure;
use crate::tables::Tables;

/// Where the environment's pipelines stand: beside `frazil.toml`, or in the current folder without one.
fn root(environment: &Environment, session: &Session<'_>) -> PathBuf {
    environment.root.clone().unwrap_or_else(|| session.folder.clone())
}

/// Whether a demo may run in the environment; changes nothing.
///
/// # Errors
/// When project, store or catalog hold a pipeline or a table of the demo's name, or can't be looked at.
pub(super) async fn look(environment: &Environment, dedup: bool, session: &Session<'_>) -> Result<(), Failure> {
    let root = root(environment, session);
    let files = files(dedup);
    for (name, text) in &files {
        let path = root.join(name);
        match fs::read(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(fault(&path, &e)),
            // A demo's own, of an attempt that was cut off or of another environment.
            Ok(found) if found == text.as_bytes() => {}
            Ok(_) => {
                return Err(taken("the project holds another file of this name")
                    .at(path.display().to_string())
                    .remedy("run the demo in a folder of its own with a frazil.toml, or leave --env out"));
            }
        }
    }
    let [(name, text), _] = &files;
    let pipeline = pipeline::file::parse(text, environment, &root.join(name))
        .map_err(|faults| environment::misread(&pipeline::Error::Faults(faults)))?;
    let store = environment::existing_store(environment, session).await?;
    // A store that nobody made yet refuses to be listed.
    if environment::must_exist(environment).is_ok()
        && environment::is_used(store.as_ref(), &pipeline.name, session.ids.as_ref()).await?
    {
        let message = format!("the store holds a pipeline called {} already", pipeline.name);
        return Err(taken(message).at(environment.store.to_string()));
    }
    if environment::has_catalog(environment) {
        let tables = Tables::open(environment, session).await?;
        if tables.load(&pipeline.table.name).await?.is_some() {
            return Err(taken("the catalog holds the demo's table already").at(pipeline.table.name.to_string()));
        }
    }
    Ok(())
}

/// Puts the demo's files into the project and gives the pipeline's.
///
/// # Errors
/// When they can't be written.
pub(super) fn prepare(environment: &Environment, dedup: bool, session: &Session<'_>) -> Result<PathBuf, Failure> {
    let root = root(environment, session);
    let files = files(dedup);
    for (name, text) in &files {
        let path = root.join(name);
        let folder = path.parent().unwrap_or(&root);
        fs::create_dir_all(folder).and_then(|()| fs::write(&path, text)).map_err(|e| fault(&path, &e))?;
    }
    let [(pipeline, _), _] = &files;
    Ok(root.join(pipeline))
}

fn taken(message: impl Into<String>) -> Failure {
    Failure::new(Kind::Misconfigured, "demo.environment", message)
        .remedy("choose an environment of its own for the demo, such as one with another prefix, or leave --env out")
}

fn fault(path: &Path, error: &std::io::Error) -> Failure {
    Failure::io("demo.environment", path.display().to_string(), error)
}
