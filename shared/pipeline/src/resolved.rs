//! A pipeline after variables are applied and defaults filled in: plain data, the same on every code path.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::expectation::{Expectations, Literal};
use crate::glob;
use crate::route::Route;
use crate::types::Type;

/// One pipeline in one environment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pipeline {
    /// The file's stem: lower-case letters, digits, `-` and `_`.
    pub name: String,
    /// Where records come from.
    pub source: Source,
    /// How a record's value is read.
    pub value: Value,
    /// How its key is read, where columns are made of fields in it. It has neither a filter nor an exploded list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Value>,
    /// The table the rows go to. Where a route names each record's table, what is said of all of them: see [`Pipeline::of`].
    pub table: Table,
    /// Which of many tables a record goes to, where there are many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// The tables that differ from the others, by their own names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, Table>,
    /// When a fold starts, and what it may take.
    pub fold: Fold,
    /// How long settled staging objects are kept.
    pub staging: Staging,
}

/// The `[source]` block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Topic names, or patterns of them.
    pub topics: Vec<String>,
    /// Topics, or patterns of them, that the patterns leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// The source's name, used where an event carries no ARN.
    pub name: Option<String>,
}

/// The `[value]` block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// The payload's format.
    pub format: Format,
    /// What surrounds the payload.
    pub framing: Framing,
    /// How Confluent's framing names a message.
    #[serde(default, skip_serializing_if = "Indexes::is_default")]
    pub indexes: Indexes,
    /// Where its schema comes from.
    pub schema: Schema,
    /// Which records are taken; all where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter>,
    /// A path of source field names to a repeated field, of which each element becomes a row of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explode: Option<Vec<String>>,
}

/// Takes the records with one of some values in a field. Others are counted as filtered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Filter {
    /// A path of source field names into the value.
    pub field: Vec<String>,
    /// The values.
    #[serde(rename = "in")]
    pub one_of: Vec<Literal>,
}

/// Payload formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Protocol Buffers, proto2 and proto3.
    Protobuf,
    /// Avro's binary encoding.
    Avro,
    /// JSON text.
    Json,
    /// The JSON messages of AWS's Database Migration Service.
    Dms,
    /// Debezium's change events, in JSON or Avro.
    Debezium,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Protobuf => "protobuf",
            Self::Avro => "avro",
            Self::Json => "json",
            Self::Dms => "dms",
            Self::Debezium => "debezium",
        })
    }
}

/// Framings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Framing {
    /// Told apart record by record.
    Auto,
    /// The value is the payload.
    Bare,
    /// As AWS's Glue serializers write it: a version of a schema, by UUID.
    Glue,
    /// As Confluent's serializers write it: a schema's number before the payload, or a number or GUID in a header.
    Confluent,
    /// Avro's single-object encoding: a schema's fingerprint.
    AvroSingleObject,
}

impl Framing {
    /// All of them, with their words in pipeline files.
    pub const NAMED: [(&str, Self); 5] = [
        ("auto", Self::Auto),
        ("bare", Self::Bare),
        ("glue", Self::Glue),
        ("confluent", Self::Confluent),
        ("avro-single-object", Self::AvroSingleObject),
    ];

    /// Why records of a format can't come in this framing; nothing where they can.
    #[must_use]
    pub const fn refusal(self, format: Format) -> Option<&'static str> {
        match (format, self) {
            (Format::Avro, _) | (_, Self::Auto | Self::Bare) => None,
            (_, Self::AvroSingleObject) => Some("only `format = \"avro\"` comes as Avro's single objects"),
            (Format::Dms, _) => Some("DMS writes bare JSON: `framing = \"bare\"`"),
            _ => None,
        }
    }
}

/// How a Confluent-framed protobuf value says which message of the file it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Indexes {
    /// Zigzag varints, as Confluent's own serializers write them.
    #[default]
    Zigzag,
    /// Unsigned varints, as some clients wrote them; the bytes alone don't tell.
    Plain,
}

impl Indexes {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Where a schema comes from. Paths are joined to the project's folder: they can be opened as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schema {
    /// A `.proto` file (its folder is the import root) and the message's full name.
    Proto { path: PathBuf, message: String },
    /// A serialised `FileDescriptorSet` and the message's full name.
    Descriptor { path: PathBuf, message: String },
    /// An Avro schema, as JSON text.
    Avro { path: PathBuf },
    /// A JSON Schema.
    Json { path: PathBuf },
    /// Nowhere: the pipeline's columns say what there is.
    Declared,
    /// In registries of the environment, tried in order. Records name the version that they are written with; columns are
    /// planned from the name's newest one. The message's full name is for protobuf, where a schema has several.
    Registered { registries: Vec<String>, name: String, message: Option<String> },
}

