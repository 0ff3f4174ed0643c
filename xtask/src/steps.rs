//! Runs named steps one after the other, stops at the first failure and sums up what happened.
//!
//! Owns the shared database servers from the step that starts them to the end, also when a later step fails.

use std::io::IsTerminal;
use std::time::Instant;

use crate::error::TaskError;
use crate::process::CommandLine;
use crate::servers::{self, Servers};
use crate::starved::ProcessorTicks;
use crate::table;

/// What a step does.
pub(crate) enum StepAction {
    /// Runs these command lines in order; the first that fails ends the step.
    Commands(Vec<CommandLine>),
    /// Calls a function of this program; `again` is the command line that does the same.
    Call { run: fn() -> Result<(), TaskError>, again: &'static str },
    /// Starts the database servers of the tests; they run until the last step is over.
    Servers,
    /// Does nothing, and the summary says why: what is left out is never hidden.
    LeftOut(&'static str),
}

/// One step of a longer check.
pub(crate) struct CheckStep {
    /// Its name in headings and in the summary.
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) action: StepAction,
    /// How to fix the usual cause of its failure, when one command does it.
    pub(crate) fix: Option<&'static str>,
    /// Whether its command lines are told where the servers are.
    pub(crate) uses_servers: bool,
    /// What is run once more when the machine was kept from its work meanwhile.
    pub(crate) second_try: Option<fn() -> Option<CommandLine>>,
}

impl CheckStep {
    fn new(name: &'static str, action: StepAction) -> Self {
        Self { name, action, fix: None, uses_servers: false, second_try: None }
    }

    /// The step that starts the servers.
    pub(crate) fn servers() -> Self {
        Self::new("servers", StepAction::Servers)
    }

    /// A step of command lines.
    pub(crate) fn commands(name: &'static str, lines: Vec<CommandLine>) -> Self {
        Self::new(name, StepAction::Commands(lines))
    }

    /// A step inside this program.
    pub(crate) fn call(name: &'static str, run: fn() -> Result<(), TaskError>, again: &'static str) -> Self {
        Self::new(name, StepAction::Call { run, again })
    }

    /// A step that this run leaves out.
    pub(crate) fn left_out(name: &'static str, why: &'static str) -> Self {
        Self::new(name, StepAction::LeftOut(why))
    }

    /// Tells the command lines where the servers are; the step that starts them comes earlier.
    pub(crate) fn with_servers(mut self) -> Self {
        self.uses_servers = true;
        self
    }

    /// Names what is run once more after a failure on a machine that was kept from its work.
    pub(crate) fn tried_again_by(mut self, line: fn() -> Option<CommandLine>) -> Self {
        self.second_try = Some(line);
        self
    }

    /// Names the command that fixes the usual cause of a failure.
    pub(crate) fn mended_by(mut self, command: &'static str) -> Self {
        self.fix = Some(command);
        self
    }
}

/// Runs the steps in order and prints the summary, also after a failure.
pub(crate) fn run(steps: &[CheckStep]) -> Result<(), TaskError> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut failure = None;
    let mut servers = None;
    let begin = Instant::now();
    for step in steps {
        if failure.is_some() {
            rows.push(row(step, "not reached", ""));
            continue;
        }
        if let StepAction::LeftOut(why) = step.action {
            rows.push(row(step, why, ""));
            continue;
        }
        heading(step.name);
        let start = Instant::now();
        let result = perform(step, &mut servers);
        let seconds = format!("{:.1}", start.elapsed().as_secs_f64());
        println!("   {} {} after {seconds} s", step.name, if result.is_ok() { "passed" } else { "failed" });
        rows.push(row(step, if result.is_ok() { "ok" } else { "FAILED" }, &seconds));
        failure = result.err();
    }
    drop(servers);
    rows.push(vec!["all".to_owned(), String::new(), format!("{:.1}", begin.elapsed().as_secs_f64())]);
    heading("summary");
    println!("{}\n", table::render(&["step", "result", "seconds"], &rows));
    failure.map_or(Ok(()), Err)
}

fn row(step: &CheckStep, result: &str, seconds: &str) -> Vec<String> {
    vec![step.name.to_owned(), result.to_owned(), seconds.to_owned()]
}

fn perform(step: &CheckStep, servers: &mut Option<Servers>) -> Result<(), TaskError> {
    match &step.action {
        StepAction::Commands(lines) => {
            lines.iter().try_for_each(|line| command(step, line, servers.as_ref()))
        }
        StepAction::Call { run, again } => run().map_err(|cause| explain(step, &cause, again)),
        StepAction::Servers => {
            *servers = Some(Servers::start().map_err(|cause| explain(step, &cause, "cargo xtask servers"))?);
            Ok(())
        }
        StepAction::LeftOut(_) => Ok(()),
    }
}

fn command(step: &CheckStep, line: &CommandLine, servers: Option<&Servers>) -> Result<(), TaskError> {
    // What is shown can be typed: the servers of this run are gone by then, so it starts its own.
    let shown = if step.uses_servers { line.behind(servers::PREFIX) } else { line.clone() };
    println!("   {shown}");
    let told = |line: &CommandLine| match servers.filter(|_| step.uses_servers) {
        Some(servers) => line.clone().variables(&servers.variables()),
        None => line.clone(),
    };
    let before = ProcessorTicks::now();
    let cause = match told(line).run() {
        Ok(()) => return Ok(()),
        Err(cause) => cause,
    };
    let taken = before.and_then(|before| ProcessorTicks::now()?.much_taken_since(before));
    if let (Some(share), Some(again)) = (taken, step.second_try.and_then(|line| line())) {
        println!(
            "   others had {:.0} % of the processor time that this step wanted: what failed is run once more, alone",
            share * 100.0
        );
        println!("   {again}");
        return told(&again).run().map_err(|cause| explain(step, &cause, &shown.to_string()));
    }
    Err(explain(step, &cause, &shown.to_string()))
}

/// Says which step failed, why, and which command runs it again.
fn explain(step: &CheckStep, cause: &TaskError, again: &str) -> TaskError {
    let fix = step.fix.map(|command| format!("\n  fix it with:  {command}")).unwrap_or_default();
    TaskError::Failed(format!("step `{}` failed: {cause}\n  run it again:  {again}{fix}", step.name))
}

fn heading(text: &str) {
    let colored = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let (bold, plain) = if colored { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    println!("\n{bold}== {text}{plain}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> CommandLine {
        CommandLine::new("sh -c").with(&[script.to_owned()])
    }

    #[test]
    fn steps_that_pass_are_a_success() {
        let steps = [
            CheckStep::commands("one", vec![shell("true"), shell("true")]),
            CheckStep::left_out("two", "left out"),
        ];
        assert!(run(&steps).is_ok());
    }

    #[test]
    fn the_first_failure_stops_the_rest_and_names_the_command() {
        let steps = [
            CheckStep::commands("one", vec![shell("exit 7"), shell("true")]).mended_by("make it"),
            CheckStep::call("two", || panic!("must not be reached"), "never"),
        ];
        let text = run(&steps).unwrap_err().to_string();
        assert!(text.contains("step `one` failed"), "{text}");
        assert!(text.contains("run it again:  sh -c 'exit 7'"), "{text}");
        assert!(text.contains("fix it with:  make it"), "{text}");
    }
}
