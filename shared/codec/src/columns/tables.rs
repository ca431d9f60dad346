//! The columns of all tables of a pipeline, and the fields that its route looks at.

use std::collections::BTreeMap;

use pipeline::resolved::{From, Pipeline};
use pipeline::route::Part;

use super::plan::{Plain, laid_out_by, plain_field, plan_among};
use super::{About, Columns, Fault, Field};
use crate::source::Described;

/// What a pipeline's tables are made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// The columns of every table that is not named below: of the only one, where there is one.
    pub columns: Columns,
    /// Those of tables that differ from the others, by their own names. They have the same columns, of which others may be
    /// required.
    pub differing: BTreeMap<String, Columns>,
    /// The fields that name a record's table, in the order in which the route has them.
    pub route: Vec<Field>,
}

impl Tables {
    /// The columns of the table of this name, whatever its namespace.
    #[must_use]
    pub fn of(&self, name: &str) -> &Columns {
        self.differing.get(name).unwrap_or(&self.columns)
    }

    /// Whether the column of this name is required in all tables.
    #[must_use]
    pub fn requires(&self, name: &str) -> bool {
        let requires = |columns: &Columns| columns.columns.iter().any(|column| column.name == name && column.required);
        requires(&self.columns) && self.differing.values().all(requires)
    }
}

/// Decides the columns of each of a pipeline's tables, and where its route looks.
///
/// # Errors
/// Every fault of the pipeline file.
pub fn plan_tables<S: Described + ?Sized>(source: &S, pipeline: &Pipeline) -> Result<Tables, Vec<Fault>> {
    let (value, table) = (&pipeline.value, &pipeline.table);
    let mut faults = Vec::new();
    let route = route(source, pipeline, &mut faults);
    let laid_out_by = laid_out_by(std::iter::once(table).chain(pipeline.tables.values()));
    let columns = plan_among(source, value, table, &laid_out_by).map_err(|found| faults.extend(found)).ok();
    let mut differing = BTreeMap::new();
    for (name, table) in &pipeline.tables {
        match plan_among(source, value, table, &laid_out_by) {
            Ok(columns) => {
                differing.insert(name.clone(), columns);
            }
            Err(found) => {
                let of_all: Vec<Fault> = faults.clone();
                let own = found.into_iter().filter(|fault| !of_all.contains(fault));
                faults.extend(own.map(|fault| Fault { place: place(name, &fault.place), ..fault }));
            }
        }
    }
    match columns {
        Some(columns) if faults.is_empty() => Ok(Tables { columns, differing, route }),
        _ => Err(faults),
    }
}

/// The setting of one of many tables that `table.…` is for it.
fn place(name: &str, place: &str) -> String {
    place.strip_prefix("table.").map_or_else(|| place.to_owned(), |rest| format!("tables.{name}.{rest}"))
}

fn route<S: Described + ?Sized>(source: &S, pipeline: &Pipeline, faults: &mut Vec<Fault>) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut fault = |message: String| {
        faults.push(Fault { place: "table.name".to_owned(), message, about: About::Message });
    };
    let personal = |what: &str| format!("{what} is personal data, and tables' names would hold its values");
    for part in pipeline.route.iter().flat_map(|route| route.parts()) {
        match part {
            Part::Text(_) | Part::Topic => {}
            Part::Header(name) => {
                let is_of = |from: &From| matches!(from, From::Header(other) if other == name);
                if pipeline.table.columns.iter().any(|column| column.pii.is_some() && is_of(&column.from)) {
                    fault(personal(&format!("the header `{name}`")));
                }
            }
            Part::Field(path) => match plain_field(source.describe(), &pipeline.table, path) {
                Ok(Plain { field, is_personal: true }) => fault(personal(&format!("`{}`", field.source_name))),
                Ok(Plain { field, .. }) => fields.push(field),
                Err(message) => fault(message),
            },
        }
    }
    fields
}
