//! Rows that are gone because they equal others: equality deletes, which other writers leave. Null equals null.
//!
//! Such a delete file holds for data files that are older than it, by their data sequence numbers, of its partition under its
//! spec; one of an unpartitioned spec holds for all.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::row::{RowConverter, SortField};
use futures::TryStreamExt;
use iceberg::io::FileIO;
use iceberg::spec::{DataFile, ManifestEntry, NestedFieldRef, PartitionSpec, Schema, SchemaRef, Struct, TableMetadata};
use tokio::sync::OnceCell;

use super::deletes::{readable, sequence_number};
use super::read;
use crate::fault::Fault;

/// The equality deletes of a snapshot.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// By spec and partition.
    of_partition: HashMap<(i32, Struct), Vec<Arc<Equality>>>,
    of_all: Vec<Arc<Equality>>,
}

/// A file of equality deletes.
#[derive(Debug)]
pub(super) struct Equality {
    path: String,
    bytes: u64,
    sequence_number: i64,
    /// The columns that are compared.
    fields: Vec<NestedFieldRef>,
    /// Their values, row by row, in the encoding of [`arrow::row`], once they were read.
    rows: OnceCell<HashSet<Box<[u8]>>>,
}

impl Index {
    /// Takes in a live entry of a delete manifest.
    ///
    /// # Errors
    /// [`Fault::Unsupported`] for what can't be read, [`Fault::Contradiction`] where it does not say by which columns.
    pub(super) fn add(
        &mut self,
        metadata: &TableMetadata,
        spec: &PartitionSpec,
        entry: &ManifestEntry,
    ) -> Result<(), Fault> {
        let file = entry.data_file();
        readable(file)?;
        let ids = file.equality_ids().filter(|ids| !ids.is_empty()).ok_or_else(|| Fault::Contradiction {
            path: file.file_path().to_owned(),
            what: "it deletes by columns and does not say which".to_owned(),
        })?;
        let equality = Arc::new(Equality {
            path: file.file_path().to_owned(),
            bytes: file.file_size_in_bytes(),
            sequence_number: sequence_number(entry)?,
            fields: ids.iter().map(|id| column(metadata, *id, file)).collect::<Result<_, _>>()?,
            rows: OnceCell::new(),
        });
        if spec.is_unpartitioned() {
            self.of_all.push(equality);
        } else {
            self.of_partition.entry((spec.spec_id(), file.partition().clone())).or_default().push(equality);
        }
        Ok(())
    }

    /// Those that hold for a data file.
    pub(super) fn of(&self, spec_id: i32, file: &DataFile, sequence_number: i64) -> Vec<Arc<Equality>> {
        if self.of_all.is_empty() && self.of_partition.is_empty() {
            return Vec::new();
        }
        let own = self.of_partition.get(&(spec_id, file.partition().clone())).into_iter().flatten();
        own.chain(&self.of_all).filter(|equality| sequence_number < equality.sequence_number).cloned().collect()
    }
}

/// A column that rows are compared by: as the table has it, or had it, where it was dropped since.
fn column(metadata: &TableMetadata, id: i32, file: &DataFile) -> Result<NestedFieldRef, Fault> {
    let mut schemas: Vec<&SchemaRef> = metadata.schemas_iter().collect();
    schemas.sort_by_key(|schema| std::cmp::Reverse(schema.schema_id()));
    let found = std::iter::once(metadata.current_schema())
        .chain(schemas)
        .find_map(|schema| schema.as_struct().field_by_id(id))
        .filter(|field| field.field_type.is_primitive());
    found.cloned().ok_or_else(|| {
        let path = file.file_path();
        Fault::Unsupported(format!("equality deletes by the field {id}, which is no column of the table ({path})"))
    })
}

impl Equality {
    async fn rows(&self, file_io: &FileIO) -> Result<&HashSet<Box<[u8]>>, Fault> {
        self.rows.get_or_try_init(|| self.read(file_io)).await
    }

