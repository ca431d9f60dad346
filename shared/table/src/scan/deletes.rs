//! Rows that are gone: which of a snapshot's delete files hold for a data file, and the rows that they name.
//!
//! A delete file of positions holds for data files of its partition, written under its spec, that are as old as it or
//! older, by their data sequence numbers; where it names one data file, for that one alone.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use futures::TryStreamExt;
use iceberg::io::FileIO;
use iceberg::spec::{DataFile, DataFileFormat, ManifestEntry, Struct};
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::file::metadata::ParquetMetaData;
use roaring::RoaringTreemap;
use tokio::sync::OnceCell;

use super::read;
use crate::delete_file;
use crate::fault::Fault;

/// The delete files of a snapshot.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Of one data file each, by its path.
    own: HashMap<String, Vec<Arc<Deletes>>>,
    /// Of any data file of a partition, by spec and partition.
    any: HashMap<(i32, Struct), Vec<Arc<Deletes>>>,
}

/// A delete file of positions.
#[derive(Debug)]
pub(super) struct Deletes {
    path: String,
    bytes: u64,
    sequence_number: i64,
    /// Whether it is about one data file.
    is_of_one: bool,
    /// How many rows it names.
    count: u64,
    /// Positions by data file, once they were read: several data files may ask.
    rows: OnceCell<HashMap<String, RoaringTreemap>>,
}

impl Index {
    /// Takes in a live entry of a delete manifest.
    ///
    /// # Errors
    /// [`Fault::Unsupported`] for what can't be read.
    pub(super) fn add(&mut self, spec_id: i32, entry: &ManifestEntry) -> Result<(), Fault> {
        let file = entry.data_file();
        readable(file)?;
        let deletes = Arc::new(Deletes {
            path: file.file_path().to_owned(),
            bytes: file.file_size_in_bytes(),
            sequence_number: sequence_number(entry)?,
            is_of_one: file.referenced_data_file().is_some(),
            count: file.record_count(),
            rows: OnceCell::new(),
        });
        match file.referenced_data_file() {
            Some(of) => self.own.entry(of).or_default().push(deletes),
            None => self.any.entry((spec_id, file.partition().clone())).or_default().push(deletes),
        }
        Ok(())
    }

    /// Those that may hold for a data file.
    pub(super) fn of(&self, spec_id: i32, file: &DataFile, sequence_number: i64) -> Vec<Arc<Deletes>> {
        if self.own.is_empty() && self.any.is_empty() {
            return Vec::new();
        }
        let own = self.own.get(file.file_path()).into_iter().flatten();
        let any = self.any.get(&(spec_id, file.partition().clone())).into_iter().flatten();
        own.chain(any).filter(|deletes| sequence_number <= deletes.sequence_number).cloned().collect()
    }
}

/// Refuses delete files that can't be read.
///
/// # Errors
/// [`Fault::Unsupported`] for other formats than Parquet, and for encryption.
pub(super) fn readable(file: &DataFile) -> Result<(), Fault> {
    let path = file.file_path();
    if file.file_format() != DataFileFormat::Parquet {
        return Err(Fault::Unsupported(format!("the {} delete file {path}", file.file_format())));
    }
    if file.key_metadata().is_some() {
        return Err(Fault::Unsupported(format!("the encrypted file {path}")));
    }
    Ok(())
}

/// A live entry's data sequence number, its own or inherited.
///
/// # Errors
/// [`Fault::Contradiction`] where it has none.
pub(super) fn sequence_number(entry: &ManifestEntry) -> Result<i64, Fault> {
    entry.sequence_number().ok_or_else(|| Fault::Contradiction {
        path: entry.file_path().to_owned(),
        what: "its manifest entry has no data sequence number".to_owned(),
    })
}

impl Deletes {
    /// The path of the file.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Whether it is about one data file.
    pub(super) const fn is_of_one(&self) -> bool {
        self.is_of_one
    }

    /// How many rows it names.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// The rows of a data file that it names, where it names none of any other.
    ///
    /// # Errors
    /// When it can't be read.
    pub(super) async fn of_one(&self, file_io: &FileIO, path: &str) -> Result<Option<Vec<i64>>, Fault> {
        let rows = self.rows(file_io).await?;
        let own = rows.get(path).filter(|_| rows.len() == 1);
        Ok(own.map(|rows| rows.iter().map(u64::cast_signed).collect()))
    }

    async fn rows(&self, file_io: &FileIO) -> Result<&HashMap<String, RoaringTreemap>, Fault> {
        self.rows.get_or_try_init(|| self.read(file_io)).await
    }

