//! The rounds of a hand-off: hold the lease, read the oldest jobs, post them, remove what the receiver has, and again.
//!
//! Whatever goes wrong ends in a wait and another round. What the receiver has not taken is never removed, so a kill at
//! any point costs a request that is made again, and the keys make that harmless.

use std::sync::Arc;
use std::time::Duration;

use backstop::handoffs::{HandOffCause, HandOffProblem, HandOffPublisher, HandOffRefusal};
use backstop_core::failure::redact::sanitize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::HandOffLoop;
use super::client::ReceiverConnection;
use super::exchange::{RequestResult, posted, read, request};
use super::status::{HandOffRunState, HandOffStatus};
use crate::shared_status::SharedStatus;

/// Documents that are read at once.
const PAGE: usize = 100;

/// Jobs of one request at most: the receiver takes a thousand.
const TOGETHER: usize = 500;

/// How a round ended.
enum HandOffStep {
    /// There may be more.
    Again,
    /// Nothing waits.
    Idle,
    /// Somebody else publishes.
    Standby,
    /// It stands still until a person acts.
    Stopped,
    /// The receiver does not take it now, or is away: try again after this.
    Wait(Duration),
    /// The store failed, or this process cannot publish.
    Failed(String),
}

/// What the rounds share.
struct HandOffRounds {
    own: HandOffLoop,
    board: Arc<SharedStatus<HandOffStatus>>,
    publisher: HandOffPublisher,
    connection: Option<ReceiverConnection>,
    /// True when the store knows the hand-off as it is here.
    known: bool,
    /// When the lease was last renewed; none without one.
    held: Option<Instant>,
    /// How often people let it go on, as last read.
    retries: u64,
    /// Why it stands still, as last read.
    stopped: bool,
    /// Tries that failed since the last that did not.
    failures: u32,
    /// Jobs of one request, as the receiver lets us.
    together: usize,
}

/// The task of a hand-off.
pub(super) async fn run(own: HandOffLoop, board: Arc<SharedStatus<HandOffStatus>>, stop: CancellationToken) {
    let publisher = own.engine.handoffs().publisher(&own.hand_off.name);
    let publisher = publisher.lease(own.times.lease).together(TOGETHER);
    let mut rounds = HandOffRounds {
        own,
        board,
        publisher,
        connection: None,
        known: false,
        held: None,
        retries: 0,
        stopped: false,
        failures: 0,
        together: TOGETHER,
    };
    while !stop.is_cancelled() {
        let end = rounds.round().await;
        rounds.after(end, &stop).await;
    }
    // What cannot be written is left to the lease, which runs out.
    let _ = rounds.publisher.release().await;
    rounds.board.write(|status| status.state = HandOffRunState::Ended);
}

impl HandOffRounds {
    /// Notes how a round ended, and waits as long as that asks for.
    async fn after(&mut self, end: HandOffStep, stop: &CancellationToken) {
        let look = self.own.times.look;
        match end {
            HandOffStep::Again => self.failures = 0,
            HandOffStep::Idle => {
                self.failures = 0;
                pause(look, stop).await;
            }
            HandOffStep::Standby => {
                self.connection = None;
                self.board.write(|status| status.state = HandOffRunState::Standby);
                pause(look, stop).await;
            }
            HandOffStep::Stopped => {
                self.connection = None;
                self.board.write(|status| status.state = HandOffRunState::Stopped);
                pause(look, stop).await;
            }
            HandOffStep::Wait(span) => {
                self.board.write(|status| status.state = HandOffRunState::Waiting);
                self.wait(span, stop).await;
            }
            HandOffStep::Failed(problem) => {
                self.failures = self.failures.saturating_add(1);
                let span = self.spread();
                let problem = self.clean(&problem);
                // One line for each trouble, and not one for each attempt: nobody has refused anything.
                if self.failures == 1 {
                    tracing::warn!(handoff = self.own.hand_off.name, "hand-off publishes nothing: {problem}");
                }
                self.board.write(|status| {
                    status.state = HandOffRunState::Waiting;
                    status.failures += 1;
                    status.last_error = Some(problem);
                });
                pause(span, stop).await;
            }
        }
    }

    /// Waits for the next try, or until a person wants it at once. The lease is kept meanwhile.
    async fn wait(&mut self, span: Duration, stop: &CancellationToken) {
        let until = Instant::now() + span;
        while !stop.is_cancelled() && Instant::now() < until {
            pause(self.own.times.look.min(until - Instant::now()), stop).await;
            let before = self.retries;
            // A store that is away is for the round to tell.
            if !matches!(self.may_publish().await, Ok(true)) || self.read_control().await.is_err() {
                return;
            }
            if self.retries != before {
                self.failures = 0;
                return;
            }
        }
    }

    fn spread(&self) -> Duration {
        self.own.times.backoff.delay(self.failures, fastrand::f64())
    }

    fn clean(&self, problem: &str) -> String {
        let config = self.own.engine.config();
        sanitize(&*config.redactor, problem, config.limits.error_chars)
    }

    async fn round(&mut self) -> HandOffStep {
        match self.may_publish().await {
            Ok(true) => {}
            Ok(false) => return HandOffStep::Standby,
            Err(error) => return HandOffStep::Failed(error.to_string()),
        }
        if self.stopped {
            // Whether a person has let it go on by now.
            if let Err(error) = self.read_control().await {
                return HandOffStep::Failed(error.to_string());
            }
            if self.stopped {
                return HandOffStep::Stopped;
            }
            self.failures = 0;
        }
        self.exchange().await.unwrap_or_else(HandOffStep::Failed)
    }

