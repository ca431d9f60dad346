//! A table as Spark SQL makes it, for whoever would rather make it there or show it to others.

use std::fmt::Write as _;

use iceberg::spec::{NestedField, PrimitiveType, Schema, StructType, Type};
use pipeline::resolved::{Table, Transform};

/// The statements that make a pipeline's table; a second one sets the order of its rows, where it has one.
///
/// # Errors
/// What Spark SQL can't say.
pub(crate) fn spark(table: &Table, schema: &Schema) -> Result<String, String> {
    let name = format!("{}.{}", quoted(&table.name.namespace), quoted(&table.name.name));
    let columns: Vec<String> = schema
        .as_struct()
        .fields()
        .iter()
        .map(|field| {
            let mut line = format!("  {} {}", quoted(&field.name), type_of(&field.field_type, &field.name)?);
            line.push_str(if field.required { " NOT NULL" } else { "" });
            if let Some(doc) = &field.doc {
                line.push_str(&format!(" COMMENT {}", literal(doc)));
            }
            Ok(line)
        })
        .collect::<Result<_, String>>()?;
    let mut text = format!("CREATE TABLE {name} (\n{}\n)\nUSING iceberg", columns.join(",\n"));
    if !table.partition_by.is_empty() {
        let fields: Vec<String> = table
            .partition_by
            .iter()
            .map(|field| {
                let column = path(schema, &field.column)?;
                Ok(match field.transform {
                    Transform::Identity => column,
                    Transform::Bucket(n) => format!("bucket({n}, {column})"),
                    Transform::Truncate(n) => format!("truncate({n}, {column})"),
                    Transform::Year => format!("years({column})"),
                    Transform::Month => format!("months({column})"),
                    Transform::Day => format!("days({column})"),
                    Transform::Hour => format!("hours({column})"),
                    Transform::Void => return Err("a partition field that is always null (void)".to_owned()),
                })
            })
            .collect::<Result<_, String>>()?;
        text.push_str(&format!("\nPARTITIONED BY ({})", fields.join(", ")));
    }
    let version = ("format-version".to_owned(), table.format_version.to_string());
    let properties: Vec<String> = std::iter::once((&version.0, &version.1))
        .chain(&table.properties)
        .map(|(name, value)| format!("  {} = {}", literal(name), literal(value)))
        .collect();
    text.push_str(&format!("\nTBLPROPERTIES (\n{}\n);", properties.join(",\n")));
    if !table.sort_by.is_empty() {
        let fields: Vec<String> = table
            .sort_by
            .iter()
            .map(|field| {
                let direction = if field.descending { "DESC" } else { "ASC" };
                let nulls = if field.nulls_first { "FIRST" } else { "LAST" };
                Ok(format!("{} {direction} NULLS {nulls}", path(schema, &field.column)?))
            })
            .collect::<Result<_, String>>()?;
        text.push_str(&format!("\nALTER TABLE {name} WRITE ORDERED BY {};", fields.join(", ")));
    }
    Ok(text)
}

