//! The race of a signal with the end of the run that waits for it, and what a wait is worth to others.

use serde_json::Value;

use super::*;
use crate::failure::{Cause, Decision};
use crate::id::{JobId, Lease, WorkerId};
use crate::job::{Ending, Operation, SignalAnswer, StepFact, signal_of_step, signal_step};

const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
const UNTIL: Timestamp = Timestamp::from_micros(1_800_000_060_000_000);

fn running() -> (StoredJob, Record, Lease) {
    let mut spec = Spec::new(JobId::from_u128(1), "work", "{}");
    spec.policy.max_wait = Some(std::time::Duration::from_secs(5));
    let mut record = Record::new(&spec, NOW);
    let lease = Lease { job: spec.id, worker: WorkerId::from_u128(2), fence: Fence(3) };
    record.claim(lease.worker, lease.fence, NOW, true).expect("it is pending");
    (StoredJob { spec, created_at: NOW }, record, lease)
}

fn wait() -> SignalWait {
    SignalWait { signal: "approved".into(), step: signal_step("approved", 1), until: UNTIL }
}

fn parks(job: &StoredJob) -> Ending {
    Ending::plain(job.spec.header(), Cause::Waiting, Decision::waiting(&wait()))
}

fn signal(fence: Fence, answer: &SignalAnswer) -> Operation {
    let fact = StepFact::Done(answer.to_text());
    let step = StepWrite { index: Some(0), name: wait().step, fact };
    let timed_out = *answer == SignalAnswer::TimedOut;
    Operation::Signal { fence, signal: wait().signal, timed_out, step }
}

fn yes() -> SignalAnswer {
    SignalAnswer::Received(serde_json::json!({ "by": "ann" }))
}

#[test]
fn a_parked_job_holds_nothing_and_is_charged_nothing() {
    // W10
    let (job, mut record, lease) = running();
    let run = record.finish(&job.spec, &lease, &parks(&job), NOW).expect("held").expect("a run");
    assert_eq!((record.state, record.hold, record.attempt, record.crashes), (State::Waiting, None, 0, 0));
    assert_eq!((run.cause, record.signal_wait()), (Cause::Waiting, Some(&wait())));
    assert_eq!(record.expires_at, None, "the time in which it must start does not run while it waits");
    assert!(!record.is_in_line() && !record.take_turn(), "no line and no workflow lets it go (L21)");
    let later = NOW.after(std::time::Duration::from_secs(9));
    let operated = record.operate(&job, &signal(lease.fence, &yes()), later).expect("it waits");
    assert_eq!((operated.changed, record.state, record.run_at), (true, State::Pending, later));
    assert_eq!(record.expires_at, Some(later.after(std::time::Duration::from_secs(5))));
    assert_eq!(record.marks.as_ref().and_then(|marks| marks.signal.as_ref()), None);
    assert_eq!(record.steps()[0].state, StepState::Done);
}

/// Every order of the end of the run, a signal, another signal, the timeout, a pause and a resume: the first that ends
/// the wait is kept, the job goes on, and nothing after it changes that.
#[test]
fn no_order_of_a_signal_and_the_end_of_the_run_loses_it() {
    // W10
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Deed {
        Park,
        Signal,
        SignalAgain,
        TimesOut,
        Pause,
        Resume,
    }
    fn orders(left: &[Deed]) -> Vec<Vec<Deed>> {
        if left.is_empty() {
            return vec![Vec::new()];
        }
        let rest = |at: usize| {
            left.iter().enumerate().filter(move |(i, _)| *i != at).map(|(_, deed)| *deed).collect()
        };
        let from = |at: usize| {
            let rest: Vec<Deed> = rest(at);
            orders(&rest).into_iter().map(move |mut order| {
                order.insert(0, left[at]);
                order
            })
        };
        (0..left.len()).flat_map(from).collect()
    }
    let all = [Deed::Park, Deed::Signal, Deed::SignalAgain, Deed::TimesOut, Deed::Pause, Deed::Resume];
    for order in orders(&all) {
        let (job, mut record, lease) = running();
        let mut kept = Vec::new();
        for deed in &order {
            let mut answer = |record: &mut Record, answer: &SignalAnswer| {
                if record
                    .operate(&job, &signal(lease.fence, answer), NOW)
                    .is_ok_and(|operated| operated.changed)
                {
                    kept.push(*deed);
                }
            };
            match deed {
                Deed::Park => drop(record.finish(&job.spec, &lease, &parks(&job), NOW).expect("held")),
                Deed::Signal | Deed::SignalAgain => answer(&mut record, &yes()),
                Deed::TimesOut => answer(&mut record, &SignalAnswer::TimedOut),
                Deed::Pause => drop(record.operate(&job, &Operation::Pause, NOW)),
                Deed::Resume => drop(record.operate(&job, &Operation::Resume, NOW)),
            }
        }
        let first =
            order.iter().find(|deed| matches!(deed, Deed::Signal | Deed::SignalAgain | Deed::TimesOut));
        assert_eq!(kept, [*first.expect("there is one")], "{order:?}");
        assert!(record.signal_wait().is_none(), "{order:?}: it waits for nothing any more");
        drop(record.operate(&job, &Operation::Resume, NOW));
        assert_eq!(record.state, State::Pending, "{order:?}");
    }
}

#[test]
fn a_signal_for_another_hold_or_another_wait_changes_nothing() {
    // W10, L5
    let (job, mut record, lease) = running();
    let before = record.clone();
    assert!(record.operate(&job, &signal(Fence(2), &yes()), NOW).is_err(), "an earlier hold");
    assert_eq!(record, before);
    record.finish(&job.spec, &lease, &parks(&job), NOW).expect("held");
    let Operation::Signal { fence, signal: key, timed_out, mut step } = signal(lease.fence, &yes()) else {
        unreachable!("it is one")
    };
    step.name = signal_step("approved", 2);
    let other = Operation::Signal { fence, signal: key, timed_out, step };
    assert!(record.operate(&job, &other, NOW).is_err(), "another wait of the same job");
    let mut canceled = record.clone();
    canceled.operate(&job, &Operation::Cancel { reason: "no".into() }, NOW).expect("it waits");
    assert!(canceled.operate(&job, &signal(lease.fence, &yes()), NOW).is_err(), "it was canceled");
    assert_eq!(canceled.state, State::Canceled);
}

#[test]
fn waits_of_one_key_have_names_of_their_own() {
    // W10
    assert_eq!(signal_step("approved", 1), "signal:approved");
    assert_eq!(signal_step("approved", 2), "signal#2:approved");
    for (name, signal) in [
        ("signal:approved", Some("approved")),
        ("signal#2:a:b#3", Some("a:b#3")),
        ("charge", None),
        ("signals:x", None),
        ("signal", None),
    ] {
        assert_eq!(signal_of_step(name), signal, "{name}");
    }
    for answer in [yes(), SignalAnswer::TimedOut, SignalAnswer::Received(Value::Null)] {
        let read: SignalAnswer = serde_json::from_str(&answer.to_text()).expect("as it was written");
        assert_eq!(read, answer);
    }
}
