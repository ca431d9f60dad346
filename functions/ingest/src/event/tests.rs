use std::collections::BTreeMap;

use base64_simd::STANDARD;
use proptest::prelude::*;
use serde_json::Value;

use super::*;

type Header = (String, Option<Vec<u8>>);

/// One record as a test states it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    offset: i64,
    timestamp_ms: Option<i64>,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<Header>,
}

type Lists = BTreeMap<(String, i32), Vec<Seen>>;

fn read(body: impl AsRef<[u8]>) -> Result<Lists, Error> {
    let mut reader = Reader::new();
    let event = reader.read(body.as_ref())?;
    Ok(lists(&event))
}

fn lists(event: &Event<'_>) -> Lists {
    let seen = |r: Record<'_>| Seen {
        offset: r.offset(),
        timestamp_ms: r.timestamp_ms(),
        key: r.key().map(<[u8]>::to_vec),
        value: r.value().map(<[u8]>::to_vec),
        headers: r.headers().map(|(n, v)| (n.to_owned(), v.map(<[u8]>::to_vec))).collect(),
    };
    event.partitions().map(|p| ((p.topic().to_owned(), p.partition()), p.records().map(seen).collect())).collect()
}

/// An event of one list.
fn event(list: &str, records: &str) -> String {
    format!(r#"{{"eventSource":"aws:kafka","records":{{"{list}":[{records}]}}}}"#)
}

fn one(record: &str) -> Seen {
    let read = read(event("t-0", record)).unwrap();
    let [list] = read.into_values().collect::<Vec<_>>().try_into().unwrap();
    let [record] = list.try_into().unwrap();
    record
}

fn plain(offset: i64) -> Seen {
    Seen { offset, timestamp_ms: None, key: None, value: None, headers: Vec::new() }
}

#[test]
fn an_event_as_aws_documents_it() {
    let body = br#"{
       "eventSource":"aws:kafka",
       "eventSourceArn":"arn:aws:kafka:us-east-1:123456789012:cluster/vpc-2priv-2pub/751d2973-a626-431c-9d4e-d7975eb44dd7-2",
       "bootstrapServers":"b-2.demo-cluster-1.a1bcde.c1.kafka.us-east-1.amazonaws.com:9092",
       "records":{
          "my-topic-0":[
             {
                "topic":"my-topic",
                "partition":0,
                "offset":15,
                "timestamp":1545084650987,
                "timestampType":"CREATE_TIME",
                "key":"abcDEFghiJKLmnoPQRstuVWXyz1234==",
                "value":"SGVsbG8sIHRoaXMgaXMgYSB0ZXN0Lg==",
                "headers":[{"headerKey":[104,101,97,100,101,114,86,97,108,117,101]}],
                "valueSchemaMetadata":{"dataFormat":"PROTOBUF","schemaId":"7"}
             }
          ]
       }
    }"#;
    let mut reader = Reader::new();
    let event = reader.read(body).unwrap();
    assert_eq!(event.source(), EventSource::Msk);
    assert!(event.source_arn().unwrap().ends_with("44dd7-2"));
    assert_eq!((event.len(), event.duplicates()), (1, 0));
    let record = event.records().next().unwrap();
    assert_eq!((record.topic(), record.partition(), record.offset()), ("my-topic", 0, 15));
    assert_eq!(record.timestamp_ms(), Some(1_545_084_650_987));
    assert_eq!(record.timestamp_type(), Some(TimestampType::CreateTime));
    assert_eq!(record.value(), Some(&b"Hello, this is a test."[..]));
    // The documented key's last bits are not zero, as strict base64 would have them.
    assert_eq!(
        record.key().map(|key| STANDARD.encode_to_string(key)),
        Some("abcDEFghiJKLmnoPQRstuVWXyz123w==".to_owned())
    );
    assert_eq!(record.headers().collect::<Vec<_>>(), [("headerKey", Some(&b"headerValue"[..]))]);
    let schema = record.value_schema().unwrap();
    assert_eq!((schema.data_format.as_deref(), schema.schema_id.as_deref()), (Some("PROTOBUF"), Some("7")));
    assert_eq!(record.key_schema(), None);
}

