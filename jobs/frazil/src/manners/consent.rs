//! Asking before something is done that can't be taken back.

use super::failure::Failure;
use crate::Session;

/// Shows what would be done, on stderr, and asks a person for it. `--yes` is an answer given in advance.
///
/// # Errors
/// Exit 2 when nobody is there to ask, or the answer is not yes: nothing was done.
pub(crate) fn ask(session: &mut Session<'_>, yes: bool, plan: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    session.output.warn(plan);
    if !session.terminal {
        let message = "nothing was done: this is not done without a yes, and there is no terminal to ask at";
        return Err(Failure::usage("consent.missing", message).remedy("look at the plan, then say --yes"));
    }
    session.output.warn("Type yes to do it.");
    let mut answer = String::new();
    session.stdin.read_line(&mut answer).map_err(|e| Failure::io("consent.answer", "stdin", &e))?;
    if answer.trim() == "yes" {
        return Ok(());
    }
    Err(Failure::usage("consent.declined", "nothing was done").remedy("say yes, or --yes"))
}
