//! Why a job is where it is, and what happens next and when (F20).
//!
//! Everything comes in as values: the job, its latest decision, and its surroundings as the store sees them.
//! Later reasons (limits, circuits) join as further checks in [`explain`].

mod waiting;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::waiting::waiting;

use crate::failure::{Check, Decision, TerminalReason};
use crate::id::{JobId, WorkerId};
use crate::incident::{Incident, IncidentState};
use crate::job::{ALERT_WINDOW, JobView, LinePlace, PlanId, State};
use crate::run_limit::RunLimitView;
use crate::time::Timestamp;

/// What surrounds a job in its store.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainContext {
    /// The store's clock.
    pub now: Timestamp,
    /// True when its queue is paused.
    pub queue_paused: bool,
    /// Who or what paused the queue, if that was said.
    pub pause_note: Option<String>,
    /// Live workers that serve its queue.
    pub workers_on_queue: usize,
    /// Live workers that serve its queue and know its kind and version.
    pub workers_for_kind: usize,
    /// Of these, those whose code is new enough for it (D7): all of them unless a fix set a bound.
    pub workers_with_code: usize,
    /// Another live job that holds its business key.
    pub key_holder: Option<KeyHolder>,
    /// Where it stands among those with its ordering key, while it waits for its turn (L21).
    pub line: Option<LinePlace>,
    /// Who holds it, and until when that is certain.
    pub holder: Option<Holder>,
    /// The decision of its latest run.
    pub last_decision: Option<Decision>,
}

/// Another job that holds a business key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct KeyHolder {
    /// Which one.
    pub job: JobId,
    /// Where it is.
    pub state: State,
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

/// What concerns a job and is kept elsewhere than beside it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ExplainRelated {
    /// The incident of its latest failure (D2).
    pub incident: Option<Incident>,
    /// Re-drive plans that drove it or still may (D4).
    pub plans: Vec<PlanNote>,
    /// The limits that are about it (H5).
    pub limits: Vec<RunLimitView>,
    /// What a step of a workflow still waits for (W1, W2).
    pub steps_before: Vec<OpenStep>,
    /// Live workers that serve its queue, know it, and do not claim it for now (H1, H8).
    pub held_back: Vec<WorkerPause>,
}

/// What comes before a step and has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenStep {
    /// A step, by its name.
    Step(Arc<str>),
    /// A predicate, by its name: a worker that knows it is asked.
    Predicate(String),
}

impl std::fmt::Display for OpenStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Step(name) => write!(f, "`{name}`"),
            Self::Predicate(name) => write!(f, "the answer of the predicate `{name}`"),
        }
    }
}

/// A worker that could run a job and does not claim it for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerPause {
    /// Its name.
    pub worker: String,
    /// The dependency of the job's kind that is red there; none when its own failures are why.
    pub dependency: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// When it looks again, if that is known.
    pub next_at: Option<Timestamp>,
}

/// A re-drive plan, as far as one job is concerned.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanNote {
    /// Which plan.
    pub plan: PlanId,
    /// True when it has driven this job; false when this job's turn is still to come.
    pub drove_it: bool,
    /// Where the plan is and what comes next.
    pub sentence: String,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
pub fn explain(view: &JobView, around: &ExplainContext, beyond: &ExplainRelated) -> Explanation {
    let (because, next, next_at) = match view.state() {
        State::Pending | State::Waiting => waiting(view, around, beyond),
        State::Running => running(view, around),
        State::Succeeded => done(view, "its run succeeded", "nothing: succeeded is final"),
        State::Canceled => {
            let reason = view.record.cancel_reason.as_deref().unwrap_or("no reason was given");
            done(view, &format!("it was canceled: {reason}"), "nothing: canceled is final")
        }
        State::Paused => (
            "a person paused it".to_owned(),
            format!("`backstop job resume {}` puts it back to where it was", view.job.spec.id),
            None,
        ),
        State::Failed => dead(view, around, beyond),
    };
    Explanation {
        status: view.state(),
        because,
        next,
        next_at,
        checks: checks(view, around, beyond),
        last_decision: around.last_decision.clone(),
    }
}

type Sentences = (String, String, Option<Timestamp>);