#[test]
fn an_absent_or_null_key_or_value_is_not_an_empty_one() {
    assert_eq!(one(r#"{"offset":1}"#), plain(1));
    assert_eq!(one(r#"{"offset":1,"key":null,"value":null,"headers":null,"timestamp":null}"#), plain(1));
    let empty = one(r#"{"offset":1,"key":"","value":"","headers":[]}"#);
    assert_eq!((empty.key, empty.value), (Some(vec![]), Some(vec![])));
}

#[test]
fn base64_is_read_with_or_without_padding_and_zero_bits_but_not_in_another_alphabet() {
    let check = |text: &str, bytes: Option<&[u8]>| {
        let read = read(event("t-0", &format!(r#"{{"offset":1,"value":"{text}"}}"#)));
        assert_eq!(read.ok().map(|l| l[&("t".to_owned(), 0)][0].value.clone().unwrap()).as_deref(), bytes, "{text}");
    };
    check("/+8=", Some(&[0xff, 0xef]));
    check("/+8", Some(&[0xff, 0xef]));
    check("/+9=", Some(&[0xff, 0xef]));
    check(r"\/\u002B8=", Some(&[0xff, 0xef]));
    check("_-8=", None);
    check("/+8==", None);
    check("/", None);
}

#[test]
fn a_timestamp_of_minus_one_is_none() {
    let check = |text: &str, ms: Option<i64>| {
        assert_eq!(one(&format!(r#"{{"offset":1,"timestamp":{text}}}"#)).timestamp_ms, ms, "{text}");
    };
    check("-1", None);
    check("null", None);
    check("0", Some(0));
    check("-0", Some(0));
    check("9223372036854775807", Some(i64::MAX));
    check("-9223372036854775808", Some(i64::MIN));
}

/// O-38.
#[test]
fn header_bytes_are_read_signed_and_unsigned() {
    let record =
        one(r#"{"offset":1,"headers":[{"city":[122,111,-61,-85,-30,-126,-84]},{"trace":[-128,0,127,-1]},{"city":[65]},
           {"empty":[]},{"none":null},{"city":[195,171]},{}]}"#);
    let some = |name: &str, bytes: &[u8]| (name.to_owned(), Some(bytes.to_vec()));
    assert_eq!(
        record.headers,
        [
            some("city", "zoë€".as_bytes()),
            some("trace", &[0x80, 0, 0x7f, 0xff]),
            some("city", b"A"),
            some("empty", b""),
            ("none".to_owned(), None),
            some("city", &[0xc3, 0xab]),
        ]
    );
}

#[test]
fn the_last_hyphen_ends_a_topic() {
    let read = read(
        r#"{"records":{"orders-eu-0":[{"offset":1,"topic":"orders-eu","partition":0}],
            "orders-eu-12":[{"offset":2}],"-x-3":[]},"eventSource":"SelfManagedKafka"}"#,
    )
    .unwrap();
    let keys: Vec<(&str, i32)> = read.keys().map(|(t, p)| (t.as_str(), *p)).collect();
    assert_eq!(keys, [("-x", 3), ("orders-eu", 0), ("orders-eu", 12)]);
}

#[test]
fn members_come_in_any_order_and_spelling_and_unknown_ones_are_skipped() {
    let expected = Seen {
        offset: 9,
        timestamp_ms: Some(5),
        key: Some(b"k".to_vec()),
        value: Some(vec![0xff, 0xef]),
        headers: vec![("h\"é😀".to_owned(), Some(vec![1]))],
    };
    let bodies = [
        r#"{"records":{"a-b-0":[{"value":"/+8=","key":"aw==","headers":[{"h\"é😀":[1]}],"offset":9,"timestamp":5,"partition":0,"topic":"a-b"}]},
            "eventSource":"aws:kafka"}"#,
        r#"{"\u0065ventSource":"aws\u003akafka","records":{"a\u002db-0":[{"value":"\/\u002b8=","key":"a\u0077==",
            "headers":[{"h\"\u00e9\ud83d\ude00":[ 1 ]}],"offset":9,"timestamp":5,"partition":0,"topic":"a\u002Db"}]}}"#,
        r#"{ "x" : [ { "y" : [ [ ] , { } , "\\\"" , -1.5e+3 , true , false , null ] } ] , "eventSource" : "aws:kafka" ,
            "records" : { "a-b-0" : [ { "new" : {"deep":[1,{"er":2}]} , "topic" : "a-b" , "value" : "/+8=" , "key" : "aw==" ,
            "headers" : [ { "h\"é😀" : [ 1 ] } ] , "offset" : 9 , "timestamp" : 5 } ] } }"#,
        // Of a repeated member the last one counts, at every level.
        r#"{"eventSource":"s3","records":{"zzz-0":[{"offset":1}]},"eventSource":"aws:kafka","records":{"a-b-0":[{"offset":3}],
            "a-b-0":[{"topic":"q","partition":8,"offset":1,"value":"","value":"/+8=","key":"aw==","headers":[{"x":[3]}],"timestamp":7,
            "headers":[{"h\"é😀":[2],"h\"é😀":[1]}],"offset":9,"timestamp":5,"topic":"a-b","partition":0}]}}"#,
    ];
    for body in bodies {
        assert_eq!(read(body), Ok(BTreeMap::from([(("a-b".to_owned(), 0), vec![expected.clone()])])), "{body}");
    }
}

