//! A catalog whose pointers live in memory. Metadata is written and read back as files, as in any other catalog.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use iceberg::io::FileIO;
use iceberg::{TableRequirement, TableUpdate};
use model::clock::Clock;
use model::id::Ids;
use table::catalog::{Catalog, Error, Loaded, TableCreation, TableName, check_name, metadata};

/// A catalog in memory. Clones share its tables.
#[derive(Clone, Debug)]
pub struct MemoryCatalog {
    pointers: Arc<Mutex<BTreeMap<TableName, String>>>,
    warehouse: String,
    io: FileIO,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl MemoryCatalog {
    /// An empty catalog that makes tables under `warehouse`.
    #[must_use]
    pub fn new(warehouse: &str, io: FileIO, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Self { pointers: Arc::default(), warehouse: warehouse.trim_end_matches('/').to_owned(), io, clock, ids }
    }

    /// The same tables, their metadata files read and written another way.
    #[must_use]
    pub fn with_io(&self, io: FileIO) -> Self {
        Self { io, ..self.clone() }
    }

    /// Takes a table out, and leaves its files.
    pub fn forget(&self, table: &TableName) {
        self.pointers.lock().unwrap_or_else(PoisonError::into_inner).remove(table);
    }

    fn pointer(&self, table: &TableName) -> Option<String> {
        self.pointers.lock().unwrap_or_else(PoisonError::into_inner).get(table).cloned()
    }
}

#[async_trait]
impl Catalog for MemoryCatalog {
    async fn load(&self, table: &TableName) -> Result<Option<Loaded>, Error> {
        match self.pointer(table) {
            Some(location) => metadata::read(&self.io, table, &location).await.map(Some),
            None => Ok(None),
        }
    }

    async fn create(&self, table: &TableName, creation: TableCreation) -> Result<Loaded, Error> {
        check_name(table)?;
        let location = creation.location_under(&self.warehouse, table);
        let staged = metadata::create(creation, location, self.clock.now(), self.ids.as_ref())?;
        staged.write(&self.io).await?;
        let mut pointers = self.pointers.lock().unwrap_or_else(PoisonError::into_inner);
        if pointers.contains_key(table) {
            return Err(Error::AlreadyExists { table: table.clone() });
        }
        pointers.insert(table.clone(), staged.location.clone());
        Ok(staged.loaded(table.clone()))
    }

    async fn commit(
        &self,
        base: &Loaded,
        requirements: Vec<TableRequirement>,
        updates: Vec<TableUpdate>,
    ) -> Result<Loaded, Error> {
        let staged = metadata::stage(base, &requirements, &updates, self.clock.now(), self.ids.as_ref())?;
        staged.write(&self.io).await?;
        let mut pointers = self.pointers.lock().unwrap_or_else(PoisonError::into_inner);
        match pointers.get_mut(&base.name) {
            Some(pointer) if *pointer == base.metadata_location => {
                pointer.clone_from(&staged.location);
                Ok(staged.loaded(base.name.clone()))
            }
            found => {
                let detail = format!("its metadata is {found:?}, no longer {}", base.metadata_location);
                Err(Error::Conflict { table: base.name.clone(), detail })
            }
        }
    }

    async fn list_namespaces(&self) -> Result<Vec<String>, Error> {
        let pointers = self.pointers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut namespaces: Vec<_> = pointers.keys().map(|name| name.namespace.clone()).collect();
        namespaces.dedup();
        Ok(namespaces)
    }

    async fn list_tables(&self, namespace: &str) -> Result<Vec<TableName>, Error> {
        let pointers = self.pointers.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(pointers.keys().filter(|name| name.namespace == namespace).cloned().collect())
    }
}