/// How rows change the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Every row is inserted.
    Append,
    /// A row is inserted unless a row of its key is there.
    Dedup,
    /// The newest version of each key stays.
    Upsert,
}

impl Mode {
    /// Whether rows change what is there, so that they have to come in order.
    #[must_use]
    pub const fn is_ordered(self) -> bool {
        matches!(self, Self::Upsert)
    }
}

/// What tells versions of a key apart, in mode `upsert`, and how the older one goes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upsert {
    /// Columns of the table: the greater values are the newer version, nulls are lowest. Without any, and between equal ones, what
    /// came later is newer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order_by: Vec<String>,
    /// How rows of the table are removed.
    #[serde(default)]
    pub write: Write,
    /// What a record without a value does to the row of its key.
    #[serde(default)]
    pub deletes: Deletes,
}

/// What deletes do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deletes {
    /// The row goes.
    #[default]
    Hard,
    /// It stays, and is marked: see [`MARK_COLUMNS`].
    Soft,
    /// Nothing: they are counted as filtered.
    Ignore,
}

/// How rows of a table's files are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Write {
    /// By whichever is cheaper, file by file: see the other two.
    #[default]
    Auto,
    /// A delete file says which rows are gone; readers leave them out.
    MergeOnRead,
    /// The file is written anew without them.
    CopyOnWrite,
}

/// What happens to rows of which a key column is null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NullKeys {
    /// They are rows of a key like others: null equals null.
    #[default]
    Match,
    /// They go to dead letters.
    Reject,
}

impl NullKeys {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Which rows of a key are one, in mode `dedup`: those whose event times lie close together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DedupWithin {
    /// The event time: a column of the table.
    pub column: String,
    /// How far apart two event times of one row may be, in seconds.
    pub lookback_seconds: u64,
    /// What happens to rows older than the watermark less the lookback.
    pub late: Late,
}

/// What happens to late rows. They are looked up like others: this never decides whether duplicates are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Late {
    /// They are inserted.
    Keep,
    /// They are left out, and counted.
    Drop,
    /// They go to dead letters.
    DeadLetter,
}

/// What is done about a table that is or is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exists {
    /// Create it, or use it when frazil made it.
    Create,
    /// It must not be there before the first fold.
    MustBeNew,
    /// Others made it and go on writing to it: columns, layout and properties are its own.
    Join,
}

/// How column names are spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnCase {
    /// Lower-cased, nested names too.
    Lower,
    /// `camelCase` to `snake_case`, nested names too.
    Snake,
    /// As the source spells them.
    AsIs,
}

impl ColumnCase {
    /// A source name as a column name.
    #[must_use]
    pub fn spell(self, name: &str) -> String {
        match self {
            Self::Lower => name.to_lowercase(),
            Self::Snake => snake(name),
            Self::AsIs => name.to_owned(),
        }
    }
}

/// `employeeId` and `EmployeeID` to `employee_id`, `HTTPServer2` to `http_server2`: a word starts at a capital that
/// follows a small letter or a digit, and at the last capital of a run that a small letter follows.
fn snake(name: &str) -> String {
    let mut folded = String::with_capacity(name.len() + 4);
    let mut previous: Option<char> = None;
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        if c.is_uppercase() {
            let after_word = previous.is_some_and(|p| p.is_lowercase() || p.is_numeric());
            let before_word = previous.is_some_and(char::is_uppercase) && rest.peek().is_some_and(|n| n.is_lowercase());
            if after_word || before_word {
                folded.push('_');
            }
        }
        folded.extend(c.to_lowercase());
        previous = Some(c);
    }
    folded
}

/// Which Iceberg types a source type may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Types {
    /// What Athena reads: no uuid, time or fixed.
    Portable,
    /// All of Iceberg's.
    Iceberg,
}

/// Whether the declared columns are exceptions to the source's fields, or the whole list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fields {
    /// Every field of the source becomes a column; declared columns change some of them.
    All,
    /// Only the declared columns.
    Listed,
}

/// What is done with fields the schema does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnknownFields {
    /// They become columns, once a registry says what they are: a version of the schema that a record names has them.
    Add,
    /// Skipped.
    Ignore,
    /// Kept in the column `_rest`, a map of strings.
    Rest,
    /// The record goes to dead letters.
    DeadLetter,
}

/// Properties of tables that put files elsewhere than under the table's location.
pub const FOLDER_PROPERTIES: [&str; 4] =
    ["write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"];

