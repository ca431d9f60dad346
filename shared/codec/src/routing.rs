//! Which table a record goes to, by its topic, its headers and its value.

use pipeline::route::{self, Part, Route};

use crate::columns::{Field, Tables};
use crate::payload::{OneText, Reader, Schema};
use crate::{Class, Error, Rejected};

/// Names each record's table.
pub struct Router {
    namespace: Vec<Source>,
    own: Vec<Source>,
    /// The name of the last record's table, `namespace.name`.
    name: String,
}

/// Where a part of a table's name comes from.
enum Source {
    Text(String),
    Topic,
    Field { text: OneText, path: String },
    Header(String),
}

impl Router {
    /// Names the tables of records that were written with a schema, and are read as the one that the tables were planned from.
    ///
    /// # Errors
    /// [`Error::Columns`] when the columns were planned with another route, or for another schema.
    pub fn new(route: &Route, reader: &Reader, writer: &Schema, tables: &Tables) -> Result<Self, Error> {
        let mut fields = tables.route.iter();
        let text = |field: &Field| reader.one_text(writer, field, &tables.columns);
        let namespace = sources(&route.namespace, &mut fields, reader, &text)?;
        let own = sources(&route.name, &mut fields, reader, &text)?;
        Ok(Self { namespace, own, name: String::new() })
    }

    /// The name of a record's table, `namespace.name`, as far as it can be told without looking at it: see [`check`].
    ///
    /// # Errors
    /// Why it goes to none: its payload can't be read, or what names its table is missing or can be no part of a name.
    pub fn name<'h>(
        &mut self,
        topic: Option<&str>,
        headers: &(impl Iterator<Item = (&'h str, Option<&'h [u8]>)> + Clone),
        value: &[u8],
    ) -> Result<&str, Rejected> {
        self.name.clear();
        for source in &mut self.namespace {
            source.put(topic, headers.clone(), value, &mut self.name)?;
        }
        self.name.push('.');
        for source in &mut self.own {
            source.put(topic, headers.clone(), value, &mut self.name)?;
        }
        Ok(&self.name)
    }
}

/// A table's name with its namespace and the dot between them, in bytes: it is one segment of a key in the store.
const NAME_BYTES_MAX: usize = 255;

/// Whether a catalog, and the store, take a name that a [`Router`] has put together. It is the same for the same name, which
/// a caller may remember.
///
/// # Errors
/// Why not.
pub fn check(name: &str) -> Result<(), Rejected> {
    if name.len() > NAME_BYTES_MAX {
        let message = format!("its table's name would have {} characters: at most {NAME_BYTES_MAX}", name.len());
        return Err(unroutable("", &message));
    }
    let (namespace, own) = name.split_once('.').unwrap_or((name, ""));
    if [namespace, own].into_iter().any(|part| route::check_name(part).is_err()) {
        return Err(unroutable("", "its table's name would begin with another character than a letter or a digit"));
    }
    Ok(())
}

fn sources<'f>(
    parts: &[Part],
    fields: &mut impl Iterator<Item = &'f Field>,
    reader: &Reader,
    text: &impl Fn(&Field) -> Result<OneText, Error>,
) -> Result<Vec<Source>, Error> {
    let source = |part: &Part| match part {
        Part::Text(text) => Ok(Source::Text(text.clone())),
        Part::Topic => Ok(Source::Topic),
        Part::Header(name) => Ok(Source::Header(name.clone())),
        Part::Field(path) => {
            let field = fields.next().ok_or_else(|| Error::Columns {
                message: reader.name().to_owned(),
                reason: format!("no field was found for `{}`", path.join(".")),
            })?;
            Ok(Source::Field { text: text(field)?, path: field.source_name.clone() })
        }
    };
    parts.iter().map(source).collect()
}

impl Source {
    #[inline]
    fn put<'h>(
        &mut self,
        topic: Option<&str>,
        headers: impl Iterator<Item = (&'h str, Option<&'h [u8]>)>,
        value: &[u8],
        name: &mut String,
    ) -> Result<(), Rejected> {
        let put = |text: Option<&[u8]>, name: &mut String| -> Result<(), &'static str> {
            let text = text.filter(|text| !text.is_empty()).ok_or("it has no value, and names the record's table")?;
            let spelled = std::str::from_utf8(text).ok().and_then(route::spelled).ok_or(
                "its value can't be part of a table's name: that takes letters of ASCII, digits, `_`, `-` and `.`",
            )?;
            name.push_str(&spelled);
            Ok(())
        };
        match self {
            Self::Text(text) => {
                name.push_str(text);
                Ok(())
            }
            Self::Topic => put(topic.map(str::as_bytes), name).map_err(|why| unroutable("@topic", why)),
            Self::Header(header) => {
                let found = headers.filter(|(name, _)| name == header).last();
                put(found.and_then(|(_, value)| value), name)
                    .map_err(|why| unroutable(&format!("@header.{header}"), why))
            }
            Self::Field { text, path } => {
                text.read(value, |text| put(text, name))?.map_err(|why| unroutable(path, why))
            }
        }
    }
}

#[cold]
fn unroutable(path: &str, message: &str) -> Rejected {
    Rejected { class: Class::Unroutable, path: path.to_owned(), message: message.to_owned() }
}
