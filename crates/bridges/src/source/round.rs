//! The rounds of a consumer of a source: look whether it may, connect, receive, submit, settle, and again.
//!
//! Whatever goes wrong ends in a wait and another round. The session is thrown away first: so no message is held while
//! nobody works on it, and the broker gives it to somebody else.

use std::sync::Arc;
use std::time::Duration;

use backstop::sinks::SinkProblem;
use backstop_store::Error as StoreError;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::admit::{AdmittedBatch, admit};
use super::status::{SourceState, SourceStatus};
use super::tracked;
use super::{Source, SourceConsumer};
use crate::broker::{Broker, BrokerError, BrokerSession};
use crate::decide;
use crate::message::BrokerMessage;
use crate::profile::{Addressed, SessionPublisher, publish_all};
use crate::shared_status::SharedStatus;

/// How often the broker is asked how much waits.
const MEASURE: Duration = Duration::from_secs(10);

/// How a round ended.
enum RoundEnd {
    /// The next one may follow at once.
    Again,
    /// The broker failed.
    Broker(BrokerError),
    /// Messages cannot become jobs now.
    Held(String),
    /// It is too early.
    Wait(Duration),
}

/// What the rounds share.
struct Rounds {
    source: Arc<Source>,
    /// Which consumer of the source it is.
    number: usize,
    broker: Arc<dyn Broker>,
    board: Arc<SharedStatus<SourceStatus>>,
    session: Option<Box<dyn BrokerSession>>,
    /// When it was last looked whether messages may become jobs.
    looked: Option<Instant>,
    /// When the broker was last asked how much waits.
    measured: Option<Instant>,
    /// Rounds that failed since the last that did not.
    failures: u32,
}

/// The task of a consumer.
pub(super) async fn run(
    consumer: SourceConsumer,
    mut paused: watch::Receiver<bool>,
    stop: CancellationToken,
) {
    let SourceConsumer { source, number, broker, board } = consumer;
    let mut rounds =
        Rounds { source, number, broker, board, session: None, looked: None, measured: None, failures: 0 };
    while !stop.is_cancelled() {
        if *paused.borrow_and_update() {
            rounds.session = None;
            rounds.board.write(|status| status.rests(number, SourceState::Paused));
            tokio::select! {
                () = stop.cancelled() => {}
                changed = paused.changed() => if changed.is_err() { break },
            }
            continue;
        }
        let end = rounds.round().await;
        let Some(pause) = rounds.after(end) else { continue };
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
            // Whoever pauses or resumes wants to see it happen.
            _ = paused.changed() => {}
        }
    }
    rounds.session = None;
    rounds.board.write(|status| status.rests(number, SourceState::Stopped));
}

impl Rounds {
    /// Notes how a round ended; answers how long to wait before the next.
    fn after(&mut self, end: RoundEnd) -> Option<Duration> {
        let (state, code, problem) = match end {
            RoundEnd::Again => {
                self.failures = 0;
                return None;
            }
            RoundEnd::Wait(pause) => return Some(pause),
            RoundEnd::Broker(error) => (SourceState::Disconnected, error.code(), error.to_string()),
            RoundEnd::Held(problem) => (SourceState::Held, "held", problem),
        };
        self.session = None;
        self.looked = None;
        self.measured = None;
        self.failures = self.failures.saturating_add(1);
        let pause = self.source.times.backoff.delay(self.failures, fastrand::f64());
        let problem = super::sanitized(&self.source.engine, &problem);
        let (bridge, consumer) = (&*self.source.route.bridge, self.number);
        let mut is_known = false;
        self.board.write(|status| {
            is_known = status.is_stuck();
            status.failures += 1;
            status.stuck(consumer, state, code, problem.clone());
        });
        // One line for each trouble, and not one for each attempt and each consumer.
        if self.failures == 1 && !is_known {
            tracing::warn!(bridge, ?state, "bridge takes no messages: {problem}");
        } else {
            tracing::debug!(bridge, consumer, ?state, attempt = self.failures, ?pause, "still: {problem}");
        }
        Some(pause)
    }

    /// Makes the sink known that answers messages, and how long to wait until every process knows it.
    async fn early(&mut self) -> Result<Option<Duration>, SinkProblem> {
        let Source { engine, answered_by, answered_from, times, .. } = &*self.source;
        let Some((sink, limits)) = answered_by else { return Ok(None) };
        // One consumer makes it known, and the others wait for that.
        let mut known = answered_from.lock().await;
        if known.is_none() {
            engine.sinks().set(sink, *limits).await?;
            *known = Some(Instant::now() + times.sink_known);
        }
        let left = known.map(|from| from.saturating_duration_since(Instant::now()));
        Ok(left.filter(|left| !left.is_zero()))
    }

