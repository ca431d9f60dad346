//! What was sent against what became of it.

use serde::Serialize;

use crate::generator::Sent;
use crate::manners::failure::Failure;
use model::failure::Kind;

/// The two sides, in records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Accounts {
    /// Records generated, redeliveries aside.
    pub(super) records_sent: u64,
    /// Records of events delivered a second time, and records sent a second time.
    pub(super) duplicates_sent: u64,
    /// Records whose event time is two hours late; among `records_sent`.
    pub(super) late_sent: u64,
    /// Records that can't be decoded; among `records_sent`.
    pub(super) bad_sent: u64,
    /// What the table holds.
    pub(super) rows_in_table: u64,
    /// Records that made no second row: objects already staged, offsets already settled, keys already there.
    pub(super) duplicates_dropped: u64,
    /// Records in dead letters.
    pub(super) dead_letters: u64,
    /// Rows that the folds found late, in mode `dedup`; they are in the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) late_found: Option<u64>,
}

impl Accounts {
    pub(super) fn new(sent: Sent) -> Self {
        Self {
            records_sent: sent.records,
            duplicates_sent: sent.duplicates,
            late_sent: sent.late,
            bad_sent: sent.bad,
            ..Self::default()
        }
    }

    /// `records_sent + duplicates_sent = rows_in_table + duplicates_dropped + dead_letters`; each bad record, no other, is a
    /// dead letter; and as many rows were found late as the generator says were.
    ///
    /// # Errors
    /// With both sides, when they differ.
    pub(super) fn check(&self, late_rows: Option<u64>) -> Result<(), Failure> {
        let sent = self.records_sent + self.duplicates_sent;
        let found = self.rows_in_table + self.duplicates_dropped + self.dead_letters;
        let message = if sent != found {
            format!(
                "the accounts do not hold: {} records and {} duplicates were sent, {} rows, {} dropped duplicates and {} \
                 dead letters were found: {sent} against {found}",
                self.records_sent, self.duplicates_sent, self.rows_in_table, self.duplicates_dropped, self.dead_letters
            )
        } else if self.dead_letters != self.bad_sent {
            format!(
                "{} records that can't be decoded were sent, {} dead letters found",
                self.bad_sent, self.dead_letters
            )
        } else if self.late_found != late_rows {
            format!("{late_rows:?} rows were late by their times of sending, {:?} were found late", self.late_found)
        } else {
            return Ok(());
        };
        Err(Failure::new(Kind::Bug, "demo.accounts", message)
            .remedy("the demo's folder is left as it is: please report this with its seed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_accounts_that_hold_pass() {
        let good = Accounts {
            records_sent: 100,
            duplicates_sent: 10,
            bad_sent: 1,
            late_sent: 3,
            rows_in_table: 99,
            duplicates_dropped: 10,
            dead_letters: 1,
            late_found: None,
        };
        assert!(good.check(None).is_ok() && good.check(Some(0)).is_err());
        assert!(Accounts { late_found: Some(3), ..good }.check(Some(3)).is_ok());
        assert!(Accounts { late_found: Some(3), ..good }.check(Some(4)).is_err());
        for wrong in [
            Accounts { rows_in_table: 98, ..good },
            Accounts { rows_in_table: 100, ..good },
            Accounts { duplicates_dropped: 9, ..good },
            Accounts { dead_letters: 2, rows_in_table: 98, ..good },
        ] {
            let failure = wrong.check(None).unwrap_err();
            assert_eq!((failure.code.as_ref(), failure.exit().code()), ("demo.accounts", 1));
        }
    }
}
