//! What of a WHERE the scan can use to leave out files. The engine filters again: anything not understood here is simply
//! not pruned by.

use arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use iceberg::spec::Datum;
use table::scan::{Comparison, Predicate};

/// A list longer than this is not worth a comparison per file.
const IN_LIST_MAX: usize = 64;
/// Deeper conditions are not looked into; the scan itself refuses predicates that nest deeper than 64.
const DEPTH_MAX: usize = 32;

/// The part of all these conditions that a scan can use.
pub(super) fn of(filters: &[Expr], schema: &Schema) -> Predicate {
    let mut parts = Vec::new();
    for filter in filters {
        parts.extend(expression(filter, schema, 0));
    }
    all(parts)
}

/// Whether a scan can use any part of a condition.
pub(super) fn usable(filter: &Expr, schema: &Schema) -> bool {
    expression(filter, schema, 0).is_some()
}

fn all(mut parts: Vec<Predicate>) -> Predicate {
    match (parts.pop(), parts.is_empty()) {
        (None, _) => Predicate::All,
        (Some(only), true) => only,
        (Some(last), false) => {
            parts.push(last);
            Predicate::And(parts)
        }
    }
}

/// A predicate that holds wherever the expression does; `None` where nothing is known.
fn expression(expr: &Expr, schema: &Schema, depth: usize) -> Option<Predicate> {
    if depth > DEPTH_MAX {
        return None;
    }
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            let parts: Vec<Predicate> =
                [left, right].into_iter().filter_map(|side| expression(side, schema, depth + 1)).collect();
            if parts.is_empty() { None } else { Some(all(parts)) }
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            // Either side unknown, and a row may match that no known side has.
            Some(Predicate::Or(vec![expression(left, schema, depth + 1)?, expression(right, schema, depth + 1)?]))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let comparison = comparison(*op)?;
            match (left.as_ref(), right.as_ref()) {
                (Expr::Column(column), Expr::Literal(value, _)) => compare(&column.name, comparison, value, schema),
                (Expr::Literal(value, _), Expr::Column(column)) => {
                    compare(&column.name, mirrored(comparison), value, schema)
                }
                _ => None,
            }
        }
        Expr::Between(between) if !between.negated => {
            let (Expr::Column(column), Expr::Literal(low, _), Expr::Literal(high, _)) =
                (between.expr.as_ref(), between.low.as_ref(), between.high.as_ref())
            else {
                return None;
            };
            let parts: Vec<Predicate> = [(Comparison::GreaterOrEqual, low), (Comparison::LessOrEqual, high)]
                .into_iter()
                .filter_map(|(comparison, value)| compare(&column.name, comparison, value, schema))
                .collect();
            if parts.is_empty() { None } else { Some(all(parts)) }
        }
        Expr::InList(list) if !list.negated && list.list.len() <= IN_LIST_MAX => {
            let Expr::Column(column) = list.expr.as_ref() else { return None };
            let parts: Option<Vec<Predicate>> = list
                .list
                .iter()
                .map(|item| match item {
                    Expr::Literal(value, _) => compare(&column.name, Comparison::Equal, value, schema),
                    _ => None,
                })
                .collect();
            parts.map(Predicate::Or)
        }
        Expr::IsNull(inner) => column_of(inner, schema).map(Predicate::IsNull),
        Expr::IsNotNull(inner) => column_of(inner, schema).map(Predicate::IsNotNull),
        _ => None,
    }
}

fn column_of(expr: &Expr, schema: &Schema) -> Option<String> {
    let Expr::Column(column) = expr else { return None };
    let field = schema.field_with_name(&column.name).ok()?;
    // A scan tells nulls apart by a leaf's statistics; a nested column has no leaf of its own.
    (!field.data_type().is_nested()).then(|| column.name.clone())
}

