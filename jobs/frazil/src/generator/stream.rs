//! Employee records one by one, for a real topic: with the shares of late and of repeated records that the examples have.

use std::collections::VecDeque;

use model::id::{Ids, SeededIds};
use serde_json::Value;

use super::employee::Employee;
use super::{LATE_EVERY, LATE_MS, REPEATED_EVERY};

/// How many records later a repeated one comes at most.
const REPEATED_WITHIN: u64 = 10_000;

/// What to generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many records, not counting repeated ones.
    pub records: u64,
    /// Repeats a run, but for the times of its records.
    pub seed: u64,
}

/// What is to be known of a record beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The employee: 0, 1, 2 and so on, each once but for the repeated ones.
    pub id: u32,
    /// Whether it repeats an earlier one, byte for byte.
    pub is_repeated: bool,
    /// Whether its event time is two hours late.
    pub is_late: bool,
}

/// A run, record by record.
#[derive(Debug)]
pub struct Stream {
    options: Options,
    ids: SeededIds,
    made: u64,
    /// Records to be sent again, each once so many were made.
    again: VecDeque<(u64, Employee, bool)>,
}

impl Stream {
    /// A stream at its start.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options, ids: SeededIds::new(options.seed), made: 0, again: VecDeque::new() }
    }

    /// Appends the next record's protobuf bytes; `None` when all were given. `now_ms` is the time it is sent at.
    pub fn next(&mut self, now_ms: i64, value: &mut Vec<u8>) -> Option<Sent> {
        let (employee, sent) = self.drawn(now_ms)?;
        employee.encode(value);
        Some(sent)
    }

    /// The same record as JSON: in the names of its schemas, the time as RFC 3339.
    pub fn next_json(&mut self, now_ms: i64) -> Option<(Value, Sent)> {
        let (employee, sent) = self.drawn(now_ms)?;
        Some((employee.json(), sent))
    }

    fn drawn(&mut self, now_ms: i64) -> Option<(Employee, Sent)> {
        let is_finished = self.made >= self.options.records;
        if self.again.front().is_some_and(|(due, ..)| is_finished || *due <= self.made)
            && let Some((_, employee, is_late)) = self.again.pop_front()
        {
            return Some((employee, Sent { id: employee.id, is_repeated: true, is_late }));
        }
        if is_finished {
            return None;
        }
        let draw = self.ids.next_u64();
        let id = u32::try_from(self.made).unwrap_or(u32::MAX);
        let mut employee = Employee { id, ..Employee::drawn(draw, now_ms) };
        self.made += 1;
        let is_late = self.made % LATE_EVERY == LATE_EVERY / 2;
        if is_late {
            employee.start_ms -= LATE_MS;
        }
        if self.made % REPEATED_EVERY == REPEATED_EVERY / 3 {
            self.again.push_back((self.made + 1 + draw % REPEATED_WITHIN, employee, is_late));
        }
        Some((employee, Sent { id, is_repeated: false, is_late }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_employee_comes_once_and_one_in_five_hundred_again() {
        let all = |seed| {
            let mut stream = Stream::new(Options { records: 20_000, seed });
            let (mut seen, mut bytes) = (Vec::new(), Vec::new());
            while let Some(sent) = stream.next(1_800_000_000_000, &mut bytes) {
                seen.push(sent);
            }
            (seen, bytes)
        };
        let (seen, bytes) = all(1);
        let first: Vec<u32> = seen.iter().filter(|s| !s.is_repeated).map(|s| s.id).collect();
        assert_eq!(first, (0..20_000).collect::<Vec<u32>>());
        let count = |is: fn(&Sent) -> bool| seen.iter().filter(|s| is(s)).count();
        assert_eq!((count(|s| s.is_repeated), count(|s| s.is_late && !s.is_repeated)), (40, 20));
        assert_eq!(all(1), (seen, bytes.clone()));
        assert_ne!(all(2).1, bytes);
    }
}
