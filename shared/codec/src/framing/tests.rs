use flate2::{Compress, Compression, FlushCompress, Status};
use pipeline::resolved::{Format, Framing, Indexes};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

/// Hexadecimal; blanks don't count.
fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut stream = Compress::new(Compression::best(), true);
    let mut out = Vec::with_capacity(bytes.len() / 100 + 1000);
    loop {
        let rest = &bytes[usize::try_from(stream.total_in()).unwrap()..];
        if stream.compress_vec(rest, &mut out, FlushCompress::Finish).unwrap() == Status::StreamEnd {
            return out;
        }
        out.reserve(out.len() + 1000);
    }
}

const GLUE: &str = "03 00 5c0ffee50000400080000000000000b2";

fn glue() -> Option<Reference> {
    Some(Reference::GlueVersion(Uuid::from_u128(0x5c0f_fee5_0000_4000_8000_0000_0000_00b2)))
}

fn id(id: u32) -> Option<Reference> {
    Some(Reference::ConfluentId(id))
}

fn declared(places: &[u16]) -> Message {
    Message::Declared(Path::new(places).unwrap())
}

type Split = Result<(Option<Reference>, Message, Vec<u8>), Class>;

fn split(settings: Settings, record: &Record<'_>) -> Split {
    let mut splitter = Splitter::new(settings).unwrap();
    let split = splitter
        .split(record)
        .map(|framed| (framed.schema, framed.message, framed.payload.to_vec()))
        .map_err(|rejected| rejected.class);
    // What begins alike names the same, whatever comes behind.
    if let (Ok((Some(reference), ..)), None, None) = (&split, record.schema_header, record.unwrapped) {
        let beginning = reference.in_front(record).unwrap();
        let named = record.value.len() - beginning.rest(record.value).unwrap().len();
        let other = [&record.value[..named], &[0xff; 9]].concat();
        assert_eq!(splitter.reference(&(&other[..]).into()).unwrap(), Some(*reference));
        for at in 0..named {
            let mut other = other.clone();
            other[at] ^= 1;
            assert_eq!(beginning.rest(&other), None);
            assert_eq!(beginning.rest(&other[..at]), None);
        }
    }
    match (&split, splitter.reference(record)) {
        (Ok((schema, ..)), reference) => assert_eq!(reference.unwrap(), *schema),
        // What the first look finds is what the second one finds.
        (Err(class), Err(rejected)) => assert_eq!(rejected.class, *class),
        (Err(_), Ok(_)) => {}
    }
    split
}

fn check(format: Format, framing: Framing, value: &str, expected: Result<(Option<Reference>, Message, &str), Class>) {
    let expected = expected.map(|(schema, message, payload)| (schema, message, hex(payload)));
    let value = hex(value);
    assert_eq!(
        split(Settings::new(format, framing), &(&value[..]).into()),
        expected,
        "{format:?} {framing:?} {value:02x?}"
    );
}

#[test]
fn bare_values_are_payloads() {
    use Message::Unsaid;
    for framing in [Framing::Bare, Framing::Auto] {
        check(Format::Protobuf, framing, "082a", Ok((None, Unsaid, "082a")));
        // Group 24 of protobuf, and half of Avro's marker.
        check(Format::Protobuf, framing, "c301 c401", Ok((None, Unsaid, "c301c401")));
        check(Format::Json, framing, "7b7d", Ok((None, Unsaid, "7b7d")));
        check(Format::Dms, framing, "7b7d", Ok((None, Unsaid, "7b7d")));
    }
    check(Format::Avro, Framing::Bare, "0000000001", Ok((None, Unsaid, "0000000001")));
    check(Format::Protobuf, Framing::Bare, "00", Ok((None, Unsaid, "00")));
    check(Format::Avro, Framing::Auto, "0e73656e736f72370f", Err(Class::BadFraming));
}

