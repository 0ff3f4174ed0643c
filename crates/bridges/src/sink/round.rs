//! The rounds of a sink: hold the lease, read the oldest messages, publish them, remove them, and again.
//!
//! Whatever goes wrong ends in a wait and another round, from the oldest message on: so those of one job never
//! overtake each other.

use std::sync::Arc;
use std::time::Duration;

use std::collections::HashMap;

use backstop::JobId;
use backstop::sinks::{OutboxPage, OutboxPublisher, SinkProblem};
use backstop_core::failure::Cause;
use backstop_core::failure::redact::sanitize;
use backstop_core::sealing::{SHOWN, is_sealed};
use backstop_store::Error as StoreError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::BridgeSink;
use super::status::{SinkRunState, SinkStatus};
use crate::broker::{BrokerError, BrokerPublisher};
use crate::profile::{Addressed, KnownJob, publish_all};
use crate::shared_status::SharedStatus;

/// Documents that are read at once.
const PAGE: usize = 100;

/// The code of what this process cannot read (E12).
const SEALED: &str = "sealed";

/// How a round ended.
enum SinkRound {
    /// There may be more.
    Again,
    /// Nothing waits.
    Idle,
    /// Somebody else publishes, or nobody may.
    Standby,
    /// The broker or the store failed.
    Failed(SinkFailure),
}

