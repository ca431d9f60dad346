//! What went wrong elsewhere.

use super::*;
use crate::avro::Filter;
use crate::columns::plan_records;
use crate::columns::tests::value;

/// An instant is an instant and a local time has no zone: neither is moved.
#[test]
fn instants_and_local_times_are_different_columns() {
    let both = record(
        "i: {\"type\": \"long\", \"logicalType\": \"timestamp-millis\"};
         l: {\"type\": \"long\", \"logicalType\": \"local-timestamp-micros\"}",
    );
    let columns = plan(&both, &table()).unwrap().columns;
    assert_eq!(columns.iter().map(|c| c.data_type.to_string()).collect::<Vec<_>>(), ["timestamptz", "timestamp"]);
    check(&both, "fe8ffcf4be63 01", "i=1709251199999000 l=-1");
}

/// Null is where the writer has it, and a writer without a union writes no number of a branch.
#[test]
fn nullable_unions_stand_in_unusual_places() {
    let unusual = record("a: [\"long\", \"null\"]; b: [\"null\", \"long\"]; c: \"string\"");
    check(&unusual, "0054 0254 0279", "a=42 b=42 c=\"y\"");
    check(&unusual, "02 00 0279", "a=NULL b=NULL c=\"y\"");
    let plain = record("xs: {\"type\": \"array\", \"items\": \"int\"}; t: \"string\"");
    let nullable = record("xs: {\"type\": \"array\", \"items\": [\"null\", \"int\"]}; t: \"string\"");
    check_read(&plain, &nullable, "06 02 00 09 00 046f6b", "xs=[1,0,-5] t=\"ok\"");
}

/// A negative count has the block's size behind it, in any block.
#[test]
fn blocks_may_say_their_size() {
    let list = record("xs: {\"type\": \"array\", \"items\": \"long\"}; t: \"string\"");
    check(&list, "05 08 0204d804 02 0d 00 046f6b", "xs=[1,2,300,-7] t=\"ok\"");
    check_read(&list, &record("t: \"string\""), "05 08 0204d804 02 0d 00 046f6b", "t=\"ok\"");
    let map = record("m: {\"type\": \"map\", \"values\": \"int\"}; t: \"string\"");
    check(&map, "03 0c 0261 02 0262 04 02 0261 06 00 046f6b", "m={\"a\":3,\"b\":2} t=\"ok\"");
    check_read(&map, &record("t: \"string\""), "03 0c 0261 02 0262 04 02 0261 06 00 046f6b", "t=\"ok\"");
    // A size that is not the block's would lead whoever passes over it elsewhere.
    refused(&list, &list, "05 06 0204d804 00 046f6b", Class::WrongType, "xs");
    refused(&list, &list, "01 7e 02 00 046f6b", Class::Truncated, "xs");
    refused(&list, &list, "01 01 02 00 046f6b", Class::WrongType, "xs");
}

/// The good around a bad record are rows, in their order.
#[test]
fn a_bad_record_is_nothing_to_its_neighbours() {
    let sensor = record("name: \"string\"; reading: \"int\"");
    check(&sensor, "0e73656e736f72370f", "name=\"sensor7\" reading=-8");
    let mut decoder = decoder(&sensor, &sensor, &iceberg());
    let taken: Vec<Result<(), Class>> = ["04613102", "0461", "04613306", "", "046134060c", "04c32806", "04613508"]
        .iter()
        .map(|payload| decoder.decode(&hex(payload)).map_err(|rejected| rejected.class))
        .collect();
    let expected = [
        Ok(()),
        Err(Class::Truncated),
        Ok(()),
        Err(Class::EmptyValue),
        Err(Class::TrailingBytes),
        Err(Class::InvalidUtf8),
        Ok(()),
    ];
    assert_eq!(taken, expected);
    let rows = print(&decoder.finish().unwrap());
    assert_eq!(rows, ["name=\"a1\" reading=1", "name=\"a3\" reading=3", "name=\"a5\" reading=4"]);
}

/// The ride requests of the examples that frazil grew from.
#[test]
fn a_ride_request_is_a_row() {
    let ride = schema(include_str!("ride.avsc"));
    let columns = plan(&ride, &table()).unwrap().columns;
    let types: Vec<String> = columns.iter().map(|column| format!("{} {}", column.name, column.data_type)).collect();
    assert_eq!(
        types,
        [
            "request_id int",
            "pickup_address string",
            "destination_address string",
            "ride_fare float",
            "ride_duration int",
            "preferred_unicorn_color string",
            "recommended_unicorn struct<unicorn_id: int, color: string, stars_rating: int>",
            "customer struct<customer_account_no: int, first_name: string, middle_name: string, last_name: string, \
             email_addresses: list<string>, customer_address: string, mode_of_payment: string, customer_rating: int>",
        ]
    );
    check(
        &ride,
        "02 0241 0242 0000c03f 0a 04   04 02 020a   0e 0243 00 0244 02 02 0265 00 0246 02 00",
        "request_id=1 pickup_address=\"A\" destination_address=\"B\" ride_fare=1.5 ride_duration=5 \
         preferred_unicorn_color=\"RED\" recommended_unicorn={unicorn_id:2,color:\"RED\",stars_rating:5} \
         customer={customer_account_no:7,first_name:\"C\",middle_name:NULL,last_name:\"D\",email_addresses:[\"e\"],\
         customer_address:\"F\",mode_of_payment:\"CASH\",customer_rating:NULL}",
    );
}

#[test]
fn records_are_taken_by_a_field() {
    let event = record(
        "kind: {\"type\": \"enum\", \"name\": \"K\", \"symbols\": [\"view\", \"click\"]}; n: [\"null\", \"long\"]",
    );
    let takes = |field: &str, one_of: Vec<pipeline::expectation::Literal>, payload: &str| {
        let filter = pipeline::resolved::Filter { field: vec![field.to_owned()], one_of };
        let columns = plan_records(&event, &value(Some(filter)), &table()).unwrap();
        Filter::new(&event, &event, &columns).unwrap().unwrap().takes(&hex(payload)).map_err(|r| r.class)
    };
    use pipeline::expectation::Literal::{Integer, Text};
    assert_eq!(takes("kind", vec![Text("click".to_owned())], "02 02 0a"), Ok(true));
    assert_eq!(takes("kind", vec![Text("click".to_owned())], "00 02 0a"), Ok(false));
    assert_eq!(takes("n", vec![Integer(5)], "00 02 0a"), Ok(true));
    assert_eq!(takes("n", vec![Integer(5)], "00 00"), Ok(false));
    assert_eq!(takes("n", vec![Integer(5)], "00 02 0a 00"), Err(Class::TrailingBytes));
    assert_eq!(takes("n", vec![Integer(5)], "04 00"), Err(Class::WrongType));
    let wrong = pipeline::resolved::Filter { field: vec!["kind".to_owned()], one_of: vec![Text("clik".to_owned())] };
    let faults = plan_records(&event, &value(Some(wrong)), &table()).unwrap_err();
    assert!(faults[0].message.contains("did you mean `click`?"), "{faults:?}");
}