/// O-15 (b): null alone is a tombstone.
#[test]
fn an_empty_value_is_a_record_of_its_own() {
    check(Format::Protobuf, Framing::Bare, "", Ok((None, Message::Unsaid, "")));
    check(Format::Avro, Framing::Bare, "", Err(Class::EmptyValue));
    check(Format::Json, Framing::Bare, "", Err(Class::EmptyValue));
    for framing in [Framing::Auto, Framing::Glue, Framing::Confluent] {
        for format in [Format::Protobuf, Format::Avro, Format::Json] {
            check(format, framing, "", Err(Class::EmptyValue));
        }
    }
    check(Format::Avro, Framing::AvroSingleObject, "", Err(Class::EmptyValue));
}

/// O-11, O-12, O-15 (c) to (f).
#[test]
fn confluent_framing_holds_an_id_and_the_path_of_a_message() {
    for framing in [Framing::Confluent, Framing::Auto] {
        let check = |value: &str, expected| check(Format::Protobuf, framing, value, expected);
        check("00 0000002a 04 02 00 0a026869", Ok((id(42), declared(&[1, 0]), "0a026869")));
        check("00 0000002b 02 8001 082a", Ok((id(43), declared(&[64]), "082a")));
        check("00 0000002a 00 0805", Ok((id(42), declared(&[0]), "0805")));
        check("00 0000002a 0200 0805", Ok((id(42), declared(&[0]), "0805")));
        check("00 0000002a 0206 0805", Ok((id(42), declared(&[3]), "0805")));
        check("00 0000002a 01 0805", Err(Class::BadFraming));
        check("00 0000002a 02 05 0805", Err(Class::BadFraming));
        check("00 0000002a 00", Ok((id(42), declared(&[0]), "")));
        check("00 0000002a 00 0800", Ok((id(42), declared(&[0]), "0800")));
        check("00 0000002a", Err(Class::Truncated));
        check("00 0000002a 04 02", Err(Class::Truncated));
        check("00 0000002a 04 80", Err(Class::Truncated));
        check("00 0000", Err(Class::Truncated));
        check("00", Err(Class::Truncated));
        check("00 7fffffff 00", Ok((id(i32::MAX as u32), declared(&[0]), "")));
        check("00 80000000 00", Err(Class::BadFraming));
        // Eight places and nine, a count beyond all sense, a number beyond 32 bits.
        check("00 00000001 10 0000000000000000 01", Ok((id(1), declared(&[0; 8]), "01")));
        check("00 00000001 12 000000000000000000 01", Err(Class::BadFraming));
        check("00 00000001 feffffff0f 00", Err(Class::BadFraming));
        check("00 00000001 02 feff07", Ok((id(1), declared(&[u16::MAX]), "")));
        check("00 00000001 02 808008", Err(Class::BadFraming));
        check("00 00000001 02 feffffff0f", Err(Class::BadFraming));
        check("00 00000001 02 feffffff1f", Err(Class::BadFraming));
        check("00 00000001 02 ffffffffff00", Err(Class::BadFraming));
    }
    check(Format::Protobuf, Framing::Confluent, "01 0000002a 00", Err(Class::BadFraming));
    check(Format::Protobuf, Framing::Confluent, "0805", Err(Class::BadFraming));
    for format in [Format::Avro, Format::Json, Format::Debezium] {
        check(format, Framing::Confluent, "00 0000002a 04 02", Ok((id(42), Message::Unsaid, "0402")));
        check(format, Framing::Auto, "00 0000002a", Ok((id(42), Message::Unsaid, "")));
    }
}

#[test]
fn the_older_form_of_a_path_is_read_when_it_is_asked_for() {
    let check = |value: &str, places: Result<&[u16], Class>, payload: &str| {
        let value = hex(value);
        let settings = Settings { indexes: Indexes::Plain, ..Settings::new(Format::Protobuf, Framing::Confluent) };
        let expected = places.map(|places| (id(42), declared(places), hex(payload)));
        assert_eq!(split(settings, &(&value[..]).into()), expected, "{value:02x?}");
    };
    check("00 0000002a 00 0805", Ok(&[0]), "0805");
    check("00 0000002a 01 00 0805", Ok(&[0]), "0805");
    check("00 0000002a 02 01 00 0a026869", Ok(&[1, 0]), "0a026869");
    check("00 0000002a 01 40 082a", Ok(&[64]), "082a");
    check("00 0000002a 09 00", Err(Class::BadFraming), "");
    check("00 0000002a 02 01", Err(Class::Truncated), "");
}