    async fn read(&self, file_io: &FileIO) -> Result<HashSet<Box<[u8]>>, Fault> {
        let schema = with(&Schema::builder().build().map_err(Fault::specification("no columns"))?, &self.fields)?;
        let mut converter = None;
        let mut batches = read::whole(file_io.clone(), self.path.clone(), self.bytes, Arc::new(schema)).await?;
        let mut found = HashSet::new();
        while let Some(read::Piece { batch, .. }) = batches.try_next().await? {
            let converter = match &mut converter {
                Some(converter) => converter,
                none => none.insert(converter_of(batch.columns())?),
            };
            found.extend(converter.convert_columns(batch.columns())?.iter().map(|row| Box::from(row.data())));
        }
        Ok(found)
    }
}

/// A schema with more columns, those that it has already left as they are.
fn with(schema: &Schema, more: &[NestedFieldRef]) -> Result<Schema, Fault> {
    let mut fields: Vec<NestedFieldRef> = schema.as_struct().fields().to_vec();
    for field in more {
        if fields.iter().all(|other| other.id != field.id) {
            // What is compared may have been dropped, and another column have its name.
            let mut own = iceberg::spec::NestedField::clone(field);
            if fields.iter().any(|other| other.name == own.name) {
                own.name = format!("{}#{}", own.name, own.id);
            }
            // Files from before the column lack it.
            own.required = false;
            fields.push(Arc::new(own));
        }
    }
    let built = Schema::builder().with_schema_id(schema.schema_id()).with_fields(fields).build();
    built.map_err(Fault::specification("the columns to compare make no schema"))
}

fn converter_of(columns: &[ArrayRef]) -> Result<RowConverter, Fault> {
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
    Ok(RowConverter::new(fields)?)
}

/// Leaves out of a data file's batches the rows that some deletes take away.
pub(super) struct Filter {
    /// How many columns were asked for; those to compare by come behind them.
    asked: usize,
    /// By the columns to compare, in the order of their field ids.
    tests: Vec<Test>,
}

struct Test {
    columns: Vec<usize>,
    converter: Option<RowConverter>,
    sets: Vec<Arc<Equality>>,
}

impl Filter {
    /// The schema to read with, and what to do with its batches. Nothing where there are no deletes.
    pub(super) async fn new(
        file_io: &FileIO,
        schema: &SchemaRef,
        equalities: &[Arc<Equality>],
    ) -> Result<Option<(SchemaRef, Self)>, Fault> {
        if equalities.is_empty() {
            return Ok(None);
        }
        let mut whole = Schema::clone(schema);
        let mut tests: Vec<Test> = Vec::new();
        for equality in equalities {
            // Read once for all files that it holds for.
            equality.rows(file_io).await?;
            whole = with(&whole, &equality.fields)?;
            let place = |field: &NestedFieldRef| whole.as_struct().fields().iter().position(|f| f.id == field.id);
            let columns: Vec<usize> = equality.fields.iter().filter_map(place).collect();
            match tests.iter_mut().find(|test| test.columns == columns) {
                Some(test) => test.sets.push(Arc::clone(equality)),
                None => tests.push(Test { columns, converter: None, sets: vec![Arc::clone(equality)] }),
            }
        }
        let asked = schema.as_struct().fields().len();
        Ok(Some((Arc::new(whole), Self { asked, tests })))
    }

    /// The columns that were asked for, of the rows that stay, and which of them do.
    pub(super) fn apply(&mut self, batch: &RecordBatch) -> Result<(RecordBatch, BooleanArray), Fault> {
        let mut keep = vec![true; batch.num_rows()];
        for test in &mut self.tests {
            let columns: Vec<ArrayRef> =
                test.columns.iter().filter_map(|at| batch.columns().get(*at)).map(Arc::clone).collect();
            let converter = match &mut test.converter {
                Some(converter) => converter,
                none => none.insert(converter_of(&columns)?),
            };
            let rows = converter.convert_columns(&columns)?;
            let sets: Vec<_> = test.sets.iter().filter_map(|equality| equality.rows.get()).collect();
            for (keep, row) in keep.iter_mut().zip(&rows) {
                *keep &= !sets.iter().any(|set| set.contains(row.data()));
            }
        }
        let keep = BooleanArray::from(keep);
        let asked: Vec<usize> = (0..self.asked).collect();
        Ok((filter_record_batch(&batch.project(&asked)?, &keep)?, keep))
    }
}
