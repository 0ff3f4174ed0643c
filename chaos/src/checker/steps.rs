//! What handlers did in durable steps, and outside (W7, W8, C6).

use backstop::{Job, State};
use backstop_core::job::StepState;

use super::kept::Kept;
use super::summary::JournalSummary;
use crate::crash::job::EffectJob;
use crate::outside::{self, EffectStepsJob};
use crate::steps::{self, SteppingJob};

/// Adds what is wrong with the steps and the effects of one job.
pub(super) fn check(kept: &Kept, summary: &JournalSummary, found: &mut Vec<String>) {
    check_effects(kept, summary, found);
    check_unknown(kept, summary, found);
    check_steps(kept, summary, found);
}

/// The code of a step is called once in a run and not again once its success is stored, every run is given the same
/// result, and what the record says of it is what was given (W7).
fn check_steps(kept: &Kept, summary: &JournalSummary, found: &mut Vec<String>) {
    let stored = kept.view.record.steps();
    for (name, runs) in summary.steps.get(&kept.view.job.spec.id).into_iter().flatten() {
        let mark = stored.iter().find(|step| step.name == *name && step.state == StepState::Done);
        // No handler of a campaign calls the same step twice.
        for (run, times) in runs.called.iter().filter(|(_, times)| **times > 1) {
            found.push(format!("step {name} was called {times} times by run {run}"));
        }
        if runs.given.len() > 1 {
            found.push(format!("step {name} gave results of several runs: {:?}", runs.given));
        }
        match mark {
            Some(mark) => {
                if let Some(late) = runs.called.keys().find(|run| **run > mark.run) {
                    found
                        .push(format!("step {name} was stored by run {} and called by run {late}", mark.run));
                }
                if runs.given.iter().any(|run| *run != mark.run) {
                    found.push(format!("step {name} was stored by run {}, given {:?}", mark.run, runs.given));
                }
            }
            None if runs.given.is_empty() => {}
            None => found.push(format!("step {name} gave a result that is not stored")),
        }
    }
    let done = |name: &str| stored.iter().any(|step| step.name == name && step.state == StepState::Done);
    if kept.view.record.state == State::Succeeded && &*kept.view.job.spec.kind == SteppingJob::KIND {
        let missing: Vec<_> = steps::NAMES.iter().filter(|name| !done(name)).collect();
        if !missing.is_empty() {
            found.push(format!("it succeeded without its steps {missing:?}"));
        }
    }
}

/// What a job does outside is done when it has succeeded, and under one key however often (C6).
fn check_effects(kept: &Kept, summary: &JournalSummary, found: &mut Vec<String>) {
    let (spec, succeeded) = (&kept.view.job.spec, kept.view.record.state == State::Succeeded);
    let keys = summary.effects.get(&spec.id).map_or(&[][..], Vec::as_slice);
    let has_one = *spec.kind == *EffectJob::KIND || *spec.kind == *EffectStepsJob::KIND;
    if has_one && succeeded && keys.is_empty() {
        found.push("it succeeded, and its effect never happened".to_owned());
    }
    if keys.iter().any(|key| *key != keys[0]) {
        found.push(format!("its effect happened under different keys: {keys:?}"));
    }
}

/// Of an effect that may have happened, a run that verifies asks before it calls, and calls only what has not happened;
/// one that calls again with the same key asks nobody (W8).
fn check_unknown(kept: &Kept, summary: &JournalSummary, found: &mut Vec<String>) {
    let spec = &kept.view.job.spec;
    if *spec.kind != *EffectStepsJob::KIND {
        return;
    }
    let job = serde_json::from_str::<EffectStepsJob>(&spec.payload);
    let verifies = job.is_ok_and(|job| job.verifies());
    let asked = summary.asked_outside.get(&spec.id);
    if !verifies && let Some(asked) = asked {
        found.push(format!("it asked whether its effect has happened, and was not to: {asked:?}"));
    }
    let effect = summary.steps.get(&spec.id).and_then(|steps| steps.get(outside::EFFECT));
    let mut called_before = false;
    for run in effect.into_iter().flat_map(|effect| effect.called.keys()) {
        match asked.and_then(|asked| asked.get(run)) {
            Some(true) => found.push(format!("run {run} heard that its effect has happened, and called it")),
            None if called_before && verifies => {
                found.push(format!("run {run} called an effect that may have happened, and asked nobody"));
            }
            _ => {}
        }
        called_before = true;
    }
    let happened = asked.into_iter().flatten().find(|(_, happened)| **happened);
    if let (Some((run, _)), Some(effect)) = (happened, effect)
        && effect.called.range(run + 1..).next().is_some()
    {
        found.push(format!("run {run} heard that its effect has happened, and a later one called it"));
    }
}

#[cfg(test)]
mod tests {
    use backstop::{JobId, Timestamp};
    use backstop_core::job::{JobView, Record, Spec, StoredJob};

    use super::*;

    /// A job that has not run.
    fn kept() -> Kept {
        let spec = Spec::new(JobId::from_u128(1), SteppingJob::KIND, r#"{"number":5}"#);
        let record = Record::new(&spec, Timestamp::EPOCH);
        let view = JobView {
            job: StoredJob { spec, created_at: Timestamp::EPOCH },
            record,
            waits_for_code: false,
            held_by: None,
            last_failure: None,
            result: None,
            warning: None,
            started_at: None,
        };
        Kept { view, rows: Vec::new() }
    }

    #[test]
    fn a_step_that_is_called_twice_in_one_run_is_found() {
        let (kept, mut summary) = (kept(), JournalSummary::default());
        let steps = summary.steps.entry(kept.view.job.spec.id).or_default();
        let called = &mut steps.entry("fetch".to_owned()).or_default().called;
        called.extend([(1, 1), (2, 1)]);
        let mut found = Vec::new();
        check(&kept, &summary, &mut found);
        assert!(found.is_empty(), "a step that is not stored may be called by the next run: {found:?}");
        let steps = summary.steps.entry(kept.view.job.spec.id).or_default();
        steps.entry("fetch".to_owned()).or_default().called.insert(2, 2);
        check(&kept, &summary, &mut found);
        assert_eq!(found, ["step fetch was called 2 times by run 2"]);
    }
}
