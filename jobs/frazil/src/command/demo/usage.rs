//! What a run costs of the machine: time on the clock, time of cores, memory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// Time spent on one kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// On the clock, waiting for the disk included.
    pub(super) clock: Duration,
    /// On cores, over all threads of the process.
    pub(super) cores: Duration,
}

/// The start of a piece of work.
#[derive(Clone, Debug)]
pub(super) struct Started {
    clock: Instant,
    threads: Option<Threads>,
}

impl Started {
    #[expect(clippy::disallowed_methods, reason = "a duration that is shown to a person, and nothing else")]
    pub(super) fn now() -> Self {
        Self { clock: Instant::now(), threads: threads() }
    }
}

impl Spent {
    /// Adds the time since a start. Where the system does not tell the time on cores, the clock's stands in: the work is
    /// done by one thread at a time.
    pub(super) fn add_since(&mut self, started: &Started) {
        let clock = started.clock.elapsed();
        let cores = started.threads.as_ref().zip(threads()).map(|(before, after)| between(before, &after));
        self.clock += clock;
        self.cores += cores.unwrap_or(clock);
    }

    /// How many a second of one core's time.
    pub(super) fn per_second_per_core(&self, count: u64) -> u64 {
        if self.cores.is_zero() { 0 } else { (count as f64 / self.cores.as_secs_f64()).round() as u64 }
    }
}

/// The time each thread of the process has been on cores, in nanoseconds, by thread id.
type Threads = BTreeMap<OsString, u64>;

/// From Linux's `/proc/self/task/*/schedstat`, whose first figure it is.
fn threads() -> Option<Threads> {
    let mut threads = Threads::new();
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let task = task.ok()?;
        // A thread may end between the listing and the look.
        let Ok(text) = std::fs::read_to_string(task.path().join("schedstat")) else { continue };
        threads.insert(task.file_name(), text.split_whitespace().next()?.parse().ok()?);
    }
    (!threads.is_empty()).then_some(threads)
}

/// Thread by thread: one that has ended in between must not take its earlier work out of the difference.
fn between(before: &Threads, after: &Threads) -> Duration {
    let nanos = after.iter().map(|(id, nanos)| nanos.saturating_sub(before.get(id).copied().unwrap_or(0)));
    Duration::from_nanos(nanos.fold(0, u64::saturating_add))
}

/// The most memory this process ever held, in bytes, where the system tells: `VmHWM` of Linux's `/proc/self/status`.
pub(super) fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    peak(&status)
}

fn peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_read_where_it_is_told() {
        assert_eq!(peak("Name:\tx\nVmPeak:\t 9 kB\nVmHWM:\t  1024 kB\n"), Some(1_048_576));
        assert_eq!(peak("Name:\tx\n"), None);
        assert_eq!(peak("VmHWM:\tmany kB\n"), None);
    }

    #[test]
    fn a_thread_that_ended_takes_nothing_away() {
        let threads = |list: &[(&str, u64)]| list.iter().map(|(id, nanos)| (OsString::from(id), *nanos)).collect();
        let before = threads(&[("1", 100), ("2", 9000)]);
        let after = threads(&[("1", 150), ("3", 7)]);
        assert_eq!(between(&before, &after), Duration::from_nanos(57));
    }

    #[test]
    fn speeds_never_divide_by_nothing() {
        let spent = |seconds| Spent { clock: Duration::from_secs(9), cores: Duration::from_secs(seconds) };
        assert_eq!((spent(0).per_second_per_core(10), spent(2).per_second_per_core(10)), (0, 5));
    }
}
