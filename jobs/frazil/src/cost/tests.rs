//! The formulas against examples that were worked out by hand, and what must hold of any estimate.

use model::id::{Ids, SeededIds};

use super::inputs::{Architecture, Polling};
use super::prices::REGION;
use super::*;

fn prices() -> Prices {
    Prices::with(REGION, &[]).unwrap()
}

fn line<'a>(estimate: &'a Estimate, part: Part, name: &str) -> &'a Line {
    estimate.lines.iter().find(|line| line.part == part && line.name == name).unwrap()
}

/// Quantity and dollars of a line, each to nine digits.
fn check(estimate: &Estimate, part: Part, name: &str, quantity: f64, dollars: f64) {
    let line = line(estimate, part, name);
    let close = |a: f64, b: f64| (a - b).abs() <= b.abs() * 1e-9;
    assert!(close(line.quantity, quantity), "{name}: {} and not {quantity}: {}", line.quantity, line.formula);
    assert!(
        close(line.dollars_per_month, dollars),
        "{name}: {} and not {dollars}: {}",
        line.dollars_per_month,
        line.formula
    );
}

/// 100,000 records a second of 86 bytes, everything round: 2,628,000 seconds of a month.
#[test]
fn full_batches_cost_what_was_worked_out_by_hand() {
    let inputs = Inputs {
        memory_mb: 1024,
        ingest_ms: 8.0,
        fold_ms: 10.0,
        put_ms: 50.0,
        folds_per_hour: 12.0,
        files_per_fold: 2,
        staged_bytes: Some(20.0),
        retention_hours: 73.0,
        ..Inputs::of(100_000.0, 86.0)
    };
    let estimate = estimate(&inputs, &prices()).unwrap();
    // 100,000 ÷ 10,000 = 10 invocations a second. 86 bytes are 29 × 4 + 150 = 266 in an event: 10,000 of them are 2.66 MB.
    assert_eq!((estimate.records_per_invocation, estimate.invocations_per_second), (10_000.0, 10.0));
    assert_eq!(estimate.records_per_month, 262_800_000_000.0);
    let invocations = 26_280_000.0;
    check(&estimate, Part::Ingest, "Lambda requests", invocations, 5.256);
    // Of an invocation: 8 ms × 1769 ÷ 1024 and 50 ms, with one gigabyte.
    let seconds = invocations * (0.008 * 1769.0 / 1024.0 + 0.05);
    check(&estimate, Part::Ingest, "Lambda compute", seconds, seconds * 0.000_013_333_4);
    check(&estimate, Part::Ingest, "S3 PUT", invocations, 131.4);
    // 100,000 × 3,600 × 73 × 20 bytes = 525.6 GB.
    check(&estimate, Part::Ingest, "S3 storage", 525.6, 525.6 * 0.023);
    let folds = 8760.0;
    check(&estimate, Part::Fold, "EventBridge Scheduler", folds, 0.008_76);
    check(&estimate, Part::Fold, "Lambda requests", folds, 0.001_752);
    // A fold has 30 million rows in two files of 300 MB: 36 parts and 2 requests each, 76 PUTs. With two notes, and settlement,
    // manifest, manifest list, metadata file, and a hundredth of a merged manifest: 82.01.
    check(&estimate, Part::Fold, "S3 PUT", folds * 82.01, folds * 82.01 * 0.000_005);
    // Objects of 25 minutes: 15,000 are 15 pages, twice.
    check(&estimate, Part::Fold, "S3 LIST", folds * 30.0, folds * 30.0 * 0.000_005);
    // 3,000 objects twice; the pause, the last note; metadata, manifest list, 5 settlements, a manifest.
    let gets = 6000.0 + 2.0 + 8.0;
    check(&estimate, Part::Fold, "S3 GET", folds * gets, folds * gets * 0.000_000_4);
    check(&estimate, Part::Fold, "Glue requests", folds * 3.0, folds * 3.0 * 0.000_001);
    // 30 million rows are 30 s. In turn go 82.01 PUTs, 10 GETs, 30 LISTs and 3,000 ÷ 32 = 94 rounds of footers.
    let seconds = folds * (30.0 + (82.01 + 10.0 + 30.0 + 94.0) * 0.05) * 1769.0 / 1024.0;
    check(&estimate, Part::Fold, "Lambda compute", seconds, seconds * 0.000_013_333_4);
    check(&estimate, Part::Maintain, "S3 GET", invocations, 10.512);
    // 97 hours of 36,000 objects are 3,492 pages.
    let lists = 3492.0 * 730.0 / 24.0;
    check(&estimate, Part::Maintain, "S3 LIST", lists, lists * 0.000_005);
    let logs = (invocations + folds) * 800.0 / 1e9;
    check(&estimate, Part::Watch, "CloudWatch logs", logs, logs * 0.5);
    check(&estimate, Part::Watch, "CloudWatch metrics", 6.0, 1.8);
    // 8.6 MB/s take two pollers: one unit.
    check(&estimate, Part::Pollers, "event poller units", 730.0, 135.05);
    check(&estimate, Part::Pollers, "interface endpoints", 0.0, 0.0);
    check(&estimate, Part::Pollers, "data through endpoints", 0.0, 0.0);
}

