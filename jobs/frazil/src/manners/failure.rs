//! A failure as a person or a script meets it.

use std::borrow::Cow;
use std::error::Error;

use model::failure::Kind;

use super::exit::Exit;

/// Why a command did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What happens next; decides the exit code.
    pub kind: Kind,
    /// Dotted and stable, for scripts: `environment.none`.
    pub code: Cow<'static, str>,
    /// What went wrong, with its causes.
    pub message: String,
    /// The file and line, option, object or table it went wrong at.
    pub place: Option<String>,
    /// What to do about it.
    pub remedy: Option<String>,
    /// The exit code, where the kind does not say it.
    pub exit: Option<Exit>,
}

impl Failure {
    /// A failure of a kind.
    pub fn new(kind: Kind, code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { kind, code: code.into(), message: message.into(), place: None, remedy: None, exit: None }
    }

    /// A command or a setting that a person must change: exit 2.
    pub fn usage(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::new(Kind::Misconfigured, code, message)
    }

    /// Told to end before all was done: exit 130.
    pub fn interrupted(message: impl Into<String>) -> Self {
        Self::new(Kind::Retry, "interrupted", message)
            .remedy("the same command can be run again: nothing is lost, and nothing comes twice")
            .exiting(Exit::Interrupted)
    }

    /// From another crate's error: its text and that of its causes, each said once.
    pub fn of(kind: Kind, code: impl Into<Cow<'static, str>>, error: &dyn Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        // A chain of causes is finite, but nothing proves it short.
        for _ in 0..16 {
            let Some(next) = cause else { break };
            let text = next.to_string();
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = next.source();
        }
        Self::new(kind, code, message)
    }

    /// From an input or output fault at a place.
    pub fn io(code: impl Into<Cow<'static, str>>, place: impl Into<String>, error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        let kind = match error.kind() {
            ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::StorageFull
            | ErrorKind::InvalidFilename => Kind::Misconfigured,
            _ => Kind::Retry,
        };
        let remedy = match (error.kind(), kind) {
            (ErrorKind::StorageFull, _) => Some("make room there, or choose another place"),
            (_, Kind::Misconfigured) => Some("check that the path is right, and that this account may use it"),
            _ => None,
        };
        Self::of(kind, code, error).at(place).remedy_if(remedy)
    }

    /// With the place it went wrong at.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// With what to do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// The same with what to do about it, where something is known.
    #[must_use]
    pub fn remedy_if(self, remedy: Option<&str>) -> Self {
        match remedy {
            Some(remedy) => self.remedy(remedy),
            None => self,
        }
    }

    /// With what an error knows of what to do, which its text may end with: it is said once.
    #[must_use]
    pub fn advised(mut self, remedy: Option<&str>) -> Self {
        if let Some(remedy) = remedy {
            self.message = self.message.replacen(&format!("; {remedy}"), "", 1);
        }
        self.remedy_if(remedy)
    }

    /// What to do about it: what is known of this failure, else what its kind asks for. What a person must change is
    /// never left to the kind.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.remedy.as_deref().or(match self.kind {
            Kind::Retry | Kind::Conflict => {
                Some("run the same command again: nothing is lost, and nothing comes twice")
            }
            Kind::OutcomeUnknown => Some("run the same command again: it looks first whether this one was done"),
            Kind::Corrupt => {
                Some("bring back what it names from a backup or from the bucket's versions, then try again")
            }
            Kind::Bug => Some("this is a fault of frazil: report it, with what the same command says under -vv"),
            Kind::Misconfigured | Kind::Poison => None,
        })
    }

    /// With an exit code of its own.
    #[must_use]
    pub const fn exiting(mut self, exit: Exit) -> Self {
        self.exit = Some(exit);
        self
    }

    /// The exit code.
    #[must_use]
    pub fn exit(&self) -> Exit {
        self.exit.unwrap_or_else(|| Exit::from(self.kind))
    }
}
