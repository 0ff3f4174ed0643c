//! What the supervisor says: one line for each decision, with its reason.

use std::time::Duration;

use backstop_core::scale::QueueLoad;
use serde_json::{Value, json};

use super::process::{ProcessEnd, WorkerProcess};
use crate::output::figures::counted;
use crate::output::span::length;
use crate::output::{CliOutput, clean};

/// One line.
#[derive(Debug)]
pub(super) struct SupervisorNotice {
    event: &'static str,
    text: String,
    facts: Value,
    is_warning: bool,
}

impl SupervisorNotice {
    /// A line with what machines read besides.
    pub(super) fn new(event: &'static str, text: impl Into<String>, facts: Value) -> Self {
        Self { event, text: text.into(), facts, is_warning: false }
    }

    /// The same, as something that is not as it should be.
    pub(super) const fn warning(mut self) -> Self {
        self.is_warning = true;
        self
    }

    /// The number goes up.
    pub(super) fn up(from: u32, to: u32, queue: &str, load: &QueueLoad) -> Self {
        let (waiting, wait) = (counted(load.depth, "job"), length(load.oldest_wait));
        let verb = if load.depth == 1 { "waits" } else { "wait" };
        let text = format!(
            "{from} -> {to} processes: {waiting} {verb} on queue `{}`, the oldest for {wait}",
            clean(queue)
        );
        let facts = json!({
            "from": from, "to": to, "queue": queue, "depth": load.depth,
            "oldest_wait_ms": millis(load.oldest_wait),
        });
        Self::new("scaled", text, facts)
    }

    /// The number goes down.
    pub(super) fn down(from: u32, to: u32, quiet: Duration) -> Self {
        let text = format!("{from} -> {to} processes: fewer have been enough for {}", length(quiet));
        Self::new("scaled", text, json!({ "from": from, "to": to, "quiet_ms": millis(quiet) }))
    }

    /// A process ended that should not have.
    pub(super) fn died(process: &WorkerProcess, end: &ProcessEnd, wait: Duration, in_a_row: u32) -> Self {
        let (pid, lived) = (process.pid, process.started.elapsed());
        let next = match in_a_row {
            0 => "another is started".to_owned(),
            1 => format!("the next is started in {}", length(wait)),
            many => format!("the next is started in {}, after {many} early ends in a row", length(wait)),
        };
        let by_itself = in_a_row > 0 && end.status.as_ref().is_ok_and(|status| status.success());
        let rule = if by_itself { " (a worker runs until it is told to stop)" } else { "" };
        let text = format!("process {pid} {} after {}{rule}: {next}", end.how(), length(lived));
        let mut facts = ended_facts(process, end);
        facts["early_ends"] = in_a_row.into();
        facts["next_start_in_ms"] = millis(wait).into();
        Self::new("died", text, facts).warning()
    }

    /// A process ended that was told to.
    pub(super) fn stopped(process: &WorkerProcess, end: &ProcessEnd) -> Self {
        let pid = process.pid;
        let facts = ended_facts(process, end);
        if end.killed {
            let text = format!("process {pid} was killed: it did not stop in time");
            return Self::new("killed", text, facts).warning();
        }
        Self::new("stopped", format!("process {pid} stopped: it {}", end.how()), facts)
    }

    /// Prints it. A reader that has gone away stops no worker.
    pub(super) fn tell(mut self, out: &CliOutput) {
        if out.json {
            self.facts["event"] = self.event.into();
            self.facts["message"] = self.text.into();
            let _ = out.line(&self.facts.to_string());
        } else if self.is_warning {
            out.warn(&self.text);
        } else {
            out.note(&self.text);
        }
    }
}

fn ended_facts(process: &WorkerProcess, end: &ProcessEnd) -> Value {
    use std::os::unix::process::ExitStatusExt as _;
    let status = end.status.as_ref().ok();
    json!({
        "pid": process.pid,
        "lived_ms": millis(process.started.elapsed()),
        "code": status.and_then(|status| status.code()),
        "signal": status.and_then(|status| status.signal()),
    })
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