/// A table's name in its catalog: one namespace level and a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TableName {
    /// The namespace (a database in Glue).
    pub namespace: String,
    /// The table.
    pub name: String,
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.namespace, self.name)
    }
}

impl FromStr for TableName {
    type Err = NotATable;

    fn from_str(text: &str) -> Result<Self, NotATable> {
        match text.split_once('.') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('.') => {
                Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(NotATable(text.to_owned())),
        }
    }
}

/// A text that is not `namespace.name`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a table's name: exactly `namespace.table`")]
pub struct NotATable(String);

/// The `[table]` block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// `namespace.name`; with the route's braces in it where there are many tables.
    pub name: TableName,
    /// What is done about a table that is or is not there.
    pub exists: Exists,
    /// How rows change the table.
    pub mode: Mode,
    /// Key columns: bloom filters are written for them.
    pub primary_key: Vec<String>,
    /// Mode `dedup`: within which time rows of a key are one; without it, in the whole table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup_within: Option<DedupWithin>,
    /// Mode `upsert`: there exactly in this mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upsert: Option<Upsert>,
    /// What happens to rows of which a key column is null.
    #[serde(default, skip_serializing_if = "NullKeys::is_default")]
    pub null_keys: NullKeys,
    /// The partition spec, in order.
    pub partition_by: Vec<PartitionField>,
    /// The sort order, in order.
    pub sort_by: Vec<SortField>,
    /// All fields, or the listed ones.
    pub fields: Fields,
    /// Source fields left out, as `path::parse` reads them; `@key.x`, a field of the key, and `@header.x` leave out what is staged
    /// already.
    pub exclude: Vec<String>,
    /// Fields the schema does not know.
    pub unknown_fields: UnknownFields,
    /// How column names are spelled.
    pub column_case: ColumnCase,
    /// Which Iceberg types are used.
    pub types: Types,
    /// Whether `_kafka_topic`, `_kafka_partition`, `_kafka_offset`, `_kafka_timestamp`, `_ingested_at` are columns.
    pub record_columns: bool,
    /// Iceberg format version: 2.
    pub format_version: u8,
    /// Declared columns, in the order of the file.
    pub columns: Vec<ColumnDeclaration>,
    /// Table properties, Iceberg's names.
    pub properties: BTreeMap<String, String>,
}

/// One entry of `[table.columns]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnDeclaration {
    /// The column's name.
    pub name: String,
    /// Where its value comes from; where the file does not say, the source's field of the column's own name.
    pub from: From,
    /// Its type, where the default of the source is not wanted.
    pub data_type: Option<Type>,
    /// What a whole number of the source counts since 1970, where it becomes a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    /// Whether a null is refused (dead letter) and the column is `required` in the table.
    pub required: bool,
    /// The column's comment.
    pub doc: Option<String>,
    /// What its values must be like, else the record goes to dead letters.
    #[serde(default, skip_serializing_if = "Expectations::is_empty")]
    pub expect: Expectations,
    /// What is left of its values before anything is staged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pii: Option<Pii>,
}

/// Units of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Millis,
    /// Microseconds.
    #[serde(rename = "us")]
    Micros,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanos,
}

impl Unit {
    /// How many make a second.
    #[must_use]
    pub const fn per_second(self) -> i64 {
        match self {
            Self::Seconds => 1,
            Self::Millis => 1_000,
            Self::Micros => 1_000_000,
            Self::Nanos => 1_000_000_000,
        }
    }
}

/// What is left of personal data in staged objects and tables. Dead letters keep payloads as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pii {
    /// HMAC-SHA-256 of the value's text under the environment's salt, 64 lower-case hexadecimal digits.
    Hash,
    /// The last four characters of its text; of a text of fewer than eight, half of them.
    Last4,
    /// Nothing: there is no such column, and no other column holds the value.
    Drop,
}

impl Table {
    /// The fields of the value that are left out, each with its place under `exclude`.
    pub fn excluded_fields(&self) -> impl Iterator<Item = (usize, &String)> {
        self.exclude.iter().enumerate().filter(|(_, path)| !path.starts_with('@'))
    }

    /// The first column of the key that a record without a value need not have, so that it does not say which row it deletes: one
    /// that is made neither of records' keys nor of their topics and partitions.
    #[must_use]
    pub fn beside_record_key(&self) -> Option<&str> {
        let is_known = |name: &&String| match self.source_of(name) {
            Some(From::Key | From::KeyField(_) | From::Record(RecordField::Topic | RecordField::Partition)) => true,
            Some(_) | None => false,
        };
        self.primary_key.iter().find(|name| !is_known(name)).map(String::as_str)
    }

