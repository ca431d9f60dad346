//! What columns need to know of a source's schema, whatever format it is written in: records of fields, by what each field
//! is found again after a rename, and the column type that it has when nothing else is asked for.
//!
//! Records may lead back to themselves. Where there is no schema, the description is made of what is declared.

use pipeline::path;
use pipeline::resolved::ColumnCase;
use pipeline::types::Type;

use crate::columns::Columns;

mod unite;

/// A schema that columns are planned from.
pub trait Described {
    /// What there is.
    fn describe(&self) -> Schema;

    /// The columns that records of this schema can't fill: the index of each, and why.
    fn misfits(&self, columns: &Columns) -> Vec<(usize, String)>;
}

/// Which of the fields that one version of a schema lacks are taken from another when both become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Brought {
    /// All.
    All,
    /// Those along these paths of what fields are found by, with everything in them. Types of what both have stay as they are.
    Only(Vec<Vec<String>>),
}

/// A described schema.
#[derive(Clone, Debug)]
pub struct Schema {
    /// Every record that there is. The first is the payload's own.
    pub records: Vec<Record>,
    /// What the format calls a record.
    pub noun: &'static str,
    /// What a column of the fields that the schema does not know holds, for a person.
    pub rest: &'static str,
    /// Other versions of it that are known: a column may be declared of a field that only one of them has.
    pub versions: Vec<Schema>,
}

/// A record of fields; also a map's entry of `key` and `value`.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Its full name.
    pub name: String,
    /// In the order of their declaration, which is the order that people gave them.
    pub fields: Vec<Field>,
    /// Whether it is a map's entry.
    pub is_entry: bool,
    /// Whether its fields are the branches of a union.
    pub is_union: bool,
}

/// A field of a record.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What it is found by, which a rename leaves alone where the format can: protobuf's number, else the name.
    pub id: String,
    /// What it was found by under earlier names: Avro's aliases.
    pub former: Vec<String>,
    /// What else it is called in other versions of the schema that are known.
    pub names: Vec<String>,
    /// Its comment.
    pub doc: Option<String>,
    /// What it holds.
    pub value: Value,
}

impl Field {
    /// A field that its name finds, and that was never called otherwise.
    pub(crate) fn named(name: &str, value: Value) -> Self {
        Self { name: name.to_owned(), id: name.to_owned(), former: Vec::new(), names: Vec::new(), doc: None, value }
    }

    /// Whether it has, or had, a name that is spelled as this one where columns are; its own aside.
    pub(crate) fn was_spelled(&self, case: ColumnCase, name: &str) -> bool {
        let spelled = case.spell(name);
        self.former.iter().chain(&self.names).any(|other| case.spell(other) == spelled)
    }

    /// Whether it has, or had, this name, which is not its own.
    pub(crate) fn was(&self, name: &str) -> bool {
        self.former.iter().chain(&self.names).any(|other| other == name)
    }
}

/// What a field holds, or an element of a list.
#[derive(Clone, Debug)]
pub struct Value {
    /// Of which kind.
    pub kind: Kind,
    /// Whether it may be absent or null.
    pub optional: bool,
}

/// The kinds of values.
#[derive(Clone, Debug)]
pub enum Kind {
    /// One column's value.
    Single(Single),
    /// A record: a struct by default.
    Record(usize),
    /// A list of elements.
    List(Box<Value>),
    /// A map; the record is its entry.
    Map(usize),
}

/// A single value.
#[derive(Clone, Debug)]
pub struct Single {
    /// The column type where nothing else is asked for, or why one has to be declared.
    pub default: Result<Type, String>,
    /// What its values are compared with; none where that makes no sense.
    pub comparable: Option<Comparable>,
    /// The record that it is all the same: a time of seconds and nanoseconds.
    pub within: Option<usize>,
}

/// What values are compared with.
#[derive(Clone, Debug)]
pub enum Comparable {
    /// Strings.
    Text,
    /// Names of values.
    Enum(Symbols),
    /// Whole numbers.
    Whole,
    /// `true` and `false`.
    Boolean,
}

/// The names of an enum's values.
#[derive(Clone, Debug)]
pub struct Symbols {
    /// The enum's full name.
    pub name: String,
    /// Each name, and the one that columns have of the same value.
    pub names: Vec<(String, String)>,
    /// Whether a value without a name is its number as text.
    pub numbers: bool,
}

/// A field's place: its record and its index there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) record: usize,
    pub(crate) field: usize,
}

/// The record of which paths start.
pub(crate) const ROOT: usize = 0;

static NO_RECORD: Record = Record { name: String::new(), fields: Vec::new(), is_entry: false, is_union: false };
static NO_FIELD: Field = Field {
    name: String::new(),
    id: String::new(),
    former: Vec::new(),
    names: Vec::new(),
    doc: None,
    value: Value { kind: Kind::Record(usize::MAX), optional: true },
};

impl Schema {
    /// A record; an empty one where there is none, which no description has.
    pub(crate) fn record(&self, record: usize) -> &Record {
        self.records.get(record).unwrap_or(&NO_RECORD)
    }

    pub(crate) fn field(&self, at: At) -> &Field {
        self.record(at.record).fields.get(at.field).unwrap_or(&NO_FIELD)
    }

    /// The places of a record's fields, in order.
    pub(crate) fn fields(&self, record: usize) -> impl Iterator<Item = At> + use<> {
        (0..self.record(record).fields.len()).map(move |field| At { record, field })
    }

    /// The names of the fields along a path.
    pub(crate) fn names(&self, path: &[At]) -> Vec<String> {
        path.iter().map(|at| self.field(*at).name.clone()).collect()
    }

    /// What the fields along a path are found by, as one text.
    pub(crate) fn ids(&self, path: &[At]) -> String {
        let ids: Vec<&str> = path.iter().map(|at| self.field(*at).id.as_str()).collect();
        path::text(&ids)
    }
}

impl Value {
    pub(crate) const fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List(_))
    }

    /// The record in it, behind however many lists.
    pub(crate) fn inside(&self) -> Option<usize> {
        match &self.kind {
            Kind::Single(single) => single.within,
            Kind::Record(record) | Kind::Map(record) => Some(*record),
            Kind::List(element) => element.inside(),
        }
    }

    /// The record that it is.
    pub(crate) const fn record(&self) -> Option<usize> {
        match &self.kind {
            Kind::Single(single) => single.within,
            Kind::Record(record) => Some(*record),
            Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// The record that a path leads through; `element` where it leads through the elements of a list.
    pub(crate) const fn through(&self, element: bool) -> Option<usize> {
        match &self.kind {
            Kind::List(of) if element => of.record(),
            _ => self.record(),
        }
    }
}
