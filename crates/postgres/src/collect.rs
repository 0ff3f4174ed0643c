//! Single submits that come at the same time share a transaction.
//!
//! A commit costs the same for one job as for a hundred. While transactions of this kind are under way, the calls that
//! arrive wait for the next one; a call that finds none under way starts at once, so nobody waits for company.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backstop_core::Refusal;
use backstop_core::job::NewJob;
use backstop_store::desk::SubmitNeeds;
use backstop_store::{Error, Submit, Submitted};
use tokio::sync::{Notify, oneshot};

use crate::access::Class;
use crate::offers::{Seat, Took};
use crate::shared::Shared;
use crate::{sql, submit, unit};

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
pub(crate) struct Collector {
    waiting: Mutex<Waiting>,
    /// Told when a flight was cut short, with the runtime it was on: whoever waits sends another one.
    cut: Notify,
}

#[derive(Default)]
struct Waiting {
    calls: Vec<Call>,
    flights: usize,
}

impl Collector {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a call; true when a new flight should take off for it.
    fn board(&self, call: Call, most_flights: usize) -> bool {
        self.lock().calls.push(call);
        self.take_off(most_flights)
    }

    /// True when somebody waits and there is room for a flight, which is counted from now on.
    fn take_off(&self, most_flights: usize) -> bool {
        let mut waiting = self.lock();
        let takes_off = !waiting.calls.is_empty() && waiting.flights < most_flights;
        waiting.flights += usize::from(takes_off);
        takes_off
    }
}

/// A flight under way. However it ends, it is not counted any more.
struct Flight {
    shared: Arc<Shared>,
    landed: bool,
}

impl Flight {
    /// The calls of the next transaction; none, and the flight is over, when nobody waits.
    fn seats(&mut self) -> Vec<Call> {
        let mut waiting = self.shared.collector.lock();
        if waiting.calls.is_empty() {
            waiting.flights -= 1;
            self.landed = true;
        }
        let seats = waiting.calls.len().min(MOST_SEATS);
        waiting.calls.drain(..seats).collect()
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.landed {
            self.shared.collector.lock().flights -= 1;
            self.shared.collector.cut.notify_waiters();
        }
    }
}

/// Stores one job, together with others that come at the same time.
pub(crate) async fn submit_one(shared: &Arc<Shared>, job: NewJob) -> Result<Answers, Error> {
    let (answer, mut answered) = oneshot::channel();
    // A second flight would find nobody to take for: an idle worker makes one offer at a time.
    let most_flights = if shared.offers.are_for(&job) { 1 } else { MOST_FLIGHTS };
    let mut call = Some(Call { job, answer });
    loop {
        let cut = shared.collector.cut.notified();
        let takes_off = match call.take() {
            Some(call) => shared.collector.board(call, most_flights),
            None => shared.collector.take_off(most_flights),
        };
        if takes_off {
            tokio::spawn(fly(Flight { shared: shared.clone(), landed: false }));
        }
        tokio::select! {
            biased;
            // A call whose flight was cut short with its runtime may have been stored.
            answer = &mut answered => return answer.unwrap_or_else(|_| Err(unknown(shared))),
            () = cut => {}
        }
    }
}

async fn fly(mut flight: Flight) {
    // Whoever is ready to submit at this moment comes along.
    tokio::task::yield_now().await;
    loop {
        let calls = flight.seats();
        if calls.is_empty() {
            return;
        }
        carry(&flight.shared, calls).await;
    }
}

async fn carry(shared: &Arc<Shared>, calls: Vec<Call>) {
    let jobs: Vec<NewJob> = calls.iter().map(|call| call.job.clone()).collect();
    let alone = jobs.len() == 1;
    let seat = Arc::new(Seat::new(shared));
    match store_with(shared, Submit { jobs, atomic: false }, Some(seat.clone())).await {
        Ok((stored, taken)) => {
            for (call, stored) in calls.into_iter().zip(stored) {
                // Whoever does not wait any more has gone away.
                let _ = call.answer.send(Ok(vec![stored]));
            }
            seat.serve(taken).await;
        }
        Err(error) => {
            seat.decline(&error);
            let met_a_lock = matches!(error, Error::Busy { .. });
            let mut only = Some(error);
            for call in calls {
                match only.as_ref().and_then(for_everyone) {
                    Some(error) => drop(call.answer.send(Err(error))),
                    None if alone && !met_a_lock => {
                        drop(call.answer.send(Err(only.take().unwrap_or_else(|| unknown(shared)))));
                    }
                    // One of them waits for somebody, or cannot be stored at all: it must not keep the others from it,
                    // nor those who come next.
                    None => drop(tokio::spawn(carry_alone(shared.clone(), call))),
                }
            }
        }
    }
}

async fn carry_alone(shared: Arc<Shared>, call: Call) {
    let outcome = store(&shared, Submit { jobs: vec![call.job], atomic: false }).await;
    let _ = call.answer.send(outcome);
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

/// Stores a batch, and takes for a claim that waits for one of its jobs; answers what that took. With a seat it is the
/// transaction of several calls.
async fn store_with(
    shared: &Arc<Shared>,
    batch: Submit,
    seat: Option<Arc<Seat>>,
) -> Result<(Answers, Option<Took>), Error> {
    let plain = SubmitNeeds::are_plain(&batch.jobs);
    let begin = if plain { sql::BEGIN_PLAIN } else { sql::BEGIN_WRITE };
    let mut how = unit::Call::new(begin, Class::Write);
    if seat.is_some() {
        how = how.for_group();
    }
    let batch = Arc::new(batch);
    // Plain jobs are stored without a look at first. When that meets a repeated id, the next try looks.
    let tried = Arc::new(AtomicBool::new(false));
    shared
        .transact_as(how, move |unit| {
            let (batch, first) = (batch.clone(), !tried.swap(true, Ordering::Relaxed));
            let seat = seat.clone();
            Box::pin(async move { submit::submit(unit, &batch, first, seat.as_deref()).await })
        })
        .await
}
