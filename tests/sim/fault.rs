//! The kinds of faults that a history may hold.

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $often:literal, $rarely:literal;)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum Fault { $($(#[$doc])* $name,)* }

        impl Fault {
            /// All kinds.
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];

            /// The name on the command line.
            pub(crate) const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// How often it is drawn, in a thousand, where it is frequent and where it is not.
            pub(crate) const fn per_mille(self) -> (u64, u64) {
                match self { $(Self::$name => ($often, $rarely),)* }
            }
        }
    };
}

faults! {
    // Of Kafka and its event source mapping.
    /// The record can't be decoded, now or ever.
    Bad = "bad", 60, 10;
    /// The record is a null value.
    Tombstone = "tombstone", 60, 10;
    /// Offsets that are no record: a transaction's marker.
    Marker = "marker", 80, 20;
    /// A record goes before it was acknowledged.
    Compacted = "compacted", 40, 10;
    /// A batch in which some records can't be decoded that can be another time.
    Undecodable = "undecodable", 60, 15;
    /// A retry is cut differently.
    Recut = "recut", 700, 300;
    /// What was acknowledged is handed over again.
    Redelivered = "redelivered", 120, 30;
    /// Records are passed over, and handed over much later.
    Skipped = "skipped", 40, 10;
    /// Another poller takes over while an invocation still runs.
    Rebalanced = "rebalanced", 60, 20;
    /// The topic is deleted and made again.
    Recreated = "recreated", 1000, 500;
    /// A second cluster with a topic of the same name feeds the same table.
    TwoClusters = "two-clusters", 1000, 300;
    /// Another version of the pipeline file decodes.
    FileChanged = "file-changed", 300, 100;
    // Of processes.
    /// A process stops for minutes and goes on.
    Frozen = "frozen", 4, 1;
    /// A process that was given up goes on.
    Zombie = "zombie", 500, 500;
    /// An invocation is killed.
    IngestKilled = "ingest-killed", 150, 40;
    /// A fold is killed.
    FoldKilled = "fold-killed", 250, 80;
    /// An invocation has little time.
    ShortTime = "short-time", 80, 20;
    /// An invocation's clock is wrong by up to two hours.
    IngestClock = "ingest-clock", 200, 50;
    /// A fold's clock is wrong by up to two hours.
    FoldClock = "fold-clock", 100, 30;
    /// Two folds at once.
    FoldTwice = "fold-twice", 250, 60;
    /// No fold for half an hour and more.
    FoldOutage = "fold-outage", 40, 10;
    /// A fold may take little.
    Budget = "budget", 400, 100;
    // Of the object store.
    /// Nothing is stored.
    PutRefused = "put-refused", 60, 10;
    /// Nothing is stored: another conditional put is under way.
    Put409 = "put-409", 60, 10;
    /// Stored, and the answer is lost.
    PutAnswerLost = "put-answer-lost", 60, 10;
    /// No answer, and stored later.
    PutLate = "put-late", 40, 10;
    /// A listing ends early, and is to be gone on with.
    PagesShort = "pages-short", 300, 60;
    /// A page ends with the newest object, and there may be more.
    PageEndsNow = "page-ends-now", 500, 150;
    /// The next page of a listing is long in coming.
    PageSlow = "page-slow", 700, 250;
    /// A read fails.
    GetRefused = "get-refused", 15, 3;
    // Of the table's files.
    /// A file is not written.
    FileRefused = "file-refused", 20, 4;
    /// A file is written, and the answer lost.
    FileAnswerLost = "file-answer-lost", 15, 3;
    // Of the catalog.
    /// The catalog says conflict, and nobody else committed.
    CommitConflict = "commit-conflict", 80, 20;
    /// The catalog says later.
    CommitRefused = "commit-refused", 60, 10;
    /// Committed, and the answer is lost.
    CommitAnswerLost = "commit-answer-lost", 120, 30;
    /// No answer, and committed later if it still can be.
    CommitLate = "commit-late", 100, 30;
    /// Never arrived.
    CommitLost = "commit-lost", 60, 10;
    // Of other hands.
    /// Another engine rewrites files.
    Compaction = "compaction", 400, 100;
    /// Another engine adds a snapshot.
    Foreign = "foreign", 400, 150;
    /// Another engine expires snapshots.
    Expiry = "expiry", 300, 80;
    /// Another engine moves main back.
    Rollback = "rollback", 150, 40;
    /// Another engine moves main forward again.
    RollForward = "roll-forward", 400, 200;
    /// Another engine changes the schema or a property.
    Alter = "alter", 200, 60;
    /// Another engine takes our properties away.
    Unset = "unset", 100, 25;
    /// Our own rollback.
    OwnRollback = "own-rollback", 100, 25;
    /// Staged objects are removed by age where that is safe.
    Maintained = "maintained", 500, 200;
    /// Dead letters are decoded again.
    Replayed = "replayed", 300, 100;
    // Of histories with many tables. These come last, and are drawn apart.
    /// The catalog refuses one table for a while, and no other.
    TableRefused = "table-refused", 15, 4;
}

impl Fault {
    /// Whether only histories with many tables hold it.
    pub(crate) const fn is_of_many(self) -> bool {
        matches!(self, Self::TableRefused)
    }

    /// By its name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|fault| fault.name() == name)
    }
}
