//! Logical column types, written as Iceberg writes them: `struct<sku: string, qty: int>`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An Iceberg type without field ids. A struct's fields keep their order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Type {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    /// precision 1..=38, scale 0..=precision
    Decimal(u8, u8),
    Date,
    /// microseconds of the day
    Time,
    /// microseconds, without zone
    Timestamp,
    /// microseconds, UTC
    Timestamptz,
    String,
    Uuid,
    Fixed(u32),
    Binary,
    Struct(Vec<Field>),
    List {
        element: Box<Type>,
        required: bool,
    },
    Map {
        key: Box<Type>,
        value: Box<Type>,
        required: bool,
    },
}

/// One field of a struct.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// The field's name.
    pub name: String,
    /// Its type.
    pub data_type: Type,
    /// Whether null is refused.
    pub required: bool,
}

/// Why a text is not a type: what is wrong, and at which byte of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at character {at}")]
pub struct ParseError {
    /// What is wrong, with the nearest known name where there is one.
    pub message: String,
    /// Byte position in the text.
    pub at: usize,
}

/// How deep a written type may nest: deeper ones are refused rather than recursed into.
const DEPTH_MAX: usize = 32;

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let required = |r: bool| if r { " not null" } else { "" };
        match self {
            Self::Boolean => f.write_str("boolean"),
            Self::Int => f.write_str("int"),
            Self::Long => f.write_str("long"),
            Self::Float => f.write_str("float"),
            Self::Double => f.write_str("double"),
            Self::Decimal(p, s) => write!(f, "decimal({p}, {s})"),
            Self::Date => f.write_str("date"),
            Self::Time => f.write_str("time"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Timestamptz => f.write_str("timestamptz"),
            Self::String => f.write_str("string"),
            Self::Uuid => f.write_str("uuid"),
            Self::Fixed(n) => write!(f, "fixed({n})"),
            Self::Binary => f.write_str("binary"),
            Self::Struct(fields) => {
                f.write_str("struct<")?;
                for (n, field) in fields.iter().enumerate() {
                    if n > 0 {
                        f.write_str(", ")?;
                    }
                    let plain = !field.name.is_empty()
                        && field.name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80);
                    if plain {
                        f.write_str(&field.name)?;
                    } else {
                        write!(f, "\"{}\"", field.name.replace('"', "\"\""))?;
                    }
                    write!(f, ": {}{}", field.data_type, required(field.required))?;
                }
                f.write_str(">")
            }
            Self::List { element, required: r } => write!(f, "list<{element}{}>", required(*r)),
            Self::Map { key, value, required: r } => write!(f, "map<{key}, {value}{}>", required(*r)),
        }
    }
}

impl std::convert::From<Type> for String {
    fn from(data_type: Type) -> Self {
        data_type.to_string()
    }
}

impl TryFrom<String> for Type {
    type Error = ParseError;
    fn try_from(text: String) -> Result<Self, ParseError> {
        text.parse()
    }
}

