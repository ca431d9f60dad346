//! What is built once and serves every event.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use codec::columns;
use codec::protobuf::{Filter, schema};
use model::clock::Clock;
use model::id::PipelineId;
use model::secret::Secret;
use model::verdict::Origin;
use pipeline::resolved::Pipeline;
use prost_reflect::MessageDescriptor;
use staging::footer;
use staging::store::Store;

use crate::Error;
use crate::plan::Scratch;
use crate::tables::{Making, Tables};

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
    /// The message of the values.
    pub message: MessageDescriptor,
    /// The columns that values are mapped to, table by table.
    pub columns: columns::Tables,
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
    /// Reads the pipeline's schema, plans its columns and names its content, for an embedded pipeline.
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
        let message = schema::load(&pipeline.value.schema)?;
        let columns = columns::plan_tables(&message, &pipeline).map_err(|faults| Error::Columns { faults })?;
        let digests = BTreeMap::from([("value".to_owned(), schema::digest(&message))]);
        let pipeline_file_hash = pipeline::hash::of(&pipeline, &digests)?;
        Ok(Self {
            pipeline,
            pipeline_id,
            pipeline_file_hash,
            apply_sequence: 0,
            message,
            columns,
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
    pub(crate) pipeline: Pipeline,
    pub(crate) pipeline_id: PipelineId,
    pub(crate) pipeline_file_hash: String,
    pub(crate) apply_sequence: u64,
    pub(crate) footer_columns: Vec<footer::Column>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
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
    /// [`Error::Decode`] when the columns were planned for another message, or values are hashed and there is no salt.
    pub fn new(config: IngestConfig) -> Result<Self, Error> {
        let footer_column = |column| footer_column(column, &config.columns);
        let footer_columns = config.columns.columns.columns.iter().map(footer_column).collect();
        let IngestConfig {
            pipeline,
            pipeline_id,
            pipeline_file_hash,
            apply_sequence,
            message,
            columns,
            store,
            clock,
            salt,
            origin,
        } = config;
        let ingest = Self {
            pipeline,
            pipeline_id,
            pipeline_file_hash,
            apply_sequence,
            footer_columns,
            store,
            clock,
            making: Arc::new(Making { message, columns, salt }),
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
        let filter = Filter::new(&self.making.message, &self.making.columns.columns)?;
        Ok(Scratch::new(filter, Tables::new(Arc::clone(&self.making), &self.pipeline)?))
    }
}

/// What the footer, which is of all tables, says of a column.
fn footer_column(column: &columns::Column, tables: &columns::Tables) -> footer::Column {
    footer::Column {
        name: column.name.clone(),
        source: column.source.clone(),
        source_name: column.source_name.clone(),
        data_type: column.data_type.to_string(),
        required: tables.requires(&column.name),
    }
}
