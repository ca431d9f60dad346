//! Folds of wide rows under the least memory that a pipeline may be given: the peak is to stay below it whatever a row takes.

use model::clock::{Clock, ManualClock, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;

use super::folding::Order;
use super::{Bench, Ingest};

const TOPIC: &str = "protobuf-demo-topic-pure";
/// The least that `[fold] memory` takes.
const MEMORY_BYTES: u64 = 256 * 1024 * 1024;
/// Of values in an event, as many as Lambda's 6 MB of base64 hold.
const EVENT_BYTES: usize = 4_000_000;
const EVENTS: usize = 60;
/// Bytes of text in a row.
const WIDTHS: [usize; 4] = [200, 1_000, 10_000, 60_000];

pub(super) fn fold() -> Value {
    let modes = [("append", false), ("dedup", true)];
    let cases = modes.iter().flat_map(|mode| WIDTHS.map(|width| (*mode, width)));
    let folds: Vec<Value> = cases
        .map(|((mode, dedup), width)| {
            let start = Timestamp::from_micros(1_767_225_600_000_000);
            let clock = Arc::new(ManualClock::new(start));
            let bench = match dedup {
                true => Bench::deduplicating(clock.clone()),
                false => Bench::with(&|text| text, clock.clone()),
            };
            let ingest = Ingest::new(bench.config()).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let rows = EVENT_BYTES / width;
            for n in 0..EVENTS {
                runtime.block_on(ingest.handle(&event(n * rows, rows, width), None)).unwrap();
            }
            clock.advance_micros(60_000_000);
            let order = Order { folder: &bench.folder, memory_bytes: MEMORY_BYTES, now: clock.now(), seed: 1 };
            let taken = order.carry_out();
            assert_eq!(taken.rows_added, (EVENTS * rows) as u64, "every row enters");
            json!({
                "mode": mode,
                "text_bytes": width,
                "rows": taken.rows(),
                "runs": taken.runs,
                "core_seconds": taken.cores.all(),
                "peak_rss_bytes": taken.peak_rss_bytes,
            })
        })
        .collect();
    json!({ "memory_bytes": MEMORY_BYTES, "folds": folds })
}

/// An event of so many records, each with an address of so many bytes that hardly compresses.
fn event(first: usize, rows: usize, width: usize) -> Vec<u8> {
    let mut state = first as u64 + 1;
    let mut random = || {
        // Weyl sequence through a mixer.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 29)
    };
    let records: Vec<Value> = (first..first + rows)
        .map(|n| {
            let text: String = (0..width.div_ceil(16)).map(|_| format!("{:016x}", random())).collect();
            let mut value = vec![0x08];
            varint(&mut value, n as u64);
            value.push(0x1a);
            varint(&mut value, width as u64);
            value.extend_from_slice(&text.as_bytes()[..width]);
            // Event times a minute apart, so that none of `dedup` is another's.
            let mut at = vec![0x08];
            varint(&mut at, 1_767_225_600 + n as u64 % 3600);
            value.push(0x2a);
            varint(&mut value, at.len() as u64);
            value.extend(at);
            json!({
                "topic": TOPIC, "partition": 0, "offset": n, "timestamp": 1_767_225_600_000_u64,
                "timestampType": "CREATE_TIME", "value": base64_simd::STANDARD.encode_to_string(&value), "headers": [],
            })
        })
        .collect();
    let event = json!({
        "eventSource": "aws:kafka",
        "eventSourceArn": "arn:aws:kafka:eu-west-1:123456789012:cluster/demo/00000000-0000-4000-8000-000000000000-1",
        "bootstrapServers": "b-1:9092",
        "records": { format!("{TOPIC}-0"): records },
    });
    serde_json::to_vec(&event).unwrap()
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
