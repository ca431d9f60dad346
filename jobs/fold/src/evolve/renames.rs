//! Which sources are one field under several names, as the objects of a fold tell: a column's footer names the sources that it was in
//! earlier versions of its schema. Objects come in any order, and one of an earlier version says nothing of what follows it.
//!
//! A name that another field has now is that field's, as Avro's resolution has it: by name first, and an alias takes none that is a
//! field's own. So no rename leads through a name that an object has beside the field which had it before.

use std::collections::{BTreeMap, BTreeSet};

use staging::footer;

use crate::bind::Binding;

/// The renames of a fold.
#[derive(Debug, Default)]
pub(super) struct Renames {
    earlier: BTreeMap<String, BTreeSet<String>>,
    later: BTreeMap<String, BTreeSet<String>>,
    /// Sources that are another field's now.
    reused: BTreeSet<String>,
}

impl Renames {
    /// Those that the columns of objects tell, each with whether it has no values: a name is another field's once that one has some.
    pub(super) fn of<'f>(binding: &Binding, objects: impl Iterator<Item = Vec<(bool, &'f footer::Column)>>) -> Self {
        let objects: Vec<_> = objects.collect();
        let mut renames = Self::default();
        for (_, column) in objects.iter().flatten() {
            for former in &column.former {
                renames.earlier.entry(column.source.clone()).or_default().insert(former.clone());
                renames.later.entry(former.clone()).or_default().insert(column.source.clone());
            }
        }
        let mut reused = BTreeSet::new();
        for columns in &objects {
            let with_values: BTreeSet<&str> =
                columns.iter().filter(|(is_empty, _)| !is_empty).map(|(_, column)| column.source.as_str()).collect();
            let known: BTreeSet<i32> = columns.iter().filter_map(|(_, column)| binding.id(&column.source)).collect();
            for (_, column) in columns {
                let earlier = renames.earlier(&column.source).into_iter().filter(|source| *source != column.source);
                reused.extend(earlier.filter(|source| with_values.contains(source)).map(str::to_owned));
            }
            // An earlier fold was told so.
            let is_told = |source: &&&str| binding.former(source).is_some_and(|id| known.contains(&id));
            reused.extend(with_values.iter().filter(is_told).map(|source| (*source).to_owned()));
        }
        renames.reused = reused;
        renames
    }

    /// Whether a source is another field's than it was.
    pub(super) fn is_reused(&self, source: &str) -> bool {
        self.reused.contains(source)
    }

    /// What a source was before, over however many versions.
    pub(super) fn earlier(&self, source: &str) -> BTreeSet<&str> {
        self.reached(&self.earlier, source)
    }

    /// What a source is called in later versions.
    pub(super) fn later(&self, source: &str) -> BTreeSet<&str> {
        if self.is_reused(source) { BTreeSet::new() } else { self.reached(&self.later, source) }
    }

    fn reached<'r>(&self, renames: &'r BTreeMap<String, BTreeSet<String>>, source: &str) -> BTreeSet<&'r str> {
        let (mut reached, mut open) = (BTreeSet::new(), vec![source]);
        while let Some(source) = open.pop() {
            for next in renames.get(source).into_iter().flatten() {
                if !self.is_reused(next) && reached.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        reached
    }
}
