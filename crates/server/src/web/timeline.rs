//! The life of a job as a line: a bar for each run, a gap for each wait.

use backstop::Timestamp;
use backstop_core::job::{AttemptJson, JobJson};
use maud::{Markup, html};

use super::words::{short, short_id, span, span_ms};

/// The width of the drawing; a run is never narrower than a mark of it.
const WIDTH: u64 = 1_000;
const NARROWEST: u64 = 5;

/// From when it was stored until it ended, or until now.
pub(super) fn timeline(now: Timestamp, job: &JobJson, runs: &[AttemptJson]) -> Markup {
    let begin = job.created_at.as_micros();
    let last = runs.iter().map(|run| run.finished_at).max().unwrap_or(job.created_at);
    let end = job.finished_at.unwrap_or(now).max(last).as_micros().max(begin + 1);
    let place = |at: Timestamp| {
        let share = i128::from(at.as_micros().clamp(begin, end) - begin) * i128::from(WIDTH)
            / i128::from(end - begin);
        u64::try_from(share).unwrap_or(0)
    };
    let total = job.finished_at.unwrap_or(now).since(job.created_at);
    let label = format!("{} runs over {}", runs.len(), span(total));
    html! {
        figure.timeline {
            svg role="img" aria-label=(label) viewBox={ "0 0 " (WIDTH) " 28" } preserveAspectRatio="none" {
                path.grid d={ "M0 14H" (WIDTH) } {}
                @for run in runs.iter().rev() {
                    @let left = place(run.started_at).min(WIDTH - NARROWEST);
                    @let width = place(run.finished_at).saturating_sub(left).max(NARROWEST);
                    rect.(sort(run)) x=(left) y="4" width=(width) height="20" {
                        title {
                            "Run " (run.number) ": " (run.cause.as_str().replace('_', " ")) ", "
                            (span_ms(run.duration_ms)) ", " @if run.charged { "charged" } @else { "not charged" }
                            ", worker " (short_id(&run.worker.to_string()))
                            @if let Some(version) = &run.code_version { ", version " (short(version, 40)) }
                        }
                    }
                }
                @if let (Some(started), true) = (job.started_at, job.worker.is_some()) {
                    rect.running x=(place(started).min(WIDTH - NARROWEST)) y="4"
                        width=(WIDTH.saturating_sub(place(started)).max(NARROWEST)) height="20" {
                        title { "It runs now" }
                    }
                }
            }
            div.span {
                span { "stored" } span { (span(total)) }
                span { @if job.finished_at.is_some() { "ended" } @else { "now" } }
            }
        }
    }
}

/// The colour of a run: what went well, what was charged, and what was not the job's fault.
pub(super) fn sort(run: &AttemptJson) -> &'static str {
    match run.cause.as_str() {
        "succeeded" => "succeeded",
        _ if run.charged => "failed",
        "crash" | "panic" => "failed",
        _ => "paused",
    }
}
