//! From planned objects to stored ones: dead letters first, then the staged object, and nothing acknowledged before.

use std::time::Duration;

use model::clock::{Minute, Timestamp};
use model::failure::Kind;
use model::mutation::{self, Mutation};
use runtime::deadline::Deadline;
use staging::store::Put;

use crate::{Error, Ingest, Outcome, Planned, Staged};

/// How long an invocation without a deadline may try: a person waits at a terminal.
const DEADLINE_DEFAULT: Duration = Duration::from_secs(60);
/// The first wait before a repeated put.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
/// The longest wait between two puts: long enough for a throttled store, short against a function's minutes.
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// The most puts of one object. The deadline normally ends the trying long before; this holds where a clock stands still.
const ATTEMPTS_MAX: u32 = 200;
/// The most minutes an invocation may be written under. Each costs five minutes or more, and a function has fourteen.
const MINUTES_MAX: u32 = 8;
/// How far the store's time may be past the start of the key's minute. A fold lists from a minute long gone on; an object
/// that a paused process slips under an older one would not be seen in order.
const LATE_AFTER_MICROS: i64 = 5 * 60 * 1_000_000;

/// How storing ended.
enum Executed {
    /// All is durable.
    Stored(Outcome),
    /// Durable, but under a minute long past by the store's time, given here: to be written again under a newer one.
    Late(Timestamp),
}

impl Ingest {
    /// Takes one event to durable objects. On success every record of it is accounted for in the store; on an error the
    /// caller must not acknowledge any, and the same event can be given again.
    ///
    /// `deadline` is when no further attempt may start; without one a minute is allowed.
    ///
    /// # Errors
    /// [`Error`], whose kind says what happens next.
    pub async fn handle(&self, body: &[u8], deadline: Option<Timestamp>) -> Result<Outcome, Error> {
        let deadline = deadline.map_or_else(|| Deadline::after(self.clock.as_ref(), DEADLINE_DEFAULT), Deadline::at);
        let mut minute = self.clock.now().minute();
        for _ in 0..MINUTES_MAX {
            let staged = self.stage(body, minute, deadline.remaining(self.clock.now())).await?;
            match self.execute(staged, minute, deadline).await? {
                Executed::Stored(outcome) => return Ok(outcome),
                Executed::Late(date) => {
                    tracing::warn!(%minute, %date, "the store's time is minutes past the key's: writing again");
                    // The store's time too: where this machine's clock is behind, its own minute would be late again.
                    minute = self.clock.now().max(date).minute();
                }
            }
        }
        Err(Error::Late { minutes: MINUTES_MAX })
    }

    async fn execute(&self, staged: Staged, minute: Minute, deadline: Deadline) -> Result<Executed, Error> {
        let Staged { dead_letters, object, mut outcome } = staged;
        let mut in_order: Vec<Planned> = dead_letters.into_iter().chain([object]).collect();
        if mutation::on(Mutation::DeadLettersLast) {
            in_order.reverse();
        }
        for planned in in_order {
            let put = match self.put(planned, deadline).await {
                Err(_) if mutation::on(Mutation::AcknowledgedBeforePut) => Put::Stored { date: minute.start() },
                put => put?,
            };
            if mutation::on(Mutation::LatePutAccepted) {
                continue;
            }
            if put.date() > minute.start().plus_micros(LATE_AFTER_MICROS) {
                return Ok(Executed::Late(put.date()));
            }
            // The last one to be stored is the staged object, whose word counts.
            outcome.already_stored = matches!(put, Put::AlreadyStored { .. });
        }
        Ok(Executed::Stored(outcome))
    }

    /// Puts one object until it is there or the deadline comes. A key holds the hash of what its object accounts for, so
    /// putting again is safe, and after a lost answer it is also the look-up.
    async fn put(&self, planned: Planned, deadline: Deadline) -> Result<Put, Error> {
        let Planned { key, body } = planned;
        let mut wait = BACKOFF_FIRST;
        let (mut attempts, mut unknown, mut last) = (0, false, None);
        loop {
            let left = deadline.remaining(self.clock.now());
            if left.is_zero() || attempts == ATTEMPTS_MAX {
                return Err(Error::NotStored { key, attempts, unknown, source: last });
            }
            attempts += 1;
            let Ok(answer) = tokio::time::timeout(left, self.store.put_new(&key, body.clone())).await else {
                return Err(Error::NotStored { key, attempts, unknown: true, source: last });
            };
            let error = match answer {
                Ok(put) => return Ok(put),
                Err(error) => error,
            };
            if mutation::on(Mutation::Http409TakenForStored) && error.to_string().contains("409") {
                return Ok(Put::AlreadyStored { date: self.clock.now() });
            }
            tracing::debug!(key, attempts, "not stored yet: {error}");
            unknown |= error.kind() == Kind::OutcomeUnknown;
            let again = matches!(error.kind(), Kind::Retry | Kind::OutcomeUnknown);
            if !again || wait >= deadline.remaining(self.clock.now()) {
                return Err(Error::NotStored { key, attempts, unknown, source: Some(error) });
            }
            last = Some(error);
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(BACKOFF_MAX);
        }
    }
}