impl FromStr for Type {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut parser = Parser { text, at: 0 };
        let (data_type, _) = parser.data_type(0)?;
        parser.space();
        if parser.at < text.len() {
            return Err(parser.fault("unexpected text after the type"));
        }
        Ok(data_type)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn fault(&self, message: impl Into<String>) -> ParseError {
        ParseError { message: message.into(), at: self.at }
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn eat(&mut self, wanted: char) -> bool {
        self.space();
        let found = self.rest().starts_with(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), ParseError> {
        if self.eat(wanted) { Ok(()) } else { Err(self.fault(format!("expected `{wanted}`"))) }
    }

    fn word(&mut self) -> &'a str {
        self.space();
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or("")
    }

    fn number<T: FromStr>(&mut self) -> Result<T, ParseError> {
        self.space();
        let start = self.at;
        self.word().parse().map_err(|_| ParseError { message: "expected a whole number".to_owned(), at: start })
    }

    fn name(&mut self) -> Result<String, ParseError> {
        if self.eat('"') {
            let mut name = String::new();
            loop {
                let rest = self.rest();
                let Some(end) = rest.find('"') else { return Err(self.fault("a quoted name is not closed")) };
                name.push_str(rest.get(..end).unwrap_or(""));
                self.at += end + 1;
                if self.rest().starts_with('"') {
                    name.push('"');
                    self.at += 1;
                } else {
                    return Ok(name);
                }
            }
        }
        match self.word() {
            "" => Err(self.fault("expected a field name")),
            word => Ok(word.to_owned()),
        }
    }

    fn not_null(&mut self) -> Result<bool, ParseError> {
        let before = self.at;
        if self.word().eq_ignore_ascii_case("not") {
            if self.word().eq_ignore_ascii_case("null") { Ok(true) } else { Err(self.fault("expected `not null`")) }
        } else {
            self.at = before;
            Ok(false)
        }
    }

    fn data_type(&mut self, depth: usize) -> Result<(Type, bool), ParseError> {
        if depth > DEPTH_MAX {
            return Err(self.fault(format!("types nest at most {DEPTH_MAX} deep")));
        }
        self.space();
        let start = self.at;
        let word = self.word().to_ascii_lowercase();
        let data_type = match word.as_str() {
            "boolean" => Type::Boolean,
            "int" => Type::Int,
            "long" => Type::Long,
            "float" => Type::Float,
            "double" => Type::Double,
            "date" => Type::Date,
            "time" => Type::Time,
            "timestamp" => Type::Timestamp,
            "timestamptz" => Type::Timestamptz,
            "string" => Type::String,
            "uuid" => Type::Uuid,
            "binary" => Type::Binary,
            "fixed" => {
                // Iceberg's JSON writes fixed[16], its prose fixed(16).
                let close = if self.eat('[') { ']' } else { self.expect('(').map(|()| ')')? };
                let n = self.number()?;
                self.expect(close)?;
                Type::Fixed(n)
            }
            "decimal" => {
                self.expect('(')?;
                let precision: u8 = self.number()?;
                self.expect(',')?;
                let scale: u8 = self.number()?;
                self.expect(')')?;
                if precision == 0 || precision > 38 || scale > precision {
                    return Err(ParseError {
                        message: "a decimal has a precision of 1 to 38 and a scale of at most its precision".to_owned(),
                        at: start,
                    });
                }
                Type::Decimal(precision, scale)
            }
            "struct" => {
                self.expect('<')?;
                let mut fields: Vec<Field> = Vec::new();
                loop {
                    let at = self.at;
                    let name = self.name()?;
                    if fields.iter().any(|f| f.name == name) {
                        return Err(ParseError { message: format!("the field `{name}` is there twice"), at });
                    }
                    self.expect(':')?;
                    let (data_type, required) = self.data_type(depth + 1)?;
                    fields.push(Field { name, data_type, required });
                    if !self.eat(',') {
                        break;
                    }
                }
                self.expect('>')?;
                Type::Struct(fields)
            }
            "list" => {
                self.expect('<')?;
                let (element, required) = self.data_type(depth + 1)?;
                self.expect('>')?;
                Type::List { element: Box::new(element), required }
            }
            "map" => {
                self.expect('<')?;
                let (key, _) = self.data_type(depth + 1)?;
                self.expect(',')?;
                let (value, required) = self.data_type(depth + 1)?;
                self.expect('>')?;
                Type::Map { key: Box::new(key), value: Box::new(value), required }
            }
            other => {
                let message = match meant(other) {
                    Some(meant) => format!("`{other}` is not an Iceberg type; did you mean `{meant}`?"),
                    None => format!("`{other}` is not an Iceberg type"),
                };
                return Err(ParseError { message, at: start });
            }
        };
        Ok((data_type, self.not_null()?))
    }
}

/// The Iceberg name of a type that other systems call differently.
fn meant(word: &str) -> Option<&'static str> {
    Some(match word {
        "bigint" | "int8" | "int64" => "long",
        "integer" | "smallint" | "tinyint" | "int32" => "int",
        "varchar" | "char" | "text" | "str" => "string",
        "bool" => "boolean",
        "real" | "float32" => "float",
        "float64" => "double",
        "array" => "list",
        "row" | "record" => "struct",
        "bytes" | "varbinary" | "blob" => "binary",
        "numeric" | "number" => "decimal(p, s)",
        "datetime" => "timestamp",
        "timestamp_tz" | "timestamp_ltz" | "timestampz" => "timestamptz",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_and_written_as_iceberg_writes_them() {
        for text in [
            "boolean",
            "decimal(20, 0)",
            "struct<sku: string, qty: int not null>",
            "list<long not null>",
            "map<string, struct<\"a.b\": timestamptz, c: list<double>>>",
            "fixed(16)",
            "struct<\"say \"\"hi\"\"\": string>",
        ] {
            assert_eq!(text.parse::<Type>().unwrap().to_string(), text);
        }
        assert_eq!("fixed[16]".parse::<Type>().unwrap(), Type::Fixed(16));
        assert_eq!(" DECIMAL( 9,2 ) ".parse::<Type>().unwrap(), Type::Decimal(9, 2));
    }

    #[test]
    fn a_wrong_type_says_where_and_what_was_meant() {
        let check = |text: &str, message: &str, at: usize| {
            let fault = text.parse::<Type>().unwrap_err();
            assert!(fault.message.contains(message), "{text}: {fault}");
            assert_eq!(fault.at, at, "{text}: {fault}");
        };
        check("bigint", "did you mean `long`", 0);
        check("struct<a: array>", "did you mean `list`", 10);
        check("decimal(39,0)", "1 to 38", 0);
        check("decimal(x,0)", "whole number", 8);
        check("list<int", "expected `>`", 8);
        check("struct<a: int, a: int>", "twice", 14);
        check("int int", "unexpected text", 4);
        check("", "not an Iceberg type", 0);
        check("struct<\"a: int>", "not closed", 8);
        let deep = "list<".repeat(5000);
        assert!(deep.parse::<Type>().unwrap_err().message.contains("deep"));
    }
}
