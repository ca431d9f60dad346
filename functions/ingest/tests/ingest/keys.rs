//! Keys decoded like values: framed, by a schema of their own, beside the rows of their records.

use base64_simd::STANDARD;
use serde_json::{Value, json};
use staging::dead_letter::{Class, Part};

use crate::topic::Topic;

const VALUE: &str = "format = \"json\"\nframing = \"bare\"\nexplode = \"n\"\n[key]\nformat = \"avro\"\nframing = \"confluent\"\nschema = { avsc = \"k.avsc\" }";

const KEY: &str = r#"{"type": "record", "name": "K", "fields": [{"name": "id", "type": "int"}, {"name": "at", "type": "long"},
    {"name": "mail", "type": "string"}]}"#;

/// A version of it, of another order.
const KEY_2: &str = r#"{"type": "record", "name": "K", "fields": [{"name": "mail", "type": "string"}, {"name": "id", "type": "int"},
    {"name": "at", "type": "long"}]}"#;

const COLUMNS: &str = "[table.columns]\nn = { type = \"long\" }\nkey_id = { from = \"@key.id\", type = \"long\" }\n\
    sent = { from = \"@key.at\", type = \"timestamptz\", unit = \"ms\" }\nmail = { from = \"@key.mail\", pii = \"last4\" }";

fn record(offset: i64, key: Option<&[u8]>, value: &str) -> Value {
    let mut record = json!({"offset": offset, "value": STANDARD.encode_to_string(value)});
    if let Some(key) = key {
        record["key"] = json!(STANDARD.encode_to_string(key));
    }
    record
}

fn first(id: u8, mail: &str) -> Vec<u8> {
    [&[0, 0, 0, 0, 1, id * 2, 0xd0, 0x0f, (mail.len() * 2) as u8][..], mail.as_bytes()].concat()
}

async fn topic(columns: &str) -> Topic {
    let files = [("k.avsc", KEY), ("registry/1.avsc", KEY), ("registry/2.avsc", KEY_2), ("registry/3.avsc", "\"int\"")];
    Topic::of(&files, VALUE, columns).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn fields_of_keys_are_columns_beside_every_row_of_their_record() {
    let topic = topic(COLUMNS).await;
    let second = [&[0, 0, 0, 0, 2, 16][..], b"abcdefgh", &[18, 0xd0, 0x0f]].concat();
    let records = vec![
        record(0, Some(&first(7, "12345678")), "{\"n\": [1, 2]}"),
        record(1, None, "{\"n\": [3]}"),
        record(2, Some(&second), "{\"n\": [4]}"),
        // Of a record that makes no row, and of one that can't be one, nothing stays behind.
        record(3, Some(&first(8, "12345678")), "{\"n\": []}"),
        record(4, Some(&first(8, "12345678")), "{\"n\": [1.5]}"),
        record(5, Some(&first(9, "12345678")), "{\"n\": [5]}"),
    ];
    topic.handle(records).await.unwrap();
    assert_eq!(topic.dead(), [(4, Class::WrongType)]);
    assert_eq!(
        topic.rows(),
        [
            "0: n=1 key_id=7 sent=1970-01-01T00:00:01Z mail=5678",
            "0: n=2 key_id=7 sent=1970-01-01T00:00:01Z mail=5678",
            "1: n=3 key_id=NULL sent=NULL mail=NULL",
            "2: n=4 key_id=9 sent=1970-01-01T00:00:01Z mail=efgh",
            "5: n=5 key_id=9 sent=1970-01-01T00:00:01Z mail=5678"
        ]
    );
    let columns = topic.columns();
    assert_eq!(columns, ["n long", "key_id long", "sent timestamptz", "mail string"]);
    let sources: Vec<String> = topic.footer().columns.into_iter().map(|column| column.source).collect();
    assert_eq!(sources, ["value:n", "@key.id", "@key.at", "@key.mail|last4"]);
}

/// The key itself, framing and all, may stand beside its fields where none of these is personal.
#[tokio::test(start_paused = true)]
async fn a_key_stands_beside_its_fields_as_it_came() {
    let columns = COLUMNS.replace("mail = { from = \"@key.mail\", pii = \"last4\" }", "raw = \"@key\"");
    let topic = topic(&columns).await;
    topic.handle(vec![record(0, Some(&first(7, "x")), "{\"n\": [1]}"), record(1, None, "{\"n\": [2]}")]).await.unwrap();
    let rows =
        ["0: n=1 raw=00000000010ed00f0278 key_id=7 sent=1970-01-01T00:00:01Z", "1: n=2 raw=NULL key_id=NULL sent=NULL"];
    assert_eq!((topic.dead(), topic.rows()), (Vec::new(), rows.map(str::to_owned).to_vec()));
    assert_eq!(topic.footer().columns[3].source, "@key");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_can_not_be_read_is_a_dead_letter_of_its_own_part() {
    let columns =
        COLUMNS.replace("key_id = { from = \"@key.id\",", "key_id = { from = \"@key.id\", required = true, max = 8,");
    let topic = topic(&columns).await;
    let records = vec![
        record(0, Some(&first(7, "12345678")), "{\"n\": [1]}"),
        record(1, None, "{\"n\": [1]}"),
        record(2, Some(b"\0\0\0"), "{\"n\": [1]}"),
        record(3, Some(b"\0\0\0\0\x09\x02"), "{\"n\": [1]}"),
        record(4, Some(b"\0\0\0\0\x03\x02"), "{\"n\": [1]}"),
        record(5, Some(&first(7, "12345678")[..7]), "{\"n\": [1]}"),
        record(6, Some(&first(9, "12345678")), "{\"n\": [1]}"),
        record(7, Some(&first(8, "12345678")), "{\"n\": [1]}"),
    ];
    topic.handle(records).await.unwrap();
    let letters: Vec<(i64, Class, Part, String)> =
        topic.letters().into_iter().map(|letter| (letter.offset, letter.class, letter.part, letter.path)).collect();
    let expected = [
        (1, Class::MissingRequired, ""),
        (2, Class::Truncated, ""),
        (3, Class::UnknownSchema, ""),
        (4, Class::IncompatibleSchema, ""),
        (5, Class::Truncated, "at"),
        (6, Class::Expectation, "id"),
    ];
    let expected: Vec<(i64, Class, Part, String)> =
        expected.iter().map(|(offset, class, path)| (*offset, *class, Part::Key, (*path).to_owned())).collect();
    assert_eq!(letters, expected);
    assert_eq!(topic.rows().len(), 2);
}
