//! The tables of an environment: its catalog, and the way to their files.

use std::path::Path;
use std::sync::Arc;

use fold::{Budget, Fold, Settings};
use iceberg::io::FileIO;
use model::failure::Kind;
use model::id::PipelineId;
use model::secret::Secret;
use pipeline::environment::{Catalog as Place, Environment, Location, SecretReference};
use pipeline::resolved::{Pipeline, TableName};
use staging::store::Store;
use table::catalog::sqlite::SqliteCatalog;
use table::catalog::{Catalog, Loaded};
use table::storage;

use crate::Session;
use crate::environment;
use crate::manners::failure::Failure;

/// The share of the machine's memory, or of the container's, that a fold takes where the pipeline file leaves it to us, in
/// percent: others work there too.
const MEMORY_PERCENT: u64 = 50;

/// Bytes of memory for a fold: what the pipeline file names, else a share of what the machine has, where it says.
fn memory_bytes(named: Option<u64>, machine: Option<u64>) -> u64 {
    let share = || machine.map(|bytes| bytes / 100 * MEMORY_PERCENT);
    named.or_else(share).unwrap_or(Budget::default().memory_bytes)
}

/// SQLite's name for a database without a file.
const IN_MEMORY: &str = ":memory:";

/// A catalog with what reads and writes its tables' files.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) io: FileIO,
    /// Whether the environment's mapping may pass records over.
    may_skip: bool,
}

impl Tables {
    /// Opens an environment's catalog, which is made when it is not there.
    ///
    /// # Errors
    /// When it can't be opened or made.
    pub(crate) async fn open(environment: &Environment, session: &Session<'_>) -> Result<Self, Failure> {
        match &environment.catalog {
            Place::Sqlite(path) => Self::at(path, environment, session).await,
            Place::Glue { region } => {
                let (io, warehouse) = files(environment, session).await?;
                let (clock, ids) = (Arc::clone(&session.clock), Arc::clone(&session.ids));
                // Boxed, for it holds what looks for credentials.
                let catalog = session.remote.glue(region.clone(), warehouse, io.clone(), (clock, ids));
                let catalog = Box::pin(catalog).await;
                Ok(Self::with(catalog.map_err(|e| failed(&e))?, io, environment))
            }
            Place::S3Tables { bucket_arn, region } => {
                let io = session.remote.file_io_in(region).await?;
                let (clock, ids) = (Arc::clone(&session.clock), Arc::clone(&session.ids));
                let catalog = session.remote.s3tables(bucket_arn.clone(), region.clone(), io.clone(), (clock, ids));
                let catalog = Box::pin(catalog).await;
                Ok(Self::with(catalog.map_err(|e| failed(&e))?, io, environment))
            }
            Place::Rest(settings) => {
                let (io, _) = files(environment, session).await?;
                let variable = session.variable;
                let secret = move |reference: &SecretReference| {
                    let SecretReference::Env(name) = reference;
                    let value = variable(name).filter(|value| !value.is_empty()).ok_or_else(|| {
                        let message = format!("the variable {name}, which holds the catalog's secret, is not set");
                        Failure::new(Kind::Misconfigured, "environment.secret", message)
                            .remedy("set it, or name another one as the `secret` of `catalog` in frazil.toml")
                    })?;
                    Ok(Secret::new(value.into_bytes()))
                };
                let (clock, ids) = (Arc::clone(&session.clock), Arc::clone(&session.ids));
                let catalog = Box::pin(session.remote.rest(settings, &secret, (clock, ids))).await?;
                Ok(Self::with(catalog, io, environment))
            }
        }
    }

    fn with(catalog: Arc<dyn Catalog>, io: FileIO, environment: &Environment) -> Self {
        Self { catalog, io, may_skip: !environment.mapping.skips().is_empty() }
    }

    /// Opens an environment's catalog for a command that writes nothing: one that is not there yet is empty, and stays so.
    ///
    /// # Errors
    /// As [`Tables::open`].
    pub(crate) async fn untouched(environment: &Environment, session: &Session<'_>) -> Result<Self, Failure> {
        match environment::has_catalog(environment) {
            true => Self::open(environment, session).await,
            false => Self::at(Path::new(IN_MEMORY), environment, session).await,
        }
    }

