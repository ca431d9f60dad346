//! The catalog's tables as the engine sees them.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, Session, TableProvider};
use datafusion::common::Result as EngineResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::StreamExt;
use iceberg::io::FileIO;
use model::failure::Kind;
use pipeline::resolved::TableName;
use table::catalog::Loaded;
use table::fault::Fault;
use table::scan::{self, Plan, Request};
use table::schema::{Strings, arrow_schema};

use super::{carried, predicate};
use crate::manners::failure::Failure;
use crate::tables::Tables;

/// The tables there are, by namespace.
#[derive(Debug, Default)]
pub(crate) struct Names {
    tables: Option<Tables>,
    by_namespace: BTreeMap<String, Vec<TableName>>,
}

impl Names {
    pub(crate) async fn list(tables: Tables) -> Result<Self, Failure> {
        let mut by_namespace: BTreeMap<String, Vec<TableName>> = BTreeMap::new();
        for name in tables.list().await? {
            by_namespace.entry(name.namespace.clone()).or_default().push(name);
        }
        Ok(Self { tables: Some(tables), by_namespace })
    }

    /// The namespace, where there is only one.
    pub(super) fn only_namespace(&self) -> Option<&str> {
        let mut names = self.by_namespace.keys();
        match (names.next(), names.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        }
    }

    /// What may be named, for a person who named something else.
    pub(super) fn listed(&self) -> String {
        const SHOWN_MAX: usize = 20;
        let all: Vec<String> = self.by_namespace.values().flatten().map(ToString::to_string).collect();
        match all.len() {
            0 => "the catalog has no tables yet".to_owned(),
            n if n > SHOWN_MAX => {
                format!("there are {} and {} more", all.get(..SHOWN_MAX).unwrap_or(&all).join(", "), n - SHOWN_MAX)
            }
            _ => format!("there are: {}", all.join(", ")),
        }
    }
}

/// The one catalog.
#[derive(Debug)]
pub(super) struct Catalog(Arc<Names>);

impl Catalog {
    pub(super) const fn new(names: Arc<Names>) -> Self {
        Self(names)
    }
}

impl CatalogProvider for Catalog {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn schema_names(&self) -> Vec<String> {
        self.0.by_namespace.keys().cloned().collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let tables = self.0.by_namespace.get(name)?;
        Some(Arc::new(Namespace { names: Arc::clone(&self.0), tables: tables.clone() }))
    }
}

/// One namespace.
#[derive(Debug)]
struct Namespace {
    names: Arc<Names>,
    tables: Vec<TableName>,
}

#[async_trait]
impl SchemaProvider for Namespace {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn table_names(&self) -> Vec<String> {
        self.tables.iter().map(|t| t.name.clone()).collect()
    }

    async fn table(&self, name: &str) -> EngineResult<Option<Arc<dyn TableProvider>>> {
        let Some(found) = self.tables.iter().find(|t| t.name == name) else { return Ok(None) };
        let Some(tables) = &self.names.tables else { return Ok(None) };
        let Some(loaded) = tables.load(found).await.map_err(carried)? else { return Ok(None) };
        let source = Source::new(loaded, tables.io.clone()).map_err(|e| carried(table_failure(&e)))?;
        Ok(Some(Arc::new(source)))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.iter().any(|t| t.name == name)
    }
}

/// One table, as it was when the statement was planned: what is committed meanwhile is not seen.
#[derive(Debug)]
struct Source {
    loaded: Loaded,
    io: FileIO,
    schema: SchemaRef,
}

impl Source {
    fn new(loaded: Loaded, io: FileIO) -> Result<Self, Fault> {
        let schema = arrow_schema(loaded.metadata.current_schema(), Strings::Plain)?;
        Ok(Self { loaded, io, schema })
    }
}

#[async_trait]
impl TableProvider for Source {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> EngineResult<Arc<dyn ExecutionPlan>> {
        let columns = projection.map(|places| {
            places.iter().filter_map(|n| self.schema.fields().get(*n)).map(|f| f.name().clone()).collect()
        });
        let predicate = predicate::of(filters, &self.schema);
        let request = Request { columns, predicate, ..Request::default() };
        let plan = scan::plan(&self.loaded.metadata, &self.io, &request).await;
        let mut plan = plan.map_err(|e| carried(table_failure(&e)))?;
        if let Some(limit) = limit
            && filters.is_empty()
        {
            first_files(&mut plan, limit);
        }
        let schema = Arc::clone(&plan.arrow_schema);
        let rows = Rows { plan, io: self.io.clone(), schema: Arc::clone(&schema) };
        let rows: Arc<dyn PartitionStream> = Arc::new(rows);
        Ok(Arc::new(StreamingTableExec::try_new(schema, vec![rows], None, [], false, limit)?))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> EngineResult<Vec<TableProviderFilterPushDown>> {
        let answer = |filter: &&Expr| {
            if predicate::usable(filter, &self.schema) {
                TableProviderFilterPushDown::Inexact
            } else {
                TableProviderFilterPushDown::Unsupported
            }
        };
        Ok(filters.iter().map(answer).collect())
    }
}

/// Files beyond those that hold `limit` rows need not be opened.
fn first_files(plan: &mut Plan, limit: usize) {
    let mut rows = 0_u64;
    let enough = plan.files.iter().position(|file| {
        let reached = rows >= limit as u64;
        rows = rows.saturating_add(file.rows);
        reached
    });
    if let Some(enough) = enough {
        plan.files.truncate(enough);
    }
}

/// The rows of a planned scan.
#[derive(Debug)]
struct Rows {
    plan: Plan,
    io: FileIO,
    schema: SchemaRef,
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = self.plan.clone().execute(self.io.clone());
        let rows = rows.map(|batch| batch.map_err(|e| carried(table_failure(&e))));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}

fn table_failure(fault: &Fault) -> Failure {
    let remedy = match fault {
        Fault::Unsupported(_) => Some("read the table with an engine that knows it, or rewrite the table without it"),
        _ if fault.kind() == Kind::Misconfigured => Some("let this account read the table's files, then ask again"),
        _ => None,
    };
    Failure::of(fault.kind(), "query.table", fault).remedy_if(remedy)
}
