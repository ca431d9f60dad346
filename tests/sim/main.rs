//! The real ingest, fold and maintenance on a simulated Kafka, object store and catalog, with everything going wrong that
//! one seed decides. A judge outside the code holds every acknowledged record to the invariants I1 to I5.
//!
//! `sim --seeds N [--from S]` lives through N histories and ends with a line of counts; a history that goes wrong is made
//! as small as it goes, and the command that repeats it is printed. Further:
//! `--without a,b` leaves kinds of faults out; `--minutes M` says how long records are sent; `--tables one` and `--tables many`
//! leave the other kind of pipeline out; `--trace` prints all that
//! happens; `--mode upsert` leaves the other modes out; `--same N` lives through the first N histories twice and compares their traces. Built with the feature
//! `mutations`: `--mutation NAME` does one step of the protocol wrong, `--mutations` does so with one after the other and
//! prints what found each.

#![expect(
    clippy::disallowed_methods,
    reason = "it reads its arguments, shows how long it took, and its tasks are its own"
)]
#![expect(clippy::print_stdout, reason = "it is a program")]
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a simulation that can't be set up ends")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crate::fault::Fault;
use crate::history::{Chosen, Outcome};
use crate::world::Many;

mod catalog;
mod fault;
mod files;
mod folds;
mod foreign;
mod history;
mod kafka;
mod mapping;
mod oracle;
mod store;
mod world;

// A quarter of its time went into the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Histories when nothing is asked for: what the suite runs.
const SEEDS_DEFAULT: u64 = 40;
/// Histories within which each mutation must be found.
#[cfg(feature = "mutations")]
const MUTATION_SEEDS: u64 = 1000;
/// How long one violating history is made smaller.
const SMALLER_SECONDS: u64 = 60;
/// Violating histories that are made smaller and printed.
const SHOWN_MAX: usize = 3;

#[derive(Debug)]
struct Asked {
    seeds: u64,
    from: u64,
    same: u64,
    without: BTreeSet<Fault>,
    minutes: Option<u64>,
    many: Many,
    upsert: bool,
    trace: bool,
    mutation: Option<String>,
    mutations: bool,
}

fn asked() -> Result<Option<Asked>, String> {
    let mut asked = Asked {
        seeds: SEEDS_DEFAULT,
        from: 1,
        same: 5,
        without: BTreeSet::new(),
        minutes: None,
        many: Many::Drawn,
        upsert: false,
        trace: false,
        mutation: None,
        mutations: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} wants a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
        match argument.as_str() {
            "--seeds" => asked.seeds = number(value()?)?,
            "--from" => asked.from = number(value()?)?,
            "--same" => asked.same = number(value()?)?,
            "--minutes" => asked.minutes = Some(number(value()?)?),
            "--without" => {
                for name in value()?.split(',').filter(|name| !name.is_empty()) {
                    asked.without.insert(Fault::of(name).ok_or_else(|| format!("there is no fault {name}"))?);
                }
            }
            "--tables" => {
                asked.many = match value()?.as_str() {
                    "one" => Many::Never,
                    "many" => Many::Always,
                    other => return Err(format!("--tables takes one or many, not {other}")),
                };
            }
            "--mode" => {
                asked.upsert = match value()?.as_str() {
                    "upsert" => true,
                    other => return Err(format!("--mode takes upsert, not {other}")),
                };
            }
            "--trace" => asked.trace = true,
            "--mutation" => asked.mutation = Some(value()?),
            "--mutations" => asked.mutations = true,
            // What cargo hands to every test program.
            "--quiet" | "-q" | "--nocapture" => {}
            // A filter that asks for other tests.
            other if !other.starts_with('-') => {
                if !"sim".contains(other) {
                    return Ok(None);
                }
            }
            other => return Err(format!("{other} is not known")),
        }
    }
    Ok(Some(asked))
}

