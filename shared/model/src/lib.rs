//! The words of the exactly-once protocol, as values: coordinates, intervals, coverage, verdicts, the ledger,
//! settlements, failure kinds, and the seedable clock and ids that everything else takes its time and chance from.
//!
//! Entry points: [`verdict::judge`] decides, from a ledger and the coverage of staged objects, which coordinates enter a
//! table now; [`ledger::Ledger::settle`] turns that judgement into the next ledger.
//!
//! This crate never does I/O, never sees Arrow or AWS, and reads the machine's clock only in [`clock::SystemClock`].

pub mod clock;
pub mod coordinate;
pub mod coverage;
pub mod failure;
pub mod id;
pub mod interval;
pub mod ledger;
pub mod mutation;
pub mod run;
pub mod secret;
pub mod settlement;
pub mod stored;
pub mod verdict;
pub mod watermark;