/// The project's claim, with the defaults: a billion messages of 86 bytes for less than a dollar, however Kafka is polled. Of it the PUTs
/// of ingest are half a dollar, which nothing can lower: Lambda's events have 10,000 records at most.
#[test]
fn a_billion_messages_cost_less_than_a_dollar() {
    let estimate = estimate(&Inputs::of(100_000.0, 86.0), &prices()).unwrap();
    let without = estimate.dollars_per_billion_records_without_pollers;
    assert!(without < 1.0, "{without}");
    let put = line(&estimate, Part::Ingest, "S3 PUT").dollars_per_billion_records;
    assert!((put - 0.5).abs() < 1e-9, "{put}");
}

#[test]
fn small_batches_are_made_by_the_window_and_by_nothing_else_than_records() {
    let rates = |inputs: &Inputs| {
        let estimate = estimate(inputs, &prices()).unwrap();
        (estimate.invocations_per_second, estimate.records_per_invocation)
    };
    let small = Inputs::of(1000.0, 100.0);
    // One poller, one event in 5 s.
    assert_eq!(rates(&small), (0.2, 5000.0));
    assert_eq!(rates(&Inputs { pollers: 4, ..small.clone() }), (0.8, 1250.0));
    // Without a window as fast as PUTs are answered: 5 at once, 50 ms each.
    assert_eq!(rates(&Inputs { window_seconds: 0.0, ..small.clone() }), (100.0, 10.0));
    // No invocation without a record.
    assert_eq!(rates(&Inputs { records_per_second: 0.1, ..small.clone() }), (0.1, 1.0));
    assert_eq!(rates(&Inputs { records_per_invocation: Some(250), ..small.clone() }), (4.0, 250.0));
    // 90,000 bytes are 120,150 in an event: 49 in six megabytes.
    let large = Inputs { record_bytes: 90_000.0, ..small };
    assert_eq!(rates(&large).1, 49.0);
}

#[test]
fn pollers_are_as_many_as_the_rate_takes_and_partitions_allow() {
    let units = |inputs: &Inputs| {
        let estimate = estimate(inputs, &prices()).unwrap();
        (line(&estimate, Part::Pollers, "event poller units").quantity / MONTH_HOURS, estimate.warnings.join("; "))
    };
    // 60 MB/s: 12 pollers are two units, and 60 MB/s three.
    let fast = Inputs::of(60_000.0, 1000.0);
    assert_eq!(units(&fast).0, 3.0);
    let (capped, warnings) = units(&Inputs { partitions: Some(4), ..fast.clone() });
    assert_eq!(capped, 3.0);
    assert!(warnings.contains("12 pollers and the partitions allow 4"), "{warnings}");
    assert_eq!(units(&Inputs { pollers: 45, ..fast.clone() }).0, 5.0);
    assert_eq!(units(&Inputs { polling: Polling::OnDemand, ..fast }).0, 0.0);
}

#[test]
fn on_demand_pollers_take_endpoints_and_every_event_goes_through_one() {
    let inputs = Inputs { polling: Polling::OnDemand, ..Inputs::of(1000.0, 99.0) };
    let endpoints = estimate(&inputs, &prices()).unwrap();
    check(&endpoints, Part::Pollers, "interface endpoints", 4380.0, 43.8);
    // 99 bytes are 132 + 150 in an event.
    let gb = 2_628_000_000.0 * 282.0 / 1e9;
    check(&endpoints, Part::Pollers, "data through endpoints", gb, gb * 0.01);
    let without = estimate(&Inputs { endpoints: Some(0), ..inputs }, &prices()).unwrap();
    check(&without, Part::Pollers, "data through endpoints", 0.0, 0.0);
}

#[test]
fn what_is_known_to_be_unconfirmed_or_too_slow_is_said() {
    let said = |inputs: &Inputs| estimate(inputs, &prices()).unwrap().warnings.join("\n");
    let arm = said(&Inputs::of(1000.0, 86.0));
    assert!(arm.contains("lambda-gb-second-arm64") && !arm.contains("x86") && !arm.contains("s3-put"), "{arm}");
    let x86 = said(&Inputs { architecture: Architecture::X86, ..Inputs::of(1000.0, 86.0) });
    assert!(x86.contains("lambda-gb-second-x86"), "{x86}");
    let slow = said(&Inputs::of(2_000_000.0, 86.0));
    assert!(slow.contains("can't keep up"), "{slow}");
    let rare = said(&Inputs { folds_per_hour: 0.1, ..Inputs::of(100_000.0, 86.0) });
    assert!(rare.contains("ends it after 900 s"), "{rare}");
}

