//! Faults that a build can be given on purpose, one per step of the protocol: the simulation must find each of them, or it
//! proves nothing. They exist under the feature `mutations` alone; without it every question here is answered with a
//! constant no, and nothing of them is left in what is built.

macro_rules! mutations {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// A step of the protocol done wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Mutation { $($(#[$doc])* $name,)* }

        impl Mutation {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name on the command line.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

mutations! {
    /// An invocation answers although its object was not stored.
    AcknowledgedBeforePut = "acknowledged-before-put";
    /// 409 is taken for stored.
    Http409TakenForStored = "409-taken-for-stored";
    /// An answer minutes past the key's minute counts as stored.
    LatePutAccepted = "late-put-accepted";
    /// The staged object comes before its dead letters.
    DeadLettersLast = "dead-letters-last";
    /// One listing pass.
    OnePass = "one-pass";
    /// Objects that only the second pass saw are used whole.
    SecondPassWhole = "second-pass-whole";
    /// The listing has an upper bound.
    UpperBound = "upper-bound";
    /// `low_minute` by the clock of the host.
    LowMinuteByHost = "low-minute-by-host";
    /// `low_minute` past what a budget left.
    LowMinutePastBacklog = "low-minute-past-backlog";
    /// The ledger in a commit of its own.
    LedgerApart = "ledger-apart";
    /// Settled coordinates are not dropped.
    LedgerUnchecked = "ledger-unchecked";
    /// Of main's history only the newest snapshot is looked at.
    HeadOnly = "head-only";
    /// A negative look-up is believed, and the attempt's files are deleted.
    NegativeBelieved = "negative-believed";
    /// One commit id for all attempts.
    CommitIdReused = "commit-id-reused";
    /// A commit is put on a table whose ledger has moved.
    CommitReapplied = "commit-reapplied";
    /// A dead verdict goes over a row.
    DeadOverRow = "dead-over-row";
    /// A dead coordinate stays dead after its row was admitted.
    ReplayedTwice = "replayed-twice";
    /// A row at a coordinate that counts as never delivered is dropped.
    UndeliveredSwallowed = "undelivered-swallowed";
    /// Nobody holds samples against rows.
    EvidenceSkipped = "evidence-skipped";
    /// Staged objects go by age.
    UnsettledExpired = "unsettled-expired";
    /// Nobody holds main's history against the ledger.
    RewindUnchecked = "rewind-unchecked";
    /// What a settlement says is folded is skipped, whether its commit is on main or not.
    SkipListUnproved = "skip-list-unproved";
    /// Rows are compared among themselves, and not with the table.
    TableNotMet = "table-not-met";
    /// Of many tables: their keys are written once the run has folded.
    TablesMetLate = "tables-met-late";
    /// Of many tables: one that was just met is given the listing that the others share.
    NewTableSharesListing = "new-table-shares-listing";
    /// Of many tables: what is staged goes once one of them has settled it.
    OneTableAsked = "one-table-asked";
    /// Of many tables: the run's note names none that was left behind.
    BehindForgotten = "behind-forgotten";
    /// Runs of many tables that are under way at once know of each other by their notes alone.
    OverlapUnseen = "overlap-unseen";
}

#[cfg(feature = "mutations")]
mod chosen {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::Mutation;

    const NONE: u8 = u8::MAX;
    static CHOSEN: AtomicU8 = AtomicU8::new(NONE);

    /// From now on this step is done wrong in the whole process; none of them when absent.
    pub fn choose(mutation: Option<Mutation>) {
        CHOSEN.store(mutation.map_or(NONE, |mutation| mutation as u8), Ordering::Relaxed);
    }

    /// Whether this step is to be done wrong.
    #[must_use]
    pub fn on(mutation: Mutation) -> bool {
        CHOSEN.load(Ordering::Relaxed) == mutation as u8
    }
}

#[cfg(feature = "mutations")]
pub use chosen::{choose, on};

/// Whether this step is to be done wrong: never.
#[cfg(not(feature = "mutations"))]
#[must_use]
pub const fn on(_: Mutation) -> bool {
    false
}
