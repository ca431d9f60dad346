//! The event reader takes any bytes: an event, or a clear refusal.

#![no_main]

use ingest::event::{Event, Reader};
use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;

/// Everything an event says, so that every accessor is walked.
fn walk(event: &Event<'_>) -> Vec<String> {
    let records = event.records().map(|r| {
        let headers: Vec<_> = r.headers().collect();
        format!(
            "{}-{}@{} {:?} {:?} {:?} {:?} {headers:?} {:?} {:?}",
            r.topic(),
            r.partition(),
            r.offset(),
            r.timestamp_ms(),
            r.timestamp_type(),
            r.key(),
            r.value(),
            r.key_schema(),
            r.value_schema(),
        )
    });
    let records: Vec<String> = records.collect();
    assert_eq!(records.len(), event.len());
    assert_eq!(event.partitions().map(|p| p.records().len()).sum::<usize>(), event.len());
    records
}

fuzz_target!(|body: &[u8]| {
    let mut reader = Reader::new();
    let Ok(first) = reader.read(body).map(|event| walk(&event)) else { return };
    // A reader that has read something else before reads the same.
    drop(reader.read(b"{\"eventSource\":\"aws:kafka\",\"records\":{\"t-0\":[{\"topic\":\"t\""));
    let again = reader.read(body).map(|event| walk(&event));
    assert_eq!(again.as_ref(), Ok(&first));
    // What is read as an event is JSON to an independent reader too; only how deep they follow differs.
    if let Err(fault) = serde_json::from_slice::<IgnoredAny>(body) {
        assert!(fault.to_string().contains("recursion limit"), "{fault}");
    }
});
