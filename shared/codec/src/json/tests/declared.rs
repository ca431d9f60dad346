//! Payloads without a schema: the declared columns say what they are.

use pipeline::expectation::Literal;
use pipeline::resolved::{ColumnCase, Fields, Filter, UnknownFields, Value};

use super::*;
use crate::columns::tests::{declare, path, value};
use crate::columns::{Columns, plan_records};
use crate::json;
use crate::source::Described as _;

/// A table of columns: `a long; b.c string`, the path before the type; the column is called by the last name.
fn declared(columns: &str) -> Table {
    let mut table = Table { fields: Fields::Listed, ..iceberg() };
    for column in columns.split(';') {
        let (name, data_type) = column.trim().split_once(' ').unwrap();
        let last = name.rsplit('.').next().unwrap();
        declare(&mut table, last, path(name), Some(data_type).filter(|of| *of != "-"));
    }
    table
}

fn planned(value: &Value, table: &Table) -> (Schema, Columns) {
    let schema = Schema::of(value, table, std::iter::empty());
    let columns = plan_records(&schema, value, table).unwrap_or_else(|faults| panic!("{faults:?}"));
    (schema, columns)
}

fn read(value: &Value, table: &Table, payloads: &[&str]) -> Result<Vec<String>, Rejected> {
    let (schema, columns) = planned(value, table);
    let mut decoder = Decoder::new(&schema, &columns).unwrap();
    for payload in payloads {
        decoder.decode(payload.as_bytes())?;
    }
    Ok(print(&decoder.finish().unwrap()))
}

fn check(table: &Table, payload: &str, expected: &str) {
    let rows = read(&value(None), table, &[payload]).unwrap_or_else(|rejected| panic!("{payload}: {rejected}"));
    assert_eq!(rows, [expected], "{payload}");
}

fn refused(table: &Table, payload: &str, class: Class, path: &str) {
    let rejected = read(&value(None), table, &[payload]).expect_err(payload);
    assert_eq!((rejected.class, rejected.path.as_str()), (class, path), "{payload}: {rejected}");
}

/// Numbers beyond 2^53 and times in microseconds are exact; what is no whole number is refused, whatever is near it.
#[test]
fn integers_keep_their_digits() {
    let table = declared("id long; max long; neg long; over long; e long; f long; g long");
    let payload =
        "{\"id\":9007199254740993,\"max\":9223372036854775807,\"neg\":-9223372036854775808,\"e\":1e3,\"f\":12.0}";
    check(
        &table,
        payload,
        "id=9007199254740993 max=9223372036854775807 neg=-9223372036854775808 over=NULL e=1000 f=12 g=NULL",
    );
    refused(&table, &payload.replace('}', ",\"g\":12.7}"), Class::WrongType, "g");
    refused(&table, "{\"id\":1,\"over\":9223372036854775808}", Class::OutOfRange, "over");
}

#[test]
fn columns_say_what_values_are() {
    let table = declared(
        "id long; team.name string; team.size int; at timestamptz; price decimal(9, 2); tags list<string>; line struct<sku: string, qty: int>;
         by map<string, long>; raw binary; text string",
    );
    check(
        &table,
        "{\"id\":1,\"team\":{\"name\":\"a\",\"size\":2,\"more\":0},\"at\":\"1970-01-01T00:00:01Z\",\"price\":\"1.5\",\"tags\":[\"x\",null],
          \"line\":{\"sku\":\"s\",\"qty\":1,\"more\":0},\"by\":{\"k\":1},\"raw\":\"AA==\",\"text\":\"t\",\"more\":0}",
        "id=1 name=\"a\" size=2 at=1000000 price=150 tags=[\"x\",NULL] line={sku:\"s\",qty:1} by={\"k\":1} raw=x[00] text=\"t\"",
    );
    check(
        &table,
        "{}",
        "id=NULL name=NULL size=NULL at=NULL price=NULL tags=NULL line=NULL by=NULL raw=NULL text=NULL",
    );
    // What is nested has no text of its own but how it is written; what is single and no string is none of the column's.
    let text = declared("text string");
    check(&text, "{\"text\": {\"a\" : [1]} }", "text=\"{\\\"a\\\" : [1]}\"");
    check(&text, "{\"text\":[ ]}", "text=\"[ ]\"");
    refused(&text, "{\"text\":1}", Class::WrongType, "text");
    refused(&text, "{\"text\":true}", Class::WrongType, "text");
    refused(&table, "{\"team\":7}", Class::WrongType, "team");
    refused(&table, "{\"tags\":[\"x\",1]}", Class::WrongType, "tags[1]");
    refused(&table, "{\"line\":{\"qty\":\"1\"}}", Class::WrongType, "line.qty");
    // One member as columns of several types.
    let mut both = declared("a long; b.c string");
    declare(&mut both, "a_text", path("a"), Some("decimal(5, 1)"));
    declare(&mut both, "whole", path("b"), Some("string"));
    check(&both, "{\"a\":1,\"b\":{\"c\":\"x\"}}", "a=1 c=\"x\" a_text=10 whole=\"{\\\"c\\\":\\\"x\\\"}\"");
}

