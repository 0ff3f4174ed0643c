//! A short campaign of workflows, a batch, schedules and a signal, on a store that may have a bug about them. Nobody
//! dies in it: the bug is all that goes wrong.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop::prelude::*;
use backstop::schedules::{Misfire, Overlap, ScheduleSettings};
use backstop::{JobId, State};
use backstop_store::ModelStore;

use super::{PATIENCE, Stage};
use crate::checker::{self, CampaignReport};
use crate::errand::SignalJob;
use crate::group::left;
use crate::sabotage::{Bug, SabotagedStore};
use crate::work::{CampaignJob, SLOW, policy};

/// How often schedules fire: none may do so more often.
const PERIOD: Duration = Duration::from_secs(1);

/// Graphs of three steps, each of which follows the one before it.
const GRAPHS: usize = 4;

/// Jobs of the batch.
const CHILDREN: u64 = 20;

/// The number of the job that waits for a signal, and of what comes with it.
const NUMBER: u64 = 1;

/// Who pauses the schedules.
const PERSON: &str = "the campaign";

/// Runs the campaign on a store in memory, with a bug or without one, and asks the checker.
///
/// # Errors
/// When the store cannot be read, or does not take what is submitted.
pub async fn campaign(folder: &Path, bug: Option<Bug>) -> JobResult<CampaignReport> {
    let store = SabotagedStore::over(Arc::new(ModelStore::default()), bug);
    let stage = Stage { store, folder };
    let (engine, _) = stage.enter();
    let workers = [stage.hire().await?, stage.hire().await?];
    set_schedules(&engine).await?;
    let waiting = engine.enqueue(SignalJob { number: NUMBER }).policy(policy()).submit().await?.id;
    submit_graphs(&engine).await?;
    submit_batch(&engine).await?;
    send_signal(&engine, waiting).await?;
    pause_schedules(&engine).await?;
    let began = Instant::now();
    while left(&engine).await > 0 && began.elapsed() < PATIENCE {
        moment().await;
    }
    for worker in workers {
        worker.hurry().cancel();
        worker.stop().await;
    }
    checker::check(&engine, folder).await
}

async fn moment() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// One schedule whose fires do not wait, and one whose job still goes on when its next fire comes.
async fn set_schedules(engine: &Backstop) -> JobResult {
    let settings = ScheduleSettings::every(PERIOD).misfire(Misfire::CatchUp(100));
    let quick = engine.enqueue(CampaignJob { number: 3 }).policy(policy());
    engine.schedules().set("quick", settings.clone(), quick).await?;
    let slow = engine.enqueue(CampaignJob { number: 13 }).policy(policy()).delay(PERIOD * 3 / 2);
    engine.schedules().set("slow", settings.overlap(Overlap::Queue), slow).await?;
    Ok(())
}

async fn submit_graphs(engine: &Backstop) -> JobResult {
    let job = |number| engine.enqueue(CampaignJob { number }).policy(policy());
    for _ in 0..GRAPHS {
        let mut flow = engine.workflow("planted");
        let first = flow.step("first", job(SLOW + 3)).add();
        let second = flow.step("second", job(14)).after(&first).add();
        flow.step("third", job(15)).after(&second).add();
        flow.submit().await?;
    }
    Ok(())
}

/// A tenth of its jobs never works.
async fn submit_batch(engine: &Backstop) -> JobResult {
    let batch = engine.batch("planted").failures_at_most(CHILDREN / 10);
    let batch = batch.then_on_success(CampaignJob { number: 16 });
    let child = |number| engine.enqueue(CampaignJob { number }).policy(policy());
    batch.for_each(0..CHILDREN, child).await?;
    Ok(())
}

/// Sends it when the job waits for it; a bug may keep the job from that.
async fn send_signal(engine: &Backstop, waiting: JobId) -> JobResult {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let found = engine.job(waiting).await?;
        if found.is_some_and(|job| job.view.record.state == State::Waiting) {
            break;
        }
        moment().await;
    }
    let signal = SignalJob { number: NUMBER }.signal();
    engine.signals().send(signal, &NUMBER).await?;
    Ok(())
}

/// Nothing fires any more when each schedule has decided about two fires.
async fn pause_schedules(engine: &Backstop) -> JobResult {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let schedules = engine.schedules().list().await?;
        if schedules.iter().all(|view| view.state.decided.since(view.state.anchor) >= PERIOD * 2) {
            break;
        }
        moment().await;
    }
    for name in ["quick", "slow"] {
        engine.schedules().pause(name, PERSON).await?;
    }
    Ok(())
}