/// An identifier in Spark's quotes.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text in Spark's quotes. `${` would be a variable of Spark's.
fn literal(text: &str) -> String {
    let mut quoted = String::from("'");
    let mut before = ' ';
    for c in text.chars() {
        match c {
            '\\' | '\'' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '{' if before == '$' => quoted.push_str("\\{"),
            c if c.is_control() => {
                // A String takes what is written to it.
                let _infallible = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
        before = c;
    }
    quoted.push('\'');
    quoted
}

/// A column by its full name, each part in quotes: names may hold dots.
fn path(schema: &Schema, full: &str) -> Result<String, String> {
    fn within(fields: &StructType, full: &str) -> Option<Vec<String>> {
        fields.fields().iter().find_map(|field: &std::sync::Arc<NestedField>| {
            let rest = full.strip_prefix(field.name.as_str())?;
            if rest.is_empty() {
                return Some(vec![quoted(&field.name)]);
            }
            let Type::Struct(inner) = &*field.field_type else { return None };
            let mut parts = within(inner, rest.strip_prefix('.')?)?;
            parts.insert(0, quoted(&field.name));
            Some(parts)
        })
    }
    within(schema.as_struct(), full).map(|parts| parts.join(".")).ok_or_else(|| format!("the column `{full}`"))
}

// Schemas nest no deeper than the pipeline file's types are read, which bounds this recursion.
fn type_of(data_type: &Type, column: &str) -> Result<String, String> {
    let lacking = |what: &str| Err(format!("the type {what} of `{column}`"));
    Ok(match data_type {
        Type::Primitive(primitive) => match primitive {
            PrimitiveType::Boolean => "BOOLEAN".to_owned(),
            PrimitiveType::Int => "INT".to_owned(),
            PrimitiveType::Long => "BIGINT".to_owned(),
            PrimitiveType::Float => "FLOAT".to_owned(),
            PrimitiveType::Double => "DOUBLE".to_owned(),
            PrimitiveType::Decimal { precision, scale } => format!("DECIMAL({precision}, {scale})"),
            PrimitiveType::Date => "DATE".to_owned(),
            PrimitiveType::Timestamp => "TIMESTAMP_NTZ".to_owned(),
            PrimitiveType::Timestamptz => "TIMESTAMP".to_owned(),
            PrimitiveType::String => "STRING".to_owned(),
            PrimitiveType::Binary => "BINARY".to_owned(),
            other => return lacking(&other.to_string()),
        },
        Type::Struct(fields) => {
            let fields: Vec<String> = fields
                .fields()
                .iter()
                .map(|field| {
                    let required = if field.required { " NOT NULL" } else { "" };
                    Ok(format!("{}: {}{required}", quoted(&field.name), type_of(&field.field_type, column)?))
                })
                .collect::<Result<_, String>>()?;
            format!("STRUCT<{}>", fields.join(", "))
        }
        Type::List(list) if list.element_field.required => return lacking("of a list without nulls"),
        Type::List(list) => format!("ARRAY<{}>", type_of(&list.element_field.field_type, column)?),
        Type::Map(map) if map.value_field.required => return lacking("of a map without null values"),
        Type::Map(map) => format!(
            "MAP<{}, {}>",
            type_of(&map.key_field.field_type, column)?,
            type_of(&map.value_field.field_type, column)?
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pipeline::environment::Environment;
    use table::schema::{Column, iceberg_schema};

    use super::*;

    fn spoken(lines: &str, columns: &[(&str, &str, bool, Option<&str>)]) -> Result<String, String> {
        let text = format!(
            "[source]\ntopics = [\"t\"]\n[value]\nformat = \"protobuf\"\nframing = \"bare\"\n\
             schema = {{ proto = \"x.proto\", message = \"p.M\" }}\n[table]\nname = \"db.t\"\n{lines}"
        );
        let environment = Environment::embedded("/project/.frazil");
        let pipeline = pipeline::file::parse(&text, &environment, Path::new("/project/pipelines/t.toml")).unwrap();
        let columns: Vec<Column> = columns
            .iter()
            .map(|(name, data_type, required, doc)| Column {
                name: (*name).to_owned(),
                data_type: data_type.parse().unwrap(),
                required: *required,
                doc: doc.map(str::to_owned),
            })
            .collect();
        spark(&pipeline.table, &iceberg_schema(&columns).unwrap())
    }

    /// This text was given to Spark 3.5.6 with Iceberg 1.10.0, which made a table of the same columns, spec and order.
    #[test]
    fn a_table_is_said_as_spark_takes_it() {
        let text = spoken(
            "partition_by = [\"bucket(8, id)\", \"hour(at)\", \"day(inner.seen)\", \"truncate(3, name)\", \"\\\"a.b\\\"\"]\n\
             sort_by = [\"at desc nulls last\", \"inner.seen\"]\nproperties = { \"write.summary.partition-limit\" = \"100\" }",
            &[
                ("id", "long", true, Some("who, it's ${x} \\ here\nand there")),
                ("at", "timestamptz", true, None),
                ("name", "string", false, None),
                ("a.b", "boolean", false, None),
                ("odd `name`", "timestamp", false, None),
                ("inner", "struct<seen: date, qty: int not null, \"x y\": list<decimal(9, 2)>>", false, None),
                ("rest", "map<string, binary>", false, None),
                ("f", "float", false, None),
                ("d", "double", false, None),
            ],
        );
        assert_eq!(
            text.unwrap(),
            r"CREATE TABLE `db`.`t` (
  `id` BIGINT NOT NULL COMMENT 'who, it\'s $\{x} \\ here\nand there',
  `at` TIMESTAMP NOT NULL,
  `name` STRING,
  `a.b` BOOLEAN,
  `odd ``name``` TIMESTAMP_NTZ,
  `inner` STRUCT<`seen`: DATE, `qty`: INT NOT NULL, `x y`: ARRAY<DECIMAL(9, 2)>>,
  `rest` MAP<STRING, BINARY>,
  `f` FLOAT,
  `d` DOUBLE
)
USING iceberg
PARTITIONED BY (bucket(8, `id`), hours(`at`), days(`inner`.`seen`), truncate(3, `name`), `a.b`)
TBLPROPERTIES (
  'format-version' = '2',
  'history.expire.max-snapshot-age-ms' = '691200000',
  'write.summary.partition-limit' = '100'
);
ALTER TABLE `db`.`t` WRITE ORDERED BY `at` DESC NULLS LAST, `inner`.`seen` ASC NULLS FIRST;"
        );
    }

    #[test]
    fn what_spark_has_no_words_for_is_named() {
        for (data_type, part) in [
            ("time", "the type time of `a`"),
            ("uuid", "the type uuid"),
            ("struct<x: fixed(3)>", "the type fixed(3)"),
            ("list<int not null>", "without nulls"),
            ("map<string, int not null>", "without null values"),
        ] {
            let lacks = spoken("types = \"iceberg\"", &[("a", data_type, false, None)]).unwrap_err();
            assert!(lacks.contains(part), "{lacks}");
        }
        let lacks = spoken("partition_by = [\"void(a)\"]", &[("a", "int", false, None)]).unwrap_err();
        assert!(lacks.contains("void"), "{lacks}");
    }
}
