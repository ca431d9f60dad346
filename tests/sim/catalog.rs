//! Two kinds of catalogs: one swaps the whole table if nobody did before, the other holds each commit's requirements
//! against whatever is there, as REST catalogs do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use iceberg::{TableRequirement, TableUpdate};
use model::clock::Timestamp;
use model::failure::Kind;
use model::id::SeededIds;
use table::catalog::{Catalog, Error, Loaded, TableCreation, TableName, metadata};

use crate::fault::Fault;
use crate::files::Disk;
use crate::oracle::{Actor, Oracle};
use crate::world::{Process, World};

/// What a catalog compares before a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparing {
    /// The metadata that the commit was made from.
    WholeTable,
    /// The requirements that the commit names.
    Requirements,
}

/// What the catalog says of a table that it refuses.
pub(crate) const REFUSED: &str = "this table is refused";

/// The tables.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) world: Arc<World>,
    pub(crate) oracle: Arc<Oracle>,
    disk: Arc<Disk>,
    comparing: Comparing,
    ids: Arc<SeededIds>,
    current: Mutex<BTreeMap<TableName, Loaded>>,
    /// Until when a table is refused.
    refused: Mutex<BTreeMap<TableName, Timestamp>>,
}

impl Tables {
    pub(crate) fn new(world: &Arc<World>, oracle: &Arc<Oracle>, disk: &Arc<Disk>) -> Arc<Self> {
        let comparing = if world.below(2) == 0 { Comparing::WholeTable } else { Comparing::Requirements };
        Arc::new(Self {
            world: Arc::clone(world),
            oracle: Arc::clone(oracle),
            disk: Arc::clone(disk),
            comparing,
            ids: world.ids(),
            current: Mutex::default(),
            refused: Mutex::default(),
        })
    }

    fn current(&self) -> MutexGuard<'_, BTreeMap<TableName, Loaded>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a metadata file: whoever looks into a table's past reads it.
    fn write(&self, staged: &metadata::Staged) {
        match serde_json::to_vec(&staged.metadata) {
            Ok(body) => drop(self.disk.write(&staged.location, body.into())),
            Err(error) => self.world.violated("stuck", error.to_string()),
        }
    }

    /// The tables' names.
    pub(crate) fn names(&self) -> Vec<TableName> {
        self.current().keys().cloned().collect()
    }

    /// Refuses a table that nobody may have for a while.
    fn refuse(&self, process: &Process, table: &TableName) -> Result<(), Error> {
        let world = &self.world;
        if !world.has_many() {
            return Ok(());
        }
        let begins = world.happens(Fault::TableRefused);
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if begins {
            let minutes = world.between(1, 40).cast_signed();
            world.note(|| format!("{}: {table} is refused for {minutes} minutes", process.name));
            refused.insert(table.clone(), world.now().plus_micros(minutes * 60_000_000));
        }
        match refused.get(table) {
            // Half the time it does not look as if trying again would help.
            Some(until) if world.now() < *until && !world.is_quiet() => {
                let kind = if until.micros() % 2 == 0 { Kind::Retry } else { Kind::Misconfigured };
                Err(Error::failed(kind, REFUSED))
            }
            _ => Ok(()),
        }
    }

    /// A table as it is.
    pub(crate) fn load(&self, table: &TableName) -> Option<Loaded> {
        self.current().get(table).cloned()
    }

    /// One commit, applied or refused.
    ///
    /// # Errors
    /// A conflict, or updates that do not apply.
    pub(crate) fn commit(
        &self,
        actor: Actor,
        base: &Loaded,
        requirements: &[TableRequirement],
        updates: &[TableUpdate],
    ) -> Result<Loaded, Error> {
        let mut current = self.current();
        let Some(now) = current.get_mut(&base.name) else {
            return Err(Error::failed(Kind::Misconfigured, format!("there is no table {}", base.name)));
        };
        if self.comparing == Comparing::WholeTable && now.metadata_location != base.metadata_location {
            let detail = format!("its metadata is {}", now.metadata_location);
            return Err(Error::Conflict { table: base.name.clone(), detail });
        }
        let staged = metadata::stage(now, requirements, updates, self.world.now(), self.ids.as_ref())?;
        self.write(&staged);
        let after = staged.loaded(base.name.clone());
        let before = std::mem::replace(now, after.clone());
        self.world.note(|| {
            let head = |l: &Loaded| l.metadata.current_snapshot().map(|s| s.snapshot_id());
            format!("{actor:?}: committed {:?} after {:?}", head(&after), head(&before))
        });
        drop(current);
        self.oracle.committed(actor, Some(&before), &after);
        Ok(after)
    }
}

