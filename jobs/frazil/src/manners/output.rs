//! The one way to stdout and stderr.

use std::io::{ErrorKind, Write};

use serde::Serialize;

use super::envelope;
use super::exit::Exit;
use super::failure::Failure;
use crate::host::Signals;
use crate::value;
use model::failure::Kind;

/// Writes answers to stdout and everything else to stderr.
///
/// A reader that went away (`frazil query … | head`) is no failure: from then on writes do nothing, and [`closed`] tells
/// a long stream to stop.
///
/// [`closed`]: Output::closed
pub struct Output<'a> {
    stdout: &'a mut (dyn Write + Send),
    stderr: &'a mut (dyn Write + Send),
    json: bool,
    quiet: bool,
    closed: bool,
    /// None for the answer to a signal.
    signals: Option<Signals>,
}

impl std::fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("json", &self.json).field("closed", &self.closed).finish_non_exhaustive()
    }
}

impl<'a> Output<'a> {
    pub(crate) fn new(
        stdout: &'a mut (dyn Write + Send),
        stderr: &'a mut (dyn Write + Send),
        json: bool,
        quiet: bool,
    ) -> Self {
        Self { stdout, stderr, json, quiet, closed: false, signals: None }
    }

    /// The same for a command that a signal may interrupt.
    pub(crate) fn with_signals(self, signals: Signals) -> Self {
        Self { signals: Some(signals), ..self }
    }

    /// Before a command's one document: where a signal has answered already, the process is about to end. A command that
    /// fails after its answer, on a full disk say, still says so.
    fn claim(&mut self) {
        if !self.json {
            return;
        }
        if let Some(signals) = self.signals.take()
            && !signals.claim()
        {
            loop {
                std::thread::park();
            }
        }
    }

    /// Whether answers are JSON documents.
    #[must_use]
    pub fn json(&self) -> bool {
        self.json
    }

    /// Whether whoever read stdout has gone.
    #[must_use]
    pub fn closed(&self) -> bool {
        self.closed
    }

    /// A command's answer: its JSON document, or the text that `human` makes of it.
    ///
    /// # Errors
    /// When stdout can't be written.
    pub fn reply<T: Serialize>(
        &mut self,
        command: &str,
        body: &T,
        human: impl FnOnce(&T) -> String,
    ) -> Result<(), Failure> {
        self.claim();
        if self.json {
            self.document(&envelope::success(Some(command), body))
        } else {
            let text = human(body);
            self.text(&text)
        }
    }

    /// The answer of a command that got somewhere and failed all the same: under `--json` the failure's document with what there
    /// is beside it, else the text on stdout and the failure on stderr.
    ///
    /// # Errors
    /// When stdout can't be written.
    pub(crate) fn reply_refused<T: Serialize>(
        &mut self,
        command: &str,
        body: &T,
        human: impl FnOnce(&T) -> String,
        failure: &Failure,
    ) -> Result<(), Failure> {
        if self.json {
            self.claim();
            return self.document(&envelope::refusal_beside(Some(command), failure, body));
        }
        let text = human(body);
        self.text(&text)?;
        self.fail(Some(command), failure);
        Ok(())
    }

    /// What frazil says of itself, help or version: under `--json` a document with this member, else the text.
    ///
    /// # Errors
    /// When stdout can't be written.
    pub(crate) fn about(
        &mut self,
        command: Option<&str>,
        member: &str,
        value: &str,
        text: &str,
    ) -> Result<(), Failure> {
        if self.json {
            let body: std::collections::BTreeMap<&str, &str> = [(member, value)].into();
            self.document(&envelope::success(command, &body))
        } else {
            self.text(text)
        }
    }

    /// A command's JSON document, whatever `--json` says, with one more member at its end whose value is JSON already.
    ///
    /// # Errors
    /// When stdout can't be written.
    pub fn document_with<T: Serialize>(
        &mut self,
        command: &str,
        body: &T,
        member: &str,
        value: &[u8],
    ) -> Result<(), Failure> {
        let bug = |e| Failure::of(Kind::Bug, "output.json", &e);
        let mut head = serde_json::to_vec(&envelope::success(Some(command), body)).map_err(bug)?;
        // The envelope is never empty: the last member is followed by another, not by the end.
        head.pop();
        head.push(b',');
        serde_json::to_writer(&mut head, member).map_err(bug)?;
        head.push(b':');
        self.bytes(&head)?;
        self.bytes(value)?;
        self.bytes(b"}\n")
    }

