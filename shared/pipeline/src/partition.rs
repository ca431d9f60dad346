//! Partition fields as Iceberg's engines write them: `bucket(8, employee_id)`, `hour(start_date)`, `team`.

use crate::nearest::nearest;
use crate::path::{self, Wrong};
use crate::resolved::{PartitionField, Transform};
use crate::types::Type;

/// Every transform's name, with the plurals of Spark's SQL.
const NAMES: [&str; 12] =
    ["identity", "bucket", "truncate", "year", "years", "month", "months", "day", "days", "hour", "hours", "void"];

/// One field of `partition_by`. A name with a dot in it is quoted; a nested column is written `struct.field`.
///
/// # Errors
/// [`Wrong`] where the text is anything else.
pub fn parse(text: &str) -> Result<PartitionField, Wrong> {
    let start = text.len() - text.trim_start().len();
    let (name, end) = path::scan(text, start)?;
    let mut rest = Rest { text, at: end };
    if !rest.eat('(') {
        rest.end()?;
        return Ok(PartitionField { column: name.join("."), transform: Transform::Identity });
    }
    let word = name.join(".").to_lowercase();
    let transform = match word.as_str() {
        "bucket" => Transform::Bucket(rest.width("the number of buckets")?),
        "truncate" => Transform::Truncate(rest.width("the width")?),
        "identity" => Transform::Identity,
        "year" | "years" => Transform::Year,
        "month" | "months" => Transform::Month,
        "day" | "days" | "date" => Transform::Day,
        "hour" | "hours" | "date_hour" => Transform::Hour,
        "void" => Transform::Void,
        _ => {
            let nearest = nearest(&word, NAMES).map(str::to_owned);
            let meant = nearest.as_ref().map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
            return Err(Wrong { message: format!("`{word}` is not a partition transform{meant}"), at: start, nearest });
        }
    };
    rest.space();
    let (column, end) = path::scan(text, rest.at)?;
    rest.at = end;
    if !rest.eat(')') {
        return Err(Wrong::new("expected `)`", rest.at));
    }
    rest.end()?;
    Ok(PartitionField { column: column.join("."), transform })
}

/// The name that Iceberg's own builder gives a partition field: the column's, and a suffix unless it is the value itself.
#[must_use]
pub fn name(field: &PartitionField) -> String {
    let suffix = match field.transform {
        Transform::Identity => return field.column.clone(),
        Transform::Bucket(_) => "bucket",
        Transform::Truncate(_) => "trunc",
        Transform::Year => "year",
        Transform::Month => "month",
        Transform::Day => "day",
        Transform::Hour => "hour",
        Transform::Void => "null",
    };
    format!("{}_{suffix}", field.column)
}

/// Whether a transform takes values of a type, by the table of transforms in Iceberg's specification.
#[must_use]
pub const fn takes(transform: Transform, data_type: &Type) -> bool {
    let nested = matches!(data_type, Type::Struct(_) | Type::List { .. } | Type::Map { .. });
    match transform {
        Transform::Identity | Transform::Void => !nested,
        Transform::Bucket(_) => !nested && !matches!(data_type, Type::Boolean | Type::Float | Type::Double),
        Transform::Truncate(_) => {
            matches!(data_type, Type::Int | Type::Long | Type::Decimal(..) | Type::String | Type::Binary)
        }
        Transform::Year | Transform::Month | Transform::Day => {
            matches!(data_type, Type::Date | Type::Timestamp | Type::Timestamptz)
        }
        Transform::Hour => matches!(data_type, Type::Timestamp | Type::Timestamptz),
    }
}

