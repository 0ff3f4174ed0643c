//! Why a job is where it is, and what happens next and when (F20).
//!
//! Everything comes in as values: the job, its latest decision, and its surroundings as the store sees them.
//! Later reasons (limits, circuits, dependencies) join as further checks in [`explain`].

use serde::Serialize;

use crate::failure::{Check, Decision, TerminalReason};
use crate::id::WorkerId;
use crate::job::{JobView, State};
use crate::time::Timestamp;

/// What surrounds a job in its store.
#[derive(Debug, Clone, PartialEq)]
pub struct Surroundings {
    /// The store's clock.
    pub now: Timestamp,
    /// True when its queue is paused.
    pub queue_paused: bool,
    /// Live workers that serve its queue.
    pub workers_on_queue: usize,
    /// Live workers that serve its queue and know its kind and version.
    pub workers_for_kind: usize,
    /// Who holds it, and until when that is certain.
    pub holder: Option<Holder>,
    /// The decision of its latest run.
    pub last_decision: Option<Decision>,
}

/// The worker that holds a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Holder {
    /// Who.
    pub worker: WorkerId,
    /// Its name.
    pub name: String,
    /// Until when its lease runs unless it is renewed.
    pub until: Timestamp,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// Where it is.
    pub status: State,
    /// Why, in one sentence.
    pub because: String,
    /// What happens next, in one sentence.
    pub next: String,
    /// When, if that is known.
    pub next_at: Option<Timestamp>,
    /// Every check in order, with its answer.
    pub checks: Vec<Check>,
    /// The checks of its latest ended run.
    pub last_decision: Option<Decision>,
}

/// Explains a job.
#[must_use]
pub fn explain(view: &JobView, around: &Surroundings) -> Explanation {
    let (because, next, next_at) = match view.state() {
        State::Pending | State::Waiting => waiting(view, around),
        State::Running => running(view, around),
        State::Succeeded => done(view, "its run ended well", "nothing: succeeded is final"),
        State::Canceled => {
            let reason = view.record.cancel_reason.as_deref().unwrap_or("no reason was given");
            done(view, &format!("it was called off: {reason}"), "nothing: canceled is final")
        }
        State::Paused => (
            "a person paused it".to_owned(),
            format!("`backstop job resume {}` puts it back to where it was", view.job.spec.id),
            None,
        ),
        State::Failed => dead(view),
    };
    Explanation {
        status: view.state(),
        because,
        next,
        next_at,
        checks: checks(view, around),
        last_decision: around.last_decision.clone(),
    }
}

type Sentences = (String, String, Option<Timestamp>);

fn waiting(view: &JobView, around: &Surroundings) -> Sentences {
    let (spec, record) = (&view.job.spec, &view.record);
    if record.run_at > around.now {
        let why = if record.runs == 0 { "its time has not come" } else { "it waits for its next run" };
        return (
            format!("{why}: it is due at {}", record.run_at),
            "a free worker takes it then".into(),
            Some(record.run_at),
        );
    }
    if around.queue_paused {
        let next = format!("`backstop queue resume {}` lets it go", spec.queue);
        return (format!("its queue `{}` is paused", spec.queue), next, None);
    }
    if around.workers_on_queue == 0 {
        let next = format!("it starts as soon as a worker for `{}` is up", spec.queue);
        return (format!("no live worker serves its queue `{}`", spec.queue), next, None);
    }
    if around.workers_for_kind == 0 {
        let what = format!("kind `{}` version {}", spec.kind, spec.version);
        return (
            format!(
                "it waits for code: {} live on `{}`, none knows {what}",
                plural(around.workers_on_queue, "worker"),
                spec.queue
            ),
            format!("it is released as soon as a worker that knows {what} is up"),
            None,
        );
    }
    ("it is due and waits for a free slot".into(), "the next free worker takes it".into(), None)
}

fn running(view: &JobView, around: &Surroundings) -> Sentences {
    let started = view.record.hold.and_then(|hold| hold.started_at);
    let Some(holder) = &around.holder else {
        return ("a worker holds it".into(), "its worker reports how it ended".into(), None);
    };
    let who = format!("worker {} ({})", holder.name, holder.worker);
    let because = match started {
        Some(at) => format!("{who} runs it since {at}"),
        None => format!("{who} has claimed it and not started it yet"),
    };
    if holder.until < around.now {
        let next =
            "its worker stopped renewing: any other worker takes it back by the crash rules".to_owned();
        return (because, next, Some(around.now));
    }
    let next = format!(
        "its worker reports how it ended, or loses it when its lease is not renewed by {}",
        holder.until
    );
    (because, next, Some(holder.until))
}

fn dead(view: &JobView) -> Sentences {
    let id = view.job.spec.id;
    let reason = view.record.reason;
    let meaning = reason.map_or("it failed for good.", TerminalReason::meaning);
    let error =
        view.last_failure.as_ref().map_or_else(String::new, |f| format!(" Last error: {}", f.message));
    let because = format!(
        "it is a dead letter ({}): {meaning}{error}",
        reason.map_or("failed", TerminalReason::as_str)
    );
    let next = match reason {
        Some(TerminalReason::Invalid | TerminalReason::Signature) => {
            format!(
                "nothing: driving the same input again cannot help; submit a corrected job instead of {id}"
            )
        }
        _ => format!("nothing by itself: mend the cause, then `backstop job retry {id}`"),
    };
    (because, next, None)
}

fn done(view: &JobView, because: &str, next: &str) -> Sentences {
    let at = view.record.finished_at.map_or_else(String::new, |at| format!(" at {at}"));
    (format!("{because}{at}"), next.to_owned(), None)
}

fn checks(view: &JobView, around: &Surroundings) -> Vec<Check> {
    let (spec, record) = (&view.job.spec, &view.record);
    let mut list = Vec::new();
    let mut add = |check: &str, answer: String| list.push(Check { check: check.to_owned(), answer });
    add("state", record.state.to_string());
    add(
        "run_at",
        if record.run_at <= around.now {
            format!("due since {}", record.run_at)
        } else {
            format!("due at {}", record.run_at)
        },
    );
    add("queue", if around.queue_paused { "paused".into() } else { "open".into() });
    add("workers", format!("{} on queue `{}`", around.workers_on_queue, spec.queue));
    add("code", format!("{} know kind `{}` version {}", around.workers_for_kind, spec.kind, spec.version));
    add("attempts", format!("{} of {} used", record.attempt, u64::from(spec.policy.max_retries) + 1));
    add("crashes", format!("{} of {} forgiven", record.crashes, spec.policy.max_crashes));
    add("deferrals", record.deferrals.to_string());
    if let Some(moment) = record.expires_at {
        add("expires", format!("must start by {moment}"));
    }
    if let Some(key) = &spec.business_key {
        let held = if record.state.is_live() { "held by this job" } else { "free: this job has ended" };
        add("business_key", format!("`{key}` is {held}"));
    }
    if let Some(successor) = record.superseded_by {
        add("superseded_by", successor.to_string());
    }
    if record.redrives > 0 {
        add("redrives", record.redrives.to_string());
    }
    list
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun} is") } else { format!("{count} {noun}s are") }
}
