//! What the clients of a campaign do for as long as they may: submit, repeat, cancel, look.

use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{JobId, State};
use backstop_store::{JobFilter, PageRequest, Submit};

use crate::journal::{Journal, JournalEntry};
use crate::work::{CampaignJob, SLOW, policy};

/// How many business keys the clients of a campaign fight for.
const BUSINESS_KEYS: u64 = 12;

/// How many ordering keys their jobs queue up for (L21).
const ORDERING_KEYS: u64 = 40;

/// How a client behaves.
#[derive(Debug, Clone, Copy)]
pub struct ClientBehaviour {
    /// Milliseconds between two submits, at least and at most.
    pub pause_ms: (u64, u64),
    /// Every so many submits are made twice, although they were acknowledged.
    pub repeat_every: u64,
    /// One job in so many is canceled.
    pub cancel_every: u64,
}

/// How many jobs may wait in the queue of clients that submit more than that.
pub const CROWD_DEPTH: u64 = 20;

impl ClientBehaviour {
    /// Submits as fast as it is answered.
    pub const CROWD: Self = Self { pause_ms: (0, 2), repeat_every: 4, cancel_every: 12 };
}

impl Default for ClientBehaviour {
    fn default() -> Self {
        Self { pause_ms: (5, 35), repeat_every: 4, cancel_every: 12 }
    }
}

/// Submits for as long as the process lives. A submit that fails is repeated with the same key until it is answered.
pub async fn submit(engine: Backstop, behaviour: ClientBehaviour) {
    let mut dice = fastrand::Rng::new();
    loop {
        let job = submit_once(&engine, &mut dice, behaviour).await;
        if let Some(job) = job.filter(|_| dice.u64(..behaviour.cancel_every) == 0) {
            tokio::time::sleep(Duration::from_millis(dice.u64(..5))).await;
            // A cancel that fails promises nothing.
            let _ = engine.cancel(job, "the campaign says so").await;
        }
        tokio::time::sleep(Duration::from_millis(dice.u64(behaviour.pause_ms.0..=behaviour.pause_ms.1)))
            .await;
    }
}

/// One submit, repeated until it is answered; none when it was refused.
pub async fn submit_once(
    engine: &Backstop,
    dice: &mut fastrand::Rng,
    behaviour: ClientBehaviour,
) -> Option<JobId> {
    let key = format!("k{:016x}", dice.u64(..));
    let work = CampaignJob { number: dice.u64(..SLOW) };
    // A dead letter would hold up its line until a person looks after it.
    let may_wait = !work.never_works();
    let mut job = engine.enqueue(work).policy(policy()).idempotency_key(key);
    if dice.u64(..6) == 0 {
        let answer = [OnConflict::Reject, OnConflict::Skip, OnConflict::Replace][dice.usize(..3)];
        job = job.business_key(format!("b{}", dice.u64(..BUSINESS_KEYS))).on_conflict(answer);
    }
    if dice.u64(..10) == 0 {
        job = job.delay(Duration::from_millis(dice.u64(100..1_500)));
    }
    if may_wait && dice.u64(..5) == 0 {
        job = job.ordering_key(format!("o{}", dice.u64(..ORDERING_KEYS)));
    } else if dice.u64(..12) == 0 {
        job = job.expires_in(Duration::from_millis(dice.u64(1..400)));
    }
    let mut job = job.into_new_job().ok()?;
    let twice = dice.u64(..behaviour.repeat_every) == 0;
    let first = answered(engine, &job).await;
    if twice {
        // Another client with the same key would bring an id of its own.
        job.spec.id = backstop::job_id();
        answered(engine, &job).await;
    }
    first
}

/// Submits until there is an answer.
async fn answered(engine: &Backstop, job: &backstop_core::job::NewJob) -> Option<JobId> {
    let mut pause = Duration::from_millis(20);
    loop {
        let batch = Submit { jobs: vec![job.clone()], atomic: true };
        match engine.store().submit(batch).await {
            Ok(mut answers) => return answers.pop()?.ok().map(|stored| stored.id),
            Err(_) => tokio::time::sleep(pause).await,
        }
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

/// Looks at one business key after another, each in one reading, and writes down who lives.
pub async fn watch(engine: Backstop, journal: Arc<Journal>) {
    for turn in 0.. {
        let key = format!("b{}", turn % BUSINESS_KEYS);
        let filter = JobFilter { business_key: Some(key.clone()), ..JobFilter::default() };
        let Ok(page) = engine.jobs(filter, PageRequest::first(100)).await else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        let live = |view: &&backstop_core::job::JobView| !view.record.state.is_terminal();
        let jobs: Vec<JobId> = page.items.iter().filter(live).map(|view| view.job.spec.id).collect();
        if jobs.len() > 1 {
            journal.write(JournalEntry::Live(key, jobs));
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

/// Where a job is; none when it is not known.
///
/// # Panics
/// When the store cannot be read.
pub async fn state_of(engine: &Backstop, id: JobId) -> Option<State> {
    engine.job(id).await.expect("the store can be read").map(|job| job.view.state())
}