    async fn round(&mut self) -> RoundEnd {
        match self.early().await {
            Ok(None) => {}
            Ok(Some(left)) => return RoundEnd::Wait(left),
            Err(error) => return RoundEnd::Held(error.to_string()),
        }
        match self.closed_by().await {
            Ok(None) => {}
            Ok(Some(reason)) => return RoundEnd::Held(reason),
            Err(error) => return RoundEnd::Held(error.to_string()),
        }
        let mut session = match self.session.take() {
            Some(session) => session,
            None => match self.broker.connect().await {
                Ok(session) => {
                    self.board.write(|status| status.connections += 1);
                    session
                }
                Err(error) => return RoundEnd::Broker(error),
            },
        };
        let end = self.exchange(&mut *session).await;
        if matches!(end, RoundEnd::Again) {
            self.session = Some(session);
        }
        end
    }

    /// Receives a batch, makes jobs of it, and settles it.
    async fn exchange(&mut self, session: &mut dyn BrokerSession) -> RoundEnd {
        if let Err(error) = self.measure(session).await {
            return RoundEnd::Broker(error);
        }
        let Source { profile, prefetch, times, .. } = &*self.source;
        let messages = match session.receive(*prefetch, times.wait).await {
            Ok(messages) => messages,
            Err(error) => return RoundEnd::Broker(error),
        };
        self.board.write(|status| {
            status.consumes(self.number);
            status.received += messages.len() as u64;
        });
        if messages.is_empty() {
            return RoundEnd::Again;
        }
        let now_ms = tracked::now_ms();
        let known = self.source.tracked.ask(profile, &messages, now_ms).await;
        let mut batch = admit(&self.source, messages, known, now_ms).await;
        self.board.write(|status| {
            status.admitted += batch.admitted;
            status.duplicates += batch.duplicates;
            status.invalid += batch.invalid;
            status.discarded += batch.discarded;
        });
        match settle(&self.source, &self.board, session, &mut batch).await {
            Err(error) => RoundEnd::Broker(error),
            Ok(()) => batch.hold.map_or(RoundEnd::Again, RoundEnd::Held),
        }
    }

    /// Asks once in a while how much waits at the broker: people see a backlog that nobody takes. One consumer asks.
    async fn measure(&mut self, session: &mut dyn BrokerSession) -> Result<(), BrokerError> {
        if self.number == 0 && self.measured.is_none_or(|at| at.elapsed() >= MEASURE) {
            let backlog = session.depth().await?;
            self.board.write(|status| status.backlog = backlog);
            self.measured = Some(Instant::now());
        }
        Ok(())
    }

    /// Why messages could not become jobs now, if they could not. It is looked up once in a while: a batch that is
    /// refused in between goes back.
    async fn closed_by(&mut self) -> Result<Option<String>, StoreError> {
        let Source { route, times, look, .. } = &*self.source;
        if self.looked.is_some_and(|looked| looked.elapsed() < times.look) {
            return Ok(None);
        }
        let condition = look.condition(&self.source).await?;
        self.looked = Some(Instant::now());
        Ok(decide::closed_by(&route.queue, &condition))
    }
}

/// Tells the broker what became of each message. What it does not hear is delivered again, and known then.
async fn settle(
    source: &Source,
    board: &SharedStatus<SourceStatus>,
    session: &mut dyn BrokerSession,
    batch: &mut AdmittedBatch,
) -> Result<(), BrokerError> {
    if !batch.settled.is_empty() {
        session.ack(&batch.settled).await?;
        board.write(|status| status.acked += batch.settled.len() as u64);
    }
    for (message, all) in std::mem::take(&mut batch.published) {
        pass_on(board, session, &message, all).await?;
    }
    for (message, reason) in &batch.rejected {
        // One line for each, for somebody may be trying to have things run here (E9).
        tracing::error!(bridge = %source.route.bridge, message = %message.id, "message rejected: {reason}");
        session.abandon(message, reason).await?;
        board.write(|status| status.rejected += 1);
    }
    for (message, reason) in &batch.abandoned {
        session.abandon(message, reason).await?;
        board.write(|status| status.abandoned += 1);
    }
    if !batch.back.is_empty() {
        session.nack(&batch.back, Duration::ZERO).await?;
        board.write(|status| status.given_back += batch.back.len() as u64);
    }
    Ok(())
}

/// Publishes what stands for a message, then settles it. One whose queue does not exist is kept by its broker: it is
/// never dropped, and holds up none behind it.
async fn pass_on(
    board: &SharedStatus<SourceStatus>,
    session: &mut dyn BrokerSession,
    message: &BrokerMessage,
    all: Vec<Addressed>,
) -> Result<(), BrokerError> {
    match publish_all(&mut SessionPublisher(&mut *session), all).await {
        Ok(()) => {
            session.ack(std::slice::from_ref(&message.tag)).await?;
            board.write(|status| {
                status.passed_on += 1;
                status.acked += 1;
            });
        }
        Err(error @ BrokerError::NoSuchQueue { .. }) => {
            session.abandon(message, &error.to_string()).await?;
            board.write(|status| status.abandoned += 1);
        }
        Err(error) => return Err(error),
    }
    Ok(())
}
