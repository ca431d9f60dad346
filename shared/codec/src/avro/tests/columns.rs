//! Columns planned from Avro schemas, and decoding into them.

use pipeline::resolved::{ColumnCase, Fields, Pii, UnknownFields};

use super::*;
use crate::columns::tests::{declare, path, value};
use crate::columns::{Columns, former_sources, plan_records};

const TEAM: &str = "id: \"long\" | \"doc\": \"the number\"; team: [\"null\", {\"type\": \"record\", \"name\": \"Team\", \"fields\": [
    {\"name\": \"label\", \"type\": \"string\", \"aliases\": [\"name\"]}, {\"name\": \"place\", \"type\": \"string\"}]}];
    sizes: {\"type\": \"array\", \"items\": \"Team\"}; by: {\"type\": \"map\", \"values\": \"Team\"}";

fn described(columns: &Columns) -> Vec<String> {
    columns.columns.iter().map(|column| format!("{} {} {}", column.name, column.data_type, column.source)).collect()
}

#[test]
fn fields_are_found_by_their_names() {
    let team = record(TEAM);
    let mut table = iceberg();
    let all = plan(&team, &table).unwrap();
    let both = "struct<label: string, place: string>";
    assert_eq!(
        described(&all),
        [
            "id long value:id".to_owned(),
            format!("team {both} value:team"),
            format!("sizes list<{both}> value:sizes"),
            format!("by map<string, {both}> value:by"),
        ]
    );
    assert_eq!(all.columns[0].doc.as_deref(), Some("the number"));
    table.exclude = vec!["sizes.place".to_owned(), "by.value.label".to_owned(), "id".to_owned()];
    declare(&mut table, "team", path("team.label"), None);
    assert_eq!(
        described(&plan(&team, &table).unwrap()),
        [
            "team string value:team.label",
            "sizes list<struct<label: string>> value:sizes",
            "by map<string, struct<place: string>> value:by",
        ]
    );
    let row = "0a 02 0261 0262 02 0263 0264 00 02 026b 0265 0266 00";
    assert_eq!(
        rows(&team, &team, &table, &[row]).unwrap(),
        ["team=\"a\" sizes=[{label:\"c\"}] by={\"k\":{place:\"f\"}}"]
    );
    assert_eq!(rows(&team, &team, &table, &["0a 00 00 00"]).unwrap(), ["team=NULL sizes=[] by={}"]);
    table.columns.clear();
    table.exclude = vec!["team.labl".to_owned()];
    declare(&mut table, "x", path("sizes.label"), None);
    declare(&mut table, "y", path("id"), Some("int"));
    declare(&mut table, "z", path("team"), Some("struct<name: string>"));
    let faults: Vec<String> = plan(&team, &table).unwrap_err().iter().map(ToString::to_string).collect();
    let expected = [
        "table.columns.x: a path leads through single records only, and `sizes` isn't one",
        "table.exclude[0]: Team has no field `labl`; did you mean `label`?",
        "table.columns.y: `id` can't be int: it can be long, decimal(19 or more, 0), string",
        "table.columns.z: Team has no field `name`",
    ];
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for (fault, expected) in faults.iter().zip(expected) {
        assert!(fault.starts_with(expected), "{fault}\nis not: {expected}");
    }
}

/// What a renamed field was called before leads to what its column was known by.
#[test]
fn earlier_names_are_earlier_sources() {
    let renamed = record(
        "crew: {\"type\": \"record\", \"name\": \"Team\", \"fields\": [
            {\"name\": \"label\", \"type\": \"string\", \"aliases\": [\"name\"]}]} | \"aliases\": [\"team\", \"group\"]; id: \"int\"",
    );
    let mut table = iceberg();
    declare(&mut table, "label", path("crew.label"), None);
    table.columns[0].pii = Some(Pii::Last4);
    let former = former_sources(&renamed, &plan(&renamed, &table).unwrap());
    let expected =
        ["crew.name", "team.label", "team.name", "group.label", "group.name"].map(|path| format!("value:{path}|last4"));
    assert_eq!(former.into_iter().collect::<Vec<_>>(), [("value:crew.label|last4".to_owned(), expected.into())]);
}

#[test]
fn each_element_becomes_a_row() {
    let order = record(
        "who: \"string\"; lines: [\"null\", {\"type\": \"array\", \"items\": {\"type\": \"record\", \"name\": \"Line\", \"fields\": [
            {\"name\": \"sku\", \"type\": \"string\"}, {\"name\": \"n\", \"type\": [\"null\", \"int\"]}]}}]",
    );
    let exploded = pipeline::resolved::Value { explode: Some(vec!["lines".to_owned()]), ..value(None) };
    let mut table = iceberg();
    let print_rows = |table: &Table, payloads: &[&str]| {
        let columns = plan_records(&order, &exploded, table).unwrap();
        let mut decoder = Decoder::new(&order, &order, &columns).unwrap();
        let read: Vec<bool> = payloads.iter().map(|payload| decoder.decode(&hex(payload)).is_ok()).collect();
        (read, print(&decoder.finish().unwrap()))
    };
    let payloads =
        ["0261 02 04 0278 0202 0279 00 00", "0262 00", "0263 02 04 027a 0202 02ff 00 00", "0264 02 02 0277 0206 00"];
    let (read, whole) = print_rows(&table, &payloads);
    assert_eq!(read, [true, true, false, true]);
    let expected =
        ["who=\"a\" lines={sku:\"x\",n:1}", "who=\"a\" lines={sku:\"y\",n:NULL}", "who=\"d\" lines={sku:\"w\",n:3}"];
    assert_eq!(whole, expected);
    declare(&mut table, "sku", path("lines.sku"), None);
    declare(&mut table, "n", path("lines.n"), Some("long"));
    let (_, parts) = print_rows(&table, &payloads);
    assert_eq!(parts, ["who=\"a\" sku=\"x\" n=1", "who=\"a\" sku=\"y\" n=NULL", "who=\"d\" sku=\"w\" n=3"]);
    // The element's own columns alone, and none of them.
    table.fields = Fields::Listed;
    assert_eq!(print_rows(&table, &payloads).1, ["sku=\"x\" n=1", "sku=\"y\" n=NULL", "sku=\"w\" n=3"]);
    table.columns.clear();
    declare(&mut table, "who", path("who"), None);
    // What is in no column is not looked at, so that the third record is one as well.
    assert_eq!(print_rows(&table, &payloads).1, ["a", "a", "c", "c", "d"].map(|who| format!("who=\"{who}\"")));
}

/// A reader that does not know all of the writer's fields passes over them, keeps them, or refuses the record.
#[test]
fn fields_that_the_reader_does_not_know() {
    let inner = |fields: &str| {
        format!(
            "{{\"type\": \"record\", \"name\": \"I\", \"fields\": [{{\"name\": \"a\", \"type\": \"int\"}}{fields}]}}"
        )
    };
    let of =
        |inner: &str, more: &str| record(&format!("i: {inner}; is: {{\"type\": \"array\", \"items\": \"I\"}}{more}"));
    let known = of(&inner(""), "");
    let more = ", {\"name\": \"b\", \"type\": [\"null\", \"string\"]}";
    let written = of(&inner(more), "; c: {\"type\": \"map\", \"values\": \"long\"}");
    let payload = "02 0200 04 04 020261 06 00 00 02 026b 08 00";
    let payload = payload.replacen("02 0200", "02 00", 1).replace("04 04 020261 06 00 00", "04 04 02 0261 06 00 00");
    let mut table = iceberg();
    assert_eq!(rows(&written, &known, &table, &[&payload]).unwrap(), ["i={a:1} is=[{a:2},{a:3}]"]);
    table.unknown_fields = UnknownFields::Rest;
    assert_eq!(
        rows(&written, &known, &table, &[&payload]).unwrap(),
        ["i={a:1} is=[{a:2},{a:3}] _rest={\"i.b\":\"null\",\"is.b\":\"[\\\"a\\\",null]\",\"c\":\"{\\\"k\\\":4}\"}"]
    );
    assert_eq!(rows(&known, &known, &table, &["02 00"]).unwrap(), ["i={a:1} is=[] _rest={}"]);
    // Several columns of one value keep it once.
    declare(&mut table, "x", path("i"), None);
    declare(&mut table, "y", path("i"), Some("string"));
    assert_eq!(
        rows(&written, &known, &table, &["02 00 00 00"]).unwrap(),
        ["x={a:1} y=\"{\\\"a\\\":1}\" is=[] _rest={\"i.b\":\"null\",\"c\":\"{}\"}"]
    );
    table.columns.clear();
    table.unknown_fields = UnknownFields::DeadLetter;
    let rejected = rows(&written, &known, &table, &[&payload]).unwrap_err();
    assert_eq!((rejected.class, rejected.path.as_str()), (Class::IncompatibleSchema, "i.b"), "{rejected}");
    assert_eq!(rows(&known, &known, &table, &["02 00"]).unwrap(), ["i={a:1} is=[]"]);
}

/// Two types of a writer's union that are read as one have fields of one name each.
#[test]
fn fields_of_two_branches_are_kept_under_one_path() {
    let of = |name: &str, more: &str, aliases: &str| {
        format!(
            "{{\"type\": \"record\", \"name\": \"{name}\"{aliases}, \"fields\": [{{\"name\": \"a\", \"type\": \"int\"}}{more}]}}"
        )
    };
    let more = |of: &str| format!(", {{\"name\": \"b\", \"type\": \"{of}\"}}");
    let items = format!("[{}, {}]", of("A", &more("int"), ""), of("B", &more("string"), ""));
    let written = record(&format!("xs: {{\"type\": \"array\", \"items\": {items}}}"));
    let read = record(&format!("xs: {{\"type\": \"array\", \"items\": {}}}", of("A", "", ", \"aliases\": [\"B\"]")));
    let mut table = iceberg();
    table.unknown_fields = UnknownFields::Rest;
    assert_eq!(
        rows(&written, &read, &table, &["04 00 02 04 02 06 0278 00"]).unwrap(),
        ["xs=[{a:1},{a:3}] _rest={\"xs.b\":\"[2,\\\"x\\\"]\"}"]
    );
}

#[test]
fn what_columns_ask_of_values_is_asked() {
    let person = record("name: \"string\"; age: [\"null\", \"int\"]");
    let mut table = iceberg();
    declare(&mut table, "age", path("age"), None);
    table.columns[0].required = true;
    table.columns[0].expect.min = Some(pipeline::expectation::Literal::Integer(0));
    declare(&mut table, "name", path("name"), None);
    table.columns[1].pii = Some(Pii::Last4);
    let ask =
        |payload: &str| rows(&person, &person, &table, &[payload]).map_err(|rejected| (rejected.class, rejected.path));
    assert_eq!(ask("0a68656c6c6f 0204").unwrap(), ["name=\"lo\" age=2"]);
    assert_eq!(ask("0261 00").unwrap_err(), (Class::MissingRequired, "age".to_owned()));
    assert_eq!(ask("0261 0201").unwrap_err(), (Class::Expectation, "age".to_owned()));
}

#[test]
fn names_are_spelled_as_asked() {
    let camel = record(
        "outerThing: {\"type\": \"record\", \"name\": \"N\", \"fields\": [{\"name\": \"subId\", \"type\": \"int\"}]}",
    );
    let mut table = iceberg();
    table.column_case = ColumnCase::Snake;
    let columns = plan(&camel, &table).unwrap();
    assert_eq!(described(&columns), ["outer_thing struct<sub_id: int> value:outerThing"]);
    assert_eq!(rows(&camel, &camel, &table, &["02"]).unwrap(), ["outer_thing={sub_id:1}"]);
    // Names that differ only in case are two columns of one name.
    let twice = record("Id: \"int\"; iD: \"int\"");
    assert!(plan(&twice, &iceberg()).unwrap_err()[0].message.contains("two columns are named `id`"));
    table.column_case = ColumnCase::AsIs;
    assert!(plan(&twice, &table).unwrap_err()[0].message.contains("differ only in case"));
}

#[test]
fn what_no_column_can_hold_has_to_be_declared_or_left_out() {
    let both = record(
        "at: {\"type\": \"long\", \"logicalType\": \"timestamp-nanos\"};
         d: {\"type\": \"bytes\", \"logicalType\": \"decimal\", \"precision\": 50}; n: \"null\"; ok: \"int\"",
    );
    let mut table = iceberg();
    let faults: Vec<String> = plan(&both, &table).unwrap_err().iter().map(ToString::to_string).collect();
    let expected = ["`at`: it counts nanoseconds", "`d`: a decimal has at most 38 digits", "`n`: it is always null"];
    assert_eq!(faults.len(), 3, "{faults:#?}");
    for (fault, expected) in faults.iter().zip(expected) {
        assert!(fault.contains(expected), "{fault}");
    }
    declare(&mut table, "at", path("at"), Some("timestamptz"));
    table.exclude = vec!["d".to_owned(), "n".to_owned()];
    assert_eq!(described(&plan(&both, &table).unwrap()), ["at timestamptz value:at", "ok int value:ok"]);
    declare(&mut table, "x", path("d"), None);
    table.exclude.remove(0);
    let faults = plan(&both, &table).unwrap_err();
    assert!(faults.len() == 1 && faults[0].place == "table.columns.x", "{faults:?}");
}

#[test]
fn what_is_hidden_stays_so_whatever_is_called_so_now() {
    let reused = record("social: \"string\" | \"aliases\": [\"ssn\"]; ssn: \"string\"; id: \"long\"");
    let mut table = iceberg();
    table.exclude = vec!["ssn".to_owned()];
    assert_eq!(described(&plan(&reused, &table).unwrap()), ["id long value:id"]);
    table.exclude.clear();
    declare(&mut table, "ssn", path("ssn"), None);
    table.columns[0].pii = Some(Pii::Last4);
    let faults = plan(&reused, &table).unwrap_err();
    assert!(faults.len() == 1 && faults[0].message.contains("exclude `social`, too"), "{faults:?}");
    table.exclude = vec!["social".to_owned()];
    assert_eq!(described(&plan(&reused, &table).unwrap()), ["ssn string value:ssn|last4", "id long value:id"]);
    table.exclude.clear();
    declare(&mut table, "social", path("social"), None);
    table.columns[1].pii = Some(Pii::Hash);
    let both = ["social string value:social|hash", "ssn string value:ssn|last4", "id long value:id"];
    assert_eq!(described(&plan(&reused, &table).unwrap()), both);
    // Of another version, which brings it back; `columns::unmatched` tells of slips.
    let without = record("id: \"long\"; name: \"string\"");
    table.columns.clear();
    table.exclude = vec!["ssn".to_owned()];
    assert!(plan(&without, &table).is_err());
    table.unknown_fields = UnknownFields::Add;
    assert_eq!(described(&plan(&without, &table).unwrap()).len(), 2);
    table.exclude = vec!["nme".to_owned()];
    assert_eq!(described(&plan(&without, &table).unwrap()).len(), 2);
}
