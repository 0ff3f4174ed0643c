//! Driving again what has failed for good, by one plan that goes as fast as a plan may.

use std::time::Instant;

use backstop::TerminalReason;
use backstop::prelude::*;
use backstop_contest::{DriverAnswer, DriverCall, DriverError, RunCount};
use backstop_core::redrive::PlanSelector;

use crate::drain::EndingGoal;
use crate::served::{QUEUE, ServedQueues};
use crate::work::HandlerBehaviour;

/// The most that a plan may drive in one step, and have in flight.
const BATCH: u32 = 1_000;
const IN_FLIGHT: u32 = 10_000;

/// Who does it, as the audit of the plan tells.
const BY: &str = "bench";

/// Makes a plan for every dead letter, and times it from its start until as many jobs have succeeded.
pub(crate) async fn redrive(
    engine: &Backstop,
    arguments: &DriverCall,
    served: &ServedQueues,
) -> Result<DriverAnswer, DriverError> {
    let dead = PlanSelector {
        queue: Some(QUEUE.to_owned()),
        reason: Some(TerminalReason::NonRetryable),
        ..PlanSelector::default()
    };
    let plan = engine.redrives().plan(dead).canary(1).batch(BATCH).in_flight(IN_FLIGHT).per_second(u32::MAX);
    let plan = plan.by(BY).create().await?;
    let goal = EndingGoal::new(engine, arguments, served, |queue| queue.succeeded).await?;
    let tally = RunCount::default();
    let worker = served.worker(engine, &tally, HandlerBehaviour::Well).await?;
    let began = Instant::now();
    engine.redrives().start(&plan.id, BY).await?;
    let (jobs, spent) = goal.reached(&tally, began).await?;
    worker.stop().await;
    Ok(DriverAnswer::Rate { jobs, spent })
}
