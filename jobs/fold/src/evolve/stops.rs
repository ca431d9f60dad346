//! Why a fold stops at a staged column, in words and with the way out.

use iceberg::spec::Type;
use pipeline::resolved::TableName;
use pipeline::types::Type as ColumnType;
use staging::footer;
use table::schema;

use crate::error::Error;

/// A place where a staged type is not, and does not become, the table's, nor the other way round.
pub(super) struct Misfit {
    path: String,
    staged: String,
    there: String,
}

// Both are schemas, whose depth is bounded where they are read.
pub(super) fn misfit(there: &Type, staged: &ColumnType, path: &str) -> Option<Misfit> {
    match (there, staged) {
        (Type::Struct(there), ColumnType::Struct(fields)) => fields.iter().find_map(|field| {
            let known = there.field_by_name(&field.name)?;
            misfit(&known.field_type, &field.data_type, &format!("{path}.{}", field.name))
        }),
        (Type::List(list), ColumnType::List { element, .. }) => {
            misfit(&list.element_field.field_type, element, &format!("{path}.element"))
        }
        (Type::Map(map), ColumnType::Map { key, value, .. }) => {
            misfit(&map.key_field.field_type, key, &format!("{path}.key"))
                .or_else(|| misfit(&map.value_field.field_type, value, &format!("{path}.value")))
        }
        (there, staged) => {
            let fits = match (there, schema::iceberg_type(staged, &mut || 0)) {
                (Type::Primitive(there), Type::Primitive(staged)) => {
                    *there == staged || schema::widens(there, &staged) || schema::widens(&staged, there)
                }
                _ => false,
            };
            let misfit = || Misfit { path: path.to_owned(), staged: staged.to_string(), there: schema::written(there) };
            (!fits).then(misfit)
        }
    }
}

/// A staged column that no value of could be in the table's column. Values that do not fit are their rows' fault.
pub(super) fn unfit(table: &TableName, column: &footer::Column, object: Option<&str>, misfit: &Misfit) -> Error {
    let Misfit { path, staged, there } = misfit;
    let source = &column.source_name;
    let place = object.map_or_else(String::new, |object| format!(" in `{object}`"));
    Error::Stopped {
        code: "fold.column_unfit",
        message: format!(
            "column `{path}` (from `{source}`) is {staged}{place}, and {there} in {table}: neither becomes the other"
        ),
        remedy: format!(
            "give it the table's type under [table.columns] for what is staged from now on, where the schema's values can be \
             that; what is staged already goes in without the column's values once `exclude` under [table] names `{source}`; \
             nothing is lost until then"
        ),
    }
}

pub(super) fn ambiguous(table: &TableName, column: &footer::Column) -> Error {
    Error::Stopped {
        code: "fold.column_ambiguous",
        message: format!(
            "column `{}` (from `{}`) was {} in earlier versions of its schema, and {table} has a column for each of several of \
             these",
            column.name,
            column.source_name,
            column.former.join(" or ")
        ),
        remedy: format!(
            "say which of them it is no more: leave it out with `exclude = [\"{}\"]` under [table], or take the alias away; \
             nothing staged is lost",
            column.source_name
        ),
    }
}

pub(super) fn renamed_and_reused(table: &TableName, column: &footer::Column, other: &footer::Column) -> Error {
    Error::Stopped {
        code: "fold.column_ambiguous",
        message: format!(
            "column `{}` (from `{}`) was `{}` in earlier versions of its schema, and another field of the same schema has that name \
             now: which of them is the column that {table} knows can't be told",
            column.name, column.source_name, other.source_name
        ),
        remedy: format!(
            "give the new field a name that no field had before, or fold into a new table; with `exclude = [\"{}\"]` under [table] the \
             column goes on as the new field's, behind the rows of the other; nothing staged is lost",
            column.source_name
        ),
    }
}

pub(super) fn two_columns(table: &TableName, column: &footer::Column) -> Error {
    Error::Stopped {
        code: "fold.column_ambiguous",
        message: format!(
            "objects that are staged together say that `{}` is `{}` and another column of {table}",
            column.source_name, column.name
        ),
        remedy: format!(
            "fold what is staged so far with the pipeline file as it was, or leave the field out with `exclude = [\"{}\"]` under \
             [table]; nothing staged is lost",
            column.source_name
        ),
    }
}

pub(super) fn taken(table: &TableName, column: &footer::Column, there: &str) -> Error {
    Error::Stopped {
        code: "fold.column_taken",
        message: format!(
            "column `{}` (from `{}`) is staged, and {table} has a column `{there}` that another source fills",
            column.name, column.source_name
        ),
        remedy: format!(
            "give it another name under [table.columns] (new_name = \"{0}\") for what is staged from now on, and leave out what \
             is staged already with `exclude = [\"{0}\"]`, or rename the table's column; nothing staged is lost",
            column.source_name
        ),
    }
}

/// Rows that are there would have no key.
pub(super) fn new_key(table: &TableName, column: &footer::Column) -> Error {
    Error::Stopped {
        code: "fold.key_new",
        message: format!(
            "column `{}` (from `{}`) is of the primary key, and new to {table}, whose rows have no value in it: they would be rows of \
             other keys for ever",
            column.name, column.source_name
        ),
        remedy: "keep the `primary_key` that the table's rows have, or fold into a new table; nothing staged is lost"
            .to_owned(),
    }
}

pub(super) fn ambiguous_case(table: &TableName, path: &str, name: &str, there: &str) -> Error {
    Error::Stopped {
        code: "fold.column_taken",
        message: format!(
            "`{path}` has a field `{name}`, and {table} has `{there}` there: engines that fold case can't tell them apart"
        ),
        remedy: format!(
            "leave `{path}` out with `exclude` under [table], or rename one of them; nothing staged is lost"
        ),
    }
}
