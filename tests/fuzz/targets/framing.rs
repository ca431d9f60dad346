//! The splitter takes any values one after the other: a payload, or a clear refusal, and the same as by itself.

#![no_main]

use codec::framing::{EventRecordFormat, Record, Settings, Splitter, Unwrapped};
use libfuzzer_sys::fuzz_target;
use pipeline::resolved::{Format, Framing, Indexes};

const FORMATS: [Format; 5] = [Format::Protobuf, Format::Avro, Format::Json, Format::Dms, Format::Debezium];
const FRAMINGS: [Framing; 5] =
    [Framing::Auto, Framing::Bare, Framing::Glue, Framing::Confluent, Framing::AvroSingleObject];
const INFLATED_BYTES_MAX: usize = 1 << 16;

/// A length and that many bytes, or what there is.
fn piece<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let Some((length, after)) = rest.split_first() else { return &[] };
    let (piece, after) = after.split_at(usize::from(*length).min(after.len()));
    *rest = after;
    piece
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[format, framing, flags], mut rest)) = bytes.split_first_chunk() else { return };
    let settings = Settings {
        indexes: if flags & 1 == 0 { Indexes::Zigzag } else { Indexes::Plain },
        event_record_format: if flags & 2 == 0 { EventRecordFormat::Source } else { EventRecordFormat::Json },
        inflated_bytes_max: INFLATED_BYTES_MAX,
        ..Settings::new(FORMATS[usize::from(format) % 5], FRAMINGS[usize::from(framing) % 5])
    };
    let Ok(mut reused) = Splitter::new(settings) else { return };
    let schema_id = if flags & 4 == 0 { None } else { Some(String::from_utf8_lossy(piece(&mut rest)).into_owned()) };
    let unwrapped = schema_id.as_deref().map(|schema_id| Unwrapped {
        data_format: ["AVRO", "PROTOBUF", "JSON", ""][usize::from(flags >> 4) % 4],
        schema_id,
    });
    while !rest.is_empty() {
        let value = piece(&mut rest);
        let schema_header = (flags & 8 != 0).then(|| piece(&mut rest));
        let record = Record { value, schema_header, unwrapped };
        let mut alone = Splitter::new(settings).unwrap();
        let reference = alone.reference(&record);
        let (one, other) = (alone.split(&record), reused.split(&record));
        match (one, other) {
            (Ok(one), Ok(other)) => {
                assert_eq!((one.schema, one.message, one.payload), (other.schema, other.message, other.payload));
                assert_eq!(reference, Ok(one.schema));
                assert!(one.payload.len() <= value.len().max(INFLATED_BYTES_MAX));
            }
            (Err(one), Err(other)) => assert_eq!(one, other),
            (one, other) => panic!("{one:?} and {other:?}"),
        }
    }
});
