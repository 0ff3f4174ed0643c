//! Readable ids, jobs, workers and endings for the cases. Endings are decided by `backstop_core`, as in the engine.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::{
    Backoff, Cause, Decision, DecisionInput, Failure, Fingerprint, HookAnswer, Verdict, decide,
};
use backstop_core::job::{
    Callback, Ending, FailureRecord, NewJob, OnConflict, Policy, Priority, Spec, Start,
};
use backstop_core::{JobId, Lease, Limits, Timestamp, WorkerId};

use super::fixture::LEASE;
use crate::{ClaimedJob, KnownKind, NewWorker};

/// The job with this number. Greater numbers are newer, as with ids of version 7.
pub(super) fn id(number: u64) -> JobId {
    const TIME: u128 = 0x0190_0000_0000;
    JobId::from_u128(((TIME + u128::from(number)) << 80) | (0x7 << 76) | u128::from(number))
}

/// The number of a job that [`id`] named.
pub(super) fn number(job: JobId) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&job.as_bytes()[8..]);
    u64::from_be_bytes(bytes)
}

/// The worker with this number.
pub(super) fn worker_id(number: u64) -> WorkerId {
    WorkerId::from_u128((0xaaaa << 112) | u128::from(number))
}

/// A job to submit: kind `work`, queue `default`, one retry, and no wait before it.
#[derive(Debug, Clone)]
pub(super) struct JobDraft(pub(super) NewJob);

/// The job with this number.
pub(super) fn job(number: u64) -> JobDraft {
    let mut spec = Spec::new(id(number), "work", format!("{{\"n\":{number}}}"));
    spec.policy.max_retries = 1;
    spec.policy.backoff = Backoff::none();
    JobDraft(NewJob::new(spec))
}

impl JobDraft {
    /// Changes anything that has no word of its own here.
    pub(super) fn with(mut self, change: impl FnOnce(&mut NewJob)) -> Self {
        change(&mut self.0);
        self
    }

    pub(super) fn kind(self, kind: &str, version: u32) -> Self {
        self.with(|new| (new.spec.kind, new.spec.version) = (kind.into(), version))
    }

    pub(super) fn queue(self, queue: &str) -> Self {
        self.with(|new| new.spec.queue = queue.into())
    }

    pub(super) fn priority(self, priority: Priority) -> Self {
        self.with(|new| new.spec.priority = priority)
    }

    pub(super) fn policy(self, change: impl FnOnce(&mut Policy)) -> Self {
        self.with(|new| change(&mut new.spec.policy))
    }

    pub(super) fn after(self, delay: Duration) -> Self {
        self.with(|new| new.start = Start::After(delay))
    }

    pub(super) fn at(self, moment: Timestamp) -> Self {
        self.with(|new| new.start = Start::At(moment))
    }

    pub(super) fn expires(self, moment: Timestamp) -> Self {
        self.with(|new| new.spec.expires_at = Some(moment))
    }

    pub(super) fn once(self, idempotency_key: &str) -> Self {
        self.with(|new| new.spec.idempotency_key = Some(idempotency_key.to_owned()))
    }

    pub(super) fn key(self, business_key: &str, on_conflict: OnConflict) -> Self {
        self.with(|new| {
            new.spec.business_key = Some(business_key.to_owned());
            new.on_conflict = on_conflict;
        })
    }

    pub(super) fn in_order(self, ordering_key: &str) -> Self {
        self.with(|new| new.spec.ordering_key = Some(ordering_key.into()))
    }

    /// Counted by this key (H5).
    pub(super) fn by(self, limit_key: &str) -> Self {
        self.with(|new| new.spec.needs_mut().limit_key = Some(limit_key.into()))
    }

    /// One run of this name at a time (H6).
    pub(super) fn single(self, name: &str) -> Self {
        self.with(|new| new.spec.needs_mut().single_instance = Some(name.into()))
    }

    /// Permits of a pool (H5).
    pub(super) fn permits(self, pool: &str, permits: u32) -> Self {
        self.with(|new| {
            new.spec.needs_mut().permits.insert(pool.into(), permits);
        })
    }

