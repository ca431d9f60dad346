//! Which figures are kept for which column: the properties `write.metadata.metrics.default`,
//! `write.metadata.metrics.column.<name>` and `write.metadata.metrics.max-inferred-column-defaults`.

use std::collections::HashMap;
use std::str::FromStr;

use iceberg::spec::Schema;

use crate::fault::Fault;
use crate::schema::positions;

const DEFAULT: &str = "write.metadata.metrics.default";
const COLUMN: &str = "write.metadata.metrics.column.";
const INFERRED_MAX: &str = "write.metadata.metrics.max-inferred-column-defaults";
const INFERRED_MAX_DEFAULT: usize = 100;
const TRUNCATE_DEFAULT: Mode = Mode::Truncate(16);

/// What is kept of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Its size on disk only.
    None,
    /// Counts, no bounds.
    Counts,
    /// Counts and bounds; text is cut to so many code points, binary and fixed to so many bytes.
    Truncate(u32),
    /// Counts and whole bounds.
    Full,
}

impl FromStr for Mode {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.trim().to_ascii_lowercase();
        match text.as_str() {
            "none" => Ok(Self::None),
            "counts" => Ok(Self::Counts),
            "full" => Ok(Self::Full),
            _ => {
                let width = text.strip_prefix("truncate(").and_then(|rest| rest.strip_suffix(')')).ok_or(())?;
                width.trim().parse().ok().filter(|width| *width > 0).map(Self::Truncate).ok_or(())
            }
        }
    }
}

/// The mode of every column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modes {
    rest: Mode,
    columns: HashMap<i32, Mode>,
}

impl Modes {
    /// The same mode for every column.
    #[must_use]
    pub fn all(mode: Mode) -> Self {
        Self { rest: mode, columns: HashMap::new() }
    }

    /// From a table's properties. Without a default in them the first 100 columns (or as many as the property says) have
    /// truncate(16) and the others none; a column of the sort order always has at least truncate(16). A column named by
    /// its own property has just that. Names that are no columns say nothing: they may belong to columns since dropped.
    ///
    /// # Errors
    /// [`Fault::Property`] for a mode or number that means nothing.
    pub fn new(properties: &HashMap<String, String>, schema: &Schema, sorted: &[i32]) -> Result<Self, Fault> {
        let mode = |key: &str, value: &str| {
            value.parse::<Mode>().map_err(|()| Fault::Property {
                key: key.to_owned(),
                value: value.to_owned(),
                expected: "none, counts, truncate(N) or full",
            })
        };
        let mut columns = HashMap::new();
        let rest = match properties.get(DEFAULT) {
            Some(value) => mode(DEFAULT, value)?,
            None => {
                let most = match properties.get(INFERRED_MAX) {
                    None => INFERRED_MAX_DEFAULT,
                    Some(value) => value.parse().map_err(|_| Fault::Property {
                        key: INFERRED_MAX.to_owned(),
                        value: value.clone(),
                        expected: "a number of columns",
                    })?,
                };
                let fields = positions(schema);
                if fields.len() <= most {
                    TRUNCATE_DEFAULT
                } else {
                    columns.extend(fields.iter().take(most).map(|(id, _)| (*id, TRUNCATE_DEFAULT)));
                    Mode::None
                }
            }
        };
        let sorted_mode = if matches!(rest, Mode::None | Mode::Counts) { TRUNCATE_DEFAULT } else { rest };
        columns.extend(sorted.iter().map(|id| (*id, sorted_mode)));
        for (key, value) in properties {
            if let Some(name) = key.strip_prefix(COLUMN) {
                let mode = mode(key, value)?;
                columns.extend(schema.field_id_by_name(name).map(|id| (id, mode)));
            }
        }
        Ok(Self { rest, columns })
    }

    /// The mode of a field.
    #[must_use]
    pub fn of(&self, field_id: i32) -> Mode {
        self.columns.get(&field_id).copied().unwrap_or(self.rest)
    }
}