    /// The first column of the key that is another in each record, so that none replaces or deletes another's row.
    #[must_use]
    pub fn of_one_record(&self) -> Option<&str> {
        self.primary_key
            .iter()
            .find(|name| self.source_of(name) == Some(From::Record(RecordField::Offset)))
            .map(String::as_str)
    }

    /// What a column is made of, where that can be told without the schema.
    #[must_use]
    pub fn source_of(&self, column: &str) -> Option<From> {
        let field = RECORD_COLUMNS.iter().position(|(name, ..)| self.record_columns && *name == column);
        let record = field.and_then(|place| RECORD_FIELDS.get(place)).map(|field| From::Record(*field));
        record.or_else(|| {
            self.columns.iter().find(|declared| declared.name == column).map(|declared| declared.from.clone())
        })
    }

    /// Whether a row stays when it is deleted, and is marked.
    #[must_use]
    pub fn marks_deletes(&self) -> bool {
        self.upsert.as_ref().is_some_and(|upsert| upsert.deletes == Deletes::Soft)
    }

    /// Whether a record without a value deletes the row of its key, or marks it.
    #[must_use]
    pub fn takes_deletes(&self) -> bool {
        self.upsert.as_ref().is_some_and(|upsert| upsert.deletes != Deletes::Ignore)
    }
}

impl Source {
    /// Whether a topic is one of this source's.
    #[must_use]
    pub fn takes(&self, topic: &str) -> bool {
        let is = |patterns: &[String]| patterns.iter().any(|p| p == topic || glob::is_glob(p) && glob::fits(p, topic));
        is(&self.topics) && !is(&self.exclude)
    }

    /// Whether some of its topics are given as a pattern.
    #[must_use]
    pub fn has_patterns(&self) -> bool {
        self.topics.iter().any(|topic| glob::is_glob(topic))
    }
}

impl Pipeline {
    /// The pipeline as it is for one of its tables: itself, where it has no other. The route stays, for the other tables are
    /// the pipeline's, too.
    #[must_use]
    pub fn of(&self, table: &TableName) -> Self {
        if self.has_many() { self.named(table) } else { self.clone() }
    }

    /// The pipeline as it would be for a table of this name, whether it has such a table or not.
    #[must_use]
    pub fn named(&self, table: &TableName) -> Self {
        let mut own = self.clone();
        own.table = Table { name: table.clone(), ..self.settings(&table.name).clone() };
        own.tables.clear();
        own
    }

    /// Whether it is of many tables, and not as it is for one of them.
    #[must_use]
    pub fn has_many(&self) -> bool {
        self.route.as_ref().is_some_and(|route| route.written() == self.table.name)
    }

    /// What is said of the table of this name, which its namespace does not change.
    #[must_use]
    pub fn settings(&self, name: &str) -> &Table {
        self.tables.get(name).unwrap_or(&self.table)
    }

    /// Whether a table is one of this pipeline's.
    #[must_use]
    pub fn takes(&self, table: &TableName) -> bool {
        self.route.as_ref().map_or(*table == self.table.name, |route| route.takes(table))
    }

    /// The same for keys in the place of values, where keys are read: a pipeline of the columns that are made of fields of the key, and
    /// of nothing else.
    #[must_use]
    pub fn of_key(&self) -> Option<Self> {
        let of_field = |column: &ColumnDeclaration| match &column.from {
            From::KeyField(path) => Some(ColumnDeclaration { from: From::Path(path.clone()), ..column.clone() }),
            _ => None,
        };
        let table = Table {
            mode: Mode::Append,
            primary_key: Vec::new(),
            dedup_within: None,
            upsert: None,
            partition_by: Vec::new(),
            sort_by: Vec::new(),
            fields: Fields::Listed,
            exclude: Vec::new(),
            // No column comes of what is not declared; but each version is read as its own.
            unknown_fields: UnknownFields::Add,
            record_columns: true,
            columns: self.table.columns.iter().filter_map(of_field).collect(),
            ..self.table.clone()
        };
        let value = self.key.clone()?;
        Some(Self { value, key: None, table, route: None, tables: BTreeMap::new(), ..self.clone() })
    }

    /// The first column whose values are hashed, which takes the environment's salt.
    #[must_use]
    pub fn hashed_column(&self) -> Option<&str> {
        self.table.columns.iter().find(|column| column.pii == Some(Pii::Hash)).map(|column| column.name.as_str())
    }
}

