//! What is built once and serves every event.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use codec::columns;
use codec::payload::{Reader, Schema};
use model::clock::Clock;
use model::id::PipelineId;
use model::secret::Secret;
use model::verdict::Origin;
use pipeline::Environment;
use pipeline::resolved::Pipeline;
use registry::{Limits, Registries};
use staging::footer;
use staging::store::Store;

use crate::Error;
use crate::plan::Scratch;
use crate::schemas::Schemas;
use crate::tables::{Making, Tables};
use crate::writers::Writers;

/// How a column names the record's timestamp as its source.
pub(crate) const TIMESTAMP_SOURCE: &str = "@timestamp";

/// What [`Ingest`] is made of.
#[derive(Clone, Debug)]
pub struct IngestConfig {
    /// The pipeline.
    pub pipeline: Pipeline,
    /// Its id.
    pub pipeline_id: PipelineId,
    /// sha256, hexadecimal, of the pipeline with its schemas' digests.
    pub pipeline_file_hash: String,
    /// The apply sequence number of that file; 0 when embedded.
    pub apply_sequence: u64,
    /// The schema of the values.
    pub schema: Schema,
    /// The columns that values are mapped to, table by table.
    pub columns: columns::Tables,
    /// Where the schemas are that records name.
    pub registries: Arc<Registries>,
    /// Where objects go.
    pub store: Arc<dyn Store>,
    /// Where minutes come from.
    pub clock: Arc<dyn Clock>,
    /// The salt of hashed values; needed only where there are some. See [`crate::salt`].
    pub salt: Option<Secret>,
    /// How the records come.
    pub origin: Origin,
}

impl IngestConfig {
    /// Reads the pipeline's schema from its file, plans its columns and names its content, for an embedded pipeline whose records
    /// are bare.
    ///
    /// # Errors
    /// [`Error::Decode`] when the schema can't be used, [`Error::Columns`] when what the pipeline file says of values and
    /// columns does not fit it.
    pub fn load(
        pipeline: Pipeline,
        pipeline_id: PipelineId,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let schema = Schema::load(&pipeline.value.schema)?;
        let registries = Registries::new(Vec::new(), Arc::clone(&clock), Limits::default());
        Self::of(pipeline, schema, Arc::new(registries), pipeline_id, store, clock)
    }

    /// The same for records in whatever framing, and a schema wherever it is kept: registries of the environment are asked for the
    /// newest version that there is, and later for what records name. `variable` looks the variables up that secrets are in.
    ///
    /// # Errors
    /// As [`IngestConfig::load`], [`crate::registries()`], [`crate::own_schema`] and [`crate::salt()`].
    pub async fn open(
        pipeline: Pipeline,
        environment: &Environment,
        variable: &dyn Fn(&str) -> Option<String>,
        pipeline_id: PipelineId,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let salt = crate::salt(&pipeline, environment, variable)?;
        let registries = crate::registries(&pipeline, environment, variable, Arc::clone(&clock)).await?;
        let schema = crate::own_schema(&pipeline.value, &registries).await?;
        Ok(Self::of(pipeline, schema, Arc::new(registries), pipeline_id, store, clock)?.salted(salt))
    }

    fn of(
        pipeline: Pipeline,
        schema: Schema,
        registries: Arc<Registries>,
        pipeline_id: PipelineId,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let columns = columns::plan_tables(&schema, &pipeline).map_err(|faults| Error::Columns { faults })?;
        let digests = BTreeMap::from([("value".to_owned(), schema.digest())]);
        let pipeline_file_hash = pipeline::hash::of(&pipeline, &digests)?;
        Ok(Self {
            pipeline,
            pipeline_id,
            pipeline_file_hash,
            apply_sequence: 0,
            schema,
            columns,
            registries,
            store,
            clock,
            salt: None,
            origin: Origin::Stream,
        })
    }

    /// The same with a salt.
    #[must_use]
    pub fn salted(self, salt: Option<Secret>) -> Self {
        Self { salt, ..self }
    }
}

/// Takes events to a store. One for the life of a process; several events may be handled at once.
pub struct Ingest {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) pipeline_id: PipelineId,
    pub(crate) pipeline_file_hash: String,
    pub(crate) apply_sequence: u64,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) schemas: Schemas,
    making: Arc<Making>,
    pub(crate) origin: Origin,
    /// Buffers between invocations: as many as were ever in use at once.
    scratch: Mutex<Vec<Scratch>>,
}

impl fmt::Debug for Ingest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ingest")
            .field("pipeline_id", &self.pipeline_id)
            .field("pipeline_file_hash", &self.pipeline_file_hash)
            .finish_non_exhaustive()
    }
}

impl Ingest {
    /// Compiles the decoder and makes the first buffers.
    ///
    /// # Errors
    /// [`Error::Decode`] when the columns were planned for another schema, or values are hashed and there is no salt.
    pub fn new(config: IngestConfig) -> Result<Self, Error> {
        let IngestConfig {
            pipeline,
            pipeline_id,
            pipeline_file_hash,
            apply_sequence,
            schema,
            columns,
            registries,
            store,
            clock,
            salt,
            origin,
        } = config;
        let reader = schema.reader();
        let making = Making { footer: footer_columns(&reader, &columns), reader, schema, columns, salt };
        let ingest = Self {
            schemas: Schemas::new(registries, pipeline.value.format),
            pipeline: Arc::new(pipeline),
            pipeline_id,
            pipeline_file_hash,
            apply_sequence,
            store,
            clock,
            making: Arc::new(making),
            origin,
            scratch: Mutex::default(),
        };
        ingest.keep(ingest.new_scratch()?);
        Ok(ingest)
    }

    /// The pipeline's id.
    #[must_use]
    pub const fn pipeline_id(&self) -> &PipelineId {
        &self.pipeline_id
    }

    pub(crate) fn scratch(&self) -> Result<Scratch, Error> {
        let kept = self.scratch.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.map_or_else(|| self.new_scratch(), Ok)
    }

    pub(crate) fn keep(&self, scratch: Scratch) {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
    }

    fn new_scratch(&self) -> Result<Scratch, Error> {
        let writers = Writers::new(&self.pipeline, &self.making.schema)?;
        Ok(Scratch::new(writers, Tables::new(Arc::clone(&self.making), Arc::clone(&self.pipeline))?))
    }
}

/// What the footer, which is of all tables, says of columns.
fn footer_columns(reader: &Reader, tables: &columns::Tables) -> Vec<footer::Column> {
    let former = columns::former_sources(reader, &tables.columns);
    let footer_column = |column: &columns::Column| footer::Column {
        name: column.name.clone(),
        source: column.source.clone(),
        source_name: column.source_name.clone(),
        former: former.get(&column.source).cloned().unwrap_or_default(),
        data_type: column.data_type.to_string(),
        required: tables.requires(&column.name),
    };
    tables.columns.columns.iter().map(footer_column).collect()
}