fn running(view: &JobView, around: &ExplainContext) -> Sentences {
    let started = view.record.hold.and_then(|hold| hold.started_at);
    let Some(holder) = &around.holder else {
        return ("a worker holds it".into(), "its worker reports how it ended".into(), None);
    };
    let who = format!("worker {} ({})", holder.name, holder.worker);
    // Whoever has crashed is held by its claim, and started by itself (C3).
    let suspect = started.is_none() && !view.record.starts_when_claimed();
    let because = match started {
        Some(at) => format!("{who} has been running it since {at}"),
        None if suspect => format!(
            "{who} holds it and has not started it: it has crashed ({} so far), and may have to run alone",
            view.record.crashes
        ),
        None => format!("{who} has claimed it and not started it yet"),
    };
    if holder.until < around.now {
        let next =
            "its worker stopped renewing: any other worker takes it back by the crash rules".to_owned();
        return (because, next, Some(around.now));
    }
    if suspect {
        let next = "it starts when nothing else runs in that worker, or goes back uncharged".to_owned();
        return (because, next, None);
    }
    let next = format!(
        "its worker reports how it ended, or loses it when its lease is not renewed by {}",
        holder.until
    );
    (because, next, Some(holder.until))
}

fn dead(view: &JobView, around: &ExplainContext, beyond: &ExplainRelated) -> Sentences {
    let id = view.job.spec.id;
    let reason = view.record.reason;
    let meaning = reason.map_or("it failed for good.", TerminalReason::meaning);
    let rule = around.last_decision.as_ref().and_then(Decision::rule_id);
    let rule = rule.map_or_else(String::new, |rule| format!(" Failure rule `{rule}` decided so."));
    let error =
        view.last_failure.as_ref().map_or_else(String::new, |f| format!(" Last error: {}", f.message));
    let because = format!(
        "it is a dead letter ({}): {meaning}{rule}{error}",
        reason.map_or("failed", TerminalReason::as_str)
    );
    if let Some(holder) = around.key_holder {
        let key = view.job.spec.business_key.as_deref().unwrap_or_default();
        let next = format!(
            "nothing by itself: its business key `{key}` is held by job {} ({}), which must end before a retry",
            holder.job, holder.state
        );
        return (because, next, None);
    }
    if let Some(plan) = beyond.plans.iter().find(|plan| !plan.drove_it) {
        return (because, format!("re-drive plan {} has it on its list: {}", plan.plan, plan.sentence), None);
    }
    let next = match reason {
        Some(TerminalReason::Invalid | TerminalReason::Signature) => {
            format!(
                "nothing: driving the same input again cannot help; submit a corrected job instead of {id}"
            )
        }
        _ => match view.record.step_history().and_then(|steps| steps.unknown().next()) {
            Some(effect) => {
                let key = effect.key.as_deref().unwrap_or_default();
                format!(
                    "nothing by itself: find out whether effect `{}` with key `{key}` happened; `backstop job retry \
                     {id}` lets it be called again with the same key",
                    effect.name
                )
            }
            None => format!("nothing by itself: fix the cause, then `backstop job retry {id}`"),
        },
    };
    let line = view.job.spec.ordering_key.as_ref().map_or_else(String::new, |key| {
        format!(
            ". Jobs with its ordering key `{key}` wait behind it; `backstop key skip {key}` lets them go on"
        )
    });
    (because, next + &line, None)
}

fn done(view: &JobView, because: &str, next: &str) -> Sentences {
    let at = view.record.finished_at.map_or_else(String::new, |at| format!(" at {at}"));
    (format!("{because}{at}"), next.to_owned(), None)
}

fn due(run_at: Timestamp, now: Timestamp) -> String {
    if run_at <= now { format!("due since {run_at}") } else { format!("due at {run_at}") }
}

fn how_queue_is(around: &ExplainContext) -> String {
    match (around.queue_paused, &around.pause_note) {
        (false, _) => "open".into(),
        (true, None) => "paused".into(),
        (true, Some(note)) => format!("paused by {note}"),
    }
}

