//! Folds in mode `upsert`: random keys into tables of several sizes, bucketed by key, by position delete files and by writing
//! files anew.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use frazil::generator::{Generator, Options};
use ingest::Ingest;
use model::clock::{Clock, ManualClock, Timestamp};
use serde_json::{Value, json};
use staging::footer::Footer;
use staging::local::LocalStore;
use staging::object::TableRows;
use staging::store::Store;

use super::dedup::{START_MICROS, Stream};
use super::folding::{Order, Taken};
use super::{Bench, staged_of};

const MILLION: i64 = 1_000_000;

/// Numbers that are all over the place, each of `0..of` as likely as another.
fn random(n: i64, of: i64) -> i64 {
    let mixed = (n.cast_unsigned() ^ 0x9e37_79b9).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((mixed ^ (mixed >> 32)) % of.cast_unsigned()).cast_signed()
}

/// The first events' rows, which serve as the form of all others.
fn template() -> (Footer, TableRows) {
    let bench = Bench::new();
    let mut generator = Generator::new(Options { records: 20_000, bad: 0.0, seed: 1, dedup: false });
    let body = generator.next_delivery().unwrap().body;
    let ingest = Ingest::new(bench.config()).unwrap();
    let (footer, rows) = staged_of(&bench, &ingest, &body);
    (footer, rows[0].clone())
}

/// A table of so many million rows, and what folds of a million and of a hundred thousand random keys into it take.
pub(super) fn measure(sizes: &[i64], memory_bytes: u64, beside: Option<&str>) -> Value {
    let (footer, template) = template();
    let of = |write: &str, beside: Option<&str>| -> Value {
        sizes.iter().map(|millions| at(write, *millions, &footer, &template, memory_bytes, beside)).collect()
    };
    json!({
        "schema": "frazil.bench.upsert/1",
        "merge_on_read": of("merge-on-read", beside),
        "copy_on_write": of("copy-on-write", None),
        "target_rows_per_second_per_core": 500_000,
        "memory_bytes": memory_bytes,
        "target_peak_rss_bytes": 2_u64 << 30,
    })
}

/// What another program prints of the table in a folder.
fn told(command: &str, folder: &Path) -> Value {
    let said = Command::new("sh").args(["-c", &format!("{command} \"$0\"")]).arg(folder).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    serde_json::from_slice(&said.stdout).unwrap()
}

fn at(
    write: &str,
    millions: i64,
    footer: &Footer,
    template: &TableRows,
    memory_bytes: u64,
    beside: Option<&str>,
) -> Value {
    let rows = millions * MILLION;
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(START_MICROS)));
    let bench = Bench::upserting(write, clock.clone() as Arc<dyn Clock>);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = Arc::new(LocalStore::open(&bench.folder, clock.clone()).unwrap());
    // Each key once, in no order; then keys at random.
    let odd = 7_368_787;
    let key = move |n: i64| if n < rows { (i128::from(n) * odd % i128::from(rows)) as i64 } else { random(n, rows) };
    let mut stream = Stream::new(&bench, footer, template, Box::new(key));
    let mut fold = |until: i64, seed: i64| -> Taken {
        while stream.next_row < until {
            let (key, body) = stream.object();
            clock.set(key.minute.start());
            runtime.block_on(store.put_new(&key.to_string(), body)).unwrap();
        }
        Order { folder: &bench.folder, memory_bytes, now: clock.now(), seed: seed.cast_unsigned() }.carry_out()
    };
    let made = fold(rows, 1);
    let figures = |taken: &Taken| {
        json!({
            "rows": taken.rows(), "rows_updated": taken.rows_updated, "superseded": taken.superseded,
            "seconds": taken.seconds, "core_seconds": taken.cores.all(), "runs": taken.runs,
            "rows_per_second_per_core": taken.rows_per_second_per_core().round(), "peak_rss_bytes": taken.peak_rss_bytes,
        })
    };
    let beside = beside.map(|command| told(command, &bench.folder));
    let hundred_thousand = fold(rows + MILLION / 10, 2);
    let million = fold(rows + MILLION / 10 + MILLION, 3);
    assert_eq!(million.rows_added, 0, "every key is in the table");
    json!({
        "rows_in_table": made.rows_added,
        "made": figures(&made),
        "of_100_000_keys": figures(&hundred_thousand),
        "of_a_million_keys": figures(&million),
        "beside": beside,
    })
}
