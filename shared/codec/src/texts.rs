//! Columns that a record's key and headers fill, as text or as they are.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, StringArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::Field;
use arrow::error::ArrowError;
use model::secret::Secret;
use pipeline::resolved::Pii;
use pipeline::types::Type;

use crate::columns::{Columns, HEADER, KEY};
use crate::expectation::Rule;
use crate::pii::{self, Hasher};
use crate::{Class, Error, Rejected, arrow_types};

/// Arrow's 32-bit offsets end here.
const BYTES_MAX: usize = i32::MAX as usize;

/// Columns of `@key` and `@header.NAME`. A record is read first, and then added as the rows that it makes.
///
/// Of several headers of one name the last counts, as a producer that sets one again means it. A header without bytes is
/// an empty value; one whose value is null, like one that is not there, is null.
#[derive(Debug)]
pub struct Texts {
    columns: Vec<Column>,
    /// The columns of `@key`, and those of each header.
    keys: Vec<usize>,
    headers: HashMap<String, Vec<usize>>,
    /// The source of a column that came to hold more than Arrow counts.
    overfull: Option<String>,
}

#[derive(Debug)]
struct Column {
    field: Field,
    /// Where its values come from, for a person.
    source: String,
    required: bool,
    /// Whether it is a column of strings.
    is_text: bool,
    /// Whether what is read must be UTF-8.
    utf8: bool,
    kept: Option<Kept>,
    rule: Option<Rule>,
    /// The value of the record that was read last, and whether it has one.
    value: Vec<u8>,
    present: bool,
    /// The rows.
    bytes: Vec<u8>,
    offsets: Vec<i32>,
    valid: Vec<bool>,
}

/// What stays of a value.
#[derive(Debug)]
enum Kept {
    Hash(Arc<Hasher>),
    Last4,
}

impl Texts {
    /// The columns among these that a key or headers fill, with the salt of those whose values are hashed.
    ///
    /// # Errors
    /// [`Error::Columns`] when the type of one, or what it expects, can't be; [`Error::NoSalt`] when values are hashed and
    /// there is no salt.
    pub fn new(columns: &Columns, salt: Option<&Secret>) -> Result<Self, Error> {
        let hasher = Arc::new(crate::hasher(columns, salt)?);
        let mut texts = Self { columns: Vec::new(), keys: Vec::new(), headers: HashMap::new(), overfull: None };
        for column in &columns.columns {
            let place = texts.columns.len();
            if column.is_of_payload() {
                continue;
            }
            let source = column.source_name.as_str();
            if source == KEY {
                texts.keys.push(place);
            } else if let Some(name) = source.strip_prefix(HEADER) {
                texts.headers.entry(name.to_owned()).or_default().push(place);
            } else {
                continue;
            }
            let refused = |reason| Error::Columns { message: source.to_owned(), reason };
            if !matches!(column.data_type, Type::String | Type::Binary) {
                return Err(refused(format!("column `{}` is neither string nor binary", column.name)));
            }
            let kept = match column.pii {
                None => None,
                Some(Pii::Hash) => Some(Kept::Hash(Arc::clone(&hasher))),
                Some(Pii::Last4) => Some(Kept::Last4),
                Some(Pii::Drop) => return Err(refused(format!("column `{}` is dropped", column.name))),
            };
            if kept.is_some() && column.data_type != Type::String {
                return Err(refused(format!("column `{}` is personal data and no string", column.name)));
            }
            let rule = Rule::of(&column.expect, &column.data_type);
            texts.columns.push(Column {
                field: arrow_types::field(&column.name, &column.data_type, column.required),
                source: source.to_owned(),
                required: column.required,
                is_text: column.data_type == Type::String,
                // Bytes are hashed as they are.
                utf8: column.data_type == Type::String && column.pii != Some(Pii::Hash),
                kept,
                rule: rule.map_err(|reason| refused(format!("column `{}`: {reason}", column.name)))?,
                value: Vec::new(),
                present: false,
                bytes: Vec::new(),
                offsets: vec![0],
                valid: Vec::new(),
            });
        }
        Ok(texts)
    }

    /// Whether there are no such columns.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The fields of [`Texts::finish`], in order.
    pub fn fields(&self) -> impl Iterator<Item = &Field> {
        self.columns.iter().map(|column| &column.field)
    }

