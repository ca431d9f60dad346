//! What came of the checks, property by property.

use std::future::{Future, poll_fn};
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::pin::pin;
use std::task::Poll;

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The property is kept.
    Kept,
    /// It is kept as far as it applies, or does not apply: why, in a word or two.
    Otherwise(&'static str),
}

/// Verdicts by property, in the order of the checks. None: the check failed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results(Vec<(&'static str, Option<Verdict>)>);

impl Results {
    /// Takes the verdict of a check. One that panics is one that failed, and the others are made all the same.
    pub(super) async fn of(&mut self, property: &'static str, check: impl Future<Output = Verdict>) {
        let mut check = pin!(check);
        let verdict = poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| check.as_mut().poll(context))) {
            Ok(Poll::Ready(verdict)) => Poll::Ready(Some(verdict)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_) => Poll::Ready(None),
        });
        self.0.push((property, verdict.await));
    }

    /// Adds a line for each property to a file: catalog, property and verdict, separated by tabs.
    ///
    /// # Errors
    /// The file's.
    pub fn append_to(&self, file: &Path, catalog: &str) -> io::Result<()> {
        let lines: String = self
            .0
            .iter()
            .map(|(property, verdict)| {
                let verdict = match verdict {
                    Some(Verdict::Kept) => "kept",
                    Some(Verdict::Otherwise(why)) => why,
                    None => "BROKEN",
                };
                format!("{catalog}\t{property}\t{verdict}\n")
            })
            .collect();
        std::fs::File::options().create(true).append(true).open(file)?.write_all(lines.as_bytes())
    }

    /// Fails the test that runs it, where a check failed; what each said stands above.
    ///
    /// # Panics
    /// Where one failed.
    pub fn assert_kept(&self) {
        let broken: Vec<_> = self.0.iter().filter(|(_, verdict)| verdict.is_none()).map(|(name, _)| name).collect();
        assert!(broken.is_empty(), "the contract is broken: {broken:?}");
    }
}
