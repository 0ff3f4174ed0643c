//! Random jobs and random endings of runs, for scripts.

use std::time::Duration;

use backstop_core::depth::{DepthLimit, DepthScope};
use backstop_core::failure::{Backoff, Cause, Decision, Failure, TerminalReason, Verdict};
use backstop_core::job::{
    Callback, Ending, NewJob, OnConflict, Priority, SignalWait, Spec, Start, signal_step,
};
use backstop_core::workflow::PartOf;
use backstop_core::{Timestamp, WorkflowId};

use super::build::{ending, id, number, success};
use super::people::VERSIONS;
use super::script::{KEYS, KINDS, MESSAGES, QUEUES, Script, TAGS};
use crate::ClaimedJob;

/// What parked jobs of scripts wait for.
pub(super) fn signal_wait(now: Timestamp) -> SignalWait {
    let (signal, step) = ("approved".to_owned(), signal_step("approved", 1));
    SignalWait { signal, step, until: now.after(Duration::from_secs(60)) }
}

impl Script {
    /// A job to submit: usually a new one, with whatever a submit may bring.
    pub(super) fn draft(&mut self) -> NewJob {
        let again = self.latest > 0 && self.dice.percent(8);
        if !again {
            self.latest += 1;
        }
        let number = if again { self.dice.between(1, self.latest) } else { self.latest };
        let mut spec = Spec::new(id(number), self.dice.one_of(&KINDS), format!("{{\"n\": {number}}}"));
        spec.version = u32::try_from(self.dice.between(1, 3)).unwrap_or(1);
        spec.queue = self.dice.one_of(&QUEUES).into();
        spec.priority = self.dice.one_of(&Priority::ALL);
        spec.tags = TAGS.iter().filter(|_| self.dice.percent(30)).map(|tag| (*tag).to_owned()).collect();
        self.promises(&mut spec);
        let mut maybe = |chance| self.dice.percent(chance).then(|| self.dice.one_of(&KEYS).to_owned());
        spec.idempotency_key = maybe(20);
        spec.business_key = maybe(35);
        spec.correlation_id = maybe(10);
        // Without a throw of its own: seeds go on to mean what they meant.
        let line = KEYS.get(usize::try_from(number / 3 % 3).unwrap_or(0));
        spec.ordering_key = line.filter(|_| number % 3 == 0).map(|key| (*key).into());
        if number % 3 == 1 {
            let needs = spec.needs_mut();
            needs.limit_key = line.filter(|_| number % 4 != 0).map(|key| (*key).into());
            needs.single_instance = line.filter(|_| number % 5 == 0).map(|name| (*name).into());
            let pool = ("pool".into(), u32::try_from(number % 3).unwrap_or(0) + 1);
            needs.permits = [pool].into_iter().filter(|_| number % 4 == 0).collect();
            if needs.is_empty() {
                spec.needs = None;
            }
        }
        if number % 11 == 0 {
            spec.policy.max_deferral = Some(Duration::from_secs(30));
        }
        if number % 13 == 5 || number % 13 == 8 {
            // A job of a batch, or a step that follows others.
            let (id, node) = (WorkflowId::from_u128(u128::from(number % 3)), Some("step".into()));
            let number = u32::try_from(number).unwrap_or(0);
            let part =
                PartOf { id, node, number, follows: number % 13 == 8, renewed: false, payload_from: None };
            spec.provenance_mut().part_of = Some(part);
            spec.ordering_key = None;
        }
        spec.on_success = self.callback();
        spec.on_failure = self.callback();
        let mut new = NewJob::new(spec);
        new.start = self.start();
        new.on_conflict = self.dice.one_of(&[OnConflict::Reject, OnConflict::Skip, OnConflict::Replace]);
        new.supersedes = self.dice.percent(8).then(|| self.job());
        if number % 7 == 0 {
            let scope = DepthScope::Queue(new.spec.queue.clone());
            new.depth_limits = vec![DepthLimit { scope, most: number % 5 + 1 }];
        }
        new
    }

