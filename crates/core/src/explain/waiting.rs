//! What a job waits for that has not started.

use super::{ExplainContext, ExplainRelated, OpenStep, Sentences, WorkerPause, plural};
use crate::job::{JobView, LinePlace, PartOf, SignalWait, State, WaitDetail, WaitReason};
use crate::run_limit::RunLimitView;

/// Steps that are named when a job waits for many.
const MOST_NAMED: usize = 5;

/// Why a job that has not started waits, and what lets it go. The first reason that holds is told.
pub(super) fn waiting(view: &JobView, around: &ExplainContext, beyond: &ExplainRelated) -> Sentences {
    let (spec, record) = (&view.job.spec, &view.record);
    if let Some(sentences) = record.signal_wait().map(for_signal) {
        return sentences;
    }
    if let Some(key) = spec.ordering_key.as_deref().filter(|_| record.state == State::Waiting) {
        return in_line(key, around.line);
    }
    if let Some(part) = spec.part_of().filter(|_| record.state == State::Waiting) {
        return in_workflow(part, &beyond.steps_before);
    }
    // Before its time: between two offers to workers without the fix it only seems to wait for that.
    if let Some(needs) = record.needs().filter(|_| around.workers_with_code == 0 && !around.queue_paused) {
        return (
            format!(
                "it waits for code: it was driven again for a fix in version {needs}, and no live worker has that yet"
            ),
            format!("a worker with version {needs} or later takes it"),
            None,
        );
    }
    if record.run_at > around.now {
        // It was put off because of that, and is let go with it.
        if let Some(sentences) = view.held_by.as_ref().and_then(circuit_open) {
            return sentences;
        }
        let why = if record.runs == 0 { "its time has not come" } else { "it waits for its next run" };
        return (
            format!("{why}: it is due at {}", record.run_at),
            "a free worker takes it then".into(),
            Some(record.run_at),
        );
    }
    if around.queue_paused {
        let next = format!("`backstop queue resume {}` lets it run", spec.queue);
        let by = around.pause_note.as_ref().map_or_else(String::new, |note| format!(" by {note}"));
        return (format!("its queue `{}` is paused{by}", spec.queue), next, None);
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
    if let Some(sentences) = nobody_claims(around, &beyond.held_back) {
        return sentences;
    }
    if let Some(sentences) = view.held_by.as_ref().and_then(circuit_open) {
        return sentences;
    }
    if let Some(sentences) = view.held_by.as_ref().and_then(|held_by| sharing(view, held_by)) {
        return sentences;
    }
    if let Some(sentences) = beyond.limits.iter().find(|limit| limit.is_full()).map(limited) {
        return sentences;
    }
    ("it is due and waits for a free slot".into(), "the next free worker takes it".into(), None)
}

/// Why a job waits for other steps of its workflow (W1).
fn in_workflow(part: &PartOf, before: &[OpenStep]) -> Sentences {
    let step = part.node.as_deref().unwrap_or_default();
    let mut named: Vec<String> = before.iter().take(MOST_NAMED).map(ToString::to_string).collect();
    match before.len().saturating_sub(named.len()) {
        0 => {}
        more => named.push(format!("{more} more")),
    }
    let last = named.pop().unwrap_or_else(|| "the steps before it".to_owned());
    let all = if named.is_empty() { last } else { format!("{} and {last}", named.join(", ")) };
    (
        format!("it is the step `{step}` of workflow {}, and waits for {all}", part.id),
        "it is released when they have ended as it asks, and canceled when they cannot any more".into(),
        None,
    )
}

/// Why a job waits for a signal (W10).
fn for_signal(wait: &SignalWait) -> Sentences {
    let SignalWait { signal, until, .. } = wait;
    (
        format!("it waits for the signal `{signal}`"),
        format!("`backstop signal send {signal}` lets it go on; at {until} it goes on without"),
        Some(*until),
    )
}

/// Why a job waits for the circuit of its dependency (H3).
fn circuit_open(held_by: &WaitDetail) -> Option<Sentences> {
    let until = held_by.until.filter(|_| held_by.reason == WaitReason::Circuit)?;
    let key = &held_by.key;
    let because = format!(
        "the circuit of its dependency `{key}` is open: too many calls failed, or a person opened it"
    );
    let next = format!(
        "a few runs try `{key}` at {until}; nothing is charged. `backstop circuit close {key}` lets all of them go"
    );
    Some((because, next, Some(until)))
}

/// Why a job waits for something that it shares with others (H5, H6).
fn sharing(view: &JobView, held_by: &WaitDetail) -> Option<Sentences> {
    let needs = view.job.spec.needs.as_deref()?;
    let WaitDetail { reason, key, holder, until, .. } = held_by;
    let who = holder.map_or_else(String::new, |job| format!(", one of them job {job}"));
    let ends = || "a free worker takes it when one of them has ended, and its turn has come".to_owned();
    let change = format!("`backstop limit set {key}` changes that");
    Some(match reason {
        WaitReason::Concurrency => {
            let own = needs.limit_key.as_deref().unwrap_or_default();
            let because = format!(
                "it is due, and the limit `{key}` has no room for its key `{own}`: as many as it allows run{who}"
            );
            (because, format!("{}; {change}", ends()), None)
        }
        WaitReason::Rate => {
            let own = needs.limit_key.as_deref().unwrap_or_default();
            let because =
                format!("it is due, and the rate of the limit `{key}` has no start left for its key `{own}`");
            let at = until.map_or_else(String::new, |at| format!(" at {at}"));
            (because, format!("the limit lets another job of that key start{at}; {change}"), *until)
        }
        WaitReason::SingleInstance => {
            let job = holder.map_or_else(|| "another job".to_owned(), |job| format!("job {job}"));
            let because = format!("it is due, and {job} runs as the single instance of `{key}`");
            (because, "a free worker takes it when that has ended, and its turn has come".into(), None)
        }
        WaitReason::Permits => {
            let wanted = needs.permits.get(&**key).copied().unwrap_or_default();
            let permits = if wanted == 1 { "permit" } else { "permits" };
            let because = format!(
                "it is due and needs {wanted} {permits} of the pool `{key}`, which has not so many left{who}"
            );
            let make = format!("`backstop limit set {key} --permits N` makes the pool or changes it");
            (because, format!("{}; {make}", ends()), None)
        }
        _ => return None,
    })
}

/// Why a job waits for a limit, and when that lets it go (H5).
fn limited(limit: &RunLimitView) -> Sentences {
    let because =
        format!("it is due, and the limit `{}` has no room: {}", limit.limit.name, limit.describe());
    let change = format!("`backstop limit set {}` changes it", limit.limit.name);
    match limit.next_start() {
        Some(at) => (because, format!("the limit lets another job start at {at}; {change}"), Some(at)),
        None => (because, format!("a free worker takes it when one of them has ended; {change}"), None),
    }
}

/// Why every worker that could run a job leaves it for now; none when one of them would take it.
fn nobody_claims(around: &ExplainContext, held_back: &[WorkerPause]) -> Option<Sentences> {
    let first = held_back.iter().min_by_key(|one| one.since)?;
    if held_back.len() < around.workers_for_kind {
        return None;
    }
    let next_at = held_back.iter().filter_map(|one| one.next_at).min();
    let who =
        if held_back.len() == 1 { format!("worker {}", first.worker) } else { "every worker".to_owned() };
    Some(match &first.dependency {
        Some(dependency) => (
            format!(
                "it waits for its dependency `{dependency}`, which {who} finds unavailable since {}",
                first.since
            ),
            format!("it is claimed as soon as `{dependency}` is available again; nothing is charged"),
            next_at,
        ),
        None => (
            format!(
                "{who} that could run it claims nothing since {}: it fails far more often than others",
                first.since
            ),
            "it is claimed when a worker is well again, or another one for its kind is up".to_owned(),
            next_at,
        ),
    })
}

/// Why a job waits for others with its ordering key, and what lets them go on (L21).
fn in_line(key: &str, place: Option<LinePlace>) -> Sentences {
    let before = place.map_or(0, |place| place.before);
    let others = if before == 1 { "job" } else { "jobs" };
    let Some((head, state)) = place.and_then(|place| place.head) else {
        let because = format!("it waits for its turn behind {before} {others} with the ordering key `{key}`");
        return (because, "the first of them is let go within seconds".into(), None);
    };
    let because = format!(
        "it waits for its turn: {before} {others} with the ordering key `{key}` before it, first of them job {head} \
         ({state})"
    );
    let next = match state {
        State::Failed => format!(
            "nothing by itself: the first job failed. `backstop job retry {head}` runs it again, \
             `backstop key skip {key}` gives it up and lets the next one go"
        ),
        State::Paused => format!(
            "nothing by itself: the first job is paused. `backstop job resume {head}` lets it go, \
             `backstop key skip {key}` gives it up"
        ),
        _ => "its turn comes when all of them have succeeded or were canceled".into(),
    };
    (because, next, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    fn around(workers: usize) -> ExplainContext {
        ExplainContext {
            now: Timestamp::EPOCH,
            queue_paused: false,
            pause_note: None,
            workers_on_queue: workers,
            workers_for_kind: workers,
            workers_with_code: workers,
            key_holder: None,
            line: None,
            holder: None,
            last_decision: None,
        }
    }

    fn pause(worker: &str, dependency: Option<&str>, second: i64) -> WorkerPause {
        let at = |second: i64| Timestamp::from_micros(second * 1_000_000);
        let dependency = dependency.map(str::to_owned);
        WorkerPause {
            worker: worker.to_owned(),
            dependency,
            since: at(second),
            next_at: Some(at(second + 60)),
        }
    }

    #[test]
    fn a_job_that_every_worker_leaves_for_now_says_why() {
        // H1, H8, F20
        let told = |workers, held: &[WorkerPause]| nobody_claims(&around(workers), held).map(|told| told.0);
        assert_eq!(told(1, &[]), None);
        assert_eq!(told(2, &[pause("a", Some("smtp"), 5)]), None, "another one would take it");
        let alone = told(1, &[pause("a", Some("smtp"), 5)]).expect("nobody takes it");
        assert_eq!(
            alone,
            "it waits for its dependency `smtp`, which worker a finds unavailable since 1970-01-01T00:00:05Z"
        );
        let all = [pause("b", Some("smtp"), 9), pause("a", Some("smtp"), 5)];
        let all = nobody_claims(&around(2), &all).expect("nobody takes it");
        assert!(
            all.0.ends_with("which every worker finds unavailable since 1970-01-01T00:00:05Z"),
            "{}",
            all.0
        );
        assert_eq!(all.2, Some(Timestamp::from_micros(65_000_000)), "the first of them to look again");
        let sick = told(1, &[pause("a", None, 5)]).expect("nobody takes it");
        assert!(sick.starts_with("worker a that could run it claims nothing since"), "{sick}");
    }
}