#[test]
fn inputs_that_do_not_go_together_are_refused() {
    let fault = |inputs: &Inputs| estimate(inputs, &prices()).unwrap_err().code();
    let inputs = Inputs::of(1000.0, 86.0);
    assert_eq!(fault(&Inputs { record_bytes: 4_500_000.0, ..inputs.clone() }), "cost.record_bytes");
    assert_eq!(fault(&Inputs { record_bytes: 1e9, ..inputs.clone() }), "cost.record_bytes");
    let many = Some(101);
    assert_eq!(
        fault(&Inputs { records_per_invocation: many, batch: 100, ..inputs.clone() }),
        "cost.records_per_invocation"
    );
    let large = Inputs { record_bytes: 90_000.0, ..inputs.clone() };
    assert_eq!(fault(&Inputs { records_per_invocation: many, ..large }), "cost.records_per_invocation");
    assert_eq!(fault(&Inputs { pollers: 9, partitions: Some(8), ..inputs }), "cost.pollers");
}

/// Inputs within the command line's bounds.
fn any(ids: &SeededIds) -> Inputs {
    let one_of = |choices: &[f64]| choices[(ids.next_u64() % choices.len() as u64) as usize];
    let up_to = |most: u64| 1 + ids.next_u64() % most;
    let some = |value: u64| (ids.next_u64().is_multiple_of(2)).then_some(value);
    let record_bytes = one_of(&[1.0, 86.0, 250.0, 5000.0, 300_000.0, 4_000_000.0]);
    let rate = 10_f64.powf((ids.next_u64() % 12_000) as f64 / 1000.0 - 3.0);
    let pollers = up_to(40);
    Inputs {
        partitions: some(pollers + up_to(100)),
        batch: up_to(10_000),
        window_seconds: one_of(&[0.0, 0.5, 1.0, 5.0, 300.0]),
        architecture: if ids.next_u64().is_multiple_of(2) { Architecture::Arm64 } else { Architecture::X86 },
        memory_mb: 128 + ids.next_u64() % 10_000,
        fold_memory_mb: 128 + ids.next_u64() % 10_000,
        put_ms: one_of(&[0.001, 20.0, 50.0, 5000.0]),
        ingest_ms: one_of(&[0.001, 8.0, 900.0]),
        fold_ms: one_of(&[0.001, 12.0, 900.0]),
        folds_per_hour: one_of(&[0.004, 1.0, 12.0, 60.0, 3600.0]),
        tables: up_to(5),
        files_per_fold: up_to(100),
        staged_bytes: some(up_to(1000)).map(|bytes| bytes as f64),
        retention_hours: one_of(&[0.01, 24.0, 168.0, 100_000.0]),
        polling: if ids.next_u64().is_multiple_of(2) { Polling::Provisioned } else { Polling::OnDemand },
        pollers,
        endpoints: some(up_to(10)),
        metrics: up_to(10) - 1,
        ..Inputs::of(rate, record_bytes)
    }
}

#[test]
fn lines_add_up_and_more_records_never_cost_less() {
    let prices = prices();
    for seed in 0..4000 {
        let inputs = any(&SeededIds::new(seed));
        let bill = estimate(&inputs, &prices).unwrap();
        let close = |a: f64, b: f64| (a - b).abs() <= a.abs().max(b.abs()) * 1e-9;
        let sum = |of: fn(&Line) -> f64| bill.lines.iter().map(of).sum::<f64>();
        assert!(close(sum(|line| line.dollars_per_month), bill.dollars_per_month), "seed {seed}");
        assert!(close(sum(|line| line.dollars_per_billion_records), bill.dollars_per_billion_records), "seed {seed}");
        assert!(bill.lines.iter().all(|line| line.dollars_per_month.is_finite() && line.dollars_per_month >= 0.0));
        assert!(bill.records_per_invocation >= 1.0 - 1e-9 && bill.records_per_invocation <= inputs.batch as f64 + 1e-6);
        let mut last = bill;
        for more in [1.0001, 1.3, 2.0, 10.0, 1000.0] {
            let more = Inputs { records_per_second: inputs.records_per_second * more, ..inputs.clone() };
            let next = estimate(&more, &prices).unwrap();
            let least = last.dollars_per_month * (1.0 - 1e-12);
            assert!(
                next.dollars_per_month >= least,
                "seed {seed}: {} records/s: {} after {}: {:#?} {:#?}",
                more.records_per_second,
                next.dollars_per_month,
                last.dollars_per_month,
                next.lines,
                last.lines
            );
            last = next;
        }
    }
}

#[test]
fn a_formula_has_the_numbers_that_its_amount_is_made_of() {
    let estimate = estimate(&Inputs::of(100_000.0, 86.0), &prices()).unwrap();
    assert_eq!(
        line(&estimate, Part::Ingest, "Lambda requests").formula,
        "100,000 records/s ÷ 10,000 records an invocation has room for = 10 a second; × 2,628,000 s = 26,280,000 requests; × $0.2 ÷ \
         1,000,000 = $5.26"
    );
    assert_eq!(
        line(&estimate, Part::Ingest, "S3 PUT").formula,
        "26,280,000 invocations × 1 = 26,280,000 PUTs; × $0.005 ÷ 1,000 = $131.40"
    );
    let given = |name: &str| estimate.inputs.iter().find(|input| input.name == name).unwrap().from;
    assert_eq!((given("record-bytes"), given("batch")), ("given", "the most that Lambda takes"));
}
