//! Two versions of a schema as one, where fields are found by what a rename leaves alone.

use std::collections::HashSet;

use pipeline::resolved::ColumnCase;
use pipeline::types::Type;

use super::{Brought, Comparable, Field, Kind, ROOT, Schema, Single, Value};
use crate::naming::Spelled;

/// More records than this are no schema's: each version that is united may bring its own.
const RECORDS_MAX: usize = 100_000;

impl Schema {
    /// This schema with the fields of another version that it lacks, at any depth, behind its own; numbers that are wider there are
    /// wider here. What is of another kind there stays as it is here. Nothing where that changes nothing.
    pub(crate) fn united(&self, other: &Self, brought: &Brought) -> Option<Self> {
        if self.records.len() + other.records.len() > RECORDS_MAX {
            return None;
        }
        let shift = self.records.len();
        let mut united = self.clone();
        united.records.extend(other.records.iter().cloned().map(|mut record| {
            record.fields.iter_mut().for_each(|field| moved(&mut field.value, shift));
            record
        }));
        let only: Option<HashSet<(usize, String)>> = match brought {
            Brought::All => None,
            Brought::Only(paths) => Some(other.along(paths).map(|(record, id)| (shift + record, id)).collect()),
        };
        let mut changed = false;
        let mut open = vec![(ROOT, shift + ROOT)];
        let mut seen = HashSet::new();
        while let Some((own, new)) = open.pop() {
            if !seen.insert((own, new)) {
                continue;
            }
            let theirs = united.records.get(new).map(|record| record.fields.clone()).unwrap_or_default();
            let Some(record) = united.records.get_mut(own) else { continue };
            for field in theirs {
                match record.fields.iter_mut().find(|known| known.id == field.id) {
                    Some(known) => changed |= widened(&mut known.value, &field.value, only.is_none(), &mut open),
                    None if only.as_ref().is_some_and(|only| !only.contains(&(new, field.id.clone()))) => {}
                    None => {
                        changed = true;
                        record.fields.push(field);
                    }
                }
            }
        }
        changed.then_some(united)
    }

    /// The fields along paths, each by its record and what it is found by there.
    fn along(&self, paths: &[Vec<String>]) -> impl Iterator<Item = (usize, String)> {
        paths.iter().flat_map(move |path| {
            let (mut record, mut found) = (ROOT, Vec::new());
            for id in path {
                let Some(field) = self.record(record).fields.iter().find(|field| field.id == *id) else { break };
                found.push((record, id.clone()));
                record = field.value.inside().unwrap_or(usize::MAX);
            }
            found
        })
    }
}

impl Schema {
    /// This schema without these fields of the payload's record, by what they are found by.
    pub(crate) fn without(&self, fields: &[String]) -> Self {
        let mut schema = self.clone();
        if let Some(record) = schema.records.get_mut(ROOT) {
            record.fields.retain(|field| !fields.contains(&field.id));
        }
        schema
    }

    /// Learns the names that fields have in the versions that are known, until none has anything to add: one tells of the one before it.
    pub(crate) fn learn_all(&mut self, case: ColumnCase) {
        let versions = std::mem::take(&mut self.versions);
        for _ in 0..=versions.len() {
            let mut is_new = false;
            for version in &versions {
                is_new |= self.learn(version, case);
            }
            if !is_new {
                break;
            }
        }
        self.versions = versions;
    }

