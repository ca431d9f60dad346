//! What is built once and serves every event.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use codec::columns::{self, Own};
use codec::payload::Schema;
use model::clock::Clock;
use model::id::PipelineId;
use model::secret::Secret;
use model::verdict::Origin;
use pipeline::Environment;
use pipeline::resolved::Pipeline;
use registry::{Limits, Registries};
use staging::store::Store;

use crate::Error;
use crate::plan::Scratch;
use crate::schemas::{Known, Schemas};
use crate::tables::{KeyMaking, Making, Tables};
use crate::versions::{Met, Versions};
use crate::writers::{Of, Writers};

/// How a column names the record's timestamp as its source.
pub(crate) const TIMESTAMP_SOURCE: &str = "@timestamp";

/// How records' keys are read.
#[derive(Clone, Debug)]
pub struct KeyConfig {
    /// The pipeline of keys in the place of values: [`Pipeline::of_key`].
    pub pipeline: Pipeline,
    /// The schema of the keys, and what else is known of it.
    pub own: Own,
    /// The columns that they fill.
    pub columns: columns::Tables,
}

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
    /// The schema of the values, and what else is known of it.
    pub own: Own,
    /// The columns that values are mapped to, table by table.
    pub columns: columns::Tables,
    /// How keys are read, where they are.
    pub keys: Option<KeyConfig>,
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
        let own = Own::alone(Schema::of(&pipeline)?);
        let own_key = pipeline.of_key().map(|of_key| Schema::of(&of_key).map(Own::alone)).transpose()?;
        let registries = Registries::new(Vec::new(), Arc::clone(&clock), Limits::default());
        Self::of(pipeline, own, own_key, Arc::new(registries), pipeline_id, store, clock)
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
        let registries = crate::registries(&pipeline, environment, variable, Arc::clone(&clock)).await?;
        Self::asking(registries, pipeline, environment, variable, pipeline_id, store, clock).await
    }

    /// The same with registries in the place of the environment's.
    ///
    /// # Errors
    /// As [`IngestConfig::open`].
    pub async fn asking(
        registries: Registries,
        pipeline: Pipeline,
        environment: &Environment,
        variable: &dyn Fn(&str) -> Option<String>,
        pipeline_id: PipelineId,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let salt = crate::salt(&pipeline, environment, variable)?;
        let own = crate::own_schema(&pipeline, &registries).await?;
        let own_key = match pipeline.of_key() {
            Some(of_key) => Some(crate::own_schema(&of_key, &registries).await?),
            None => None,
        };
        Ok(Self::of(pipeline, own, own_key, Arc::new(registries), pipeline_id, store, clock)?.salted(salt))
    }

    fn of(
        pipeline: Pipeline,
        own: Own,
        own_key: Option<Own>,
        registries: Arc<Registries>,
        pipeline_id: PipelineId,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let mut digests = BTreeMap::from([("value".to_owned(), own.schema.digest())]);
        digests.extend(own_key.iter().map(|own| ("key".to_owned(), own.schema.digest())));
        let pipeline_file_hash = pipeline::hash::of(&pipeline, &digests)?;
        let (pipeline, keys) = match (pipeline.of_key(), own_key) {
            (Some(of_key), Some(own)) => {
                let planned = columns::plan_keys(&own, &pipeline, &of_key);
                let (columns, typed) = planned.map_err(|faults| Error::Columns { faults })?;
                (typed, Some(KeyConfig { pipeline: of_key, own, columns }))
            }
            _ => (pipeline, None),
        };
        let columns = columns::plan_tables(&own, &pipeline).map_err(|faults| Error::Columns { faults })?;
        Ok(Self {
            pipeline,
            pipeline_id,
            pipeline_file_hash,
            apply_sequence: 0,
            own,
            columns,
            keys,
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

/// What keys are read by.
pub(crate) struct Keys {
    /// That of keys in the place of values.
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) schema: Schema,
    pub(crate) schemas: Schemas,
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
    pub(crate) keys: Option<Keys>,
    versions: Mutex<Versions>,
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
            own,
            columns,
            keys,
            registries,
            store,
            clock,
            salt,
            origin,
        } = config;
        let met = |pipeline: &Arc<Pipeline>, own: Own, columns: columns::Tables| {
            let schema = own.schema.clone();
            Met::new(Arc::clone(pipeline), schema, columns::Versions::new(pipeline, own, columns))
        };
        let mut key = None;
        let mut met_keys = None;
        let keys = keys.map(|KeyConfig { pipeline, own, columns }| {
            let (pipeline, schema) = (Arc::new(pipeline), own.schema.clone());
            let met = met_keys.insert(met(&pipeline, own, columns));
            let (own, united) = (Arc::clone(met.own()), met.united());
            key = Some(Arc::new(KeyMaking { schema: schema.clone(), own, united }));
            let schemas = Schemas::new(Arc::clone(&registries), pipeline.value.format);
            Keys { pipeline, schema, schemas }
        });
        let (pipeline, schema) = (Arc::new(pipeline), own.schema.clone());
        let values = met(&pipeline, own, columns);
        let making = Making::new(Arc::clone(values.own()), schema, values.united(), key, salt);
        let ingest = Self {
            keys,
            schemas: Schemas::new(registries, pipeline.value.format),
            pipeline,
            pipeline_id,
            pipeline_file_hash,
            apply_sequence,
            store,
            clock,
            versions: Mutex::new(Versions::new(Arc::new(making), values, met_keys)),
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

    /// What rows are made by once the columns of these schemas are there, where the pipeline adds such. A schema whose fields
    /// can't be columns is taken out: its records are dead letters.
    pub(crate) fn making(&self, known: &mut Known, known_keys: &mut Known) -> Arc<Making> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner).meet(known, known_keys)
    }

    /// Judges what was registered since, where records name a version that has no verdict: it must not depend on which comes first.
    pub(crate) async fn judge_newer(&self, known: &Known, known_keys: &Known) -> Result<(), Error> {
        let versions = || self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let unjudged = versions().values().unjudged(known);
        if let Some(own) = unjudged {
            let listed = self.schemas.versions(&self.pipeline, &own).await?;
            versions().values().judge(&listed);
        }
        let unjudged = versions().keys().and_then(|keys| keys.unjudged(known_keys));
        if let (Some(own), Some(Keys { pipeline, schemas, .. })) = (unjudged, &self.keys) {
            let listed = schemas.versions(pipeline, &own).await?;
            if let Some(keys) = versions().keys() {
                keys.judge(&listed);
            }
        }
        Ok(())
    }

    fn new_scratch(&self) -> Result<Scratch, Error> {
        let making = self.making(&mut Known::new(), &mut Known::new());
        let writers = Writers::new(&self.pipeline, &making.schema, Of::Value)?;
        let keys = self.keys.as_ref().map(|keys| Writers::new(&keys.pipeline, &keys.schema, Of::Key));
        Ok(Scratch::new(writers, keys.transpose()?, Tables::new(making, Arc::clone(&self.pipeline))?))
    }
}
