//! A person's word before something is gone for good.

use std::io::{self, IsTerminal, Write};

use crate::app::App;
use crate::output::paint::Colour;
use crate::problem::Problem;

/// Asks whether to go on, unless that was said already. Where nobody can answer, nothing is done.
pub(super) fn consent(question: &str, yes: bool, app: &App) -> Result<bool, Problem> {
    if yes {
        return Ok(true);
    }
    if app.out.json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let message = format!("there is no terminal to ask on: {question}");
        return Err(Problem::refused("needs_yes", message).hint("add --yes to go on without being asked"));
    }
    let _ = write!(io::stderr().lock(), "{} [y/N] ", app.out.err_ink(Colour::Bold, question));
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    read.map_err(|error| Problem::failed("stdin", format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
