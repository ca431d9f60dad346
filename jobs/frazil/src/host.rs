//! What a command is given of the machine it runs on.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;

use model::clock::Clock;
use model::id::Ids;

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
}

impl std::fmt::Debug for Host<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("folder", &self.folder).field("terminal", &self.terminal).finish_non_exhaustive()
    }
}