    fn promises(&mut self, spec: &mut Spec) {
        let policy = &mut spec.policy;
        policy.max_retries = u32::try_from(self.dice.between(0, 3)).unwrap_or(0);
        policy.max_crashes = u32::try_from(self.dice.between(0, 2)).unwrap_or(0);
        policy.backoff = Backoff::fixed(self.millis(4_000));
        policy.max_wait = self.dice.percent(20).then(|| self.millis(15_000));
        spec.expires_at = self.dice.percent(15).then(|| self.now.after(self.millis(20_000)));
    }

    fn start(&mut self) -> Start {
        match self.dice.between(1, 10) {
            1 | 2 => Start::After(self.millis(10_000)),
            3 => Start::At(self.now.after(self.millis(10_000))),
            4 => Start::At(self.now.before(self.millis(10_000))),
            _ => Start::Now,
        }
    }

    fn callback(&mut self) -> Option<Callback> {
        self.dice.percent(25).then(|| Callback {
            kind: self.dice.one_of(&KINDS).into(),
            version: 1,
            queue: self.dice.one_of(&QUEUES).into(),
            payload: "null".into(),
        })
    }

    /// How a run ends: mostly as the rules decide, now and then in a way they never would.
    pub(super) fn ending(&mut self, hold: &ClaimedJob) -> Ending {
        let cause = if self.dice.percent(30) { Cause::Succeeded } else { self.dice.one_of(Cause::ALL) };
        let mut ends = if cause == Cause::Succeeded { success(hold) } else { self.failed(hold, cause) };
        if cause == Cause::Waiting {
            ends.decision = Decision::waiting(&signal_wait(self.now));
        }
        if self.dice.percent(10) {
            ends.decision = Decision::plain(self.verdict());
        }
        if self.dice.percent(4) {
            let mut callback = self.draft();
            (callback.spec.idempotency_key, callback.spec.business_key) = (None, None);
            callback.supersedes = None;
            ends.follow_up = Some(Box::new(callback));
        }
        if self.dice.percent(10) {
            ends.children = (0..self.dice.between(1, 3)).map(|_| self.child()).collect();
        }
        let text =
            |script: &mut Self| script.dice.percent(30).then(|| script.dice.one_of(&MESSAGES).to_owned());
        if self.dice.percent(60) {
            ends.code_version = self.dice.percent(80).then(|| self.dice.one_of(&VERSIONS).into());
        }
        ends.output = text(self);
        ends.warning = text(self);
        ends.result = self.dice.percent(30).then(|| "[1, 2]".into());
        ends
    }

    /// A job that a handler submits with its completion: a new one, without keys.
    fn child(&mut self) -> NewJob {
        let mut child = self.draft();
        self.latest += 1;
        child.spec.id = id(self.latest);
        (child.spec.idempotency_key, child.spec.business_key, child.supersedes) = (None, None, None);
        child
    }

    fn failed(&mut self, hold: &ClaimedJob, cause: Cause) -> Ending {
        // A job that fails again mostly fails like the last time.
        let own = usize::try_from(number(hold.job.spec.id) % 2).unwrap_or(0);
        let text = if self.dice.percent(70) { MESSAGES[own] } else { self.dice.one_of(&MESSAGES) };
        let mut failure = Failure::new(cause, "Broken", text);
        failure.retry_in = self.dice.percent(30).then(|| self.millis(5_000));
        failure.reported = self.dice.percent(5);
        ending(hold, &failure)
    }

    fn verdict(&mut self) -> Verdict {
        let delay: Duration = self.millis(3_000);
        match self.dice.between(1, 5) {
            1 => Verdict::Succeed,
            2 => Verdict::Retry { delay },
            3 => Verdict::Defer { delay },
            4 => Verdict::Dead { reason: self.dice.one_of(TerminalReason::ALL) },
            _ => Verdict::Cancel { reason: self.dice.one_of(&MESSAGES).to_owned() },
        }
    }
}
