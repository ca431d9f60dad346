//! What a command is given of the machine it runs on.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::clock::Clock;
use model::id::Ids;

/// What a process's signals and its command agree on.
#[derive(Clone, Debug, Default)]
pub struct Signals(Arc<Agreed>);

#[derive(Debug, Default)]
struct Agreed {
    answered: AtomicBool,
    drains: AtomicBool,
    asked: AtomicBool,
}

impl Signals {
    /// Takes it on itself to answer, once: the command with what it did, or the signal with that it was interrupted.
    /// Whoever is second must not write a second document.
    #[must_use]
    pub fn claim(&self) -> bool {
        !self.0.answered.swap(true, Ordering::SeqCst)
    }

    /// From now on the command ends by itself when it is asked to.
    pub fn drain(&self) {
        self.0.drains.store(true, Ordering::SeqCst);
    }

    /// Asks the command to end. Whether it does so by itself, and is asked for the first time.
    #[must_use]
    pub fn ask(&self) -> bool {
        self.0.drains.load(Ordering::SeqCst) && !self.0.asked.swap(true, Ordering::SeqCst)
    }

    /// Whether the command is to end.
    #[must_use]
    pub fn asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }
}

/// The outside of one command: its streams, its folder, its clock. `main` fills it from the process, tests from memory.
pub struct Host<'a> {
    /// Where `-` reads from.
    pub stdin: &'a mut (dyn BufRead + Send),
    /// Answers, and nothing else.
    pub stdout: &'a mut (dyn Write + Send),
    /// Failures, remarks, progress.
    pub stderr: &'a mut (dyn Write + Send),
    /// Whether a person watches stderr: progress bars are drawn on a terminal only.
    pub terminal: bool,
    /// The folder that relative paths and the search for `frazil.toml` start from.
    pub folder: PathBuf,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Ids and chance.
    pub ids: Arc<dyn Ids>,
    /// The variables that secrets are in, by name.
    pub variable: fn(&str) -> Option<String>,
    /// Starts the log at a level (`error`, `warn`, `info`, `debug`), `None` where no flag chose one.
    pub log: fn(Option<&str>),
    /// What the process's signals have to say.
    pub signals: Signals,
}

impl std::fmt::Debug for Host<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("folder", &self.folder).field("terminal", &self.terminal).finish_non_exhaustive()
    }
}