fn comparison(op: Operator) -> Option<Comparison> {
    Some(match op {
        Operator::Eq => Comparison::Equal,
        Operator::NotEq => Comparison::NotEqual,
        Operator::Lt => Comparison::Less,
        Operator::LtEq => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::GtEq => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

const fn mirrored(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        same => same,
    }
}

fn compare(column: &str, comparison: Comparison, value: &ScalarValue, schema: &Schema) -> Option<Predicate> {
    let field = schema.field_with_name(column).ok()?;
    let value = datum(field.data_type(), value)?;
    Some(Predicate::Compare { column: column.to_owned(), comparison, value })
}

/// A literal as a value of exactly the column's type. The planner has cast it already where it could.
fn datum(column: &DataType, value: &ScalarValue) -> Option<Datum> {
    match (column, value) {
        (DataType::Boolean, ScalarValue::Boolean(Some(v))) => Some(Datum::bool(*v)),
        (DataType::Int32, ScalarValue::Int32(Some(v))) => Some(Datum::int(*v)),
        (DataType::Int64, ScalarValue::Int64(Some(v))) => Some(Datum::long(*v)),
        // Zero has two signs and NaN no place in bounds: neither is worth being clever about.
        (DataType::Float32, ScalarValue::Float32(Some(v))) if v.is_normal() => Some(Datum::float(*v)),
        (DataType::Float64, ScalarValue::Float64(Some(v))) if v.is_normal() => Some(Datum::double(*v)),
        (DataType::Date32, ScalarValue::Date32(Some(v))) => Some(Datum::date(*v)),
        (DataType::Timestamp(TimeUnit::Microsecond, Some(_)), ScalarValue::TimestampMicrosecond(Some(v), Some(_))) => {
            Some(Datum::timestamptz_micros(*v))
        }
        (DataType::Timestamp(TimeUnit::Microsecond, None), ScalarValue::TimestampMicrosecond(Some(v), None)) => {
            Some(Datum::timestamp_micros(*v))
        }
        (
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View,
            ScalarValue::Utf8(Some(v)) | ScalarValue::LargeUtf8(Some(v)) | ScalarValue::Utf8View(Some(v)),
        ) => Some(Datum::string(v)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;
    use datafusion::prelude::{col, lit};

    use super::*;

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("team", DataType::Utf8, true),
            Field::new("f", DataType::Float64, true),
        ])
    }

    fn check(expr: &Expr, expected: Option<&Predicate>) {
        assert_eq!(expression(expr, &schema(), 0).as_ref(), expected, "{expr}");
    }

    fn id(comparison: Comparison, value: i64) -> Predicate {
        Predicate::Compare { column: "id".to_owned(), comparison, value: Datum::long(value) }
    }

    #[test]
    fn a_part_of_an_and_is_enough_and_an_or_needs_both_sides() {
        let known = || col("id").gt(lit(5_i64));
        let unknown = || (col("id") + lit(1_i64)).gt(lit(5_i64));
        check(&known(), Some(&id(Comparison::Greater, 5)));
        check(&lit(5_i64).lt(col("id")), Some(&id(Comparison::Greater, 5)));
        check(&unknown(), None);
        check(&known().and(unknown()), Some(&id(Comparison::Greater, 5)));
        check(&unknown().and(unknown()), None);
        check(&known().or(unknown()), None);
        let both = Predicate::Or(vec![id(Comparison::Greater, 5), id(Comparison::Equal, 1)]);
        check(&known().or(col("id").eq(lit(1_i64))), Some(&both));
        check(&known().is_not_true(), None);
        check(&Expr::Not(Box::new(known())), None);
    }

    #[test]
    fn lists_ranges_and_nulls_are_understood_and_odd_literals_left_alone() {
        let two = vec![id(Comparison::Equal, 1), id(Comparison::Equal, 2)];
        check(&col("id").in_list(vec![lit(1_i64), lit(2_i64)], false), Some(&Predicate::Or(two)));
        check(&col("id").in_list(vec![lit(1_i64)], true), None);
        check(
            &col("id").between(lit(1_i64), lit(2_i64)),
            Some(&Predicate::And(vec![id(Comparison::GreaterOrEqual, 1), id(Comparison::LessOrEqual, 2)])),
        );
        check(&col("team").is_null(), Some(&Predicate::IsNull("team".to_owned())));
        check(&col("id").eq(lit(1_i32)), None);
        check(&col("id").eq(lit(ScalarValue::Int64(None))), None);
        check(&col("f").eq(lit(f64::NAN)), None);
        check(&col("f").lt(lit(0.0)), None);
        check(&col("nothing").eq(lit(1_i64)), None);
        let mut deep = col("id").eq(lit(1_i64));
        for _ in 0..1000 {
            deep = deep.or(col("id").eq(lit(1_i64)));
        }
        check(&deep, None);
    }
}
