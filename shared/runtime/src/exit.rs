//! From a failure kind to a process's exit code.

use std::process::ExitCode;

use model::failure::Kind;

/// The exit code of a failure: [`Kind::exit_code`] says which.
#[must_use]
pub fn code(kind: Kind) -> ExitCode {
    ExitCode::from(kind.exit_code())
}