/// O-13, O-14.
#[test]
fn glue_framing_holds_a_uuid_and_the_number_of_a_message() {
    for framing in [Framing::Glue, Framing::Auto] {
        let check = |format, value: &str, expected| check(format, framing, value, expected);
        let framed = |rest: &str| format!("{GLUE} {rest}");
        let proto = Format::Protobuf;
        check(proto, &framed("02 0a026b391003"), Ok((glue(), Message::Sorted(2), "0a026b391003")));
        check(proto, &framed("04 082a"), Ok((glue(), Message::Sorted(4), "082a")));
        check(proto, &framed("8001 082a"), Ok((glue(), Message::Sorted(128), "082a")));
        check(proto, &framed("00"), Ok((glue(), Message::Sorted(0), "")));
        check(proto, &framed("ffffffff0f"), Ok((glue(), Message::Sorted(u32::MAX), "")));
        check(proto, &framed("ffffffff1f"), Err(Class::BadFraming));
        check(proto, &framed(""), Err(Class::Truncated));
        check(proto, &framed("80"), Err(Class::Truncated));
        for format in [Format::Avro, Format::Json, Format::Debezium] {
            check(format, &framed("0e73656e736f72370f"), Ok((glue(), Message::Unsaid, "0e73656e736f72370f")));
            check(format, &framed(""), Ok((glue(), Message::Unsaid, "")));
        }
        let seventeen = &GLUE[..GLUE.len() - 2];
        check(Format::Avro, seventeen, Err(Class::Truncated));
        check(Format::Avro, "03", Err(Class::Truncated));
        check(Format::Avro, &GLUE.replacen("00", "04", 1), Err(Class::BadFraming));
        check(Format::Avro, "03 04", Err(Class::BadFraming));
    }
    check(Format::Avro, Framing::Glue, "00 00 5c0ffee50000400080000000000000b2 00", Err(Class::BadFraming));
}

/// O-14, and everything else that can be wrong with a body.
#[test]
fn a_compressed_payload_is_taken_whole_or_not_at_all() {
    const BODY: &str = "789c e32b4ecd2bce2f32e707000f4402ef";
    let head = GLUE.replacen("03 00", "03 05", 1);
    let check = |body: &str, expected: Result<&str, Class>| {
        let expected = expected.map(|payload| (glue(), Message::Unsaid, payload));
        check(Format::Avro, Framing::Auto, &format!("{head} {body}"), expected);
    };
    check(BODY, Ok("0e73656e736f72370f"));
    let whole = hex(BODY);
    for cut in 0..whole.len() {
        let cut: String = whole[..cut].iter().map(|byte| format!("{byte:02x}")).collect();
        check(&cut, Err(Class::Truncated));
    }
    check("789c e32b4ecd2bce2f32e707000f4402ee", Err(Class::BadChecksum));
    check(&format!("{BODY} 00"), Err(Class::TrailingBytes));
    // No zlib: raw deflate, gzip, the payload as it is; a window too large, a dictionary, a wrong check of the header.
    check("e32b4ecd2bce2f32e70700", Err(Class::BadFraming));
    check("1f8b0800000000000003", Err(Class::BadFraming));
    check("0e73656e736f72370f", Err(Class::BadFraming));
    check("889c e32b4ecd2bce2f32e707000f4402ef", Err(Class::BadFraming));
    check("78bb 00000001 e32b4ecd2bce2f32e707000f4402ef", Err(Class::BadFraming));
    check("789d e32b4ecd2bce2f32e707000f4402ef", Err(Class::BadFraming));
    // A block of a kind that there is not, and a distance before the beginning.
    check("789c 07 00000001", Err(Class::BadFraming));
    check("789c 4b04f2 00000001", Err(Class::BadFraming));
    // Protobuf's number is inside.
    let numbered = zlib(&hex("02 0a026b391003"));
    let value = [hex(&head), numbered].concat();
    let settings = Settings::new(Format::Protobuf, Framing::Glue);
    let expected = Ok((glue(), Message::Sorted(2), hex("0a026b391003")));
    assert_eq!(split(settings, &(&value[..]).into()), expected);
    // Nothing at all, compressed.
    let value = [hex(&head), zlib(&[])].concat();
    assert_eq!(split(settings, &(&value[..]).into()), Err(Class::Truncated));
}