fn main() -> ExitCode {
    let asked = match asked() {
        Ok(Some(asked)) => asked,
        Ok(None) => return ExitCode::SUCCESS,
        Err(fault) => {
            println!("sim: {fault}");
            return ExitCode::from(2);
        }
    };
    match (&asked.mutation, asked.mutations) {
        (None, false) => simulate(&asked),
        (Some(name), false) => match mutation::choose(name) {
            Ok(()) => simulate(&asked),
            Err(fault) => {
                println!("sim: {fault}");
                ExitCode::from(2)
            }
        },
        (_, true) => mutation::all(&asked),
    }
}

/// What many histories come to.
#[derive(Debug, Default)]
struct Sum {
    histories: u64,
    records: i64,
    folds: u64,
    /// Histories with many tables, and such tables.
    many: u64,
    tables: u64,
    faults: BTreeMap<Fault, u64>,
    /// Those that hold too little.
    thin: u64,
    violating: Vec<(u64, Outcome)>,
}

impl Sum {
    fn add(&mut self, seed: u64, outcome: Outcome) {
        self.histories += 1;
        self.records += outcome.records;
        self.folds += outcome.folds;
        self.many += u64::from(outcome.tables > 0);
        self.tables += outcome.tables;
        let faults: u64 = outcome.faults.values().sum();
        if faults < history::FAULTS_MIN || outcome.folds < history::FOLDS_MIN {
            self.thin += 1;
        }
        for (fault, times) in &outcome.faults {
            *self.faults.entry(*fault).or_default() += times;
        }
        if !outcome.violations.is_empty() {
            self.violating.push((seed, outcome));
        }
    }
}

/// Lives through histories on all cores; ends early once one goes wrong, where that is wanted.
fn histories(asked: &Asked, seeds: u64, first_only: bool) -> Sum {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let sum = Mutex::new(Sum::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= seeds || stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let seed = asked.from + n;
                    let outcome = history::run(&chosen(asked, seed));
                    if first_only && !outcome.violations.is_empty() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    sum.lock().expect("no thread panics").add(seed, outcome);
                }
            });
        }
    });
    sum.into_inner().expect("no thread panics")
}

fn chosen(asked: &Asked, seed: u64) -> Chosen {
    Chosen { seed, without: asked.without.clone(), minutes: asked.minutes, many: asked.many, upsert: asked.upsert }
}

fn simulate(asked: &Asked) -> ExitCode {
    let started = Instant::now();
    for seed in (asked.from..).take(usize::try_from(asked.same.min(asked.seeds)).unwrap_or(0)) {
        let (one, again) = (history::run(&chosen(asked, seed)), history::run(&chosen(asked, seed)));
        let differing = one.trace.iter().zip(&again.trace).position(|(a, b)| a != b);
        if differing.is_some() || one.trace.len() != again.trace.len() {
            println!("seed {seed} does not repeat itself: line {differing:?}");
            if let Some(line) = differing {
                let from = line.saturating_sub(10);
                println!("{}\nand\n{}", one.trace[from..=line].join("\n"), again.trace[line]);
            }
            return ExitCode::FAILURE;
        }
        if asked.trace {
            println!("{}", one.trace.join("\n"));
        }
    }
    let mut sum = histories(asked, asked.seeds, false);
    sum.violating.sort_by_key(|(seed, _)| *seed);
    for (seed, outcome) in sum.violating.iter().take(SHOWN_MAX) {
        for violation in &outcome.violations {
            println!("seed {seed}: {}: {}", violation.invariant, violation.what);
        }
        // Who reads the trace has it small already, or wants it whole.
        if !asked.trace {
            println!("  {}", smaller(asked, *seed, outcome));
        }
    }
    if sum.violating.len() > SHOWN_MAX {
        let seeds: Vec<String> = sum.violating.iter().map(|(seed, _)| seed.to_string()).collect();
        println!("violated: {}", seeds.join(" "));
    }
    let faults: Vec<String> = sum.faults.iter().map(|(fault, times)| format!("{} {times}", fault.name())).collect();
    println!("faults: {}", faults.join(", "));
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{} histories from {} ({} with many tables, {} in all): {} records, {} folds committed, {} faults, {} thin, {} violated, {seconds:.0} s ({:.1} s a thousand)",
        sum.histories,
        asked.from,
        sum.many,
        sum.tables,
        sum.records,
        sum.folds,
        sum.faults.values().sum::<u64>(),
        sum.thin,
        sum.violating.len(),
        seconds * 1000.0 / sum.histories.max(1) as f64,
    );
    if sum.violating.is_empty() && sum.thin == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The command that repeats a violation, with as few kinds of faults and minutes as still show it.