    /// Reads a record's key and headers. They stand for the rows of [`Texts::add`] until another record is read.
    ///
    /// # Errors
    /// Why the record can't be rows of these columns; the path is `@key` or `@header.NAME`.
    pub fn read<'a>(
        &mut self,
        key: Option<&'a [u8]>,
        headers: impl IntoIterator<Item = (&'a str, Option<&'a [u8]>)>,
    ) -> Result<(), Rejected> {
        self.columns.iter_mut().for_each(|column| column.set(None));
        for place in &self.keys {
            self.columns.get_mut(*place).into_iter().for_each(|column| column.set(key));
        }
        if !self.headers.is_empty() {
            for (name, value) in headers {
                for place in self.headers.get(name).into_iter().flatten() {
                    self.columns.get_mut(*place).into_iter().for_each(|column| column.set(value));
                }
            }
        }
        self.columns.iter().try_for_each(Column::check)?;
        self.columns.iter_mut().for_each(Column::veil);
        Ok(())
    }

    /// Bytes of the record that was read last.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.columns.iter().map(|column| column.value.len()).sum()
    }

    /// Adds what was read last as this many rows.
    pub fn add(&mut self, rows: usize) {
        for column in &mut self.columns {
            let bytes = column.value.len().saturating_mul(rows).saturating_add(column.bytes.len());
            if bytes > BYTES_MAX {
                self.overfull = Some(column.source.clone());
                continue;
            }
            for _ in 0..rows {
                column.bytes.extend_from_slice(&column.value);
                // Bounded above.
                column.offsets.push(column.bytes.len() as i32);
                column.valid.push(column.present);
            }
        }
    }

    /// Takes the columns of the rows that were added. Goes on with none.
    ///
    /// # Errors
    /// [`Error::Batch`] when a column came to hold more than the 2 GiB that Arrow counts: far more than any event does.
    pub fn finish(&mut self) -> Result<Vec<ArrayRef>, Error> {
        if let Some(source) = self.overfull.take() {
            let message = format!("the columns of `{source}` hold more than 2 GiB");
            return Err(ArrowError::InvalidArgumentError(message).into());
        }
        self.columns.iter_mut().map(Column::take).collect()
    }
}

impl Column {
    fn set(&mut self, value: Option<&[u8]>) {
        self.value.clear();
        self.value.extend_from_slice(value.unwrap_or_default());
        self.present = value.is_some();
    }

    fn check(&self) -> Result<(), Rejected> {
        let rejected =
            |class, message: &str| Rejected { class, path: self.source.clone(), message: message.to_owned() };
        if !self.present {
            return match self.required {
                true => Err(rejected(Class::MissingRequired, "a required value is missing")),
                false => Ok(()),
            };
        }
        if self.utf8 && simdutf8::basic::from_utf8(&self.value).is_err() {
            return Err(rejected(
                Class::InvalidUtf8,
                "the string is not UTF-8; a column of type binary takes any bytes",
            ));
        }
        let met = self.rule.as_ref().map_or(Ok(()), |rule| rule.text(&self.value));
        met.map_err(|unmet| rejected(Class::Expectation, unmet))
    }

    /// Leaves of personal data what may stay of it.
    fn veil(&mut self) {
        let kept = match &self.kept {
            Some(Kept::Hash(hasher)) if self.present => hasher.hash(&self.value).into_bytes(),
            Some(Kept::Last4) => pii::last4(&self.value).to_vec(),
            _ => return,
        };
        self.value = kept;
    }

