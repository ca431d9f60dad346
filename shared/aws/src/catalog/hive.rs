//! Columns as Glue shows them: names, Hive's types and comments, beside Iceberg's own ids. Engines read Iceberg's metadata and not
//! these; people, crawlers and Lake Formation read these.

use std::collections::HashMap;

use aws_sdk_glue::types::Column;
use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};

/// Glue's limit of a comment, in characters.
const COMMENT_MAX: usize = 255;

/// A schema's columns, in order.
pub(super) fn columns(schema: &Schema) -> Vec<Column> {
    schema.as_struct().fields().iter().filter_map(|field| column(field)).collect()
}

fn column(field: &NestedField) -> Option<Column> {
    // As Iceberg's own catalog for Glue calls them.
    let parameters = HashMap::from([
        ("iceberg.field.id".to_owned(), field.id.to_string()),
        ("iceberg.field.optional".to_owned(), (!field.required).to_string()),
        ("iceberg.field.current".to_owned(), "true".to_owned()),
    ]);
    let comment = field.doc.as_ref().map(|doc| doc.chars().take(COMMENT_MAX).collect::<String>());
    let column = Column::builder().name(&field.name).r#type(hive_type(&field.field_type));
    column.set_comment(comment).set_parameters(Some(parameters)).build().ok()
}

// A schema's depth is bounded where it is read.
fn hive_type(of: &Type) -> String {
    match of {
        Type::Primitive(primitive) => hive_primitive(primitive),
        Type::Struct(fields) => {
            let fields = fields.fields().iter();
            let fields: Vec<String> =
                fields.map(|field| format!("{}:{}", field.name, hive_type(&field.field_type))).collect();
            format!("struct<{}>", fields.join(","))
        }
        Type::List(list) => format!("array<{}>", hive_type(&list.element_field.field_type)),
        Type::Map(map) => {
            format!("map<{},{}>", hive_type(&map.key_field.field_type), hive_type(&map.value_field.field_type))
        }
    }
}

fn hive_primitive(of: &PrimitiveType) -> String {
    match of {
        PrimitiveType::Boolean => "boolean",
        PrimitiveType::Int => "int",
        PrimitiveType::Long => "bigint",
        PrimitiveType::Float => "float",
        PrimitiveType::Double => "double",
        PrimitiveType::Date => "date",
        PrimitiveType::Timestamp
        | PrimitiveType::Timestamptz
        | PrimitiveType::TimestampNs
        | PrimitiveType::TimestamptzNs => "timestamp",
        // Hive has neither.
        PrimitiveType::Time | PrimitiveType::Uuid | PrimitiveType::String => "string",
        PrimitiveType::Fixed(_) | PrimitiveType::Binary => "binary",
        PrimitiveType::Decimal { precision, scale } => return format!("decimal({precision},{scale})"),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use iceberg::spec::{ListType, MapType, StructType};

    use super::*;

    #[test]
    fn types_are_hive_s() {
        let primitive = |of: PrimitiveType| Type::Primitive(of);
        let check = |of: &Type, expected: &str| assert_eq!(hive_type(of), expected);
        check(&primitive(PrimitiveType::Timestamptz), "timestamp");
        check(&primitive(PrimitiveType::Decimal { precision: 38, scale: 10 }), "decimal(38,10)");
        check(&primitive(PrimitiveType::Uuid), "string");
        check(&primitive(PrimitiveType::Fixed(16)), "binary");
        let element = Arc::new(NestedField::list_element(2, primitive(PrimitiveType::Long), true));
        let list = Type::List(ListType::new(element));
        let line = Type::Struct(StructType::new(vec![
            NestedField::required(3, "sku", primitive(PrimitiveType::String)).into(),
            NestedField::optional(4, "marks", list).into(),
        ]));
        check(&line, "struct<sku:string,marks:array<bigint>>");
        let key = Arc::new(NestedField::map_key_element(5, primitive(PrimitiveType::Int)));
        let value = Arc::new(NestedField::map_value_element(6, line, false));
        check(&Type::Map(MapType::new(key, value)), "map<int,struct<sku:string,marks:array<bigint>>>");
    }

    #[test]
    fn columns_have_iceberg_s_ids_and_comments_that_fit() {
        let doc = "é".repeat(300);
        let fields = [
            NestedField::required(7, "id", Type::Primitive(PrimitiveType::Long)).with_doc(&doc).into(),
            NestedField::optional(9, "at", Type::Primitive(PrimitiveType::Timestamptz)).into(),
        ];
        let schema = Schema::builder().with_fields(fields).build().unwrap();
        let [id, at] = &columns(&schema)[..] else { panic!("two") };
        assert_eq!((id.name(), id.r#type(), id.comment()), ("id", Some("bigint"), Some("é".repeat(255).as_str())));
        let of = |column: &Column, name: &str| column.parameters().unwrap()[name].clone();
        assert_eq!(
            (of(id, "iceberg.field.id"), of(id, "iceberg.field.optional")),
            ("7".to_owned(), "false".to_owned())
        );
        assert_eq!((of(at, "iceberg.field.id"), of(at, "iceberg.field.optional")), ("9".to_owned(), "true".to_owned()));
        assert_eq!((of(at, "iceberg.field.current"), at.comment()), ("true".to_owned(), None));
    }
}
