//! Where a command works: which environment, which pipeline, and what is stored about both.

mod nowhere;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use model::failure::Kind;
use model::id::{Ids, PipelineId};
use pipeline::environment::{Catalog, Environment, Location};
use pipeline::resolved::Pipeline;
use staging::local::LocalStore;
use staging::store::{Put, Store};

use crate::Session;
use crate::manners::failure::Failure;

/// An id's document is a line; a larger one is something else.
const SMALL_BYTES_MAX: u64 = 64 * 1024;

/// The environment that a command line chose: `--dir`, or a block of `frazil.toml`.
///
/// # Errors
/// When both are asked for, or the file or its block is at fault.
pub(crate) fn settings(session: &Session<'_>) -> Result<Environment, Failure> {
    match (&session.dir, &session.env) {
        (Some(_), Some(_)) => {
            Err(Failure::usage("environment.ambiguous", "both an environment and a folder are chosen")
                .remedy("leave out --env (FRAZIL_ENV) or --dir (FRAZIL_DIR)"))
        }
        (Some(dir), None) => Ok(Environment::embedded(absolute(&session.folder, dir)?)),
        (None, env) => {
            let folder = absolute(&session.folder, Path::new(""))?;
            pipeline::environment::load(&folder, env.as_deref()).map_err(|e| misread(&e))
        }
    }
}