/// A partition field as a pipeline file writes it: `hour(start_date)`.
#[must_use]
pub fn text(field: &PartitionField) -> String {
    let column = &field.column;
    match field.transform {
        Transform::Identity => column.clone(),
        Transform::Bucket(n) => format!("bucket({n}, {column})"),
        Transform::Truncate(n) => format!("truncate({n}, {column})"),
        Transform::Year => format!("year({column})"),
        Transform::Month => format!("month({column})"),
        Transform::Day => format!("day({column})"),
        Transform::Hour => format!("hour({column})"),
        Transform::Void => format!("void({column})"),
    }
}

struct Rest<'a> {
    text: &'a str,
    at: usize,
}

impl Rest<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn eat(&mut self, wanted: char) -> bool {
        self.space();
        let found = self.rest().starts_with(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn end(&mut self) -> Result<(), Wrong> {
        self.space();
        if self.rest().is_empty() {
            return Ok(());
        }
        Err(Wrong::new("unexpected text; a partition field is a column or `transform(column)`", self.at))
    }

    /// A positive number and the comma after it. Iceberg stores it as a signed 32-bit number.
    fn width(&mut self, what: &str) -> Result<u32, Wrong> {
        self.space();
        let start = self.at;
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let number = self.rest().get(..digits).unwrap_or("");
        if number.is_empty() {
            return Err(Wrong::new(format!("expected {what} first, as in `bucket(8, employee_id)`"), start));
        }
        let width = match number.parse::<u32>() {
            Ok(n) if n > 0 && i32::try_from(n).is_ok() => n,
            _ => return Err(Wrong::new(format!("{what} is from 1 to {}", i32::MAX), start)),
        };
        self.at += digits;
        if !self.eat(',') {
            return Err(Wrong::new("expected `,` and a column", self.at));
        }
        Ok(width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn icebergs_names_and_sparks_plurals_are_read() {
        let check = |text: &str, column: &str, transform: Transform, named: &str| {
            let field = parse(text).unwrap();
            assert_eq!(field, PartitionField { column: column.to_owned(), transform }, "{text}");
            assert_eq!(name(&field), named, "{text}");
        };
        check("team", "team", Transform::Identity, "team");
        check("identity(team)", "team", Transform::Identity, "team");
        check("bucket(8, employee_id)", "employee_id", Transform::Bucket(8), "employee_id_bucket");
        check(" Bucket( 8 ,employee_id ) ", "employee_id", Transform::Bucket(8), "employee_id_bucket");
        check("truncate(3, name)", "name", Transform::Truncate(3), "name_trunc");
        check("hour(at)", "at", Transform::Hour, "at_hour");
        check("hours(at)", "at", Transform::Hour, "at_hour");
        check("days(at)", "at", Transform::Day, "at_day");
        check("month(at)", "at", Transform::Month, "at_month");
        check("years(at)", "at", Transform::Year, "at_year");
        check("void(at)", "at", Transform::Void, "at_null");
        check("day(meta.at)", "meta.at", Transform::Day, "meta.at_day");
        check("bucket(4, \"utm.source (new)\")", "utm.source (new)", Transform::Bucket(4), "utm.source (new)_bucket");
    }

    #[test]
    fn what_is_not_a_partition_field_says_where() {
        let check = |text: &str, at: usize, part: &str| {
            let wrong = parse(text).unwrap_err();
            assert_eq!(wrong.at, at, "{text}: {wrong}");
            assert!(wrong.message.contains(part), "{text}: {wrong}");
        };
        check("", 0, "expected a name");
        check("bucket(employee_id, 8)", 7, "the number of buckets first");
        check("bucket(0, a)", 7, "from 1 to");
        check("bucket(2147483648, a)", 7, "from 1 to");
        check("bucket(8 a)", 9, "expected `,`");
        check("bucket(8, a", 11, "expected `)`");
        check("bucket(8, a) b", 13, "unexpected text");
        check("truncate(a)", 9, "the width first");
        check("huor(a)", 0, "did you mean `hour`");
        check("week(a)", 0, "not a partition transform");
        check("hour()", 5, "expected a name");
        check("a desc", 2, "unexpected text");
    }
}