    pub(super) fn supersedes(self, number: u64) -> Self {
        self.with(|new| new.supersedes = Some(id(number)))
    }

    /// Asks for a callback on either outcome.
    pub(super) fn callbacks(self) -> Self {
        self.with(|new| {
            new.spec.on_success = Some(callback("celebrate"));
            new.spec.on_failure = Some(callback("mourn"));
        })
    }
}

fn callback(kind: &str) -> Callback {
    Callback { kind: kind.into(), version: 2, queue: "after".into(), payload: "{\"told\":true}".into() }
}

/// A worker to enlist.
#[derive(Debug, Clone)]
pub(super) struct WorkerDraft(pub(super) NewWorker);

impl WorkerDraft {
    /// Worker `number`, for the queue `default` and the kind `work`.
    pub(super) fn new(number: u64) -> Self {
        Self(NewWorker {
            id: worker_id(number),
            name: format!("worker-{number}"),
            code_version: Some("v1".to_owned()),
            queues: vec!["default".into()],
            kinds: knows(&[("work", 1)]),
            lease: LEASE,
        })
    }

    pub(super) fn queues(mut self, queues: &[&str]) -> Self {
        self.0.queues = queues.iter().map(|queue| (*queue).into()).collect();
        self
    }

    pub(super) fn kinds(mut self, kinds: &[(&str, u32)]) -> Self {
        self.0.kinds = knows(kinds);
        self
    }
}

/// Kinds with the highest version that is known of each.
pub(super) fn knows(kinds: &[(&str, u32)]) -> Arc<[KnownKind]> {
    kinds.iter().map(|(kind, version)| KnownKind { kind: (*kind).into(), version: *version }).collect()
}

/// The same lease with another fence.
pub(super) fn other_fence(lease: Lease, by: i64) -> Lease {
    Lease { fence: backstop_core::Fence(lease.fence.0 + by), ..lease }
}

/// The fingerprint of a text, in the shape of real ones: 16 hexadecimal digits (here by FNV-1a).
pub(super) fn fingerprint(text: &str) -> Fingerprint {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let digits = format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, mix));
    serde_json::from_value(serde_json::Value::String(digits)).expect("a fingerprint is a text")
}

/// A failure of the type `TestError`.
pub(super) fn failure(cause: Cause) -> Failure {
    Failure::new(cause, "TestError", format!("it ended by {cause}"))
}

/// How the engine ends a run that went well.
pub(super) fn success(claimed: &ClaimedJob) -> Ending {
    Ending {
        code_version: Some("v1".into()),
        follow_up: claimed.job.follow_up(&claimed.record, true).map(Box::new),
        ..Ending::plain(claimed.job.spec.header(), Cause::Succeeded, Decision::succeeded())
    }
}

/// How the engine ends a run that did not go well.
pub(super) fn ending(claimed: &ClaimedJob, failure: &Failure) -> Ending {
    let record = &claimed.record;
    let situation = DecisionInput {
        policy: &claimed.job.spec.policy,
        attempt: record.attempt,
        crashes: record.crashes,
        deferrals: record.deferrals,
        hook: HookAnswer::default(),
        jitter: 0.0,
        rule: None,
        longest_delay: Limits::default().delay,
    };
    let decision = decide(failure, &situation);
    let dead = matches!(decision.verdict, Verdict::Dead { .. });
    Ending {
        code_version: Some("v1".into()),
        failure: failure.cause.is_failure().then(|| FailureRecord {
            error_type: failure.error_type.clone(),
            message: failure.message.clone(),
            fingerprint: fingerprint(&failure.message),
        }),
        follow_up: dead.then(|| claimed.job.follow_up(record, false)).flatten().map(Box::new),
        ..Ending::plain(claimed.job.spec.header(), failure.cause, decision)
    }
}

/// How the engine ends a run by `cause` and nothing else.
pub(super) fn ends_by(claimed: &ClaimedJob, cause: Cause) -> Ending {
    ending(claimed, &failure(cause))
}

/// The return of a job that was claimed and never started (C2).
pub(super) fn handed_back(claimed: &ClaimedJob) -> Ending {
    Ending::plain(claimed.job.spec.header(), Cause::Interrupted, Decision::handed_back())
}
