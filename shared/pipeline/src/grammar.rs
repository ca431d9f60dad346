//! Every key of both files, and whether this version carries it out. A key listed here is never "unknown".

use crate::document::{Entry, Section};
use crate::fault::code;
use crate::nearest::nearest;
use crate::reader::Reader;

/// One key.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) stands: Stands,
    pub(crate) shape: Shape,
}

/// Whether this version carries a key out.
pub(crate) enum Stands {
    Now,
    Later,
    /// Only with the value that says what happens anyway, as TOML writes it; beside it, the values known for later
    /// (none listed: any).
    Only(&'static str, &'static [&'static str]),
}

/// What may stand below a key.
pub(crate) enum Shape {
    Leaf,
    /// A table of these keys.
    Table(&'static [Key]),
    /// Names of the writer's own, each a table of these keys.
    Named(&'static [Key]),
    /// Names of the writer's own, each a value.
    Open,
}

const fn now(name: &'static str) -> Key {
    Key { name, stands: Stands::Now, shape: Shape::Leaf }
}

const fn later(name: &'static str) -> Key {
    Key { name, stands: Stands::Later, shape: Shape::Leaf }
}

const fn only(name: &'static str, value: &'static str, later: &'static [&'static str]) -> Key {
    Key { name, stands: Stands::Only(value, later), shape: Shape::Leaf }
}

impl Key {
    const fn table(self, keys: &'static [Key]) -> Self {
        Self { shape: Shape::Table(keys), name: self.name, stands: self.stands }
    }

    const fn named(self, keys: &'static [Key]) -> Self {
        Self { shape: Shape::Named(keys), name: self.name, stands: self.stands }
    }

    const fn open(self) -> Self {
        Self { shape: Shape::Open, name: self.name, stands: self.stands }
    }
}

/// `pipelines/<name>.toml`
pub(crate) const PIPELINE: &[Key] = &[
    now("source").table(SOURCE),
    now("key").table(KEY),
    now("value").table(VALUE),
    now("table").table(TABLE),
    now("tables").named(DIFFERING),
    now("fold").table(FOLD),
    now("staging").table(&[now("retention")]),
];

const SOURCE: &[Key] = &[now("topics"), now("exclude"), now("name")];

const VALUE: &[Key] = &[
    now("format"),
    now("framing"),
    now("schema").table(SCHEMA),
    only("keep_raw", "false", &["true"]),
    later("unavailable"),
    now("confluent_indexes"),
    now("filter").table(&[now("field"), now("in")]),
    now("explode"),
];

/// What is said of keys: they choose no records, and become no rows of their own.
const KEY: &[Key] = &[now("format"), now("framing"), now("schema").table(SCHEMA), now("confluent_indexes")];

const SCHEMA: &[Key] = &[
    now("proto"),
    now("descriptor"),
    now("message"),
    now("avsc"),
    now("json_schema"),
    now("registry"),
    now("registries"),
    now("name"),
];

const TABLE: &[Key] = &[
    now("name"),
    now("exists"),
    now("mode"),
    now("primary_key"),
    now("dedup_within").table(&[now("column"), now("lookback"), now("late")]),
    now("order_by"),
    now("write"),
    now("deletes"),
    only("tombstones", "\"filter\"", &["\"keep\""]),
    now("null_keys"),
    later("on_truncate"),
    now("format_version"),
    now("partition_by"),
    now("sort_by"),
    now("fields"),
    now("exclude"),
    now("unknown_fields"),
    now("column_case"),
    now("types"),
    now("record_columns"),
    later("maintain"),
    later("dead_letters"),
    now("columns").named(COLUMN),
    now("properties").open(),
];

/// One of `[tables]`: what may differ between the tables of a pipeline. What makes their columns is one for all.
const DIFFERING: &[Key] = &[
    now("mode"),
    now("primary_key"),
    now("dedup_within").table(&[now("column"), now("lookback"), now("late")]),
    now("order_by"),
    now("write"),
    now("deletes"),
    now("null_keys"),
    later("on_truncate"),
    now("partition_by"),
    now("sort_by"),
    later("maintain"),
    now("properties").open(),
];

/// One of `[table.columns]`.
pub(crate) const COLUMN: &[Key] = &[
    now("from"),
    now("type"),
    now("required"),
    now("doc"),
    now("unit"),
    later("default"),
    now("pii"),
    now("min"),
    now("max"),
    now("pattern"),
    now("in"),
];

const FOLD: &[Key] = &[now("max_age"), now("max_bytes"), now("max_rows"), now("memory"), now("tables_max")];

/// `frazil.toml`
pub(crate) const ENVIRONMENTS: &[Key] = &[now("env").named(ENVIRONMENT)];

const ENVIRONMENT: &[Key] = &[
    now("dir"),
    now("store"),
    now("catalog").table(&[
        now("rest"),
        now("warehouse"),
        now("auth"),
        now("secret"),
        now("scope"),
        now("oauth2_server"),
        now("region"),
    ]),
    now("warehouse"),
    later("region"),
    now("kafka").table(&[now("bootstrap_servers"), now("command_config")]),
    now("pii_salt"),
    now("mapping").table(&[
        now("batch"),
        now("window"),
        now("start"),
        now("pollers"),
        now("partial_answers"),
        later("auth"),
        later("destination"),
        now("retries"),
        now("max_age"),
        now("bisect"),
        now("filter"),
        now("registry"),
        now("record_format"),
    ]),
    now("vars").open(),
    later("spark").table(&[later("application"), later("role"), later("above")]),
    now("registries").named(&[
        now("kind"),
        now("registry_name"),
        now("assume_role"),
        now("external_id"),
        now("region"),
        now("url"),
        now("secret"),
        now("ca"),
        now("certificate"),
        now("key"),
        now("dir"),
    ]),
];

/// Reports every key that is unknown or not of this version, in the whole document. What is left is for the readers.
pub(crate) fn check(reader: &mut Reader<'_>, document: Section<'_>, keys: &'static [Key]) {
    Walk { root: keys }.section(reader, document, "", keys, true);
}

struct Walk {
    root: &'static [Key],
}

impl Walk {
    /// `report_later` is false below a key that was already reported as a whole: one fault for it is enough.
    fn section(
        &self,
        reader: &mut Reader<'_>,
        section: Section<'_>,
        path: &str,
        keys: &'static [Key],
        report_later: bool,
    ) {
        for entry in section.entries() {
            let Some(key) = keys.iter().find(|k| k.name == entry.key) else {
                self.unknown(reader, &entry, path, keys);
                continue;
            };
            let below = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
            let later = matches!(key.stands, Stands::Later);
            if report_later {
                match key.stands {
                    Stands::Now => {}
                    // Each of the names is reported by itself, below.
                    Stands::Later if matches!(key.shape, Shape::Named(_)) && entry.has_tables() => {}
                    Stands::Later if path.is_empty() => reader.not_yet(entry.key_at, &format!("[{}]", key.name)),
                    Stands::Later => reader.not_yet(entry.key_at, key.name),
                    Stands::Only(here, later) => {
                        let source = reader.source(&entry);
                        if later.is_empty() && source != here || later.contains(&source.as_str()) {
                            reader.not_yet(entry.value_at(), &format!("{} = {source}", key.name));
                        } else if source != here {
                            let message = format!("`{}` cannot be {source}; it takes {here}", key.name);
                            reader.fault(entry.value_at(), code::INVALID, message);
                        }
                    }
                }
            }
            let Some(inner) = entry.section() else { continue };
            match key.shape {
                Shape::Leaf | Shape::Open => {}
                // `catalog` as a table is one value that is not of this version: its reader says so.
                Shape::Table(keys) => {
                    self.section(reader, inner, &below, keys, report_later && !later && below != "env.catalog")
                }
                Shape::Named(keys) => {
                    for named in inner.entries() {
                        if later && report_later {
                            reader.not_yet(named.key_at, &format!("[{below}.{}]", quoted(named.key)));
                        }
                        if let Some(inner) = named.section() {
                            self.section(reader, inner, &below, keys, report_later && !later);
                        }
                    }
                }
            }
        }
    }

    fn unknown(&self, reader: &mut Reader<'_>, entry: &Entry<'_>, path: &str, keys: &'static [Key]) {
        let name = entry.key;
        let place = if path.is_empty() { "at the top of the file".to_owned() } else { format!("in `[{path}]`") };
        if let Some(home) = self.home(name) {
            reader.near(
                entry.key_at,
                code::UNKNOWN_KEY,
                format!("`{name}` is not known {place}; it belongs in `[{home}]`"),
                None,
            );
            return;
        }
        let nearest = nearest(name, keys.iter().map(|k| k.name));
        let meant = nearest.map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
        reader.near(entry.key_at, code::UNKNOWN_KEY, format!("unknown key `{name}` {place}{meant}"), nearest);
    }

    /// The block that knows a key found elsewhere.
    fn home(&self, name: &str) -> Option<&'static str> {
        self.root.iter().find_map(|block| match block.shape {
            Shape::Table(keys) if matches!(block.stands, Stands::Now) => {
                keys.iter().any(|k| k.name == name).then_some(block.name)
            }
            _ => None,
        })
    }
}

/// A key as TOML writes it in a header.
fn quoted(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { key.to_owned() } else { format!("{key:?}") }
}