#[test]
fn what_is_required_within_a_column_is_asked_for() {
    let table =
        declared("line struct<sku: string not null, n: int>; xs list<int not null>; by map<string, int not null>");
    check(
        &table,
        "{\"line\":{\"sku\":\"s\"},\"xs\":[1],\"by\":{\"k\":1}}",
        "line={sku:\"s\",n:NULL} xs=[1] by={\"k\":1}",
    );
    check(&table, "{\"line\":null,\"xs\":[]}", "line=NULL xs=[] by=NULL");
    refused(&table, "{\"line\":{\"n\":1}}", Class::MissingRequired, "line.sku");
    refused(&table, "{\"xs\":[1,null]}", Class::MissingRequired, "xs[1]");
    refused(&table, "{\"by\":{\"k\":null}}", Class::MissingRequired, "by.k");
}

/// One rule for every name: as the columns spell theirs.
#[test]
fn names_are_spelled_as_the_columns_are() {
    let mut table = declared("id int; ii string");
    check(&table, "{\"ID\":1,\"II\":\"x\"}", "id=1 ii=\"x\"");
    check(&table, "{\"ID\":1,\"ID\":2}", "id=2 ii=NULL");
    refused(&table, "{\"id\":2,\"Ii\":\"y\",\"iI\":\"z\"}", Class::AmbiguousName, "ii");
    refused(&table, "{\"id\":2,\"Id\":2}", Class::AmbiguousName, "id");
    declare(&mut table, "line", path("line"), Some("struct<sku: int>"));
    check(&table, "{\"Line\":{\"SKU\":1}}", "id=NULL ii=NULL line={sku:1}");
    table.column_case = ColumnCase::AsIs;
    check(&table, "{\"ID\":1,\"ii\":\"x\"}", "id=NULL ii=\"x\" line=NULL");
    table.column_case = ColumnCase::Snake;
    declare(&mut table, "user_id", path("user_id"), Some("int"));
    declare(&mut table, "other", path("otherId"), Some("int"));
    check(&table, "{\"userId\":7,\"otherId\":8}", "id=NULL ii=NULL line=NULL user_id=7 other=8");
    check(&table, "{\"OtherId\":9}", "id=NULL ii=NULL line=NULL user_id=NULL other=9");
    refused(&table, "{\"otherId\":8,\"OtherId\":9}", Class::AmbiguousName, "otherId");
}

#[test]
fn names_with_dots_are_names() {
    let mut table = declared("b.c long");
    declare(&mut table, "ab", pipeline::resolved::From::Path(vec!["A.B".to_owned()]), Some("int"));
    check(&table, "{\"A.B\":1,\"A\":{\"B\":2},\"b.c\":3,\"b\":{\"c\":4}}", "c=4 ab=1");
}

#[test]
fn what_is_not_declared_is_passed_over_kept_or_refused() {
    let mut table = declared("a long; b.c string");
    let payload = "{\"a\":1,\"d\":[1, 2],\"b\":{\"c\":\"x\",\"e\":null}}";
    check(&table, payload, "a=1 c=\"x\"");
    table.unknown_fields = UnknownFields::Rest;
    check(&table, payload, "a=1 c=\"x\" _rest={\"d\":\"[1, 2]\",\"b.e\":\"null\"}");
    table.unknown_fields = UnknownFields::DeadLetter;
    refused(&table, payload, Class::IncompatibleSchema, "d");
    refused(&table, "{\"b\":{\"e\":null}}", Class::IncompatibleSchema, "b.e");
    check(&table, "{\"a\":1}", "a=1 c=NULL");
}