    async fn read(&self, file_io: &FileIO) -> Result<HashMap<String, RoaringTreemap>, Fault> {
        let mut batches = read::whole(file_io.clone(), self.path.clone(), self.bytes, delete_file::schema()?).await?;
        let mut found: HashMap<String, RoaringTreemap> = HashMap::new();
        let wrong = |what: &str| Fault::Contradiction { path: self.path.clone(), what: what.to_owned() };
        while let Some(read::Piece { batch, .. }) = batches.try_next().await? {
            let (Some(paths), Some(positions)) = (batch.columns().first(), batch.columns().get(1)) else {
                return Err(wrong("it lacks a column"));
            };
            let (paths, positions) = (paths.as_string::<i32>(), positions.as_primitive::<Int64Type>());
            for (path, position) in paths.iter().zip(positions) {
                let (Some(path), Some(position)) = (path, position.and_then(|at| u64::try_from(at).ok())) else {
                    return Err(wrong("it has a row without a path or a position"));
                };
                match found.get_mut(path) {
                    Some(rows) => drop(rows.insert(position)),
                    None => drop(found.insert(path.to_owned(), RoaringTreemap::from_iter([position]))),
                }
            }
        }
        Ok(found)
    }
}

/// The rows of a data file that some delete files name.
pub(super) async fn positions(file_io: &FileIO, path: &str, deletes: &[Arc<Deletes>]) -> Result<RoaringTreemap, Fault> {
    let mut all = RoaringTreemap::new();
    for deletes in deletes {
        if let Some(rows) = deletes.rows(file_io).await?.get(path) {
            all |= rows;
        }
    }
    Ok(all)
}

/// The rows of each row group, by position.
fn starts(footer: &ParquetMetaData) -> Vec<Range<u64>> {
    let mut starts = Vec::with_capacity(footer.num_row_groups());
    let mut rows = 0u64;
    for group in footer.row_groups() {
        let start = rows;
        rows = rows.saturating_add(u64::try_from(group.num_rows()).unwrap_or(0));
        starts.push(start..rows);
    }
    starts
}

/// The row groups that have some of these rows.
pub(super) fn groups_of(footer: &ParquetMetaData, rows: &RoaringTreemap) -> Vec<usize> {
    let holds = |group: &Range<u64>| rows.range_cardinality(group.clone()) > 0;
    starts(footer).iter().enumerate().filter(|(_, group)| holds(group)).map(|(at, _)| at).collect()
}

/// The rows of some row groups, in order, that are not deleted.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// Positions in the file.
    ranges: Vec<Range<u64>>,
    /// The same as a Parquet reader of these row groups wants it; nothing where all rows are kept.
    pub(super) selection: Option<RowSelection>,
}

impl Kept {
    /// Of row groups in the order of the file.
    pub(super) fn new(footer: &ParquetMetaData, groups: &[usize], deleted: &RoaringTreemap) -> Self {
        let starts = starts(footer);
        let mut kept = Self::default();
        let mut selectors = Vec::new();
        let mut gone = deleted.iter().peekable();
        for group in groups.iter().filter_map(|group| starts.get(*group)) {
            let mut at = group.start;
            while gone.next_if(|position| *position < group.start).is_some() {}
            while let Some(position) = gone.next_if(|position| *position < group.end) {
                kept.keep(at..position, &mut selectors);
                selectors.push(RowSelector::skip(1));
                at = position + 1;
            }
            kept.keep(at..group.end, &mut selectors);
        }
        let skips = selectors.iter().any(|selector| selector.skip);
        kept.selection = skips.then(|| RowSelection::from(selectors));
        kept
    }

    /// Of these rows alone, all of which lie in the row groups.
    pub(super) fn only(footer: &ParquetMetaData, groups: &[usize], wanted: &RoaringTreemap) -> Self {
        let starts = starts(footer);
        let mut kept = Self::default();
        let mut selectors = Vec::new();
        let mut wanted = wanted.iter().peekable();
        for group in groups.iter().filter_map(|group| starts.get(*group)) {
            let mut at = group.start;
            while let Some(position) = wanted.next_if(|position| *position < group.end) {
                if position > at {
                    selectors.push(RowSelector::skip(usize::try_from(position - at).unwrap_or(usize::MAX)));
                }
                kept.keep(position..position + 1, &mut selectors);
                at = position + 1;
            }
            if at < group.end {
                selectors.push(RowSelector::skip(usize::try_from(group.end - at).unwrap_or(usize::MAX)));
            }
        }
        kept.selection = Some(RowSelection::from(selectors));
        kept
    }

    fn keep(&mut self, range: Range<u64>, selectors: &mut Vec<RowSelector>) {
        if range.is_empty() {
            return;
        }
        selectors.push(RowSelector::select(usize::try_from(range.end - range.start).unwrap_or(usize::MAX)));
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.ranges.push(range),
        }
    }

    /// The positions, one after the other.
    pub(super) fn positions(self) -> impl Iterator<Item = i64> + Send {
        self.ranges.into_iter().flatten().map(u64::cast_signed)
    }
}
