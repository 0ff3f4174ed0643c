//! Running what is stored until so many more jobs have ended.

use std::time::{Duration, Instant};

use backstop::prelude::*;
use backstop_contest::{DriverAnswer, DriverCall, DriverError, LOOK, RunCount};

use crate::served::{EndedCounter, ServedQueues};
use crate::work::HandlerBehaviour;

/// Runs what is stored until as many jobs as were asked for have ended since the start, as `ended` counts them. Of a
/// larger backlog some more may have ended by then, and all that have are told.
pub(crate) async fn drain(
    engine: &Backstop,
    arguments: &DriverCall,
    served: &ServedQueues,
    mood: HandlerBehaviour,
    ended: EndedCounter,
) -> Result<DriverAnswer, DriverError> {
    let goal = EndingGoal::new(engine, arguments, served, ended).await?;
    let tally = RunCount::default();
    let began = Instant::now();
    let worker = served.worker(engine, &tally, mood).await?;
    let (jobs, spent) = goal.reached(&tally, began).await?;
    worker.stop().await;
    Ok(DriverAnswer::Rate { jobs, spent })
}

/// So many more endings than there were before.
pub(crate) struct EndingGoal<'a> {
    engine: &'a Backstop,
    served: &'a ServedQueues,
    ended: EndedCounter,
    /// What earlier phases on the same place have left.
    before: usize,
    jobs: usize,
    limit: Duration,
}

impl<'a> EndingGoal<'a> {
    /// Counted from now.
    pub(crate) async fn new(
        engine: &'a Backstop,
        arguments: &DriverCall,
        served: &'a ServedQueues,
        ended: EndedCounter,
    ) -> Result<Self, DriverError> {
        let before = served.count(engine, ended).await?;
        Ok(Self { engine, served, ended, before, jobs: arguments.jobs, limit: arguments.limit })
    }

    /// Waits until it is reached or its time is over; answers the jobs until then, and the time they took.
    pub(crate) async fn reached(
        &self,
        tally: &RunCount,
        began: Instant,
    ) -> Result<(usize, Duration), DriverError> {
        let is_late = || began.elapsed() >= self.limit;
        while tally.runs() < self.jobs {
            if is_late() {
                // Whoever is stopped early is not waited for.
                return Ok((tally.runs(), began.elapsed()));
            }
            tokio::time::sleep(LOOK).await;
        }
        // The handlers have run; now the endings have to be stored.
        loop {
            let stored = self.served.count(self.engine, self.ended).await?.saturating_sub(self.before);
            if stored >= self.jobs || is_late() {
                return Ok((stored, began.elapsed()));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
