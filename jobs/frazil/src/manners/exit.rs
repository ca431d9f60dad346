//! What the command line answers to the shell.

use model::failure::Kind;

/// Exit codes, the same for every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: failed.
    Failed,
    /// 2: the command, a file or a setting must be changed first.
    Usage,
    /// 3: done, and the answer is no: a dead letter, offsets that would be missing, a staged object that can't be read.
    No,
    /// 4: the same command may succeed later.
    TryAgain,
    /// 130: stopped by Ctrl-C or a SIGTERM; what was stored is whole and the next run goes on from it.
    Interrupted,
}

impl Exit {
    /// The number the shell sees.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::No => 3,
            Self::TryAgain => 4,
            Self::Interrupted => 130,
        }
    }
}

impl From<Kind> for Exit {
    fn from(kind: Kind) -> Self {
        match kind.exit_code() {
            2 => Self::Usage,
            4 => Self::TryAgain,
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