#[test]
fn inflation_ends_at_its_bound() {
    let head = hex(&GLUE.replacen("03 00", "03 05", 1));
    let check = |size: usize, max: usize, fits: bool| {
        let value = [head.clone(), zlib(&vec![0; size])].concat();
        let settings = Settings { inflated_bytes_max: max, ..Settings::new(Format::Json, Framing::Glue) };
        let mut splitter = Splitter::new(settings).unwrap();
        match splitter.split(&(&value[..]).into()) {
            Ok(framed) => assert!(fits && framed.payload.len() == size, "{size} under {max}"),
            Err(rejected) => assert!(!fits && rejected.class == Class::TooLarge, "{size} under {max}: {rejected}"),
        }
        assert!(splitter.inflater.capacity() <= max.max(4096) + 4096, "{size} under {max}");
        // What came before leaves nothing behind.
        let after = [head.clone(), zlib(b"{}")].concat();
        assert_eq!(
            splitter.split(&(&after[..]).into()).map(|framed| framed.payload.to_vec()).ok(),
            (max >= 2).then(|| b"{}".to_vec())
        );
    };
    check(50 << 20, INFLATED_BYTES_MAX, false);
    check(INFLATED_BYTES_MAX, INFLATED_BYTES_MAX, true);
    check(INFLATED_BYTES_MAX + 1, INFLATED_BYTES_MAX, false);
    check(4096, 4096, true);
    check(4097, 4096, false);
    check(4095, 4096, true);
    check(0, 0, true);
    check(1, 0, false);
}

#[test]
fn an_avro_object_holds_a_fingerprint() {
    let crc = Some(Reference::AvroFingerprint(0x0807_0605_0403_0201));
    for framing in [Framing::AvroSingleObject, Framing::Auto] {
        let check = |value: &str, expected| check(Format::Avro, framing, value, expected);
        check("c301 0102030405060708 0f", Ok((crc, Message::Unsaid, "0f")));
        check("c301 0102030405060708", Ok((crc, Message::Unsaid, "")));
        check("c301 01020304050607", Err(Class::Truncated));
        check("c301", Err(Class::Truncated));
        check("c3", Err(Class::Truncated));
        check("c302 0102030405060708 0f", Err(Class::BadFraming));
    }
    check(Format::Avro, Framing::AvroSingleObject, "00 0000002a 02", Err(Class::BadFraming));
}

const GUID: &str = "f0e1d2c3b4a5968778695a4b3c2d1e0f";

