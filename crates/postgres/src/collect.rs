//! Single submits that come at the same time share a transaction.
//!
//! A commit costs the same for one job as for a hundred. While transactions of this kind are under way, the calls that
//! arrive wait for the next one; a call that finds none under way starts at once, so nobody waits for company.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use backstop_core::Refusal;
use backstop_core::job::NewJob;
use backstop_store::desk::SubmitNeeds;
use backstop_store::{Error, Submit, Submitted};
use tokio::sync::oneshot;

use crate::offers::{Seat, Took};
use crate::shared::Shared;
use crate::{sql, submit};

type Answers = Vec<Result<Submitted, Refusal>>;

/// Transactions under way at the same time: as one waits for the disk, the next one is built.
const MOST_FLIGHTS: usize = 3;
/// Jobs that share one transaction at most.
const MOST_SEATS: usize = 500;

/// A submit of one job that waits for a transaction.
struct Call {
    job: NewJob,
    answer: oneshot::Sender<Result<Answers, Error>>,
}

/// Calls that wait, and how many transactions are under way for them.
#[derive(Default)]
pub(crate) struct Collector(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    calls: Vec<Call>,
    flights: usize,
}

impl Collector {
    /// Notes a call; true when a new flight should take off for it.
    fn board(&self, call: Call, most_flights: usize) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.calls.push(call);
        let takes_off = waiting.flights < most_flights;
        waiting.flights += usize::from(takes_off);
        takes_off
    }

    /// The calls of the next transaction; none, and the flight is over, when nobody waits.
    fn seats(&self) -> Vec<Call> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.calls.is_empty() {
            waiting.flights -= 1;
        }
        let seats = waiting.calls.len().min(MOST_SEATS);
        waiting.calls.drain(..seats).collect()
    }
}

/// Stores one job, together with others that come at the same time.
pub(crate) async fn submit_one(shared: &Arc<Shared>, job: NewJob) -> Result<Answers, Error> {
    let (answer, answered) = oneshot::channel();
    // A second flight would find nobody to take for: an idle worker makes one offer at a time.
    let most_flights = if shared.offers.are_for(&job) { 1 } else { MOST_FLIGHTS };
    if shared.collector.board(Call { job, answer }, most_flights) {
        tokio::spawn(fly(shared.clone()));
    }
    // A flight that never came back was cut short with its runtime, perhaps after its commit.
    answered.await.unwrap_or_else(|_| Err(Error::Unknown { location: shared.location.clone(), source: None }))
}

async fn fly(shared: Arc<Shared>) {
    // Whoever is ready to submit at this moment comes along.
    tokio::task::yield_now().await;
    loop {
        let calls = shared.collector.seats();
        if calls.is_empty() {
            return;
        }
        carry(&shared, calls).await;
    }
}

async fn carry(shared: &Arc<Shared>, calls: Vec<Call>) {
    let (jobs, answers): (Vec<NewJob>, Vec<_>) =
        calls.into_iter().map(|call| (call.job, call.answer)).unzip();
    let seat = Arc::new(Seat::new(shared));
    match store_with(shared, Submit { jobs: jobs.clone(), atomic: false }, Some(seat.clone())).await {
        Ok((stored, taken)) => {
            for (answer, stored) in answers.into_iter().zip(stored) {
                // Whoever does not wait any more has gone away.
                let _ = answer.send(Ok(vec![stored]));
            }
            seat.serve(taken).await;
        }
        Err(error) => {
            seat.decline(&error);
            let alone = jobs.len() == 1;
            let mut first = Some(error);
            for (answer, job) in answers.into_iter().zip(jobs) {
                let outcome = match first.as_ref().and_then(for_everyone) {
                    Some(error) => Err(error),
                    None if alone => Err(first.take().unwrap_or_else(|| unknown(shared))),
                    // One of them cannot be stored at all: it must not keep the others from it.
                    None => store(shared, Submit { jobs: vec![job], atomic: false }).await,
                };
                let _ = answer.send(outcome);
            }
        }
    }
}

fn unknown(shared: &Shared) -> Error {
    Error::Unknown { location: shared.location.clone(), source: None }
}

/// An error that concerns every job of a transaction, once more; none when it may be about one of them.
fn for_everyone(error: &Error) -> Option<Error> {
    match error {
        Error::Unavailable { location, problem, .. } => {
            Some(Error::Unavailable { location: location.clone(), problem: problem.clone(), source: None })
        }
        Error::Unknown { location, .. } => Some(Error::Unknown { location: location.clone(), source: None }),
        Error::DiskFull { location, .. } => {
            Some(Error::DiskFull { location: location.clone(), source: None })
        }
        Error::Unusable { location, problem, hint } => {
            Some(Error::Unusable { location: location.clone(), problem: problem.clone(), hint: hint.clone() })
        }
        _ => None,
    }
}

/// Stores a batch in a transaction of its own.
pub(crate) async fn store(shared: &Arc<Shared>, batch: Submit) -> Result<Answers, Error> {
    store_with(shared, batch, None).await.map(|(answers, _)| answers)
}

/// Stores a batch, and takes for a claim that waits for one of its jobs; answers what that took.
async fn store_with(
    shared: &Arc<Shared>,
    batch: Submit,
    seat: Option<Arc<Seat>>,
) -> Result<(Answers, Option<Took>), Error> {
    let plain = SubmitNeeds::are_plain(&batch.jobs);
    let begin = if plain { sql::BEGIN_PLAIN } else { sql::BEGIN_WRITE };
    let batch = Arc::new(batch);
    // Plain jobs are stored without a look at first. When that meets a repeated id, the next try looks.
    let tried = Arc::new(AtomicBool::new(false));
    shared
        .transact(begin, move |unit| {
            let (batch, first) = (batch.clone(), !tried.swap(true, Ordering::Relaxed));
            let seat = seat.clone();
            Box::pin(async move { submit::submit(unit, &batch, first, seat.as_deref()).await })
        })
        .await
}