fn smaller(asked: &Asked, seed: u64, outcome: &Outcome) -> String {
    let wanted: BTreeSet<&str> = outcome.violations.iter().map(|v| v.invariant).collect();
    let shows = |chosen: &Chosen| {
        let violations = history::run(chosen).violations;
        violations.iter().any(|violation| wanted.contains(violation.invariant))
    };
    let mut least = chosen(asked, seed);
    let started = Instant::now();
    for fault in outcome.faults.keys() {
        // A history that comes to no end is long.
        if started.elapsed().as_secs() > SMALLER_SECONDS {
            break;
        }
        let mut fewer = least.clone();
        fewer.without.insert(*fault);
        if shows(&fewer) {
            least = fewer;
        }
    }
    for minutes in [1, 2, 3, 5, 8, 12, 18, 25] {
        let shorter = Chosen { minutes: Some(minutes), ..least.clone() };
        if least.minutes.is_none_or(|now| minutes < now) && shows(&shorter) {
            least = shorter;
            break;
        }
    }
    let without: Vec<&str> = least.without.iter().map(|fault| fault.name()).collect();
    let mut command = format!("./test sim --seeds 1 --from {seed} --trace");
    if !without.is_empty() {
        command.push_str(&format!(" --without {}", without.join(",")));
    }
    if least.upsert {
        command.push_str(" --mode upsert");
    }
    match least.many {
        Many::Drawn => {}
        Many::Always => command.push_str(" --tables many"),
        Many::Never => command.push_str(" --tables one"),
    }
    if let Some(minutes) = least.minutes {
        command.push_str(&format!(" --minutes {minutes}"));
    }
    command
}

#[cfg(feature = "mutations")]
mod mutation {
    use std::process::ExitCode;

    use model::mutation::{self, Mutation};

    use super::{Asked, MUTATION_SEEDS, histories};

    /// Does one step wrong from now on.
    pub(super) fn choose(name: &str) -> Result<(), String> {
        let found = Mutation::ALL.iter().find(|mutation| mutation.name() == name);
        mutation::choose(Some(*found.ok_or_else(|| format!("there is no mutation {name}"))?));
        Ok(())
    }

    /// One after the other, and what found each.
    pub(super) fn all(asked: &Asked) -> ExitCode {
        println!("{:<28} {:<12} histories until found", "mutation", "found by");
        let mut escaped = 0;
        for wrong in Mutation::ALL {
            mutation::choose(Some(*wrong));
            let sum = histories(asked, MUTATION_SEEDS, true);
            let first = sum.violating.iter().min_by_key(|(seed, _)| *seed);
            match first {
                Some((seed, outcome)) => {
                    // Violations come in order of their invariants.
                    let mut found: Vec<&str> = outcome.violations.iter().map(|v| v.invariant).collect();
                    found.dedup();
                    println!("{:<28} {:<12} {}", wrong.name(), found.join(" "), seed - asked.from + 1);
                }
                None => {
                    escaped += 1;
                    println!("{:<28} {:<12} not within {MUTATION_SEEDS}", wrong.name(), "nothing");
                }
            }
        }
        mutation::choose(None);
        println!("{} mutations, {escaped} escaped", Mutation::ALL.len());
        if escaped == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[cfg(not(feature = "mutations"))]
mod mutation {
    use std::process::ExitCode;

    use super::Asked;

    const MISSING: &str = "it was built without the feature `mutations`";

    pub(super) fn choose(_: &str) -> Result<(), String> {
        Err(MISSING.to_owned())
    }

    pub(super) fn all(_: &Asked) -> ExitCode {
        println!("sim: {MISSING}");
        ExitCode::from(2)
    }
}