/// A path that keeps its meaning whatever the current folder becomes: tables keep it in their locations.
pub(crate) fn absolute(folder: &Path, path: &Path) -> Result<PathBuf, Failure> {
    let path = folder.join(path);
    // Iceberg's locations are compared as text, so `..` must not be in them; links are left as the person wrote them.
    let mut plain = PathBuf::new();
    for part in std::path::absolute(&path)
        .map_err(|e| Failure::io("environment.folder", path.display().to_string(), &e))?
        .components()
    {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    Ok(plain)
}

/// The pipeline that a command works for.
///
/// # Errors
/// When there is none of that name, several and no name, or its file is at fault.
pub(crate) fn pipeline(
    environment: &Environment,
    wanted: Option<&str>,
    session: &Session<'_>,
) -> Result<Pipeline, Failure> {
    let path = pipeline_file(environment, wanted, session)?;
    pipeline::file::load(&path, environment).map_err(|e| misread(&e))
}

/// Its file.
///
/// # Errors
/// As [`pipeline`], but for what is wrong with the file.
pub(crate) fn pipeline_file(
    environment: &Environment,
    wanted: Option<&str>,
    session: &Session<'_>,
) -> Result<PathBuf, Failure> {
    let mut folders = environment.pipeline_folders(&session.folder);
    if session.dir.is_some() {
        // Somebody named the folder: what is in it goes before what happens to lie here.
        folders.reverse();
    }
    let path = pipeline::discovery::find(&folders, wanted).map_err(|e| misread(&e))?;
    absolute(&session.folder, &path)
}

/// What the two files' reader says, as the command line says it.
pub(crate) fn misread(error: &pipeline::Error) -> Failure {
    let failure = Failure::of(error.kind(), error.code(), error);
    match error {
        pipeline::Error::Faults(faults) => match faults.first() {
            Some(first) => failure
                .at(format!("{}:{}:{}", first.file.display(), first.line, first.column))
                .remedy("mend the file there; every fault of it is named"),
            None => failure,
        },
        pipeline::Error::Unreadable { path, .. } => failure
            .at(path.display().to_string())
            .remedy("check the path and who may read it; --dir and --env choose where pipelines are"),
        pipeline::Error::UnknownEnvironment { .. } => {
            failure.remedy("choose one of them with --env (FRAZIL_ENV), or add a block for it")
        }
        pipeline::Error::UnknownPipeline { .. } => {
            failure.remedy("name one of them, or the path of a pipeline file; --dir and --env choose where they are")
        }
        pipeline::Error::NoPipeline { .. } => {
            failure.remedy("name a pipeline file, or choose where it is with --dir or --env")
        }
        pipeline::Error::SeveralPipelines { .. } => failure.remedy("name one of them"),
        _ => failure,
    }
}

/// The store of an environment.
///
/// # Errors
/// When its folder can't be made or read, or no client for its bucket can be made.
pub(crate) async fn store(environment: &Environment, session: &Session<'_>) -> Result<Arc<dyn Store>, Failure> {
    match &environment.store {
        Location::File(root) => {
            let store = LocalStore::open(root, Arc::clone(&session.clock)).map_err(|e| stored(&e))?;
            Ok(Arc::new(store))
        }
        Location::S3 { bucket, prefix } => session.remote.store(bucket, prefix).await,
    }
}

/// The store of an environment for a command that writes nothing: one without a folder yet is empty, and stays so.
///
/// # Errors
/// As [`store`].
pub(crate) async fn existing_store(
    environment: &Environment,
    session: &Session<'_>,
) -> Result<Arc<dyn Store>, Failure> {
    match &environment.store {
        Location::File(root) if !root.is_dir() => Ok(no_store(session)),
        _ => store(environment, session).await,
    }
}

/// A store for what is never stored.
pub(crate) fn no_store(session: &Session<'_>) -> Arc<dyn Store> {
    Arc::new(nowhere::Nowhere(Arc::clone(&session.clock)))
}

/// Refuses an environment whose store was never made: a name or a folder with a slip in it. A bucket answers for itself.
///
/// # Errors
/// When there is no such folder.
pub(crate) fn must_exist(environment: &Environment) -> Result<(), Failure> {
    match &environment.store {
        Location::File(root) if !root.is_dir() => {
            Err(Failure::usage("environment.empty", "there is no such folder: nothing was ever staged here")
                .at(root.display().to_string())
                .remedy("ingest something first, or choose another environment with --env or --dir"))
        }
        _ => Ok(()),
    }
}

/// Whether an environment's catalog was ever made.
pub(crate) fn has_catalog(environment: &Environment) -> bool {
    match &environment.catalog {
        Catalog::Sqlite(path) => path.is_file(),
        // The account's, or a server's, is always there.
        Catalog::Glue { .. } | Catalog::S3Tables { .. } | Catalog::Rest(_) => true,
    }
}

/// A store's error.
pub(crate) fn stored(error: &staging::store::Error) -> Failure {
    let failure = Failure::of(error.kind(), "store", error);
    match error.kind() {
        Kind::Misconfigured => {
            failure.remedy("let this account read and write the store that it names, then try again")
        }
        _ => failure,
    }
}

/// The pipeline's id: fixed at its first run, and from then on read.
///
/// # Errors
/// When the store can't be read or written, holds something else under the id's key, or holds objects of a pipeline of
/// this name whose id is gone.
pub(crate) async fn pipeline_id(store: &dyn Store, name: &str, ids: &dyn Ids) -> Result<PipelineId, Failure> {
    let key = staging::key::pipeline_id(name);
    let new = match known_or_new(store, name, ids).await? {
        (id, true) => return Ok(id),
        (new, false) => new,
    };
    let body = Bytes::from(format!("{new}\n"));
    match store.put_new(&key, body).await {
        Ok(Put::Stored { .. }) => Ok(new),
        // Somebody else was first, or our own answer was lost: what is there is the id.
        Ok(Put::AlreadyStored { .. }) => stored_id(store, &key, name).await?.ok_or_else(|| {
            Failure::new(Kind::Conflict, "pipeline.id", "the pipeline's id was there and is gone").at(key)
        }),
        Err(e) => Err(stored(&e)),
    }
}

/// The pipeline's id where it has one, else one it might get: nothing is stored.
///
/// # Errors
/// As [`pipeline_id`].
pub(crate) async fn known_id(store: &dyn Store, name: &str, ids: &dyn Ids) -> Result<PipelineId, Failure> {
    Ok(known_or_new(store, name, ids).await?.0)
}

/// Whether the store holds anything of a pipeline of this name.
///
/// # Errors
/// As [`pipeline_id`].
pub(crate) async fn is_used(store: &dyn Store, name: &str, ids: &dyn Ids) -> Result<bool, Failure> {
    Ok(known_or_new(store, name, ids).await?.1)
}

/// The stored id and `true`, or one that the pipeline might get and `false`.
async fn known_or_new(store: &dyn Store, name: &str, ids: &dyn Ids) -> Result<(PipelineId, bool), Failure> {
    let key = staging::key::pipeline_id(name);
    if let Some(id) = stored_id(store, &key, name).await? {
        return Ok((id, true));
    }
    let used = ids_in_use(store, name).await?;
    if used.is_empty() {
        return Ok((PipelineId::new(name, ids), false));
    }
    // Its first run may have come between the two looks.
    if let Some(id) = stored_id(store, &key, name).await? {
        return Ok((id, true));
    }
    let used: Vec<&str> = used.iter().map(PipelineId::as_str).collect();
    Err(Failure::new(
        Kind::Misconfigured,
        "pipeline.id",
        format!(
            "the id of pipeline {name} is gone, and the store holds objects of {}: under a new id they would never be folded, \
             and what they settled would be folded again",
            used.join(" and of ")
        ),
    )
    .at(key.clone())
    .remedy(format!("write the id back to `{key}` (it is the second part of the staged objects' keys)")))
}

/// Ids of pipelines of this name that something is stored under.
async fn ids_in_use(store: &dyn Store, name: &str) -> Result<BTreeSet<PipelineId>, Failure> {
    let mut used = BTreeSet::new();
    for root in ["staging", "dead-letters", "settled"] {
        let prefix = format!("{root}/{name}-");
        let mut after: Option<String> = None;
        // One object of each pipeline is looked at; names that go on after this one's are other pipelines.
        loop {
            let page = store.list(&prefix, after.as_deref(), None).await.map_err(|e| stored(&e))?;
            let Some(first) = page.objects.first() else { break };
            let Some((folder, _)) = first.key.get(root.len() + 1..).and_then(|rest| rest.split_once('/')) else {
                break;
            };
            if let Ok(id) = folder.parse::<PipelineId>()
                && id.name() == name
            {
                used.insert(id);
            }
            // `0` follows `/`: everything under this folder is passed over.
            after = Some(format!("{root}/{folder}0"));
        }
    }
    Ok(used)
}

async fn stored_id(store: &dyn Store, key: &str, name: &str) -> Result<Option<PipelineId>, Failure> {
    let Some(body) = small(store, key).await? else { return Ok(None) };
    let corrupt = || {
        Failure::new(Kind::Corrupt, "pipeline.id", format!("it is not the id of a pipeline named {name}"))
            .at(key)
            .remedy("restore the id that the staged objects' keys carry; a new one would begin the pipeline anew")
    };
    let text = str::from_utf8(&body).map_err(|_| corrupt())?;
    let id: PipelineId = text.trim_end().parse().map_err(|_| corrupt())?;
    if id.name() == name { Ok(Some(id)) } else { Err(corrupt()) }
}

/// A small object's body, if there is one.
async fn small(store: &dyn Store, key: &str) -> Result<Option<Bytes>, Failure> {
    match store.get_range(key, 0..SMALL_BYTES_MAX).await {
        Ok(body) => Ok(Some(body)),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(stored(&e)),
    }
}

#[cfg(test)]
mod tests;