#[test]
fn newer_clients_name_the_schema_in_a_header() {
    let guid = Some(Reference::ConfluentGuid(Uuid::from_u128(0xf0e1_d2c3_b4a5_9687_7869_5a4b_3c2d_1e0f)));
    let check = |format,
                 framing,
                 header: &str,
                 value: &str,
                 expected: Result<(Option<Reference>, Message, &str), Class>| {
        let (header, value) = (hex(header), hex(value));
        let record = Record { value: &value, schema_header: Some(&header), unwrapped: None };
        let expected = expected.map(|(schema, message, payload)| (schema, message, hex(payload)));
        assert_eq!(split(Settings::new(format, framing), &record), expected, "{format:?} {framing:?} {header:02x?}");
    };
    for framing in [Framing::Confluent, Framing::Auto] {
        let avro = |header: &str, value: &str, expected| check(Format::Avro, framing, header, value, expected);
        avro(&format!("01{GUID}"), "00 0000002a", Ok((guid, Message::Unsaid, "000000002a")));
        avro("00 0000002a", "02", Ok((id(42), Message::Unsaid, "02")));
        avro("", "02", Err(Class::Truncated));
        avro("00 0000", "02", Err(Class::Truncated));
        avro(&format!("01{GUID}")[..32], "02", Err(Class::Truncated));
        avro(&format!("01{GUID}00"), "02", Err(Class::BadFraming));
        avro(&format!("02{GUID}"), "02", Err(Class::BadFraming));
        avro("00 ffffffff", "02", Err(Class::BadFraming));
        avro(&format!("01{GUID}"), "", Err(Class::EmptyValue));
        let proto = |header: &str, value: &str, expected| check(Format::Protobuf, framing, header, value, expected);
        proto(&format!("01{GUID} 00"), "0805", Ok((guid, declared(&[0]), "0805")));
        proto(&format!("01{GUID} 040200"), "0a00", Ok((guid, declared(&[1, 0]), "0a00")));
        proto("00 0000002a 0206", "0805", Ok((id(42), declared(&[3]), "0805")));
        // All that there is to say of a message of defaults stands in the header.
        proto(&format!("01{GUID} 00"), "", Ok((guid, declared(&[0]), "")));
        proto(&format!("01{GUID}"), "0805", Err(Class::Truncated));
        proto(&format!("01{GUID} 0200 00"), "0805", Err(Class::BadFraming));
    }
    // Where another framing is named, it is a header like others.
    check(Format::Avro, Framing::Bare, "02", "0f", Ok((None, Message::Unsaid, "0f")));
    check(Format::Avro, Framing::Glue, "02", &format!("{GLUE} 0f"), Ok((glue(), Message::Unsaid, "0f")));
    assert!(Splitter::new(Settings::new(Format::Avro, Framing::Auto)).unwrap().reads_header());
    assert!(!Splitter::new(Settings::new(Format::Avro, Framing::Glue)).unwrap().reads_header());
}

const UUID: &str = "5c0ffee5-0000-4000-8000-0000000000b2";

#[test]
fn what_a_mapping_took_off_is_told_by_its_metadata() {
    type Expected<'a> = Result<(Option<Reference>, Message, &'a str), Class>;
    let check = |event_record_format, format, data_format, schema_id, value: &str, expected: Expected<'_>| {
        let value = hex(value);
        let unwrapped = Some(Unwrapped { data_format, schema_id });
        let record = Record { value: &value, schema_header: None, unwrapped };
        let expected = expected.map(|(schema, message, payload)| (schema, message, hex(payload)));
        for framing in [Framing::Auto, Framing::Bare] {
            let settings = Settings { event_record_format, ..Settings::new(format, framing) };
            assert_eq!(
                split(settings, &record),
                expected,
                "{event_record_format:?} {format:?} {data_format} {schema_id}"
            );
        }
    };
    let source = |format, data_format, schema_id, value: &str, expected: Expected<'_>| {
        check(EventRecordFormat::Source, format, data_format, schema_id, value, expected);
    };
    source(Format::Protobuf, "PROTOBUF", UUID, "02 0a00", Ok((glue(), Message::Sorted(2), "0a00")));
    source(Format::Protobuf, "PROTOBUF", "42", "0402000a00", Ok((id(42), declared(&[1, 0]), "0a00")));
    source(Format::Protobuf, "PROTOBUF", "42", "00", Ok((id(42), declared(&[0]), "")));
    source(Format::Protobuf, "PROTOBUF", "42", "", Err(Class::EmptyValue));
    source(Format::Protobuf, "AVRO", "42", "02", Err(Class::IncompatibleSchema));
    source(Format::Avro, "AVRO", UUID, "00 0000002a", Ok((glue(), Message::Unsaid, "000000002a")));
    source(Format::Avro, "AVRO", "7", "0f", Ok((id(7), Message::Unsaid, "0f")));
    source(Format::Debezium, "AVRO", "7", "0f", Ok((id(7), Message::Unsaid, "0f")));
    source(Format::Debezium, "PROTOBUF", "7", "000f", Err(Class::IncompatibleSchema));
    source(Format::Dms, "AVRO", "7", "0f", Err(Class::IncompatibleSchema));
    source(Format::Json, "JSON", "7", "7b7d", Ok((id(7), Message::Unsaid, "7b7d")));
    source(Format::Json, "AVRO", "7", "7b7d", Err(Class::IncompatibleSchema));
    source(Format::Avro, "AVRO", "seven", "0f", Err(Class::BadFraming));
    source(Format::Avro, "AVRO", "", "0f", Err(Class::BadFraming));
    source(Format::Avro, "AVRO", "4294967295", "0f", Err(Class::BadFraming));
    source(Format::Avro, "THRIFT", "7", "0f", Err(Class::BadFraming));
    let json = |format, data_format, schema_id, value: &str, expected: Expected<'_>| {
        check(EventRecordFormat::Json, format, data_format, schema_id, value, expected);
    };
    json(Format::Json, "AVRO", UUID, "7b7d", Ok((None, Message::Unsaid, "7b7d")));
    json(Format::Json, "PROTOBUF", "7", "7b7d", Ok((None, Message::Unsaid, "7b7d")));
    json(Format::Json, "JSON", UUID, "7b7d", Ok((glue(), Message::Unsaid, "7b7d")));
    json(Format::Debezium, "AVRO", UUID, "7b7d", Ok((None, Message::Unsaid, "7b7d")));
    json(Format::Avro, "AVRO", UUID, "7b7d", Err(Class::IncompatibleSchema));
    json(Format::Protobuf, "PROTOBUF", "7", "7b7d", Err(Class::IncompatibleSchema));
}