    /// Learns the names that fields have in another version of the schema, at any depth: also of those that are found by their names, and
    /// are but spelled otherwise there. Gives whether one was not known.
    pub(crate) fn learn(&mut self, other: &Self, case: ColumnCase) -> bool {
        let mut is_new = false;
        let (mut open, mut seen) = (vec![(ROOT, ROOT)], HashSet::new());
        while let Some((own, new)) = open.pop() {
            let Some(record) = self.records.get_mut(own).filter(|_| seen.insert((own, new))) else { continue };
            let theirs = &other.record(new).fields;
            let spelled = Spelled::of(case, theirs.iter().map(|field| field.id.as_str()));
            let alone = Spelled::of(case, record.fields.iter().map(|field| field.id.as_str()));
            // Which of ours each of theirs is: what it is called goes before what it was called, as in resolution.
            let called = |theirs: &Field| {
                let is_named = record.fields.iter().position(|field| field.id == theirs.id);
                is_named.or_else(|| record.fields.iter().position(|field| field.former.contains(&theirs.id)))
            };
            let owners: Vec<Option<usize>> = theirs.iter().map(called).collect();
            let was_any: Vec<bool> =
                theirs.iter().map(|t| record.fields.iter().any(|field| t.former.contains(&field.id))).collect();
            for (place, field) in record.fields.iter_mut().enumerate() {
                let of = |at: usize| owners.get(at).copied().flatten();
                let found = theirs.iter().enumerate();
                let is_it = |(at, theirs): &(usize, &Field)| match of(*at) {
                    Some(owner) => owner == place,
                    None => theirs.former.contains(&field.id),
                };
                let mut same: Vec<&Field> = found.filter(is_it).map(|(_, theirs)| theirs).collect();
                if same.is_empty() && alone.find(&field.id).is_some() {
                    same.extend(spelled.find(&field.id).and_then(|place| theirs.get(place)));
                }
                // What a third version calls it leads on to what a fourth does.
                if same.is_empty() {
                    let is_known = |name: &String| field.names.contains(name) || field.was_spelled(case, name);
                    let is_free = |at: usize| of(at).is_none() && was_any.get(at) == Some(&false);
                    let is_it = |(at, theirs): &(usize, &Field)| {
                        is_free(*at) && (is_known(&theirs.id) || theirs.former.iter().any(is_known))
                    };
                    same.extend(theirs.iter().enumerate().filter(is_it).map(|(_, theirs)| theirs));
                }
                for theirs in same {
                    for name in std::iter::once(&theirs.name).chain(&theirs.former) {
                        if *name != field.name && !field.was(name) {
                            field.names.push(name.clone());
                            is_new = true;
                        }
                    }
                    open.extend(field.value.inside().zip(theirs.value.inside()));
                }
            }
        }
        is_new
    }
}

/// A value whose records stand so many places further on.
fn moved(value: &mut Value, by: usize) {
    match &mut value.kind {
        Kind::Record(record) | Kind::Map(record) => *record += by,
        Kind::List(element) => moved(element, by),
        Kind::Single(Single { within, .. }) => *within = within.map(|record| record + by),
    }
}

/// Whether a value takes more than before, once it takes the other's, too, if it is to. Records in both are left in `open`.
fn widened(own: &mut Value, other: &Value, widens: bool, open: &mut Vec<(usize, usize)>) -> bool {
    match (&mut own.kind, &other.kind) {
        (Kind::Record(own), Kind::Record(other)) | (Kind::Map(own), Kind::Map(other)) => {
            open.push((*own, *other));
            false
        }
        (Kind::List(own), Kind::List(other)) => widened(own, other, widens, open),
        (Kind::Single(own), Kind::Single(other)) if widens && own.within.is_none() && other.within.is_none() => {
            let mut changed = false;
            if let (Some(Comparable::Enum(own)), Some(Comparable::Enum(other))) =
                (&mut own.comparable, &other.comparable)
            {
                for name in &other.names {
                    if !own.names.iter().any(|(known, _)| *known == name.0) {
                        own.names.push(name.clone());
                    }
                }
            }
            let wider = match (&own.default, &other.default) {
                (Ok(Type::Int), Ok(Type::Long)) => Some(Type::Long),
                (Ok(Type::Float), Ok(Type::Double)) => Some(Type::Double),
                _ => None,
            };
            if let (Some(wider), false) = (wider, matches!(own.comparable, Some(Comparable::Enum(_)))) {
                own.default = Ok(wider);
                changed = true;
            }
            changed
        }
        _ => false,
    }
}