/// The tables as one process reaches them.
#[derive(Debug)]
pub(crate) struct RemoteCatalog {
    pub(crate) tables: Arc<Tables>,
    pub(crate) process: Arc<Process>,
    pub(crate) actor: Actor,
}

#[async_trait]
impl Catalog for RemoteCatalog {
    async fn load(&self, table: &TableName) -> Result<Option<Loaded>, Error> {
        self.process.call().await;
        if self.process.world.happens(Fault::CommitRefused) {
            return Err(Error::failed(Kind::Retry, "503 slow down"));
        }
        self.tables.refuse(&self.process, table)?;
        let loaded = self.tables.load(table);
        self.process.answered().await;
        Ok(loaded)
    }

    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<Loaded, Error> {
        self.process.call().await;
        self.tables.refuse(&self.process, table)?;
        let loaded = {
            let mut current = self.tables.current();
            if current.contains_key(table) {
                return Err(Error::AlreadyExists { table: table.clone() });
            }
            let location = creation.location_under("file:///lake", table);
            let staged = metadata::create(creation, location, self.process.world.now(), self.tables.ids.as_ref())?;
            self.tables.write(&staged);
            let loaded = staged.loaded(table.clone());
            current.insert(table.clone(), loaded.clone());
            loaded
        };
        self.process.world.note(|| format!("{}: created {table}", self.process.name));
        self.tables.oracle.committed(self.actor, None, &loaded);
        self.process.answered().await;
        if self.process.world.happens(Fault::CommitAnswerLost) {
            return Err(Error::OutcomeUnknown { table: table.clone(), detail: "no answer".to_owned(), source: None });
        }
        Ok(loaded)
    }

    async fn commit(
        &self,
        base: &Loaded,
        requirements: Vec<TableRequirement>,
        updates: Vec<TableUpdate>,
    ) -> Result<Loaded, Error> {
        let world = &self.process.world;
        let unknown = || {
            world.note(|| format!("{}: commit: no answer", self.process.name));
            Err(Error::OutcomeUnknown { table: base.name.clone(), detail: "no answer".to_owned(), source: None })
        };
        self.process.call().await;
        if world.happens(Fault::CommitConflict) {
            world.note(|| format!("{}: commit: a conflict with nobody", self.process.name));
            return Err(Error::Conflict { table: base.name.clone(), detail: "so it says".to_owned() });
        }
        if world.happens(Fault::CommitRefused) {
            return Err(Error::failed(Kind::Retry, "503 slow down"));
        }
        self.tables.refuse(&self.process, &base.name)?;
        if world.happens(Fault::CommitLost) {
            return unknown();
        }
        if world.happens(Fault::CommitLate) {
            let (tables, actor, base, world) = (Arc::clone(&self.tables), self.actor, base.clone(), Arc::clone(world));
            let later = Duration::from_millis(world.between(10, 600_000));
            drop(tokio::spawn(async move {
                tokio::time::sleep(later).await;
                let applied = tables.commit(actor, &base, &requirements, &updates);
                world.note(|| format!("{actor:?}: a late commit: {:?}", applied.map(|_| ()).map_err(|e| e.kind())));
            }));
            return unknown();
        }
        let done = self.tables.commit(self.actor, base, &requirements, &updates);
        if let Err(error) = &done {
            world.note(|| format!("{}: commit: {error}", self.process.name));
        }
        self.process.answered().await;
        if done.is_ok() && world.happens(Fault::CommitAnswerLost) {
            return unknown();
        }
        done
    }

    async fn list_namespaces(&self) -> Result<Vec<String>, Error> {
        Ok(self.tables.current().keys().map(|name| name.namespace.clone()).collect())
    }

    async fn list_tables(&self, namespace: &str) -> Result<Vec<TableName>, Error> {
        Ok(self.tables.current().keys().filter(|name| name.namespace == namespace).cloned().collect())
    }
}
