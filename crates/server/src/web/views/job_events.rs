//! What happened to one job, in order: read from its record and its ledger, so that it is known for as long as the job
//! is, whichever process did it.

use backstop::Timestamp;
use backstop_core::failure::Verdict;
use backstop_core::job::{AttemptJson, JobJson};
use maud::{Markup, html};

use crate::web::visit::PageVisit;
use crate::web::words::{counted, short, short_id, span, span_ms, when};

/// Events that are shown; older ones are counted.
const SHOWN: usize = 60;

/// One thing that happened, and what it was.
type Happened = (Timestamp, Markup);

/// All that is known of it, the latest first.
pub(super) fn events(visit: &PageVisit, job: &JobJson, runs: &[AttemptJson]) -> Markup {
    let mut all = vec![(job.created_at, submitted(job))];
    all.extend(runs.iter().rev().flat_map(of_run));
    all.extend(without_run(job, runs));
    // Two of one moment stay in this order, which is the one in which they happened.
    all.sort_by_key(|(at, _)| *at);
    let left_out = all.len().saturating_sub(SHOWN);
    html! {
        div data-live="job-events" {
            details {
                summary { (counted(all.len() as u64, "event")) }
                ol.history {
                    @for (at, what) in all.iter().rev().take(SHOWN) {
                        li { (when(visit.now, *at)) " " (what) }
                    }
                }
                @if left_out > 0 { p.since { "and " (counted(left_out as u64, "earlier one")) } }
            }
        }
    }
}

/// Where it came from.
fn submitted(job: &JobJson) -> Markup {
    html! {
        "submitted"
        @if let Some(by) = &job.schedule { " by the schedule " b { (short(&by.name, 80)) } }
        @if let Some(of) = &job.callback_of {
            " as the callback of " a href={ "/jobs/" (of) } { (short_id(&of.to_string())) }
        }
    }
}

/// The run that is under way, and an end that no run brought about.
fn without_run(job: &JobJson, runs: &[AttemptJson]) -> Vec<Happened> {
    let mut happened = Vec::new();
    if let (Some(started), Some(worker)) = (job.started_at, job.worker) {
        let what = html! { "run " (job.runs) " started, worker " code { (short_id(&worker.to_string())) } };
        happened.push((started, what));
    }
    let is_end = |run: &AttemptJson| Some(run.finished_at) == job.finished_at && ends(run);
    if let Some(ended) = job.finished_at
        && !runs.iter().any(is_end)
    {
        let reason = job.terminal_reason.map(|reason| reason.to_string().replace('_', " "));
        let reason = reason.or_else(|| job.cancel_reason.as_deref().map(|text| short(text, 200)));
        happened.push((ended, html! { (job.status) @if let Some(reason) = reason { ": " (reason) } }));
    }
    happened
}

/// The beginning and the end of a run that has ended.
fn of_run(run: &AttemptJson) -> [Happened; 2] {
    let started = html! {
        "run " (run.number) " started, worker " code { (short_id(&run.worker.to_string())) }
        @if let Some(version) = &run.code_version { ", version " (short(version, 40)) }
    };
    let ended = html! {
        "run " (run.number) " ended: " b { (run.cause.as_str().replace('_', " ")) } " after "
        (span_ms(run.duration_ms)) ", " @if run.charged { "charged" } @else { "not charged" }
        @if let Some(decision) = &run.decision { "; " (then(&decision.verdict)) }
    };
    [(run.started_at, started), (run.finished_at, ended)]
}

/// True for a run after which there was nothing more to do.
fn ends(run: &AttemptJson) -> bool {
    let verdict = run.decision.as_ref().map(|decision| &decision.verdict);
    matches!(verdict, None | Some(Verdict::Succeed | Verdict::Dead { .. } | Verdict::Cancel { .. }))
}

/// Where a verdict sends the job.
fn then(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Succeed => "it has succeeded".to_owned(),
        Verdict::Retry { delay } => format!("tried again after {}", span(*delay)),
        Verdict::Defer { delay } if delay.is_zero() => "it goes back at once".to_owned(),
        Verdict::Defer { delay } => format!("it goes back for {}", span(*delay)),
        Verdict::Wait { .. } => "it waits for a signal".to_owned(),
        Verdict::Dead { reason } => format!("it is dead: {}", reason.to_string().replace('_', " ")),
        Verdict::Cancel { reason } => format!("it is canceled: {}", short(reason, 200)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use backstop_core::failure::TerminalReason;

    use super::*;

    #[test]
    fn a_verdict_reads_as_what_follows() {
        for (verdict, text) in [
            (Verdict::Succeed, "it has succeeded"),
            (Verdict::Retry { delay: Duration::from_secs(90) }, "tried again after 90 s"),
            (Verdict::Defer { delay: Duration::ZERO }, "it goes back at once"),
            (Verdict::Dead { reason: TerminalReason::RetryExhausted }, "it is dead: retry exhausted"),
            (Verdict::Cancel { reason: "too late".to_owned() }, "it is canceled: too late"),
        ] {
            assert_eq!(then(&verdict), text);
        }
    }
}