fn checks(view: &JobView, around: &ExplainContext, beyond: &ExplainRelated) -> Vec<Check> {
    let (spec, record) = (&view.job.spec, &view.record);
    let mut list = Vec::new();
    let mut add = |check: &str, answer: String| list.push(Check { check: check.to_owned(), answer });
    add("state", record.state.to_string());
    add("run_at", due(record.run_at, around.now));
    add("queue", how_queue_is(around));
    add("workers", format!("{} on queue `{}`", around.workers_on_queue, spec.queue));
    add("code", format!("{} know kind `{}` version {}", around.workers_for_kind, spec.kind, spec.version));
    for one in &beyond.held_back {
        let what = one.dependency.as_ref().map_or_else(
            || "claims nothing because of its failures".to_owned(),
            |dependency| format!("finds `{dependency}` unavailable"),
        );
        add("health", format!("worker {} {what} since {}", one.worker, one.since));
    }
    if let Some(needs) = record.needs() {
        add("code_version", format!("{} have version {needs} or later", around.workers_with_code));
    }
    if let Some(holder) = &around.holder {
        add("lease", format!("held by {} until {}", holder.name, holder.until));
    }
    add("attempts", format!("{} of {} used", record.attempt, u64::from(spec.policy.max_retries) + 1));
    add("crashes", format!("{} of {} forgiven", record.crashes, spec.policy.max_crashes));
    add("deferrals", record.deferrals.to_string());
    if let Some(moment) = record.expires_at {
        add("expires", format!("must start by {moment}"));
    }
    if let Some(key) = &spec.business_key {
        let held = match around.key_holder {
            _ if record.state.is_live() => "held by this job".to_owned(),
            Some(holder) => format!("held by job {} ({})", holder.job, holder.state),
            None => "free: this job has ended".to_owned(),
        };
        add("business_key", format!("`{key}` is {held}"));
    }
    if let Some(key) = &spec.ordering_key {
        let place = match around.line {
            Some(place) if record.state == State::Waiting => format!("{} before it", place.before),
            _ if record.leaves_line() => "it has left its line".to_owned(),
            _ => "it is the first of its line".to_owned(),
        };
        add("ordering_key", format!("`{key}`: {place}"));
    }
    if let Some(dependency) = &spec.dependency {
        add("dependency", format!("`{dependency}`, in place of what its kind needs"));
    }
    if let Some(fired) = spec.schedule() {
        add("schedule", format!("`{}`, to fire at {}", fired.name, fired.fire_time));
    }
    for limit in &beyond.limits {
        add("limit", format!("`{}`: {}", limit.limit.name, limit.describe()));
    }
    if let Some(successor) = record.superseded_by {
        add("superseded_by", successor.to_string());
    }
    if record.redrives > 0 {
        add("redrives", record.redrives.to_string());
    }
    for step in record.steps_in_order() {
        add("step", step.sentence());
    }
    for (check, answer) in afterwards(view, beyond, around.now) {
        add(check, answer);
    }
    list
}

/// What is known of a job beyond its own life: its incident, the alert about it, the plans it is part of.
fn afterwards(view: &JobView, beyond: &ExplainRelated, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut list = Vec::new();
    if let Some(incident) = &beyond.incident {
        let version = incident.standing.fixed_in.as_ref().map_or_else(String::new, |v| format!(" in {v}"));
        let open = incident.open;
        let letters = if open == 1 { "letter" } else { "letters" };
        let state = incident.standing.state;
        list.push((
            "incident",
            format!("{} ({state}{version}), {open} dead {letters}", incident.fingerprint),
        ));
    }
    if let Some(alert) = view.record.alert() {
        let until = alert.at.after(ALERT_WINDOW);
        let muted = beyond.incident.as_ref().is_some_and(|it| it.standing.state == IncidentState::Muted);
        let answer = match alert.suppressed {
            _ if muted => "suppressed: its incident is muted".to_owned(),
            0 => format!("raised at {}", alert.at),
            more if now < until => {
                format!("raised at {}; {more} repeats were counted and suppressed, until {until}", alert.at)
            }
            more => format!("raised at {}; {more} repeats were counted and suppressed", alert.at),
        };
        list.push(("alert", answer));
    }
    for plan in &beyond.plans {
        let part = if plan.drove_it { "drove it" } else { "has it on its list" };
        list.push(("redrive", format!("plan {} {part}: {}", plan.plan, plan.sentence)));
    }
    list
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun} is") } else { format!("{count} {noun}s are") }
}