/// What failed: a stable word, and a sentence.
struct SinkFailure(&'static str, String);

impl SinkFailure {
    fn sealed() -> Self {
        Self(SEALED, "what waits is sealed with keys that this process lacks: see [encryption]".to_owned())
    }
}

impl From<BrokerError> for SinkFailure {
    fn from(error: BrokerError) -> Self {
        Self(error.code(), error.to_string())
    }
}

impl From<StoreError> for SinkFailure {
    fn from(error: StoreError) -> Self {
        Self(error.code(), error.to_string())
    }
}

impl From<SinkProblem> for SinkFailure {
    fn from(problem: SinkProblem) -> Self {
        match problem {
            SinkProblem::Store(error) => error.into(),
            other => Self("sink_refused", other.to_string()),
        }
    }
}

/// What the rounds share.
struct SinkRounds {
    sink: BridgeSink,
    board: Arc<SharedStatus<SinkStatus>>,
    publisher: OutboxPublisher,
    session: Option<Box<dyn BrokerPublisher>>,
    /// True when the store knows the sink as it is here.
    known: bool,
    /// When the lease was last renewed; none without one.
    held: Option<Instant>,
    /// Rounds that failed since the last that did not.
    failures: u32,
}

/// The task of a sink.
pub(super) async fn run(sink: BridgeSink, board: Arc<SharedStatus<SinkStatus>>, stop: CancellationToken) {
    let publisher = sink.engine.sinks().publisher(&sink.sink.name).lease(sink.times.lease);
    let mut rounds =
        SinkRounds { sink, board, publisher, session: None, known: false, held: None, failures: 0 };
    while !stop.is_cancelled() {
        let end = rounds.round().await;
        let Some(pause) = rounds.after(end).await else { continue };
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
    // What cannot be written is left to the lease, which runs out.
    let _ = rounds.publisher.release().await;
    rounds.board.write(|status| status.state = SinkRunState::Stopped);
}

impl SinkRounds {
    /// Notes how a round ended; answers how long to wait before the next.
    async fn after(&mut self, end: SinkRound) -> Option<Duration> {
        let look = self.sink.times.look;
        let SinkFailure(code, problem) = match end {
            SinkRound::Again => {
                self.failures = 0;
                return None;
            }
            SinkRound::Idle => {
                self.failures = 0;
                return Some(look);
            }
            SinkRound::Standby => {
                self.failures = 0;
                self.session = None;
                self.board.write(|status| status.state = SinkRunState::Standby);
                return Some(look);
            }
            SinkRound::Failed(failure) => failure,
        };
        self.session = None;
        self.failures = self.failures.saturating_add(1);
        let pause = self.sink.times.backoff.delay(self.failures, fastrand::f64());
        let config = self.sink.engine.config();
        let problem = sanitize(&*config.redactor, &problem, config.limits.error_chars);
        let sink = &*self.sink.sink.name;
        // One line for each trouble, and not one for each attempt.
        if self.failures == 1 {
            tracing::warn!(bridge = sink, "bridge publishes nothing: {problem}");
        } else {
            tracing::debug!(bridge = sink, attempt = self.failures, ?pause, "still: {problem}");
        }
        if self.held.is_some() {
            // Other processes show it too. A store that is away is told of nothing.
            let _ = self.publisher.failed(&problem).await;
        }
        if code == SEALED {
            // Another process may have the keys.
            let _ = self.publisher.release().await;
            self.held = None;
        }
        self.board.write(|status| {
            status.state = SinkRunState::Disconnected;
            status.failures += 1;
            status.last_error = Some(problem);
            status.error_code = Some(code);
        });
        Some(pause)
    }

    async fn round(&mut self) -> SinkRound {
        match self.may_publish().await {
            Ok(true) => {}
            Ok(false) => return SinkRound::Standby,
            Err(problem) => return SinkRound::Failed(problem.into()),
        }
        self.exchange().await.unwrap_or_else(SinkRound::Failed)
    }

    /// Makes the sink known, and holds its lease. A pause by a person is heard of with the next renewal.
    async fn may_publish(&mut self) -> Result<bool, SinkProblem> {
        if !self.known {
            self.sink.engine.sinks().set(&self.sink.sink, self.sink.limits).await?;
            self.known = true;
        }
        if self.held.is_some_and(|at| at.elapsed() < self.sink.times.lease / 5) {
            return Ok(true);
        }
        let holds = self.publisher.hold().await?;
        self.held = holds.then(Instant::now);
        Ok(holds)
    }

    async fn exchange(&mut self) -> Result<SinkRound, SinkFailure> {
        let page = self.publisher.next(PAGE).await?;
        if page.is_empty() && self.session.is_some() {
            return Ok(SinkRound::Idle);
        }
        if page.is_sealed() {
            return Err(SinkFailure::sealed());
        }
        // Also without a message: whoever looks sees whether the broker is there.
        let mut session = match self.session.take() {
            Some(session) => session,
            None => {
                let session = self.sink.broker.publisher().await?;
                self.board.write(|status| status.connections += 1);
                session
            }
        };
        let jobs = jobs_of(&self.sink, &page).await?;
        let profile = &self.sink.profile;
        let known = |job: Option<JobId>| job.and_then(|job| jobs.get(&job));
        let answers = page.messages.iter().flat_map(|message| profile.answers(message, known(message.job)));
        if !self.publish(&mut *session, answers.collect()).await? {
            return Ok(SinkRound::Standby);
        }
        self.session = Some(session);
        let (count, more) = (u64::try_from(page.messages.len()).unwrap_or(u64::MAX), page.more);
        if page.is_empty() {
            self.board.write(SinkStatus::publishing);
            return Ok(SinkRound::Idle);
        }
        let removed = self.publisher.published(page).await?;
        self.held = removed.then(Instant::now);
        self.board.write(|status| {
            status.publishing();
            *(if removed { &mut status.published } else { &mut status.repeated }) += count;
        });
        Ok(if more { SinkRound::Again } else { SinkRound::Idle })
    }
}

impl SinkRounds {
    /// Publishes, and keeps the lease meanwhile: a slow broker may take longer than that for a page. False when the
    /// lease was lost, or a person paused the sink: what was published by then is published again.
    async fn publish(
        &mut self,
        session: &mut dyn BrokerPublisher,
        all: Vec<Addressed>,
    ) -> Result<bool, SinkFailure> {
        let renewal = self.sink.times.lease / 5;
        let mut publishing = std::pin::pin!(publish_all(session, all));
        loop {
            tokio::select! {
                biased;
                done = &mut publishing => return Ok(done.map(|()| true)?),
                () = tokio::time::sleep(renewal) => {}
            }
            let holds = self.publisher.hold().await?;
            self.held = holds.then(Instant::now);
            if !holds {
                return Ok(false);
            }
        }
    }
}

/// What the profile keeps with the jobs that messages are about, if it keeps anything.
async fn jobs_of(sink: &BridgeSink, page: &OutboxPage) -> Result<HashMap<JobId, KnownJob>, SinkFailure> {
    let BridgeSink { engine, profile, .. } = sink;
    if !profile.needs_jobs() || page.messages.is_empty() {
        return Ok(HashMap::new());
    }
    let mut ids: Vec<JobId> = page.messages.iter().filter_map(|message| message.job).collect();
    ids.sort_unstable();
    ids.dedup();
    let store = engine.store();
    let found = store.jobs(ids.clone()).await?;
    let (mut jobs, mut gone) = (HashMap::new(), Vec::new());
    for (id, detail) in ids.into_iter().zip(found) {
        let Some(detail) = detail else {
            gone.push(id);
            continue;
        };
        let crashes = detail.counters.get(&Cause::Crash).copied().unwrap_or_default();
        let open = engine.revealed(&detail.view);
        let (stored, opened) = (&detail.view.job.spec.payload, &open.job.spec.payload);
        if is_sealed(stored) && **opened == *serde_json::Value::from(SHOWN).to_string() {
            return Err(SinkFailure::sealed());
        }
        jobs.insert(id, KnownJob::of(&open.job.spec, u32::try_from(crashes).unwrap_or(u32::MAX)));
    }
    if !gone.is_empty() {
        let archived = store.archived(gone.clone()).await?;
        let known = archived.iter().map(|one| KnownJob::of_archive(&one.as_ref()?.document));
        jobs.extend(gone.into_iter().zip(known).filter_map(|(id, job)| Some((id, job?))));
    }
    Ok(jobs)
}