#[test]
fn values_that_are_like_the_one_before_are_said_to_be() {
    let mut splitter = Splitter::new(Settings::new(Format::Protobuf, Framing::Auto)).unwrap();
    let mut check = |value: &str, repeated: bool| {
        let value = hex(value);
        assert_eq!(splitter.split(&(&value[..]).into()).unwrap().repeated, repeated, "{value:02x?}");
    };
    let zlib_of = |text: &str| zlib(&hex(text)).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    check("00 0000002a 00 0805", false);
    check("00 0000002a 00 0806", true);
    check("00 0000002a 00", true);
    check("00 0000002a 0200 0806", true);
    check("00 0000002a 02020806", false);
    check("00 0000002b 02020806", false);
    check("0806", false);
    check("0807", true);
    check("00 0000002b 02020806", false);
    check("00 0000002b 02020806 0a1e0000000000000000000000000000000000000000000000000000000000000000", true);
    check(&format!("{GLUE} 02 0a00"), false);
    check(&format!("{GLUE} 02"), true);
    check(&format!("{} {}", GLUE.replacen("03 00", "03 05", 1), zlib_of("020a00")), true);
    check(&format!("{} {}", GLUE.replacen("03 00", "03 05", 1), zlib_of("030a00")), false);
    check(&format!("{GLUE} 03 0a00"), true);
    check(&format!("{GLUE} 8300 0a00"), true);
    check("0806", false);
    // What was rejected is not what the next one is like.
    let broken = hex("00 0000002a 01");
    assert!(splitter.split(&(&broken[..]).into()).is_err());
    assert!(splitter.split(&(&[8, 6][..]).into()).unwrap().repeated);
}

#[test]
fn a_format_that_does_not_come_in_a_framing_is_refused() {
    for (format, refused) in [
        (Format::Avro, &[][..]),
        (Format::Protobuf, &[Framing::AvroSingleObject]),
        (Format::Json, &[Framing::AvroSingleObject]),
        (Format::Debezium, &[Framing::AvroSingleObject]),
        (Format::Dms, &[Framing::AvroSingleObject, Framing::Glue, Framing::Confluent]),
    ] {
        for framing in [Framing::Auto, Framing::Bare, Framing::Glue, Framing::Confluent, Framing::AvroSingleObject] {
            let made = Splitter::new(Settings::new(format, framing));
            assert_eq!(made.is_err(), refused.contains(&framing), "{format:?} {framing:?}");
            assert!(made.err().is_none_or(|error| error.kind() == model::failure::Kind::Misconfigured));
        }
    }
}