    async fn at(path: &Path, environment: &Environment, session: &Session<'_>) -> Result<Self, Failure> {
        let (io, warehouse) = files(environment, session).await?;
        let (clock, ids) = (Arc::clone(&session.clock), Arc::clone(&session.ids));
        let catalog = SqliteCatalog::open(path, &warehouse, io.clone(), clock, ids).await;
        let catalog = catalog.map_err(|e| {
            let failure = failed(&e);
            match e.kind() {
                Kind::Misconfigured => failure.remedy(
                    "check the catalog's file and its folder, and who may use them; --dir, --env and frazil.toml say where it is",
                ),
                Kind::Corrupt => failure.remedy(
                    "bring the catalog's file back from a copy, or name another one: --dir, --env and frazil.toml say where it is",
                ),
                _ => failure,
            }
        })?;
        Ok(Self::with(Arc::new(catalog), io, environment))
    }

    /// Opens an environment's catalog for a command that only reads.
    ///
    /// # Errors
    /// When there is none yet, or it can't be opened.
    pub(crate) async fn existing(environment: &Environment, session: &Session<'_>) -> Result<Self, Failure> {
        if let Place::Sqlite(path) = &environment.catalog
            && !environment::has_catalog(environment)
        {
            return Err(Failure::usage("environment.empty", "there is no catalog yet: nothing was ever folded here")
                .at(path.display().to_string())
                .remedy("fold something first, or choose another environment with --env or --dir"));
        }
        Self::open(environment, session).await
    }

    /// A fold of a pipeline into them, with the memory that its file names or the machine has.
    pub(crate) fn fold(
        &self,
        pipeline: Pipeline,
        id: PipelineId,
        store: Arc<dyn Store>,
        dry_run: bool,
        session: &Session<'_>,
    ) -> Fold {
        // By hand there is no end to the time, so the run before has nothing to say.
        let budget = Budget::of(memory_bytes(pipeline.fold.memory_bytes, runtime::memory::limit()), None, None);
        Fold {
            pipeline: Arc::new(pipeline),
            id,
            store,
            catalog: Arc::clone(&self.catalog),
            io: self.io.clone(),
            clock: Arc::clone(&session.clock),
            ids: Arc::clone(&session.ids),
            settings: Settings { budget, dry_run, may_skip: self.may_skip },
        }
    }

    /// Every table there is.
    pub(crate) async fn list(&self) -> Result<Vec<TableName>, Failure> {
        let mut all = Vec::new();
        for namespace in self.catalog.list_namespaces().await.map_err(|e| failed(&e))? {
            all.extend(self.catalog.list_tables(&namespace).await.map_err(|e| failed(&e))?);
        }
        Ok(all)
    }

    /// A table as it is now.
    pub(crate) async fn load(&self, name: &TableName) -> Result<Option<Loaded>, Failure> {
        self.catalog.load(name).await.map_err(|e| failed(&e).at(name.to_string()))
    }
}

/// What reads and writes an environment's files of tables, and the location under which they are.
async fn files(environment: &Environment, session: &Session<'_>) -> Result<(FileIO, String), Failure> {
    match &environment.warehouse {
        Some(Location::File(folder)) => {
            let refused = |e| {
                let failure = Failure::of(Kind::Misconfigured, "environment.warehouse", &e);
                failure.remedy("choose another folder for the warehouse, in frazil.toml or with --dir")
            };
            Ok((storage::local(), storage::location_of(folder).map_err(refused)?))
        }
        Some(bucket @ Location::S3 { .. }) => Ok((session.remote.file_io().await?, bucket.to_string())),
        None => {
            Err(Failure::new(Kind::Bug, "environment.warehouse", "this catalog takes a warehouse, and there is none"))
        }
    }
}

/// What to do is known to the catalog, where it says.
pub(crate) fn failed(error: &table::catalog::Error) -> Failure {
    let failure = Failure::of(error.kind(), "catalog", error).advised(error.remedy());
    match (error.remedy(), error.kind()) {
        (None, Kind::Misconfigured) => {
            failure.remedy("mend the catalog's settings in frazil.toml, or what the message names")
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_the_files_else_a_share_of_the_machines() {
        assert_eq!(memory_bytes(Some(64 << 20), Some(8 << 30)), 64 << 20);
        assert_eq!(memory_bytes(None, Some(8_000_000_000)), 4_000_000_000);
        assert_eq!(memory_bytes(None, None), Budget::default().memory_bytes);
    }
}
