//! What columns ask of values, and how they are found.

use pipeline::expectation::Literal;
use pipeline::resolved::{ColumnCase, Pii};

use super::*;
use crate::columns::tests::{declare, path, value};
use crate::columns::{Columns, Field, plan_records};
use crate::json::{Filter, OneText};
use model::secret::Secret;

const TEAM: &str = "id: {\"type\": \"integer\", \"description\": \"the number\"};
    team: {\"title\": \"Team\", \"properties\": {\"name\": {\"type\": \"string\"}, \"place\": {\"type\": [\"string\", \"null\"]}}};
    sizes: {\"type\": \"array\", \"items\": {\"$ref\": \"#/properties/team\"}}; by: {\"additionalProperties\": {\"$ref\": \"#/properties/team\"}}";

fn described(columns: &Columns) -> Vec<String> {
    columns.columns.iter().map(|column| format!("{} {} {}", column.name, column.data_type, column.source)).collect()
}

#[test]
fn members_are_found_by_their_names() {
    let team = object(TEAM);
    let mut table = iceberg();
    let all = plan(&team, &table).unwrap();
    let both = "struct<name: string, place: string>";
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
    table.exclude = vec!["sizes.place".to_owned(), "by.value.name".to_owned(), "id".to_owned()];
    declare(&mut table, "team", path("team.name"), None);
    let row = "{\"id\":\"not a number\",\"team\":{\"name\":\"a\",\"place\":7},\"sizes\":[{\"name\":\"c\"}],\"by\":{\"k\":{\"place\":\"f\"}}}";
    let expected = ["team=\"a\" sizes=[{name:\"c\"}] by={\"k\":{place:\"f\"}}"];
    assert_eq!(rows(&team, &table, &[row.as_bytes()]).unwrap(), expected);
    table.columns.clear();
    table.exclude = vec!["team.nam".to_owned()];
    declare(&mut table, "x", path("sizes.name"), None);
    declare(&mut table, "y", path("id"), Some("boolean"));
    declare(&mut table, "z", path("team"), Some("struct<label: string>"));
    let faults: Vec<String> = plan(&team, &table).unwrap_err().iter().map(ToString::to_string).collect();
    let expected = [
        "table.columns.x: a path leads through single objects only, and `sizes` isn't one",
        "table.exclude[0]: Team has no field `nam`; did you mean `name`?",
        "table.columns.y: `id` can't be boolean: it can be int, long",
        "table.columns.z: Team has no field `label`",
    ];
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for (fault, expected) in faults.iter().zip(expected) {
        assert!(fault.starts_with(expected), "{fault}\nis not: {expected}");
    }
}

#[test]
fn what_columns_ask_of_values_is_asked() {
    let person = object(
        "name: {\"type\": \"string\"}; age: {\"type\": \"integer\"}; card: {\"type\": \"string\", \"contentEncoding\": \"base64\"}; x: {}",
    );
    let mut table = iceberg();
    table.exclude = vec!["x".to_owned()];
    declare(&mut table, "age", path("age"), None);
    table.columns[0].required = true;
    table.columns[0].expect.min = Some(Literal::Integer(0));
    declare(&mut table, "name", path("name"), None);
    table.columns[1].pii = Some(Pii::Last4);
    declare(&mut table, "card", path("card"), None);
    table.columns[2].pii = Some(Pii::Hash);
    let columns = plan(&person, &table).unwrap();
    assert!(matches!(Decoder::new(&person, &columns), Err(crate::Error::NoSalt { .. })));
    let mut decoder = Decoder::salted(&person, &columns, Some(&Secret::new(*b"Jefe"))).unwrap();
    let mut ask =
        |payload: &str| decoder.decode(payload.as_bytes()).map_err(|rejected| (rejected.class, rejected.path));
    // Bytes are hashed as they are: "what do ya want for nothing?"
    ask("{\"name\":\"hello\",\"age\":2,\"card\":\"d2hhdCBkbyB5YSB3YW50IGZvciBub3RoaW5nPw==\"}").unwrap();
    assert_eq!(ask("{\"name\":\"a\",\"age\":null}").unwrap_err(), (Class::MissingRequired, "age".to_owned()));
    assert_eq!(ask("{\"name\":\"a\"}").unwrap_err(), (Class::MissingRequired, "age".to_owned()));
    assert_eq!(ask("{\"age\":-1}").unwrap_err(), (Class::Expectation, "age".to_owned()));
    assert_eq!(ask("{\"age\":1,\"name\":{}}").unwrap_err(), (Class::WrongType, "name".to_owned()));
    ask("{\"age\":-1,\"age\":1}").unwrap();
    let rows = print(&decoder.finish().unwrap());
    assert_eq!(
        rows,
        [
            "name=\"lo\" age=2 card=\"5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843\"",
            "name=NULL age=1 card=NULL"
        ]
    );
    // Nested values and whatever JSON has are not one value.
    table.exclude.clear();
    declare(&mut table, "x", path("x"), None);
    table.columns[3].pii = Some(Pii::Hash);
    assert!(plan(&person, &table).unwrap_err()[0].message.contains("personal data is a single value"));
}

#[test]
fn records_are_taken_by_a_member() {
    let event = object(
        "kind: {\"enum\": [\"view\", \"click\"]}; n: {\"type\": [\"integer\", \"null\"]}; ok: {\"type\": \"boolean\"}; x: {}",
    );
    let filter = |field: &str, one_of: Vec<Literal>| {
        let filter = pipeline::resolved::Filter { field: vec![field.to_owned()], one_of };
        plan_records(&event, &value(Some(filter)), &table())
    };
    let takes = |field: &str, one_of: Literal, payload: &str| {
        let columns = filter(field, vec![one_of]).unwrap();
        Filter::new(&event, &columns).unwrap().unwrap().takes(payload.as_bytes()).map_err(|r| r.class)
    };
    let text = |text: &str| Literal::Text(text.to_owned());
    assert_eq!(takes("kind", text("click"), "{\"kind\":\"click\"}"), Ok(true));
    assert_eq!(takes("kind", text("click"), "{\"kind\":\"other\"}"), Ok(false));
    assert_eq!(takes("n", Literal::Integer(5), "{\"n\":50e-1}"), Ok(true));
    assert_eq!(takes("n", Literal::Integer(5), "{\"n\":null}"), Ok(false));
    assert_eq!(takes("ok", Literal::Boolean(true), "{\"ok\":true}"), Ok(true));
    assert_eq!(takes("ok", Literal::Boolean(true), "{\"ok\":1}"), Err(Class::WrongType));
    let faults = filter("kind", vec![text("clik")]).unwrap_err();
    assert!(faults[0].message.contains("did you mean `click`?"), "{faults:?}");
    assert!(filter("x", vec![text("click")]).unwrap_err()[0].message.contains("can't be filtered by"));
    let columns = plan(&event, &table()).unwrap();
    let field = Field { source: "value:n".to_owned(), source_name: "n".to_owned() };
    let mut one = OneText::new(&event, &field, &columns).unwrap();
    let mut read = |payload: &str| one.read(payload.as_bytes(), |text| text.map(<[u8]>::to_vec)).map_err(|r| r.class);
    assert_eq!(read("{\"kind\":7,\"n\":-1200e-2}"), Ok(Some(b"-12".to_vec())));
    assert_eq!(read("{}"), Ok(None));
    assert_eq!(read("{\"n\":1}x"), Err(Class::TrailingBytes));
    assert_eq!(read("{\"n\":2}"), Ok(Some(b"2".to_vec())));
    let other = Field { source: "value:m".to_owned(), source_name: "m".to_owned() };
    assert!(OneText::new(&event, &other, &columns).is_err());
}

#[test]
fn names_are_spelled_as_asked() {
    let camel = object("outerThing: {\"properties\": {\"subId\": {\"type\": \"integer\"}}}");
    let mut table = iceberg();
    table.column_case = ColumnCase::Snake;
    let columns = plan(&camel, &table).unwrap();
    assert_eq!(described(&columns), ["outer_thing struct<sub_id: long> value:outerThing"]);
    let payloads: [&[u8]; 2] = [b"{\"outerThing\":{\"subId\":1}}", b"{\"outer_thing\":{\"sub_id\":1}}"];
    assert_eq!(rows(&camel, &table, &payloads).unwrap(), ["outer_thing={sub_id:1}"; 2]);
    let both = b"{\"outerThing\":{\"subId\":1},\"outer_thing\":2}";
    assert_eq!(rows(&camel, &table, &[both]).unwrap_err().class, Class::AmbiguousName);
}

#[test]
fn each_element_becomes_a_row() {
    let order = object(
        "who: {\"type\": \"string\"}; lines: {\"type\": \"array\", \"items\": {\"properties\": {\"sku\": {\"type\": \"string\"}}}}",
    );
    let exploded = pipeline::resolved::Value { explode: Some(vec!["lines".to_owned()]), ..value(None) };
    let columns = plan_records(&order, &exploded, &table()).unwrap();
    let mut decoder = Decoder::new(&order, &columns).unwrap();
    for payload in
        ["{\"who\":\"a\",\"lines\":[{\"sku\":\"x\"},{}]}", "{\"who\":\"b\"}", "{\"lines\":[1]}", "{\"lines\":[{}]}"]
    {
        assert_eq!(decoder.decode(payload.as_bytes()).is_ok(), !payload.contains('1'), "{payload}");
    }
    let rows = print(&decoder.finish().unwrap());
    assert_eq!(rows, ["who=\"a\" lines={sku:\"x\"}", "who=\"a\" lines={sku:NULL}", "who=NULL lines={sku:NULL}"]);
}