/// A filter and a list that becomes rows need no columns of their own.
#[test]
fn records_are_filtered_and_lists_become_rows() {
    let filter =
        Filter { field: vec!["head".to_owned(), "kind".to_owned()], one_of: vec![Literal::Text("click".to_owned())] };
    let filtered = Value { explode: Some(vec!["events".to_owned()]), ..value(Some(filter)) };
    let table = declared("who string; events.sku string; events.n long");
    let (schema, columns) = planned(&filtered, &table);
    let mut filter = json::Filter::new(&schema, &columns).unwrap().unwrap();
    let mut takes = |payload: &str| filter.takes(payload.as_bytes()).map_err(|rejected| rejected.class);
    assert_eq!(takes("{\"head\":{\"kind\":\"click\"},\"who\":7}"), Ok(true));
    assert_eq!(takes("{\"head\":{\"kind\":\"view\"}}"), Ok(false));
    assert_eq!(takes("{\"head\":{\"kind\":\"view\",\"kind\":\"\\u0063lick\"}}"), Ok(true));
    assert_eq!(takes("{\"head\":null}"), Ok(false));
    assert_eq!(takes("{}"), Ok(false));
    assert_eq!(takes("{\"head\":{\"kind\":1}}"), Err(Class::WrongType));
    assert_eq!(takes("{\"head\":{\"kind\":\"click\"}"), Err(Class::Truncated));
    let payloads = [
        "{\"who\":\"a\",\"events\":[{\"sku\":\"x\",\"n\":1},{\"sku\":\"y\"},null]}",
        "{\"who\":\"b\",\"events\":[]}",
        "{\"who\":\"c\"}",
        "{\"events\":[{\"n\":2,\"n\":3}],\"who\":\"d\"}",
    ];
    let rows = read(&filtered, &table, &payloads).unwrap();
    let expected = [
        "who=\"a\" sku=\"x\" n=1",
        "who=\"a\" sku=\"y\" n=NULL",
        "who=\"a\" sku=NULL n=NULL",
        "who=\"d\" sku=NULL n=3",
    ];
    assert_eq!(rows, expected);
    let rejected = read(&filtered, &table, &["{\"events\":[{\"n\":1},{\"n\":\"2\"}]}"]).unwrap_err();
    assert_eq!((rejected.class, rejected.path.as_str()), (Class::WrongType, "events[1].n"));
    // The element as a whole.
    let whole = declared("events struct<sku: string>");
    assert_eq!(
        read(&filtered, &whole, &payloads[..1]).unwrap(),
        ["events={sku:\"x\"}", "events={sku:\"y\"}", "events=NULL"]
    );
    let whole = Filter { field: vec!["n".to_owned()], one_of: vec![Literal::Integer(1000)] };
    let (schema, columns) = planned(&value(Some(whole)), &table);
    let mut filter = json::Filter::new(&schema, &columns).unwrap().unwrap();
    assert!(filter.takes(b"{\"n\":1e3}").unwrap());
    assert!(!filter.takes(b"{\"n\":1001}").unwrap());
}

#[test]
fn a_column_without_a_type_is_refused() {
    let table = declared("a -; b long");
    let schema = Schema::of(&value(None), &table, std::iter::empty());
    let faults = plan(&schema, &table).unwrap_err();
    assert_eq!(faults[0].to_string(), "table.columns.a: nothing says what it is: declare its `type`");
    // What is not declared is no column, and what there is has the digest of its declaration.
    let other = declared("a string; b long");
    let other = Schema::of(&value(None), &other, std::iter::empty());
    assert_ne!(schema.digest(), other.digest());
    assert_eq!(other.digest().len(), 64);
    assert_eq!(other.describe().records[0].fields.len(), 2);
    let empty = Schema::of(&value(None), &iceberg(), std::iter::empty());
    assert!(empty.describe().records[0].fields.is_empty());
    let route = [["kind".to_owned()]];
    let routed = Schema::of(&value(None), &iceberg(), route.iter().map(<[String; 1]>::as_slice));
    assert_eq!(routed.describe().records[0].fields[0].name, "kind");
}