#[test]
fn an_event_may_hold_no_record() {
    for records in [r#","records":{}"#, r#","records":{"t-0":[]}"#, r#","records":{"t-0":null}"#] {
        let body = format!(r#"{{"eventSource":"SelfManagedKafka"{records}}}"#);
        let mut reader = Reader::new();
        let event = reader.read(body.as_bytes()).unwrap();
        assert!(event.is_empty() && event.records().next().is_none(), "{body}");
        assert_eq!((event.source(), event.source_arn()), (EventSource::SelfManaged, None));
    }
    // To acknowledge records that were not seen would lose them.
    for records in ["", r#","records":null"#, r#","records":{"t-0":[]},"records":null"#] {
        let body = format!(r#"{{"eventSource":"SelfManagedKafka"{records}}}"#);
        let error = Reader::new().read(body.as_bytes()).map(|event| event.len()).unwrap_err();
        assert!(error.to_string().ends_with("it has no `records`"), "{body}: {error}");
    }
}

#[test]
fn a_coordinate_that_comes_twice_is_one_record_or_a_contradiction() {
    let same = r#"{"offset":5,"value":"YQ==","headers":[{"h":[-1]}],"timestamp":-1}"#;
    let also = r#"{"headers":[{"h":[255]}],"value":"YQ==","offset":5}"#;
    let body = event("t-0", &format!(r#"{same},{{"offset":4}},{also},{{"offset":4}},{{"offset":3}}"#));
    let mut reader = Reader::new();
    let read = reader.read(body.as_bytes()).unwrap();
    assert_eq!(read.duplicates(), 2);
    assert_eq!(read.records().map(|r| r.offset()).collect::<Vec<_>>(), [5, 4, 3]);
    for other in [
        r#"{"offset":5,"value":"Yg==","headers":[{"h":[-1]}]}"#,
        r#"{"offset":5,"value":"YQ==","headers":[{"h":[-1]}],"timestamp":1}"#,
        r#"{"offset":5,"value":"YQ==","headers":[{"h":[-1]}],"key":""}"#,
        r#"{"offset":5,"value":"YQ=="}"#,
    ] {
        let error = super::tests::read(event("t-0", &format!("{same},{other}"))).unwrap_err();
        assert_eq!(error, Error::Contradiction { topic: "t".to_owned(), partition: 0, offset: 5 }, "{other}");
    }
    // The same offset in another partition is another coordinate.
    let apart = r#"{"eventSource":"aws:kafka","records":{"t-0":[{"offset":5}],"t-1":[{"offset":5,"value":""}]}}"#;
    assert_eq!(super::tests::read(apart).unwrap().len(), 2);
}

#[test]
fn what_can_not_be_used_is_refused_with_its_place() {
    let check = |body: &str, message: &str, kind: Kind| {
        let error = read(body).expect_err(body);
        assert!(error.to_string().contains(message), "{body}: {error}");
        assert_eq!(error.kind(), kind, "{body}: {error}");
    };
    check("", "cut short: it ends at byte 0", Kind::Corrupt);
    check("  ", "cut short: it ends at byte 2", Kind::Corrupt);
    check("hello", "not JSON: at byte 0", Kind::Corrupt);
    check(r#"["a"]"#, "not a JSON object", Kind::Misconfigured);
    check("{}", "an empty object", Kind::Misconfigured);
    check(
        r#"{"Records":[{"eventSource":"aws:sqs"}]}"#,
        "no `eventSource`, and its first member is `Records`",
        Kind::Misconfigured,
    );
    check(r#"{"eventSource":"aws:sqs"}"#, "`aws:sqs`", Kind::Misconfigured);
    check(
        r#"{"invocationId":"i","records":[{"recordId":"1","data":""}]}"#,
        "first member is `invocationId`",
        Kind::Misconfigured,
    );
    check(r#"{"records":{"a":1},"eventSource":"custom"}"#, "`custom`", Kind::Misconfigured);
    check(r#"{"eventSource":"aws:kafka","records":[]}"#, "at byte 37, `records` must be an object", Kind::Corrupt);
    check(r#"{"eventSource":"aws:kafka"} x"#, "at byte 28, there is something after", Kind::Corrupt);
    check(r#"{"eventSource":"aws:kafka",}"#, "at byte 27, a member's name is missing", Kind::Corrupt);
    check(r#"{"eventSource" "aws:kafka"}"#, "at byte 15, `:` is missing", Kind::Corrupt);
    check("{\"eventSource\":\"aws:\u{1}kafka\"}", "at byte 20, a control character", Kind::Corrupt);
    check(r#"{"eventSource":"aws:kafka","x":"\q"}"#, "at byte 33, an escape", Kind::Corrupt);
    check(r#"{"eventSource":"aws:kafka","x":"\ud800"}"#, "half of a surrogate pair", Kind::Corrupt);
    check(r#"{"eventSource":"aws:kafka","x":01}"#, "leading zero", Kind::Corrupt);
    check(r#"{"eventSource":"aws:kafka","x":nul}"#, "no JSON value", Kind::Corrupt);
    check(&format!(r#"{{"eventSource":"aws:kafka","x":{}"#, "[".repeat(5000)), "more than 64 deep", Kind::Corrupt);
    for (record, message) in [
        ("7", "a record must be an object"),
        ("null", "a record must be an object"),
        ("{}", "at byte 45, this record has no offset"),
        (r#"{"offset":null}"#, "no offset"),
        (r#"{"offset":-1}"#, "at byte 55, an offset is at least 0"),
        (r#"{"offset":1.0}"#, "at byte 55, a whole number"),
        (r#"{"offset":9223372036854775808}"#, "a whole number of 64 bits"),
        (r#"{"offset":"1"}"#, "a whole number"),
        (r#"{"offset":01}"#, "leading zero"),
        (r#"{"offset":1,"topic":"u"}"#, "at byte 65, the record's topic is `u`, but stands in the list of `t-0`"),
        (r#"{"offset":1,"topic":7}"#, "a topic must be a string"),
        (r#"{"offset":1,"partition":1}"#, "at byte 69, the record's partition is 1"),
        (r#"{"offset":1,"partition":4294967296}"#, "the record's partition is 4294967296"),
        (r#"{"offset":1,"value":"Y"}"#, "at byte 65, a text is not standard base64"),
        (r#"{"offset":1,"value":"Y-Q="}"#, "not standard base64"),
        (r#"{"offset":1,"key":{}}"#, "a base64 text or null"),
        (r#"{"offset":1,"headers":{}}"#, "headers must be an array"),
        (r#"{"offset":1,"headers":[null]}"#, "a header must be an object"),
        (r#"{"offset":1,"headers":[{"h":"YQ=="}]}"#, "an array of bytes or null"),
        (r#"{"offset":1,"headers":[{"h":[256]}]}"#, "at byte 74, a byte is a number from -128 to 255"),
        (r#"{"offset":1,"headers":[{"h":[-129]}]}"#, "from -128 to 255"),
        (r#"{"offset":1,"headers":[{"h":[1.5]}]}"#, "a whole number"),
        (r#"{"offset":1,"headers":[{"h":[99999]}]}"#, "from -128 to 255"),
    ] {
        check(&event("t-0", record), message, Kind::Corrupt);
    }
    for name in ["t", "t-", "-0", "t-01", "t-+1", "t--1x", "t-2147483648", ""] {
        check(&event(name, ""), "is not a topic, a hyphen and a partition", Kind::Corrupt);
    }
    let long = event(&"x".repeat(100_000), "");
    assert!(read(long).unwrap_err().to_string().len() < 400);
    let large = vec![b' '; BODY_BYTES_MAX + 1];
    assert!(matches!(read(large), Err(Error::TooLarge { .. })));
}

#[test]
fn every_cut_of_an_event_is_refused_as_cut_short() {
    let body = event(
        "t-é-0",
        r#"{"topic":"t-é","offset":12,"x":[true,1.5e3],"value":"Y\u0051==","headers":[{"h":[-1]}],"n":"\ud83d\ude00"}"#,
    );
    assert!(read(&body).is_ok());
    for end in 0..body.len() {
        let cut = body.as_bytes().get(..end).unwrap();
        let error = read(cut).expect_err("a cut event");
        assert!(matches!(error, Error::Truncated { at, .. } if at == end), "{end}: {error}");
    }
}

#[test]
fn a_reader_forgets_what_it_read_before() {
    let mut reader = Reader::new();
    let full =
        event("t-0", r#"{"offset":1,"value":"YQ==","headers":[{"h":[1]}],"valueSchemaMetadata":{"schemaId":5}}"#)
            .replace(r#""eventSource""#, r#""eventSourceArn":"arn:x","eventSource""#);
    assert_eq!(reader.read(full.as_bytes()).unwrap().len(), 1);
    let cut = full.get(..full.len() - 1).unwrap();
    assert!(reader.read(cut.as_bytes()).is_err());
    let next = event("u-3", r#"{"offset":2}"#);
    let read = reader.read(next.as_bytes()).unwrap();
    assert_eq!(read.source_arn(), None);
    assert_eq!(lists(&read), BTreeMap::from([(("u".to_owned(), 3), vec![plain(2)])]));
    assert_eq!(read.records().next().unwrap().value_schema(), None);
}

/// The same event read by another JSON parser and another base64 decoder. `None` where that parser can't judge.
fn read_independently(body: &[u8]) -> Option<Lists> {
    let value: Value = match serde_json::from_slice(body) {
        Ok(value) => value,
        // A number beyond f64 in a member that nobody reads: legal JSON that this parser has no value for.
        Err(e) if e.to_string().contains("number out of range") => return None,
        Err(e) => panic!("accepted, but not JSON: {e}: {}", String::from_utf8_lossy(body)),
    };
    assert!(matches!(value["eventSource"].as_str(), Some("aws:kafka" | "SelfManagedKafka")));
    let mut lists = Lists::new();
    let empty = serde_json::Map::new();
    for (name, records) in value["records"].as_object().unwrap_or(&empty) {
        let (topic, partition) = name.rsplit_once('-').unwrap();
        let mut list: Vec<Seen> = Vec::new();
        for record in records.as_array().unwrap_or(&Vec::new()) {
            assert!(record["topic"].is_null() || record["topic"] == topic);
            let next = Seen {
                offset: number(&record["offset"]).unwrap(),
                timestamp_ms: number(&record["timestamp"]).filter(|&ms| ms != -1),
                key: record["key"].as_str().map(unbase64),
                value: record["value"].as_str().map(unbase64),
                headers: headers(&record["headers"]),
            };
            match list.iter().find(|seen| seen.offset == next.offset) {
                Some(before) => assert_eq!(before, &next),
                None => list.push(next),
            }
        }
        lists.insert((topic.to_owned(), partition.parse().unwrap()), list);
    }
    Some(lists)
}

fn number(value: &Value) -> Option<i64> {
    // This parser keeps `-0` as a float.
    if value.is_null() { None } else { Some(value.as_i64().unwrap_or_else(|| value.as_f64().unwrap() as i64)) }
}

fn headers(value: &Value) -> Vec<Header> {
    let mut all = Vec::new();
    for object in value.as_array().unwrap_or(&Vec::new()) {
        for (name, bytes) in object.as_object().unwrap() {
            let bytes = bytes.as_array().map(|b| b.iter().map(|n| number(n).unwrap() as u8).collect());
            all.push((name.clone(), bytes));
        }
    }
    all
}

fn unbase64(text: &str) -> Vec<u8> {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut out, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for letter in text.chars().filter(|&c| c != '=' && c != ' ') {
        bits = bits << 6 | LETTERS.find(letter).unwrap() as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

/// A record as text, its members in a random order, with the contents it should have.
fn record(offset: i64) -> impl Strategy<Value = (String, Seen)> {
    let bytes = || prop::option::of(prop::collection::vec(any::<u8>(), 0..20));
    let header = ("[a-z\"\\\\é]{0,3}", prop::option::of(prop::collection::vec(any::<u8>(), 0..4)));
    let timestamp = prop::option::of(prop_oneof![Just(-1), any::<i64>()]);
    let parts = (timestamp, bytes(), bytes(), prop::collection::vec(header, 0..3), any::<[bool; 6]>(), any::<u64>());
    parts.prop_map(move |(timestamp_ms, key, value, headers, [nulls, signed, named, alien, spaced, _], order)| {
        let mut members = vec![format!(r#""offset":{offset}"#)];
        let mut optional = |name: &str, text: Option<String>| match text {
            Some(text) => members.push(format!(r#""{name}":{text}"#)),
            None if nulls => members.push(format!(r#""{name}":null"#)),
            None => {}
        };
        let base64 = |b: &Vec<u8>| format!(r#""{}""#, STANDARD.encode_to_string(b));
        optional("timestamp", timestamp_ms.map(|ms| ms.to_string()));
        optional("key", key.as_ref().map(base64));
        optional("value", value.as_ref().map(base64));
        optional("topic", named.then(|| r#""a-b""#.to_owned()));
        optional("timestampType", named.then(|| r#""LOG_APPEND_TIME""#.to_owned()));
        optional("brokerEpoch", alien.then(|| r#"{"deep":[1,{"er":"\"}"}]}"#.to_owned()));
        optional("valueSchemaMetadata", alien.then(|| r#"{"schemaId":"x","dataFormat":"AVRO"}"#.to_owned()));
        let list: Vec<String> = headers
            .iter()
            .map(|(name, bytes)| {
                let digits = |b: &u8| if signed { b.cast_signed().to_string() } else { b.to_string() };
                let bytes = bytes.as_ref().map(|b| b.iter().map(digits).collect::<Vec<_>>().join(","));
                let bytes = bytes.map_or_else(|| "null".to_owned(), |b| format!("[{b}]"));
                format!("{{{}:{bytes}}}", serde_json::to_string(name).unwrap())
            })
            .collect();
        optional("headers", (!list.is_empty()).then(|| format!("[{}]", list.join(","))));
        let turn = order as usize % members.len();
        members.rotate_left(turn);
        if order & 1 == 1 {
            members.reverse();
        }
        let text = format!("{{{}}}", members.join(if spaced { " ,\n\t" } else { "," }));
        (text, Seen { offset, timestamp_ms: timestamp_ms.filter(|&ms| ms != -1), key, value, headers })
    })
}

/// A valid event as text, with the contents it should have.
fn valid() -> impl Strategy<Value = (String, Lists)> {
    let list = prop::collection::vec(0..3_i64, 0..5).prop_flat_map(|steps| {
        let mut offset = 0;
        let rising: Vec<_> = steps
            .into_iter()
            .map(|step| {
                offset += 1 + step;
                record(offset)
            })
            .collect();
        rising
    });
    (prop::collection::vec(list, 0..4), any::<bool>()).prop_map(|(lists, last)| {
        let texts: Vec<String> = lists
            .iter()
            .enumerate()
            .map(|(p, list)| {
                let records: Vec<&str> = list.iter().map(|(text, _)| text.as_str()).collect();
                format!(r#""a-b-{p}":[{}]"#, records.join(","))
            })
            .collect();
        let source = r#""eventSource":"aws:kafka""#;
        let records = format!(r#""records":{{{}}}"#, texts.join(","));
        let text = if last { format!("{{{records},{source}}}") } else { format!("{{{source},{records}}}") };
        let seen = |list: Vec<(String, Seen)>| list.into_iter().map(|(_, seen)| seen).collect();
        (text, lists.into_iter().enumerate().map(|(p, list)| (("a-b".to_owned(), p as i32), seen(list))).collect())
    })
}

/// One change to a text's bytes.
#[derive(Clone, Debug)]
enum Change {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, &'static str),
    Remove(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
    Cut(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let pieces = prop::sample::select(vec![
        "\"",
        "\\",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "null",
        "-",
        "0",
        "1e9",
        ".5",
        " ",
        "\u{0}",
        "é",
        "\\u0061",
        "\\ud800",
        "=",
        "==",
        "\"offset\":1,",
        "\"x\":[{}],",
        "\"topic\":\"b\",",
        "true",
    ]);
    let at = || any::<prop::sample::Index>();
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, b)| Change::Set(at, b)),
        (at(), pieces).prop_map(|(at, piece)| Change::Insert(at, piece)),
        (at(), 1..9_usize).prop_map(|(at, n)| Change::Remove(at, n)),
        (at(), 1..40_usize).prop_map(|(at, n)| Change::Repeat(at, n)),
        at().prop_map(Change::Cut),
    ]
}

fn apply(body: &mut Vec<u8>, change: &Change) {
    if body.is_empty() {
        return;
    }
    match change {
        Change::Set(at, byte) => *at.get_mut(body) = *byte,
        Change::Insert(at, piece) => {
            let start = at.index(body.len());
            body.splice(start..start, piece.bytes());
        }
        Change::Remove(at, n) => {
            let start = at.index(body.len());
            body.drain(start..(start + n).min(body.len()));
        }
        Change::Repeat(at, n) => {
            let start = at.index(body.len());
            let piece = body[start..(start + n).min(body.len())].to_vec();
            body.splice(start..start, piece);
        }
        Change::Cut(at) => body.truncate(at.index(body.len())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_valid_event_is_read_as_it_was_written((text, expected) in valid()) {
        prop_assert_eq!(read(&text), Ok(expected.clone()), "{}", text);
        prop_assert_eq!(read_independently(text.as_bytes()), Some(expected));
    }

    #[test]
    fn a_damaged_event_is_refused_or_read_as_another_parser_reads_it(
        (text, _) in valid(),
        changes in prop::collection::vec(change(), 1..4),
    ) {
        let mut body = text.into_bytes();
        for change in &changes {
            apply(&mut body, change);
        }
        if let Ok(lists) = read(&body) && let Some(expected) = read_independently(&body) {
            prop_assert_eq!(lists, expected, "{}", String::from_utf8_lossy(&body));
        }
    }
}