fn settings() -> impl Strategy<Value = Settings> {
    let format =
        prop::sample::select(vec![Format::Protobuf, Format::Avro, Format::Json, Format::Dms, Format::Debezium]);
    let framing = prop::sample::select(vec![
        Framing::Auto,
        Framing::Bare,
        Framing::Glue,
        Framing::Confluent,
        Framing::AvroSingleObject,
    ]);
    let made = (format, framing, any::<bool>(), any::<bool>()).prop_map(|(format, framing, plain, json)| Settings {
        indexes: if plain { Indexes::Plain } else { Indexes::Zigzag },
        event_record_format: if json { EventRecordFormat::Json } else { EventRecordFormat::Source },
        inflated_bytes_max: 1000,
        ..Settings::new(format, framing)
    });
    made.prop_filter("a pair that is refused", |settings| Splitter::new(*settings).is_ok())
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    let head = prop::sample::select(vec![vec![], vec![0], vec![3], vec![3, 0], vec![3, 5], vec![0xC3], vec![0xC3, 1]]);
    let body = prop::collection::vec(prop_oneof![any::<u8>(), 0..4_u8], 0..64);
    let compressed = prop::collection::vec(any::<u8>(), 0..2000).prop_map(|bytes| [vec![7; 16], zlib(&bytes)].concat());
    (head, prop_oneof![3 => body, 1 => compressed]).prop_map(|(head, body)| [head, body].concat())
}

proptest! {
    /// Whatever a value holds, it is taken apart or rejected: a payload is the end of it, or at most what it may inflate to.
    #[test]
    fn any_value_is_split_or_rejected(
        settings in settings(),
        values in prop::collection::vec((value(), prop::option::of(value())), 1..8),
        data_format in prop::option::of(prop::sample::select(vec!["AVRO", "PROTOBUF", "JSON", "X"])),
        schema_id in "[0-9]{1,10}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|.{0,4}",
    ) {
        let mut reused = Splitter::new(settings).unwrap();
        for (value, header) in &values {
            let unwrapped = data_format.map(|data_format| Unwrapped { data_format, schema_id: &schema_id });
            let record = Record { value, schema_header: header.as_deref(), unwrapped };
            let alone = split(settings, &record);
            let again = reused.split(&record);
            match (&alone, &again) {
                (Ok((schema, message, payload)), Ok(framed)) => {
                    prop_assert_eq!((schema, message, &payload[..]), (&framed.schema, &framed.message, framed.payload));
                    let inflated = framed.payload.len() <= 1000;
                    prop_assert!(value.ends_with(payload) || inflated);
                }
                (Err(class), Err(rejected)) => prop_assert_eq!(*class, rejected.class),
                _ => prop_assert!(false, "{:?} and {:?}", alone, again),
            }
        }
    }

    /// What is put together here by the rules of each framing comes apart again.
    #[test]
    fn what_is_framed_is_unframed(
        payload in prop::collection::vec(any::<u8>(), 0..300),
        uuid in any::<u128>(),
        number in any::<u32>(),
        places in prop::collection::vec(any::<u16>(), 1..=8),
        compressed in any::<bool>(),
    ) {
        let varint = |out: &mut Vec<u8>, mut n: u32| {
            while n > 0x7F {
                out.push(n as u8 | 0x80);
                n >>= 7;
            }
            out.push(n as u8);
        };
        let mut body = Vec::new();
        varint(&mut body, number);
        body.extend(&payload);
        let body = if compressed { zlib(&body) } else { body };
        let value = [&[3, if compressed { 5 } else { 0 }], &uuid.to_be_bytes()[..], &body].concat();
        let schema = Some(Reference::GlueVersion(Uuid::from_u128(uuid)));
        let expected = Ok((schema, Message::Sorted(number), payload.clone()));
        prop_assert_eq!(split(Settings::new(Format::Protobuf, Framing::Auto), &(&value[..]).into()), expected);

        let mut value = vec![0];
        value.extend((number >> 1).to_be_bytes());
        varint(&mut value, 2 * places.len() as u32);
        places.iter().for_each(|place| varint(&mut value, u32::from(*place) << 1));
        value.extend(&payload);
        let expected = Ok((id(number >> 1), declared(&places), payload));
        prop_assert_eq!(split(Settings::new(Format::Protobuf, Framing::Auto), &(&value[..]).into()), expected);
    }
}
