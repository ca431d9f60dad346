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

const JSON: &str = "format = \"json\"\nframing = \"bare\"\n[key]\nframing = \"confluent\"\n";

/// Keys in hexadecimal at offsets from 0 on, beside values that say nothing.
fn keyed(keys: &[&[u8]]) -> Vec<Value> {
    (0..).zip(keys).map(|(offset, key)| record(offset, Some(key), "{}")).collect()
}

/// Sources, former ones and types of the columns.
fn sources(topic: &Topic) -> Vec<String> {
    let columns = topic.footer().columns.into_iter();
    columns.map(|c| format!("{} {} {} {}", c.name, c.data_type, c.source, c.former.join(","))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_wider_number_in_keys_widens_its_column() {
    let wide = KEY.replace("\"int\"", "\"long\"");
    let files = [("k.avsc", KEY), ("registry/1.avsc", KEY), ("registry/2.avsc", &wide)];
    let value = format!("{JSON}format = \"avro\"\nschema = {{ avsc = \"k.avsc\" }}");
    let topic = Topic::of(&files, &value, "[table.columns]\nkey_id = \"@key.id\"").await.unwrap();
    let second = b"\0\0\0\0\x02\x80\x80\x80\x80\x80\x40\x02\x02a";
    topic.handle(keyed(&[&first(7, "a"), second, &first(8, "a")])).await.unwrap();
    assert_eq!(topic.dead(), []);
    assert_eq!(topic.rows(), ["0: key_id=7", "1: key_id=1099511627776", "2: key_id=8"]);
    assert_eq!(sources(&topic), ["key_id long @key.id "]);
}

/// What the file says of a field of keys holds under the name that it has got since, in both formats that know of renames.
#[tokio::test(start_paused = true)]
async fn a_renamed_field_of_keys_is_the_same_column() {
    let newest = KEY.replace("\"name\": \"id\"", "\"name\": \"ident\", \"aliases\": [\"id\"]");
    let files = [("registry/keys.avsc", newest.as_str()), ("registry/1.avsc", KEY), ("registry/2.avsc", &newest)];
    let value = format!("{JSON}format = \"avro\"\nschema = {{ registry = \"main\", name = \"keys\" }}");
    let mut second = first(8, "a");
    second[4] = 2;
    let check = async |files: &[(&str, &str)], value: &str, keys: &[&[u8]], expected: &str| {
        for column in ["id", "ident"] {
            let topic = Topic::of(files, value, &format!("[table.columns]\nkey_id = \"@key.{column}\"")).await.unwrap();
            topic.handle(keyed(keys)).await.unwrap();
            assert_eq!(
                (topic.dead(), topic.rows()),
                (vec![], vec!["0: key_id=7".to_owned(), "1: key_id=8".to_owned()])
            );
            assert_eq!(sources(&topic), [expected]);
        }
    };
    check(&files, &value, &[&first(7, "a"), &second], "key_id int @key.ident @key.id").await;
    // The schema of a file may be the older one: then it is the field's first name that is declared.
    let files = [("k.avsc", KEY), ("registry/1.avsc", KEY), ("registry/2.avsc", &newest)];
    let value = format!("{JSON}format = \"avro\"\nschema = {{ avsc = \"k.avsc\" }}");
    let topic = Topic::of(&files, &value, "[table.columns]\nkey_id = \"@key.id\"").await.unwrap();
    topic.handle(keyed(&[&first(7, "a"), &second])).await.unwrap();
    assert_eq!((topic.dead(), topic.rows()), (vec![], vec!["0: key_id=7".to_owned(), "1: key_id=8".to_owned()]));
    let (older, newer) =
        ("syntax = \"proto3\"; message K { int32 id = 1; }", "syntax = \"proto3\"; message K { int32 ident = 1; }");
    let files = [("registry/keys.proto", newer), ("registry/1.proto", older), ("registry/2.proto", newer)];
    let value =
        format!("{JSON}format = \"protobuf\"\nschema = {{ registry = \"main\", name = \"keys\", message = \"K\" }}");
    check(&files, &value, &[b"\0\0\0\0\x01\0\x08\x07", b"\0\0\0\0\x02\0\x08\x08"], "key_id int @key.1 ").await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_keys_use_again_mixes_no_two_fields() {
    let older = "syntax = \"proto3\"; message K { int32 id = 1; }";
    let newer = "syntax = \"proto3\"; message K { int32 ident = 1; int32 id = 2; }";
    let files = [("registry/keys.proto", newer), ("registry/1.proto", older), ("registry/2.proto", newer)];
    let value =
        format!("{JSON}format = \"protobuf\"\nschema = {{ registry = \"main\", name = \"keys\", message = \"K\" }}");
    let table = "[table.columns]\nkey_id = \"@key.id\"\nfirst = \"@key.ident\"";
    let topic = Topic::of(&files, &value, table).await.unwrap();
    topic.handle(keyed(&[b"\0\0\0\0\x01\0\x08\x07", b"\0\0\0\0\x02\0\x08\x05\x10\x08"])).await.unwrap();
    assert_eq!(topic.dead(), []);
    assert_eq!(topic.rows(), ["0: key_id=NULL first=7", "1: key_id=8 first=5"]);
    assert_eq!(sources(&topic), ["key_id int @key.2 ", "first int @key.1 "]);
}

/// A version that disagrees with those before it is refused, as of values, and is judged in the registry's order.
#[tokio::test(start_paused = true)]
async fn a_version_of_keys_that_can_not_be_read_is_a_dead_letter_whoever_comes_first() {
    let newest = r#"{"type": "record", "name": "K", "fields": [{"name": "n", "type": "int"}]}"#;
    let with = |of: &str| newest.replace("[{", &format!("[{{\"name\": \"id\", \"type\": \"{of}\"}}, {{"));
    let (text, number) = (with("string"), with("int"));
    let files = [
        ("registry/keys.avsc", newest),
        ("registry/1.avsc", &text),
        ("registry/2.avsc", &number),
        ("registry/3.avsc", newest),
    ];
    let value = format!("{JSON}format = \"avro\"\nschema = {{ registry = \"main\", name = \"keys\" }}");
    let (a, b, c): (&[u8], &[u8], &[u8]) = (b"\0\0\0\0\x01\x02x\x02", b"\0\0\0\0\x02\x0a\x04", b"\0\0\0\0\x03\x06");
    for keys in [[a, b, c], [c, b, a], [b, a, c]] {
        let topic = Topic::of(&files, &value, "[table.columns]\nn = \"@key.n\"\nkey_id = \"@key.id\"").await.unwrap();
        topic.handle(keyed(&keys)).await.unwrap();
        let place = i64::try_from(keys.iter().position(|key| *key == a).unwrap()).unwrap();
        assert_eq!(topic.dead(), [(place, Class::IncompatibleSchema)]);
        let letter = topic.letters().remove(0);
        assert_eq!((letter.part, letter.schema_id.as_deref()), (Part::Key, Some("1")));
        let mut rows: Vec<String> = topic.rows().iter().map(|row| row.split_once(' ').unwrap().1.to_owned()).collect();
        rows.sort();
        assert_eq!(rows, ["n=2 key_id=5", "n=3 key_id=NULL"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_dead_letter_of_a_key_names_the_keys_schema() {
    let value = "format = \"avro\"\nframing = \"confluent\"\nschema = { avsc = \"k.avsc\" }\n\
        [key]\nformat = \"avro\"\nframing = \"confluent\"\nschema = { avsc = \"k.avsc\" }";
    let files = [("k.avsc", KEY), ("registry/1.avsc", KEY), ("registry/2.avsc", KEY_2)];
    let topic = Topic::of(&files, value, "fields = \"listed\"\n[table.columns]\nkey_id = \"@key.id\"").await.unwrap();
    let said = |id: &str| json!({"dataFormat": "AVRO", "schemaId": id});
    // Without its framing, for the mapping took it off; and with it.
    let of = |offset: i64, key: &[u8], value: &[u8], ids: Option<(&str, &str)>| {
        let mut record = record(offset, Some(key), "");
        record["value"] = json!(STANDARD.encode_to_string(value));
        if let Some((key, value)) = ids {
            (record["keySchemaMetadata"], record["valueSchemaMetadata"]) = (said(key), said(value));
        }
        record
    };
    let bare = &first(7, "a")[5..];
    let records = vec![
        of(0, bare, bare, Some(("9", "1"))),
        of(1, &bare[..1], bare, Some(("1", "2"))),
        of(2, bare, &bare[..1], Some(("2", "1"))),
        of(3, b"\0\0\0\0\x09\x02", &first(7, "a"), None),
        of(4, &first(7, "a"), b"\0\0\0\0\x08\x02", None),
    ];
    topic.handle(records).await.unwrap();
    let letters: Vec<(i64, Part, Option<String>)> =
        topic.letters().into_iter().map(|letter| (letter.offset, letter.part, letter.schema_id)).collect();
    let expected =
        [(0, Part::Key, "9"), (1, Part::Key, "1"), (2, Part::Key, "2"), (3, Part::Key, "9"), (4, Part::Value, "8")];
    assert_eq!(letters, expected.map(|(offset, part, id)| (offset, part, Some(id.to_owned()))));
}