    /// Makes the hand-off known, and holds its lease.
    async fn may_publish(&mut self) -> Result<bool, HandOffProblem> {
        if !self.known {
            self.own.engine.handoffs().set(&self.own.hand_off).await?;
            self.known = true;
        }
        if self.held.is_some_and(|at| at.elapsed() < self.own.times.lease / 5) {
            return Ok(true);
        }
        let new = self.held.is_none();
        let holds = self.publisher.hold().await?;
        self.held = holds.then(Instant::now);
        if holds && new {
            self.read_control().await?;
        }
        Ok(holds)
    }

    async fn read_control(&mut self) -> Result<(), HandOffProblem> {
        let control = self.publisher.control().await?;
        (self.stopped, self.retries) = (control.stop.is_some(), control.retries);
        Ok(())
    }

    async fn exchange(&mut self) -> Result<HandOffStep, String> {
        let page = self.publisher.next(PAGE).await.map_err(|error| error.to_string())?;
        if page.is_empty() {
            self.board.write(|status| status.state = HandOffRunState::Publishing);
            return Ok(HandOffStep::Idle);
        }
        if page.is_sealed() {
            // Another process may have the keys.
            let _ = self.publisher.release().await;
            self.held = None;
            return Err("what waits is sealed with keys that this process lacks: see [encryption]".to_owned());
        }
        let jobs = posted(&self.own.hand_off, &page, self.together);
        if jobs.is_empty() {
            return Err("a document of the outbox holds something else than hand-offs".to_owned());
        }
        let (id, body) = request(&jobs);
        let answer = self.own.receiver.post(&mut self.connection, &id, body).await;
        self.board.write(|status| status.requests += 1);
        let mut end = match answer {
            Ok(answer) => read(&jobs, &answer),
            Err(problem) => away(&problem),
        };
        if end.smaller {
            self.together = (jobs.len() / 2).max(1);
            return Ok(HandOffStep::Again);
        }
        let some = !end.round.admitted.is_empty() || !end.round.duplicates.is_empty();
        if some {
            self.failures = 0;
            self.together = (self.together * 2).min(TOGETHER);
        }
        let more = page.more() || jobs.len() < page.jobs().count();
        let step = self.step(&mut end, jobs.len(), more);
        let settled = self.publisher.settle(page, &end.round).await.map_err(|error| error.to_string())?;
        self.held = settled.then(Instant::now);
        self.tell(&end, settled);
        if let Some(refused) = end.refused.take() {
            self.stop(refused).await?;
        }
        Ok(step)
    }

    /// What follows, and the one line of a refusal. Fills in how long a wait lasts.
    fn step(&mut self, end: &mut RequestResult, jobs: usize, more: bool) -> HandOffStep {
        end.round.problem = end.round.problem.take().map(|problem| self.clean(&problem));
        if let Some(refused) = &mut end.refused {
            refused.message = self.clean(&refused.message);
        }
        let name = &self.own.hand_off.name;
        if let Some(refused) = &end.refused {
            let problem = end.round.problem.as_deref().unwrap_or_default();
            tracing::warn!(
                handoff = name,
                jobs,
                status = refused.status,
                code = refused.code,
                "delivery failure: {problem}; the hand-off stands still: {}, then `backstop handoff retry {name}`",
                refused.way_out()
            );
            // Before the stop is written, so that a store that fails then does not lead to another request at once.
            self.stopped = true;
            return HandOffStep::Stopped;
        }
        let Some((trouble, _)) = end.round.trouble else {
            return if more { HandOffStep::Again } else { HandOffStep::Idle };
        };
        self.failures = self.failures.saturating_add(1);
        // Never sooner than the receiver says, and not everybody at that moment.
        let span = end.asked.unwrap_or_default().saturating_add(self.spread());
        end.round.trouble = Some((trouble, span));
        let problem = end.round.problem.as_deref().unwrap_or_default();
        let wait_ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        // A receiver that refuses has a line for each refusal. One that is away has refused nothing: one line in all.
        if trouble == HandOffCause::Pressure || self.failures == 1 {
            tracing::warn!(
                handoff = name,
                jobs,
                wait_ms,
                "delivery failure: {problem}; what waits is backlog"
            );
        }
        HandOffStep::Wait(span)
    }

    fn tell(&self, end: &RequestResult, settled: bool) {
        let count = |ids: &std::collections::BTreeSet<String>| u64::try_from(ids.len()).unwrap_or(u64::MAX);
        self.board.write(|status| {
            status.state = HandOffRunState::Publishing;
            if settled {
                status.admitted += count(&end.round.admitted);
                status.duplicates += count(&end.round.duplicates);
            }
            let pressed = matches!(end.round.trouble, Some((HandOffCause::Pressure, _)));
            status.refusals += u64::from(end.round.refused || pressed);
            status.failures += u64::from(end.round.trouble.is_some() && !pressed);
            status.last_error.clone_from(&end.round.problem);
        });
    }

    /// Keeps why it stands still, where every process sees it.
    async fn stop(&self, refused: HandOffRefusal) -> Result<(), String> {
        let kept = self.publisher.stop(refused).await.map_err(|error| error.to_string())?;
        if !kept {
            tracing::debug!(handoff = self.own.hand_off.name, "somebody wrote at the same time");
        }
        Ok(())
    }
}

/// No answer came.
fn away(problem: &str) -> RequestResult {
    let mut end = RequestResult::default();
    end.round.trouble = Some((HandOffCause::Unreachable, Duration::ZERO));
    end.round.problem = Some(problem.to_owned());
    end
}

async fn pause(span: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(span) => {}
    }
}
