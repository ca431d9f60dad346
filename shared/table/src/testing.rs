//! Values, arrays and whole tables for this crate's tests.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use futures::TryStreamExt;
use iceberg::io::FileIO;
use iceberg::spec::{
    DataFile, FormatVersion, ManifestListWriter, ManifestWriterBuilder, Operation, PrimitiveLiteral, PrimitiveType,
    Schema, SchemaRef, Snapshot, SnapshotReference, SnapshotRetention, SortOrder, Summary, TableMetadata,
    TableMetadataBuilder,
};
use model::id::{Ids, SeededIds};
use pipeline::resolved;
use proptest::prelude::*;

use crate::data_file::{PartitionedWriter, Target};
use crate::schema::{Column, Strings, iceberg_schema, literal, primitive_type};
use crate::{partition, scan, sort};

pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

/// Optional columns from `(name, type text)`.
pub(crate) fn schema(columns: &[(&str, &str)]) -> SchemaRef {
    let columns: Vec<Column> = columns
        .iter()
        .map(|(name, data_type)| Column {
            name: (*name).to_owned(),
            data_type: data_type.parse().unwrap(),
            required: false,
            doc: None,
        })
        .collect();
    Arc::new(iceberg_schema(&columns).unwrap())
}

/// Every primitive type that a column can have.
pub(crate) fn primitives() -> Vec<PrimitiveType> {
    vec![
        PrimitiveType::Boolean,
        PrimitiveType::Int,
        PrimitiveType::Long,
        PrimitiveType::Float,
        PrimitiveType::Double,
        PrimitiveType::Decimal { precision: 5, scale: 2 },
        PrimitiveType::Decimal { precision: 15, scale: 3 },
        PrimitiveType::Decimal { precision: 38, scale: 10 },
        PrimitiveType::Date,
        PrimitiveType::Time,
        PrimitiveType::Timestamp,
        PrimitiveType::Timestamptz,
        PrimitiveType::TimestampNs,
        PrimitiveType::TimestamptzNs,
        PrimitiveType::String,
        PrimitiveType::Uuid,
        PrimitiveType::Fixed(5),
        PrimitiveType::Fixed(20),
        PrimitiveType::Binary,
    ]
}

/// Values of a type: ends, neighbourhoods of zero and a few repeated ones more often than chance would give them.
pub(crate) fn value(data_type: &PrimitiveType) -> BoxedStrategy<PrimitiveLiteral> {
    let long = prop_oneof![any::<i64>(), -3i64..3, Just(i64::MIN), Just(i64::MAX), -9_000_000_000i64..9_000_000_000];
    let int = prop_oneof![any::<i32>(), -3i32..3, Just(i32::MIN), Just(i32::MAX), -1000i32..1000];
    let double = prop_oneof![
        any::<f64>(),
        Just(f64::NAN),
        Just(-f64::NAN),
        Just(0.0),
        Just(-0.0),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        -2.0..2.0f64
    ];
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        prop::collection::vec(prop_oneof![Just(0u8), Just(255u8)], 0..24)
    ];
    let character =
        prop_oneof![Just('a'), Just('b'), Just('\u{10ffff}'), Just('\u{d7ff}'), Just('é'), Just('😀'), any::<char>()];
    let text = prop::collection::vec(character, 0..24).prop_map(|chars| chars.into_iter().collect::<String>());
    match data_type {
        PrimitiveType::Boolean => any::<bool>().prop_map(PrimitiveLiteral::Boolean).boxed(),
        PrimitiveType::Int | PrimitiveType::Date => int.prop_map(PrimitiveLiteral::Int).boxed(),
        PrimitiveType::Time => (0..86_400_000_000i64).prop_map(PrimitiveLiteral::Long).boxed(),
        PrimitiveType::Long
        | PrimitiveType::Timestamp
        | PrimitiveType::Timestamptz
        | PrimitiveType::TimestampNs
        | PrimitiveType::TimestamptzNs => long.prop_map(PrimitiveLiteral::Long).boxed(),
        PrimitiveType::Float => double.prop_map(|v| PrimitiveLiteral::Float((v as f32).into())).boxed(),
        PrimitiveType::Double => double.prop_map(|v| PrimitiveLiteral::Double(v.into())).boxed(),
        PrimitiveType::Decimal { precision, .. } => {
            let most = 10i128.pow(*precision) - 1;
            prop_oneof![-most..=most, Just(most), Just(-most), -1000i128..1000]
                .prop_map(move |v| PrimitiveLiteral::Int128(v.clamp(-most, most)))
                .boxed()
        }
        PrimitiveType::String => text.prop_map(PrimitiveLiteral::String).boxed(),
        PrimitiveType::Uuid => any::<u128>().prop_map(PrimitiveLiteral::UInt128).boxed(),
        PrimitiveType::Fixed(n) => {
            let n = *n as usize;
            prop_oneof![prop::collection::vec(any::<u8>(), n), prop::collection::vec(Just(255u8), n)]
                .prop_map(PrimitiveLiteral::Binary)
                .boxed()
        }
        PrimitiveType::Binary => bytes.prop_map(PrimitiveLiteral::Binary).boxed(),
    }
}

/// A column of values, a fifth of them null.
pub(crate) fn column(data_type: &PrimitiveType, rows: usize) -> BoxedStrategy<Vec<Option<PrimitiveLiteral>>> {
    prop::collection::vec(prop::option::weighted(0.8, value(data_type)), rows).boxed()
}