    /// One line of a stream: a JSON document, whatever `--json` says.
    ///
    /// # Errors
    /// When stdout can't be written.
    pub fn line<T: Serialize>(&mut self, command: &str, body: &T) -> Result<(), Failure> {
        self.document(&envelope::success(Some(command), body))
    }

    /// The failure of one line of a stream, as its JSON document.
    ///
    /// # Errors
    /// When stdout can't be written.
    pub fn line_refused(&mut self, command: &str, failure: &Failure) -> Result<(), Failure> {
        self.document(&envelope::refusal(Some(command), failure))
    }

    /// Text to stdout; a line end is added where it has none.
    ///
    /// # Errors
    /// When stdout can't be written.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())?;
        if text.is_empty() || text.ends_with('\n') { Ok(()) } else { self.bytes(b"\n") }
    }

    /// Bytes to stdout as they are.
    ///
    /// # Errors
    /// When stdout can't be written.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.closed {
            return Ok(());
        }
        let done = self.stdout.write_all(bytes).and_then(|()| self.stdout.flush());
        self.written(done)
    }

    fn written(&mut self, done: std::io::Result<()>) -> Result<(), Failure> {
        match done {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            // Not the command's fault, nor a setting's: what it did is done, and only its answer is lost.
            Err(error) => Err(Failure::of(Kind::Retry, "output.stdout", &error)
                .at("stdout")
                .remedy("what the command did is done; make room where its answer goes, or send it elsewhere")
                .exiting(Exit::Failed)),
            Ok(()) => Ok(()),
        }
    }

    fn document<T: Serialize>(&mut self, document: &T) -> Result<(), Failure> {
        let mut bytes = serde_json::to_vec(document).map_err(|e| Failure::of(Kind::Bug, "output.json", &e))?;
        bytes.push(b'\n');
        self.bytes(&bytes)
    }

    /// A remark for a person, to stderr; nothing under `-q`. A stderr that can't be written is nobody's failure.
    pub fn note(&mut self, text: &str) {
        if !self.quiet {
            self.say(text);
        }
    }

    /// A failure: the document on stdout under `--json`, and otherwise words on stderr.
    pub(crate) fn fail(&mut self, command: Option<&str>, failure: &Failure) {
        self.claim();
        if self.json && self.document(&envelope::refusal(command, failure)).is_ok() {
            return;
        }
        let mut text = format!("frazil: {}", failure.message);
        if let Some(place) = &failure.place {
            text.push_str(&format!("\n  at {place}"));
        }
        if let Some(remedy) = failure.advice() {
            text.push_str(&format!("\n  {remedy}"));
        }
        text.push_str(&format!("\n  ({}, {})", failure.kind, failure.code));
        self.say(&text);
    }

    /// Words for a person, to stderr, even under `-q`.
    pub(crate) fn warn(&mut self, text: &str) {
        self.say(text);
    }

    fn say(&mut self, text: &str) {
        // Names and messages come from files and stores: they must not steer a terminal.
        if writeln!(self.stderr, "{}", value::printable(text)).is_err() {
            self.quiet = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stdout that takes a number of bytes and then fails in one way.
    struct Failing(usize, ErrorKind);

    impl Write for Failing {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0 == 0 {
                return Err(self.1.into());
            }
            let n = bytes.len().min(self.0);
            self.0 -= n;
            Ok(n)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_went_away_is_quiet_and_a_full_disk_is_not() {
        let (mut gone, mut log) = (Failing(3, ErrorKind::BrokenPipe), Vec::new());
        let mut output = Output::new(&mut gone, &mut log, false, false);
        assert!(output.text("a long answer").is_ok());
        assert!(output.closed());
        assert!(output.text("more").is_ok());

        let (mut full, mut log) = (Failing(3, ErrorKind::StorageFull), Vec::new());
        let mut output = Output::new(&mut full, &mut log, false, false);
        let failure = output.text("a long answer").unwrap_err();
        assert_eq!((failure.code.as_ref(), failure.kind, failure.exit()), ("output.stdout", Kind::Retry, Exit::Failed));
        assert!(!output.closed());
    }

    #[test]
    fn a_quiet_output_still_says_failures() {
        let (mut out, mut log) = (Vec::new(), Vec::new());
        let mut output = Output::new(&mut out, &mut log, false, true);
        output.note("a remark");
        output.fail(Some("fold"), &Failure::usage("a.b", "wr\u{1b}ong").at("x.toml:3").remedy("mend it"));
        assert_eq!(
            String::from_utf8(log).unwrap(),
            "frazil: wr\u{fffd}ong\n  at x.toml:3\n  mend it\n  (misconfigured, a.b)\n"
        );
        assert!(out.is_empty());
    }
}
