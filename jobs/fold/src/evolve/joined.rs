//! How a table that others made follows what is staged: it gets columns that it lacks, and nothing else of it changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use iceberg::spec::NestedField;
use pipeline::resolved::{Mode, RECORD_COLUMNS};
use table::schema;

use super::stops::{lacking, other_key, record_column};
use super::{Evolution, What};
use crate::error::Error;
use crate::join;

impl Evolution<'_> {
    pub(super) const fn is_joined(&self) -> bool {
        join::is_joined(self.table)
    }

    /// Notes the columns that must have a value, and that rows of an object have none for.
    pub(super) fn lacks(&mut self, filled: &BTreeSet<i32>) {
        let fills = |name: &str, id: i32| {
            RECORD_COLUMNS.iter().any(|(own, ..)| *own == name && self.binding.id(own) == Some(id))
        };
        let lacking: Vec<_> = self
            .fields
            .iter()
            .filter(|field| field.required && !filled.contains(&field.id) && !fills(&field.name, field.id))
            // Why it is not filled has been said.
            .filter(|field| !self.stops.iter().any(|(name, _)| *name == field.name))
            .map(|field| (field.name.clone(), lacking(&self.table.name, &field.name)))
            .collect();
        self.stops.extend(lacking);
    }

    /// What holds of the whole table: its record columns, and what its rows are told apart by.
    pub(super) fn join(&mut self) -> Result<(), Error> {
        for (name, data_type, _) in RECORD_COLUMNS {
            let own = schema::iceberg_type(&data_type, &mut || 0);
            let there = match self.binding.id(name) {
                Some(id) => self.fields.iter().find(|field| field.id == id),
                None => self.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)),
            };
            match there {
                Some(field) if *field.field_type == own => {
                    let id = field.id;
                    self.binding.bind(name, id);
                }
                Some(field) => {
                    let stop = record_column(&self.table.name, &field.name, &field.field_type, &own);
                    self.stops.push((field.name.clone(), stop));
                }
                None if self.table.record_columns && self.binding.id(name).is_none() => {
                    let id = self.next_id();
                    self.change(name, What::Added { data_type: data_type.to_string() });
                    // Optional, for rows of others have none.
                    self.fields.push(Arc::new(NestedField::optional(id, name, own)));
                    self.binding.bind(name, id);
                }
                None => {}
            }
        }
        self.key();
        Ok(())
    }

    /// Where the table says what its rows are told apart by, it is what they are merged by.
    fn key(&mut self) {
        if self.table.mode == Mode::Append || self.keys.is_empty() {
            return;
        }
        let bound = |name: &String| {
            let source = self.named.get(name).map_or(name.as_str(), String::as_str);
            self.binding.id(source)
        };
        let key: Option<BTreeSet<i32>> = self.table.primary_key.iter().map(bound).collect();
        // A key column that there is not is said otherwise.
        if key.is_none_or(|key| key == self.keys) {
            return;
        }
        let names: Vec<&str> =
            self.fields.iter().filter(|field| self.keys.contains(&field.id)).map(|field| field.name.as_str()).collect();
        let stop = other_key(&self.table.name, &self.table.primary_key, &names);
        self.stops.push(("primary_key".to_owned(), stop));
    }
}