    fn take(&mut self) -> Result<ArrayRef, Error> {
        let offsets = OffsetBuffer::new(std::mem::replace(&mut self.offsets, vec![0]).into());
        let bytes = std::mem::take(&mut self.bytes).into();
        let nulls = NullBuffer::from(std::mem::take(&mut self.valid));
        let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
        Ok(match self.is_text {
            true => Arc::new(StringArray::try_new(offsets, bytes, nulls)?),
            false => Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use pipeline::expectation::{Expectations, Literal};
    use pipeline::resolved::{ColumnCase, UnknownFields};

    use super::*;
    use crate::columns;

    fn column(name: &str, source: &str, data_type: Type) -> columns::Column {
        columns::Column {
            name: name.to_owned(),
            source: source.to_owned(),
            source_name: source.to_owned(),
            data_type,
            unit: None,
            required: false,
            doc: None,
            expect: Expectations::default(),
            pii: None,
        }
    }

    fn planned(columns: Vec<columns::Column>) -> Columns {
        Columns {
            columns,
            column_case: ColumnCase::Lower,
            unknown_fields: UnknownFields::Ignore,
            filter: None,
            explode: None,
            withheld: columns::Withheld::default(),
            absent: Vec::new(),
            replaced: Vec::new(),
        }
    }

    fn texts(columns: Vec<columns::Column>) -> Texts {
        Texts::new(&planned(columns), None).unwrap()
    }

    #[test]
    fn keys_and_headers_become_columns() {
        let mut texts = texts(vec![
            column("a", "value:1", Type::Int),
            column("k", KEY, Type::String),
            column("raw", KEY, Type::Binary),
            column("h", "@header.city#h", Type::String),
            column("t", "@timestamp", Type::Timestamptz),
        ]);
        assert_eq!(texts.fields().map(|f| f.name().as_str()).collect::<Vec<_>>(), ["k", "raw", "h"]);
        let headers = [("city#h", Some(&b"Oslo"[..])), ("City#h", Some(b"x")), ("city#h", Some("Köln".as_bytes()))];
        texts.read(Some(b"k1"), headers).unwrap();
        assert_eq!(texts.bytes(), 9);
        texts.add(2);
        texts.read(None, [("city#h", Some(&b""[..]))]).unwrap();
        texts.add(1);
        texts.read(Some(b""), [("city#h", Some(&b"Rome"[..])), ("city#h", None)]).unwrap();
        texts.add(1);
        // Read and not added.
        texts.read(Some(b"k9"), []).unwrap();
        let arrays = texts.finish().unwrap();
        let text = |n: usize| arrays[n].as_string::<i32>().iter().map(|v| v.map(str::to_owned)).collect::<Vec<_>>();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(text(0), [some("k1"), some("k1"), None, some("")]);
        assert_eq!(text(2), [some("Köln"), some("Köln"), some(""), None]);
        assert_eq!(arrays[1].as_binary::<i32>().value(1), b"k1");
        assert!(texts.finish().unwrap().iter().all(|array| array.is_empty()));
    }

    #[test]
    fn personal_data_is_never_kept_as_it_is() {
        let mut hashed = column("h", KEY, Type::String);
        hashed.pii = Some(Pii::Hash);
        let mut cut = column("c", "@header.card", Type::String);
        (cut.pii, cut.expect.pattern) = (Some(Pii::Last4), Some("^[0-9]{16}$".to_owned()));
        let columns = planned(vec![hashed, cut]);
        assert!(matches!(Texts::new(&columns, None), Err(Error::NoSalt { column }) if column == "h"));
        let mut texts = Texts::new(&columns, Some(&Secret::new(*b"Jefe"))).unwrap();
        texts.read(Some(b"what do ya want for nothing?"), [("card", Some(&b"4111111111111234"[..]))]).unwrap();
        texts.add(1);
        texts.read(Some(b"\xff"), []).unwrap();
        texts.add(1);
        texts.read(None, []).unwrap();
        texts.add(1);
        assert_eq!(texts.read(None, [("card", Some(&b"4111"[..]))]).unwrap_err().class, Class::Expectation);
        let arrays = texts.finish().unwrap();
        let hashes = arrays[0].as_string::<i32>();
        assert_eq!(hashes.value(0), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        assert_eq!((hashes.value(1).len(), hashes.is_null(2)), (64, true));
        assert_eq!(arrays[1].as_string::<i32>().iter().collect::<Vec<_>>(), [Some("1234"), None, None]);
    }

    #[test]
    fn what_is_no_value_of_its_column_is_refused() {
        let mut key = column("k", KEY, Type::String);
        key.required = true;
        let mut header = column("h", "@header.kind", Type::String);
        header.expect.one_of = vec![Literal::Text("click".to_owned())];
        let mut texts = texts(vec![key, header]);
        let mut check = |key: Option<&[u8]>, kind: Option<&[u8]>, class, path: &str| {
            let rejected = texts.read(key, [("kind", kind)]).unwrap_err();
            assert_eq!((rejected.class, rejected.path.as_str()), (class, path), "{rejected}");
        };
        check(None, None, Class::MissingRequired, KEY);
        check(Some(b"\xff"), None, Class::InvalidUtf8, KEY);
        check(Some(b"k"), Some(b"view"), Class::Expectation, "@header.kind");
        texts.read(Some(b"k"), []).unwrap();
        let wrong = column("k", KEY, Type::Long);
        assert!(Texts::new(&planned(vec![wrong]), None).is_err());
    }
}
