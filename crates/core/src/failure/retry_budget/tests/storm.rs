//! The outage: 50,000 jobs fail together for five minutes, and no storm follows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::*;
use crate::failure::{Cause, DecisionInput, Failure, HookAnswer, Verdict, decide};
use crate::job::Policy;

/// A tiny generator (splitmix64), so that a run can be repeated from its seed.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0.0..1.0`.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

const JOBS: u32 = 50_000;
const SEED: u64 = 19;

/// What an outage came to.
#[derive(Default)]
struct Outcome {
    succeeded: u32,
    dead: u32,
    most_retries_of_a_job: u32,
    per_second: BTreeMap<i64, u32>,
    /// The highest rate at which each second was booked.
    allowed: BTreeMap<i64, u32>,
}

impl Outcome {
    fn peak(&self) -> u32 {
        self.per_second.values().copied().max().unwrap_or(0)
    }

    /// Retries per second from the first retry to the last, with every second between them.
    fn mean(&self) -> f64 {
        let (first, last) = (self.per_second.keys().next(), self.per_second.keys().next_back());
        let seconds = first.zip(last).map_or(1, |(first, last)| last - first + 1);
        f64::from(self.per_second.values().sum::<u32>()) / seconds as f64
    }
}

/// Runs all jobs at second 0. Every run fails before second 300 and succeeds from then on.
fn outage(jobs: u32, policy: &Policy, settings: Option<&BudgetSettings>) -> Outcome {
    let mut random = Random(SEED);
    let mut budget = RetryBudget::default();
    budget.note_first_runs(at(0.0), u64::from(jobs));
    let failure = Failure::new(Cause::Error, "Refused", "connection refused");
    let mut outcome = Outcome::default();
    let mut due: BinaryHeap<_> = (0..jobs).map(|job| Reverse((at(0.0), job, 0_u32))).collect();
    while let Some(Reverse((now, job, attempt))) = due.pop() {
        if attempt > 0 {
            *outcome.per_second.entry(second_of(now)).or_default() += 1;
            outcome.most_retries_of_a_job = outcome.most_retries_of_a_job.max(attempt);
        }
        if now >= at(300.0) {
            outcome.succeeded += 1;
            continue;
        }
        let (hook, jitter) = (HookAnswer::default(), random.unit());
        let longest_delay = Duration::MAX;
        let situation = DecisionInput {
            policy,
            attempt,
            crashes: 0,
            deferrals: 0,
            hook,
            rule: None,
            jitter,
            longest_delay,
        };
        let Verdict::Retry { delay } = decide(&failure, &situation).verdict else {
            outcome.dead += 1;
            continue;
        };
        let mut next = now.after(delay);
        if let Some(settings) = settings {
            next = budget.admit(now, next, settings);
            let allowed = outcome.allowed.entry(second_of(next)).or_default();
            *allowed = budget.rate(now, settings).max(*allowed);
        }
        due.push(Reverse((next, job, attempt + 1)));
    }
    outcome
}

#[test]
fn an_outage_is_not_followed_by_a_storm() {
    // F19: the default settings, a floor of 100 a second and 20 % of the first runs, and the default policy of
    // five retries from one second to thirty with full jitter.
    let settings = BudgetSettings::default();
    let outcome = outage(JOBS, &Policy::default(), Some(&settings));
    let (peak, mean) = (outcome.peak(), outcome.mean());
    let ratio = f64::from(peak) / mean;
    println!(
        "{} succeeded, {} dead, {} seconds with retries, peak {peak}/s, mean {mean:.1}/s, peak to mean {ratio:.2}, \
         at most {} retries of one job (seed {SEED})",
        outcome.succeeded,
        outcome.dead,
        outcome.per_second.len(),
        outcome.most_retries_of_a_job,
    );
    assert_eq!((outcome.succeeded, outcome.dead), (JOBS, 0), "no job is lost");
    for (second, retries) in &outcome.per_second {
        assert!(*retries <= outcome.allowed[second], "second {second} holds {retries}");
        // 100 + 50,000 * 20 % / 300 s, rounded up: no rate is ever higher than with all first runs in view.
        assert!(*retries <= 134, "second {second} holds {retries}");
    }
    assert!(ratio <= 2.0, "peak to mean is {ratio:.2}");
}

#[test]
fn without_a_budget_the_same_outage_is_a_storm_and_loses_jobs() {
    // F19: what the test above would show if the budget did nothing.
    let outcome = outage(JOBS, &Policy::default(), None);
    let ratio = f64::from(outcome.peak()) / outcome.mean();
    println!("{} dead, peak {}/s, peak to mean {ratio:.1} (seed {SEED})", outcome.dead, outcome.peak());
    assert!(outcome.dead > 0);
    assert!(ratio > 2.0);

    // Enough retries to outlive the outage save the jobs and not the dependency; a tenth of them shows it.
    let patient = outage(JOBS / 10, &Policy::default().retries(1_000), None);
    let ratio = f64::from(patient.peak()) / patient.mean();
    println!(
        "{} jobs with 1,000 retries: peak {}/s, peak to mean {ratio:.1} (seed {SEED})",
        JOBS / 10,
        patient.peak()
    );
    assert_eq!(patient.succeeded, JOBS / 10);
    assert!(ratio > 2.0);
}
