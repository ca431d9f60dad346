//! A JSON schema, as columns see it.

use std::collections::HashMap;

use pipeline::types::Type;

use super::place;
use super::schema::{Of, Schema, Shape, Single};
use crate::columns::Columns;
use crate::source::{self, Comparable, Described, Field, Kind, Record, Symbols, Value};

/// Lists of lists go this deep; a list that is inside itself has no end.
const LISTS_MAX: usize = 32;

impl Described for Schema {
    fn describe(&self) -> source::Schema {
        let mut describer = Describer { schema: self, places: HashMap::new(), found: Vec::new() };
        let mut records = Vec::new();
        describer.place(self.root);
        while let Some(found) = describer.found.get(records.len()).copied() {
            records.push(describer.record(found));
        }
        source::Schema {
            records,
            noun: "object",
            rest: "members that the schema does not know: their JSON, as it was written, by their names",
            versions: Vec::new(),
        }
    }

    fn misfits(&self, columns: &Columns) -> Vec<(usize, String)> {
        place::misfits(self, columns)
    }
}

struct Describer<'s> {
    schema: &'s Schema,
    places: HashMap<usize, usize>,
    /// Objects, and maps as their entries.
    found: Vec<usize>,
}

impl Describer<'_> {
    fn place(&mut self, id: usize) -> usize {
        *self.places.entry(id).or_insert_with(|| {
            self.found.push(id);
            self.found.len() - 1
        })
    }

    fn record(&mut self, id: usize) -> Record {
        let schema = self.schema;
        let name = schema.title(id).to_owned();
        if let Shape::Map(values) = schema.shape(id) {
            let key = Value { kind: single(Ok(Type::String), Some(Comparable::Text)), optional: false };
            let value = Value { kind: self.kind(*values, 0), optional: true };
            return Record {
                name,
                fields: vec![Field::named("key", key), Field::named("value", value)],
                is_entry: true,
                is_union: false,
            };
        }
        let fields = schema.fields(id).iter().map(|field| Field {
            doc: field.doc.clone(),
            ..Field::named(&field.name, Value { kind: self.kind(field.of, 0), optional: field.optional })
        });
        Record { name, fields: fields.collect(), is_entry: false, is_union: false }
    }

    fn kind(&mut self, id: usize, lists: usize) -> Kind {
        match self.schema.shape(id) {
            Shape::Object(_) => Kind::Record(self.place(id)),
            Shape::Map(_) => Kind::Map(self.place(id)),
            Shape::Array(_) if lists > LISTS_MAX => single(Ok(Type::String), None),
            Shape::Array(items) => Kind::List(Box::new(Value { kind: self.kind(*items, lists + 1), optional: true })),
            Shape::Single(found) => of_single(self.schema.title(id), found),
        }
    }
}

fn of_single(name: &str, found: &Single) -> Kind {
    if found.of == Of::Unsaid {
        return single(Err("nothing says what it is: declare its `type`".to_owned()), None);
    }
    let comparable = match (&found.symbols, &found.default) {
        (Some(symbols), _) => {
            let names = symbols.iter().map(|symbol| (symbol.clone(), symbol.clone())).collect();
            Some(Comparable::Enum(Symbols { name: name.to_owned(), names, numbers: false }))
        }
        (None, Type::String) if found.of != Of::Any => Some(Comparable::Text),
        (None, Type::Int | Type::Long) => Some(Comparable::Whole),
        (None, Type::Boolean) => Some(Comparable::Boolean),
        _ => None,
    };
    single(Ok(found.default.clone()), comparable)
}

const fn single(default: Result<Type, String>, comparable: Option<Comparable>) -> Kind {
    Kind::Single(source::Single { default, comparable, within: None })
}
