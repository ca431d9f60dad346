//! Failure kinds: what happens next, not what went wrong.

use serde::{Deserialize, Serialize};

/// Every error type in frazil answers `kind()`. The kind alone decides whether something is tried again, split,
/// dead-lettered or brought to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Nothing was done; the same call may succeed later.
    Retry,
    /// Somebody else's change came first; reload and plan again.
    Conflict,
    /// It may or may not have been done; only a positive look-up is an answer.
    OutcomeUnknown,
    /// This input can never succeed; set it aside and go on.
    Poison,
    /// A person must change a setting, a grant or a file.
    Misconfigured,
    /// Something stored is not what it should be.
    Corrupt,
    /// A promise of our own code was broken.
    Bug,
}

/// What a caller does with a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// Try the same work again, later.
    Retry,
    /// Reload the state and plan again.
    Replan,
    /// Set the input aside and go on.
    DeadLetter,
    /// Stop and bring it to a person.
    Page,
}

impl Kind {
    /// The one place where a kind becomes an action.
    #[must_use]
    pub const fn response(self) -> Response {
        match self {
            Self::Retry => Response::Retry,
            Self::Conflict | Self::OutcomeUnknown => Response::Replan,
            Self::Poison => Response::DeadLetter,
            Self::Misconfigured | Self::Corrupt | Self::Bug => Response::Page,
        }
    }

    /// The name in JSON envelopes and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Conflict => "conflict",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::Poison => "poison",
            Self::Misconfigured => "misconfigured",
            Self::Corrupt => "corrupt",
            Self::Bug => "bug",
        }
    }

    /// The command line's exit code: 2 asks for a change of usage or settings, 4 says the same command may work later.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Retry | Self::Conflict | Self::OutcomeUnknown => 4,
            Self::Misconfigured => 2,
            Self::Poison | Self::Corrupt | Self::Bug => 1,
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