pub(crate) fn array(data_type: &PrimitiveType, values: &[Option<PrimitiveLiteral>], strings: Strings) -> ArrayRef {
    let arrow = primitive_type(data_type, strings).unwrap();
    let single: Vec<ArrayRef> = values.iter().map(|v| literal::repeat(v.as_ref(), &arrow, 1).unwrap()).collect();
    if single.is_empty() {
        return arrow::array::new_empty_array(&arrow);
    }
    let single: Vec<&dyn Array> = single.iter().map(AsRef::as_ref).collect();
    arrow::compute::concat(&single).unwrap()
}

pub(crate) fn values(array: &dyn Array, data_type: &PrimitiveType) -> Vec<Option<PrimitiveLiteral>> {
    (0..array.len()).map(|row| literal::at(array, row, data_type).unwrap()).collect()
}

/// A table in memory, with a commit just good enough to be read.
pub(crate) struct Table {
    pub(crate) file_io: FileIO,
    pub(crate) metadata: TableMetadata,
    pub(crate) ids: Arc<SeededIds>,
}

impl Table {
    pub(crate) fn new(
        schema: &SchemaRef,
        partition_by: &[resolved::PartitionField],
        sort_by: &[resolved::SortField],
        properties: &[(&str, &str)],
    ) -> Self {
        let spec = partition::spec(schema, partition_by).unwrap();
        let order: SortOrder = sort::order(schema, sort_by).unwrap();
        let properties: HashMap<String, String> =
            properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let location = "memory://warehouse/t".to_owned();
        let schema = Schema::clone(schema);
        let builder =
            TableMetadataBuilder::new(schema, spec.into_unbound(), order, location, FormatVersion::V2, properties);
        let metadata = builder.unwrap().build().unwrap().metadata;
        Self { file_io: FileIO::new_with_memory(), metadata, ids: Arc::new(SeededIds::new(1)) }
    }

    pub(crate) fn target(&self) -> Arc<Target> {
        let names = Arc::clone(&self.ids);
        Arc::new(Target::new(&self.metadata, &[], self.file_io.clone(), names).unwrap())
    }

    pub(crate) fn write(&self, batches: &[RecordBatch], memory_bytes: usize) -> Vec<DataFile> {
        run(async {
            let mut writer = PartitionedWriter::new(self.target(), memory_bytes).unwrap();
            for batch in batches {
                writer.write(batch.clone()).await.unwrap();
            }
            writer.finish().await.unwrap()
        })
    }

    /// Appends files, one manifest for each group.
    pub(crate) fn append(&mut self, groups: &[Vec<DataFile>], deletes: bool) {
        let snapshot_id = self.ids.snapshot_id();
        let sequence = self.metadata.next_sequence_number();
        let list = format!("{}/metadata/snap-{snapshot_id}.avro", self.metadata.location());
        run(async {
            let output = self.file_io.new_output(&list).unwrap();
            let parent = self.metadata.current_snapshot_id();
            let mut writer = ManifestListWriter::v2(output.writer().await.unwrap(), snapshot_id, parent, sequence);
            for files in groups {
                let path = format!("{}/metadata/{}.avro", self.metadata.location(), self.ids.uuid_text());
                let output = self.file_io.new_output(path).unwrap();
                let schema = Arc::clone(self.metadata.current_schema());
                let spec = self.metadata.default_partition_spec().as_ref().clone();
                let builder = ManifestWriterBuilder::new(output, Some(snapshot_id), schema, spec);
                let mut manifest = if deletes { builder.build_v2_deletes() } else { builder.build_v2_data() };
                for file in files {
                    manifest.add_file(file.clone(), sequence).unwrap();
                }
                writer.add_manifests(std::iter::once(manifest.write_manifest_file().await.unwrap())).unwrap();
            }
            if let Some(parent) = self.metadata.current_snapshot() {
                let bytes = self.file_io.new_input(parent.manifest_list()).unwrap().read().await.unwrap();
                let old = iceberg::spec::ManifestList::parse_with_version(&bytes, FormatVersion::V2).unwrap();
                writer.add_manifests(old.consume_entries().into_iter()).unwrap();
            }
            writer.close().await.unwrap();
        });
        let snapshot = Snapshot::builder()
            .with_snapshot_id(snapshot_id)
            .with_parent_snapshot_id(self.metadata.current_snapshot_id())
            .with_sequence_number(sequence)
            .with_timestamp_ms(self.metadata.last_updated_ms() + 1)
            .with_manifest_list(list)
            .with_summary(Summary { operation: Operation::Append, additional_properties: HashMap::new() })
            .with_schema_id(self.metadata.current_schema_id())
            .build();
        let reference = SnapshotReference::new(snapshot_id, SnapshotRetention::branch(None, None, None));
        let builder = self.metadata.clone().into_builder(None);
        let builder = builder.add_snapshot(snapshot).unwrap().set_ref("main", reference).unwrap();
        self.metadata = builder.build().unwrap().metadata;
    }

    pub(crate) fn evolve(&mut self, schema: Schema) {
        let builder = self.metadata.clone().into_builder(None);
        self.metadata = builder.add_current_schema(schema).unwrap().build().unwrap().metadata;
    }

    pub(crate) fn plan(&self, request: &scan::Request) -> scan::Plan {
        run(scan::plan(&self.metadata, &self.file_io, request)).unwrap()
    }

    /// All rows of a plan as one batch.
    pub(crate) fn read(&self, request: &scan::Request) -> RecordBatch {
        let plan = self.plan(request);
        let schema = Arc::clone(&plan.arrow_schema);
        let batches: Vec<RecordBatch> = run(plan.execute(self.file_io.clone()).try_collect()).unwrap();
        arrow::compute::concat_batches(&schema, &batches).unwrap()
    }
}
