//! The scenes: what each one shows, what it submits, and how it must end.

use std::time::Duration;

use backstop::{Backoff, Backstop, Cause, Enqueue, State, TerminalReason, Timestamp};
use serde::Serialize;

use super::jobs;

/// The queue of the demo, so that nothing else is touched by it.
pub(crate) const QUEUE: &str = "demo";

/// One scene.
pub(super) struct DemoScene {
    /// What it shows, in words.
    pub(super) shows: &'static str,
    /// How it must end.
    pub(super) ends: DemoEnd,
    /// True when the demo itself cancels it while it runs.
    pub(super) called_off: bool,
    submit: fn(&Backstop, Timestamp) -> Enqueue,
}

/// How a job of the demo ended, or must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct DemoEnd {
    /// Where it is.
    pub(super) status: State,
    /// Runs started.
    pub(super) runs: u32,
    /// Runs charged to its attempts.
    pub(super) attempt: u32,
    /// The cause of its latest run.
    pub(super) cause: Option<Cause>,
    /// Why it is a dead letter.
    pub(super) terminal_reason: Option<TerminalReason>,
}

const fn well(runs: u32, attempt: u32) -> DemoEnd {
    DemoEnd { status: State::Succeeded, runs, attempt, cause: Some(Cause::Succeeded), terminal_reason: None }
}

const fn dead(runs: u32, attempt: u32, cause: Cause, reason: TerminalReason) -> DemoEnd {
    DemoEnd { status: State::Failed, runs, attempt, cause: Some(cause), terminal_reason: Some(reason) }
}

impl DemoScene {
    /// The submit of this scene, with the tags it is found by.
    pub(super) fn submit(&self, engine: &Backstop, now: Timestamp, run_tag: &str) -> Enqueue {
        (self.submit)(engine, now).queue(QUEUE).tag("demo").tag(run_tag)
    }
}

const fn pause(millis: u64) -> Backoff {
    Backoff::fixed(Duration::from_millis(millis))
}

/// Every scene, in the order of the table.
pub(super) fn scenes() -> Vec<DemoScene> {
    let scene = |shows, ends, submit| DemoScene { shows, ends, called_off: false, submit };
    vec![
        scene("success", well(1, 0), |engine, _| {
            engine.enqueue(jobs::SendReceipt { to: "ada@example.com".to_owned() })
        }),
        scene("retry, then success", well(3, 2), |engine, _| {
            engine.enqueue(jobs::CallPartner { fails: 2 }).max_retries(4).backoff(pause(1_500)).untyped()
        }),
        scene("attempts exhausted", dead(3, 3, Cause::Error, TerminalReason::RetryExhausted), |engine, _| {
            engine.enqueue(jobs::SyncStock { warehouse: 7 }).max_retries(2).backoff(pause(1_700)).untyped()
        }),
        scene("permanent error", dead(1, 1, Cause::Permanent, TerminalReason::NonRetryable), |engine, _| {
            engine.enqueue(jobs::ChargeCard { cents: 990 }).untyped()
        }),
        scene("invalid input", dead(1, 1, Cause::Invalid, TerminalReason::Invalid), |engine, _| {
            engine.enqueue(jobs::ImportOrder { quantity: -3 }).untyped()
        }),
        scene("timeout", dead(1, 1, Cause::Timeout, TerminalReason::RetryExhausted), |engine, _| {
            engine
                .enqueue(jobs::RenderReport { pages: 900 })
                .max_retries(0)
                .timeout(Duration::from_millis(3_000))
                .untyped()
        }),
        scene("panic", dead(2, 2, Cause::Panic, TerminalReason::RetryExhausted), |engine, _| {
            engine.enqueue(jobs::ResizeImage { width: 640 }).max_retries(1).backoff(pause(1_500)).untyped()
        }),
        scene("snooze, then success", well(3, 0), |engine, _| {
            engine.enqueue(jobs::AwaitStock { article: 44 }).untyped()
        }),
        scene("dependency away, then success", well(2, 0), |engine, _| {
            engine.enqueue(jobs::ShipParcel { parcel: 12 }).backoff(pause(2_200)).untyped()
        }),
        DemoScene {
            shows: "canceled while running",
            ends: DemoEnd {
                status: State::Canceled,
                runs: 1,
                attempt: 0,
                cause: Some(Cause::Canceled),
                terminal_reason: None,
            },
            called_off: true,
            submit: |engine, _| engine.enqueue(jobs::ExportLedger { year: 2025 }).untyped(),
        },
        scene(
            "reported failure",
            dead(1, 1, Cause::Permanent, TerminalReason::ReportedFailure),
            |engine, _| engine.enqueue(jobs::CheckCredit { customer: 31 }).untyped(),
        ),
        scene(
            "expired before it could start",
            DemoEnd { cause: None, ..dead(0, 0, Cause::Error, TerminalReason::Expired) },
            |engine, now| {
                let (over, due) = (Duration::from_secs(3), Duration::from_secs(4));
                engine.enqueue(jobs::FlashSale { sale: 5 }).delay(due).expires_at(now.after(over)).untyped()
            },
        ),
        scene(
            "waits for code",
            DemoEnd { status: State::Waiting, runs: 0, attempt: 0, cause: None, terminal_reason: None },
            |engine, _| engine.enqueue_raw("demo.not_deployed_yet", "{}"),
        ),
    ]
}