/// Where a column's value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum From {
    /// A path of source field names into the value; a quoted segment keeps its dots.
    Path(Vec<String>),
    /// `@topic`, `@partition`, `@offset`, `@timestamp`, `@ingested_at`.
    Record(RecordField),
    /// `@key`: the record's key, as binary or, checked to be UTF-8, as string.
    Key,
    /// `@key.PATH`: a path of field names into the record's key, as `[key]` reads it.
    KeyField(Vec<String>),
    /// `@header.NAME`: of the record's headers of this name the last, as binary or, checked to be UTF-8, as string.
    Header(String),
}

/// Fields of the Kafka record itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordField {
    /// string
    Topic,
    /// int
    Partition,
    /// long
    Offset,
    /// timestamptz, null where the record has none
    Timestamp,
    /// timestamptz: the minute the object was staged in
    IngestedAt,
}

/// One field of the partition spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionField {
    /// The source column; for a nested one the names joined with dots, as in Iceberg's full names.
    pub column: String,
    /// Its transform.
    pub transform: Transform,
}

/// Iceberg's partition transforms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transform {
    /// The value itself.
    Identity,
    /// `bucket(N, column)`
    Bucket(u32),
    /// `truncate(W, column)`
    Truncate(u32),
    /// `year(column)`
    Year,
    /// `month(column)`
    Month,
    /// `day(column)`
    Day,
    /// `hour(column)`
    Hour,
    /// Always null.
    Void,
}

/// One field of the sort order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SortField {
    /// The column; for a nested one the names joined with dots, as in Iceberg's full names.
    pub column: String,
    /// Whether larger values come first.
    pub descending: bool,
    /// Whether nulls come first.
    pub nulls_first: bool,
}

/// Tables of one pipeline that are folded, where its file does not say.
const TABLES_MAX: u64 = 1000;

/// The `[fold]` block: a fold starts when any of the first three is reached, and takes no more than its memory holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fold {
    /// Age of the oldest unfolded object, in seconds.
    pub max_age_seconds: u64,
    /// Bytes of unfolded objects.
    pub max_bytes: u64,
    /// Rows of unfolded objects.
    pub max_rows: u64,
    /// Bytes of memory that a fold may come to; where the file says `auto` or nothing, the machine decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// How many of a pipeline's tables are folded, where the file says so. See [`Fold::tables_max`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tables_max: Option<u64>,
}

impl Fold {
    /// How many of a pipeline's tables are folded. Each run asks the catalog for each of them.
    #[must_use]
    pub fn tables_max(&self) -> u64 {
        self.tables_max.unwrap_or(TABLES_MAX)
    }
}

/// The `[staging]` block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staging {
    /// How long settled objects are kept, in seconds.
    pub retention_seconds: u64,
}

/// The columns of `deletes = "soft"`, in table order: whether a row was deleted (false where it was not), and when, by the timestamp of
/// the record that deleted it.
pub const MARK_COLUMNS: [(&str, Type); 2] = [("_is_deleted", Type::Boolean), ("_deleted_at", Type::Timestamptz)];

/// What the record columns are made of, in their order.
const RECORD_FIELDS: [RecordField; 5] =
    [RecordField::Topic, RecordField::Partition, RecordField::Offset, RecordField::Timestamp, RecordField::IngestedAt];

/// The record columns, in table order: name, type, and whether every row has a value.
pub const RECORD_COLUMNS: [(&str, Type, bool); 5] = [
    ("_kafka_topic", Type::String, true),
    ("_kafka_partition", Type::Int, true),
    ("_kafka_offset", Type::Long, true),
    ("_kafka_timestamp", Type::Timestamptz, false),
    ("_ingested_at", Type::Timestamptz, true),
];

#[cfg(test)]
mod tests {
    use super::ColumnCase;

    #[test]
    fn names_are_spelled_as_columns() {
        let check = |name: &str, snake: &str, lower: &str| {
            assert_eq!(ColumnCase::Snake.spell(name), snake);
            assert_eq!(ColumnCase::Lower.spell(name), lower);
            assert_eq!(ColumnCase::AsIs.spell(name), name);
        };
        check("employeeId", "employee_id", "employeeid");
        check("EmployeeID", "employee_id", "employeeid");
        check("HTTPServer2Name", "http_server2_name", "httpserver2name");
        check("already_snake", "already_snake", "already_snake");
        check("Mixed_Case", "mixed_case", "mixed_case");
        check("ÅngströmLänge", "ångström_länge", "ångströmlänge");
        check("", "", "");
        // As a table knows a column.
        check("value:userId", "value:user_id", "value:userid");
    }
}
