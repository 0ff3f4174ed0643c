//! One transaction on a connection of our own.
//!
//! It begins with its first statement and is committed together with its last ones, so that most verbs need two round
//! trips. One that is dropped in between, because its caller went away, takes its connection with it: nobody else may
//! find a transaction open.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::event::Event;
use backstop_core::{JobId, Timestamp};
use backstop_store::working_set::{LaneKey, ReadyRow, Turn, WorkingSet, Writes};
use backstop_store::{Error, Observer};
use futures_util::future::BoxFuture;
use tokio::time::Instant;

use crate::access::{Class, Pass};
use crate::connection::{Batch, Begin, Mode, ServerConnection};
use crate::counting;
use crate::dialect::{Dialect, gather, translate};
use crate::failure::SqlFailure;
use crate::lanes::{self, LaneIds};
use crate::lines;
use crate::row::{Row, moment_of};
use crate::session::{Pending, Session};
use crate::shared::Shared;
use crate::statement::{Request, Statement};
use crate::value::Query;
use crate::write;

/// One transaction under way.
pub struct Transaction {
    /// What it has in common with the others of its store.
    pub shared: Arc<Shared>,
    /// Gone once the connection cannot be used any more.
    connection: Option<Box<dyn ServerConnection>>,
    begin: Begin,
    stage: Stage,
    /// True when the last batch may have been committed.
    sent: bool,
    news: Option<News>,
}

/// How far a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No statement has been sent.
    Fresh,
    /// It is open, or nobody knows.
    Open,
    /// It has ended and the connection is clean.
    Over,
}

/// What is told after the commit.
struct News {
    turn: Turn,
    events: Vec<Event>,
    /// Queues where something may have become claimable.
    arrivals: BTreeSet<Arc<str>>,
    lanes: LaneIds,
    /// True when the turn may have to pass on in some line (L21).
    lines_changed: bool,
}

/// How often a transaction that conflicts with another one is tried, with a longer pause each time.
const MOST_TRIES: u32 = 12;

/// How a verb is called.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    mode: Mode,
    class: Class,
    within: Duration,
    group: bool,
}

impl Call {
    /// A call of a certain kind.
    #[must_use]
    pub const fn new(mode: Mode, class: Class) -> Self {
        Self { mode, class, within: Duration::MAX, group: false }
    }

    /// One that reads what the engine itself goes by.
    #[must_use]
    pub const fn read() -> Self {
        Self::new(Mode::Read, Class::Work)
    }

    /// One that reads what people ask.
    #[must_use]
    pub const fn question() -> Self {
        Self::new(Mode::Read, Class::Question)
    }

    /// One that writes.
    #[must_use]
    pub const fn write() -> Self {
        Self::new(Mode::Write, Class::Work)
    }

    /// The same with less time.
    #[must_use]
    pub const fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    /// The same for several callers at once: none of them waits for a lock that may concern another only.
    #[must_use]
    pub const fn for_group(self) -> Self {
        Self { group: true, ..self }
    }
}

/// How a try waits for locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// Hardly: others need the connection.
    Short(Duration),
    /// As long as anybody may, with a connection that is meant for it.
    Long,
    /// The same with whatever connection the call has.
    Here,
}

impl Shared {
    /// Runs a verb in a transaction, and again when it conflicts with another one, within the deadline.
    ///
    /// # Errors
    /// What its last failure means.
    pub async fn transact<T>(
        self: &Arc<Self>,
        call: Call,
        verb: impl for<'u> Fn(&'u mut Transaction) -> BoxFuture<'u, Result<T, SqlFailure>> + Send + Sync,
    ) -> Result<T, Error> {
        let limit = Instant::now() + call.class.deadline(self.settings.deadline).min(call.within);
        let patience = self.backend.patience();
        let mut wait = match call {
            Call { group: true, .. } => Wait::Short(patience.group),
            Call { class, .. } if class.hurries() => Wait::Short(patience.short),
            _ => Wait::Here,
        };
        let (mut tries, mut waits) = (0, 0);
        loop {
            let (failure, sent) = match self.once(call, wait, &verb, limit).await {
                Ok((answer, lines_changed)) => {
                    if lines_changed {
                        Box::pin(lines::advance_now(self)).await;
                    }
                    return Ok(answer);
                }
                Err(failed) => failed,
            };
            let may_wait = !call.group && wait != Wait::Here && waits < patience.waits;
            if matches!(failure, SqlFailure::Busy(_)) && may_wait {
                waits += 1;
                wait = Wait::Long;
                continue;
            }
            tries += 1;
            if !failure.is_again() || tries == MOST_TRIES {
                return Err(failure.into_error(self.location(), sent));
            }
            // After making lanes there is no conflict to wait out.
            if !matches!(failure, SqlFailure::NoLane(_)) {
                tokio::time::sleep(pause(tries)).await;
            }
        }
    }

    /// The right to hold a connection, and how long a lock may be waited for with it.
    async fn pass(
        &self,
        class: Class,
        wait: Wait,
        limit: Instant,
    ) -> Result<(Pass<'_>, Duration), SqlFailure> {
        let most = self.settings.lock_wait;
        if wait == Wait::Long {
            // Those before us may get what they wait for, so the queue has longer than each of them.
            let until = limit.min(Instant::now() + most * 3);
            let pass = tokio::time::timeout_at(until, self.access.patient()).await;
            let crowd = |_| SqlFailure::Busy("other open transactions hold what many calls need".to_owned());
            return Ok((pass.map_err(crowd)?, most));
        }
        let pass = tokio::time::timeout_at(limit, self.access.pass(class)).await;
        let pass = pass.map_err(|_| SqlFailure::Slow("waiting for a connection"))?;
        Ok((pass, if let Wait::Short(span) = wait { span.min(most) } else { most }))
    }

    async fn once<T>(
        self: &Arc<Self>,
        call: Call,
        wait: Wait,
        verb: &(impl for<'u> Fn(&'u mut Transaction) -> BoxFuture<'u, Result<T, SqlFailure>> + Send + Sync),
        limit: Instant,
    ) -> Result<(T, bool), (SqlFailure, bool)> {
        let not_sent = |failure: SqlFailure| (failure, false);
        let (_pass, lock_wait) = self.pass(call.class, wait, limit).await.map_err(not_sent)?;
        let begin = Begin { mode: call.mode, lock_wait };
        let mut transaction = Transaction::begin(self, begin, limit).await.map_err(not_sent)?;
        match tokio::time::timeout_at(limit, verb(&mut transaction)).await {
            Ok(Ok(answer)) => {
                transaction.close(limit).await;
                Ok((answer, transaction.tell().await))
            }
            Ok(Err(failure)) => {
                // What only reads has no outcome that could be unknown.
                let sent = transaction.sent && call.mode != Mode::Read;
                transaction.close(limit).await;
                let failure = match failure {
                    SqlFailure::NoLane(lanes) => transaction.make_lanes(lanes, limit).await,
                    other => other,
                };
                Err((failure, sent))
            }
            Err(_) => Err((SqlFailure::Slow("a statement"), transaction.sent && call.mode != Mode::Read)),
        }
    }
}

/// How long to wait before another try: longer each time, and never in step with whom we met.
fn pause(tries: u32) -> Duration {
    let noise = u64::from(uuid::Uuid::now_v7().as_bytes()[15]);
    Duration::from_micros((noise * 16) << tries.min(6))
}

impl Transaction {
    async fn begin(shared: &Arc<Shared>, begin: Begin, limit: Instant) -> Result<Self, SqlFailure> {
        let slow = |_| SqlFailure::Slow("waiting for a connection");
        let connection = tokio::time::timeout_at(limit, shared.backend.connect()).await.map_err(slow)??;
        let (shared, connection) = (shared.clone(), Some(connection));
        Ok(Self { shared, connection, begin, stage: Stage::Fresh, sent: false, news: None })
    }

    /// The moment of this transaction, by the store's clock.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn now(&mut self) -> Result<Timestamp, SqlFailure> {
        let clock = self.clock();
        moment_of(self.ask(clock).await?)
    }

    /// The same moment without a transaction, in one round trip.
    pub(crate) async fn now_alone(&mut self) -> Result<Timestamp, SqlFailure> {
        let clock = self.clock();
        moment_of(self.one_alone(clock).await?)
    }

    /// The question for the moment.
    pub(crate) fn clock(&self) -> Request {
        Statement::Clock.with(vec![self.shared.moment()])
    }

    /// An empty working set at `now`.
    #[must_use]
    pub fn working_set(&self, now: Timestamp) -> WorkingSet {
        WorkingSet::new(now, self.shared.wants())
    }

    /// Writes what was changed in a working set, and commits.
    pub(crate) async fn save(&mut self, set: WorkingSet) -> Result<(), SqlFailure> {
        let now = set.now;
        self.write(set.into_writes(), now).await
    }

    /// Writes a sum of changes, and commits.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn write(&mut self, writes: Writes, now: Timestamp) -> Result<(), SqlFailure> {
        self.write_after(Vec::new(), writes, now).await.map(drop)
    }

    /// Asks for something first, writes a sum of changes and commits, in one round trip; answers what was asked for.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn write_after(
        &mut self,
        first: Vec<Request>,
        writes: Writes,
        now: Timestamp,
    ) -> Result<Vec<Vec<Row>>, SqlFailure> {
        if writes.is_empty() {
            return self.commit(first).await;
        }
        self.write_judged(first, writes, now, true).await
    }

    /// Writes a sum of changes, asks for something that sees it, and commits, in one round trip; answers what was asked
    /// for.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn write_before(
        &mut self,
        writes: Writes,
        last: Request,
        now: Timestamp,
    ) -> Result<Vec<Row>, SqlFailure> {
        debug_assert!(writes.incidents.is_empty(), "nothing is judged here");
        let shared = self.shared.clone();
        let write = write::prepare(self, &shared.lanes, &writes, now).await?;
        let mut requests = write.requests;
        requests.push(last);
        let mut news = self.news_of(writes.events, &writes.ready_in, writes.work_arrived, write.lanes);
        news.lines_changed = !writes.lines.changed().is_empty();
        let answer = self.commit(requests).await?.pop().unwrap_or_default();
        self.news = Some(news);
        Ok(answer)
    }

    /// Like [`Transaction::write_after`] for failures of incidents of which it is known whether any is said to be
    /// fixed: only then the sums must be judged before the commit, which takes one round trip more. All who fail alike
    /// wait for it.
    pub(crate) async fn write_judged(
        &mut self,
        first: Vec<Request>,
        mut writes: Writes,
        now: Timestamp,
        fixed: bool,
    ) -> Result<Vec<Vec<Row>>, SqlFailure> {
        let (own, mut requests) = (first.len(), first);
        if writes.is_empty() {
            return self.commit(requests).await;
        }
        let shared = self.shared.clone();
        let write = write::prepare(self, &shared.lanes, &writes, now).await?;
        requests.extend(write.requests);
        let wants = shared.observer().wants_events();
        let (mut answers, counts) = (Vec::new(), std::mem::take(&mut writes.incidents));
        if fixed && !counts.is_empty() {
            let judged = counting::settle(self, requests, &counts, now).await?;
            (answers, requests) = (judged.answers, vec![judged.standings]);
            writes.events.extend(judged.events.into_iter().filter(|_| wants));
        }
        let looks = !fixed && wants && !counts.is_empty();
        requests.extend(looks.then(|| counting::sums(&counts)));
        let mut news = self.news_of(writes.events, &writes.ready_in, writes.work_arrived, write.lanes);
        news.lines_changed = !writes.lines.changed().is_empty();
        answers.extend(self.commit(requests).await?);
        if looks {
            news.events.extend(counting::opened(&counts, &mut answers, now)?);
        }
        answers.truncate(own);
        self.news = Some(news);
        Ok(answers)
    }

    /// What is to be told once this is committed. The jobs are locked, or nobody knows them yet: whoever changes them
    /// after us draws a later turn.
    fn news_of(&self, events: Vec<Event>, ready: &[ReadyRow], arrived: bool, lanes: LaneIds) -> News {
        let turn = self.shared.commit_order.draw_for(&events);
        let arrivals = ready.iter().filter(|_| arrived).map(|row| row.lane.queue.clone()).collect();
        News { turn, events, arrivals, lanes, lines_changed: false }
    }

    /// Asks for things each of which is a transaction of its own, in one round trip. Nothing has begun after it.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn alone(&mut self, requests: Vec<Request>) -> Result<Vec<Vec<Row>>, SqlFailure> {
        debug_assert_eq!(self.stage, Stage::Fresh, "a transaction is open");
        let (queries, counts) = translate(self.dialect(), requests);
        self.sent = true;
        let answers = self.pass_on(Batch { begin: None, queries, commit: false }).await?;
        self.shared.count_commit();
        (self.stage, self.sent) = (Stage::Fresh, false);
        Ok(gather(answers, &counts))
    }

    /// The same for one thing.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn one_alone(&mut self, request: impl Into<Request>) -> Result<Vec<Row>, SqlFailure> {
        Ok(self.alone(vec![request.into()]).await?.pop().unwrap_or_default())
    }

    /// True until the first statement of its transaction is sent.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.stage == Stage::Fresh
    }

    /// Asks for the last things and commits, in one round trip.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn commit(&mut self, last: Vec<Request>) -> Result<Vec<Vec<Row>>, SqlFailure> {
        let (queries, counts) = translate(self.dialect(), last);
        if self.stage == Stage::Fresh && queries.is_empty() {
            self.stage = Stage::Over;
            return Ok(gather(Vec::new(), &counts));
        }
        let answers = self.send(queries, true).await?;
        self.shared.count_commit();
        (self.stage, self.sent) = (Stage::Over, false);
        Ok(gather(answers, &counts))
    }

    async fn send(&mut self, queries: Vec<Query>, commit: bool) -> Result<Vec<Vec<Row>>, SqlFailure> {
        let begin = (self.stage == Stage::Fresh).then_some(self.begin);
        self.pass_on(Batch { begin, queries, commit }).await
    }

    async fn pass_on(&mut self, batch: Batch) -> Result<Vec<Vec<Row>>, SqlFailure> {
        self.shared.count_statements(batch.queries.len());
        self.stage = Stage::Open;
        let Some(connection) = self.connection.as_mut() else {
            return Err(SqlFailure::Lost("the connection is gone".to_owned()));
        };
        connection.send(batch, &mut self.sent).await
    }

    /// Ends a transaction that was not committed, and gives the connection back if it is clean.
    async fn close(&mut self, limit: Instant) {
        if self.stage == Stage::Open
            && let Some(connection) = self.connection.as_mut()
        {
            let rolled_back = tokio::time::timeout_at(limit, connection.roll_back()).await;
            if matches!(rolled_back, Ok(Ok(()))) {
                self.stage = Stage::Over;
            }
        }
    }

    /// Makes lanes in a transaction of their own, so that nobody waits for the one that needs them (L14). Answers why
    /// the verb is to begin again, or why it cannot.
    async fn make_lanes(&mut self, lanes: BTreeSet<LaneKey>, limit: Instant) -> SqlFailure {
        if self.stage != Stage::Over {
            return SqlFailure::Lost("a transaction could not be ended".to_owned());
        }
        self.stage = Stage::Fresh;
        let made = self.commit(vec![lanes::make(&lanes)]);
        match tokio::time::timeout_at(limit, made).await {
            Ok(Ok(_)) => SqlFailure::NoLane(lanes),
            Ok(Err(failure)) => {
                self.close(limit).await;
                failure
            }
            Err(_) => SqlFailure::Slow("making a lane"),
        }
    }

    /// Nobody needs to be told of work in these queues: it has been taken already.
    pub fn nothing_arrived(&mut self, queues: &BTreeSet<Arc<str>>) {
        if let Some(news) = &mut self.news {
            news.arrivals.retain(|queue| !queues.contains(queue));
        }
    }

    /// A turn for what is to be told of these jobs. To be drawn while they are locked; or before the statement that
    /// locks and changes them, when it changes nothing unless they are as they were before.
    #[must_use]
    pub fn draw_turn(&self, jobs: impl IntoIterator<Item = JobId>) -> Turn {
        self.shared.commit_order.draw(jobs)
    }

    /// Notes what is to be told, at its turn, of what has been committed already.
    pub fn tell_of(&mut self, turn: Turn, events: Vec<Event>) {
        let (arrivals, lanes) = (BTreeSet::new(), LaneIds::default());
        self.news = Some(News { turn, events, arrivals, lanes, lines_changed: false });
    }

    /// Tells what was committed, and answers whether the turn may have to pass on in some line.
    async fn tell(&mut self) -> bool {
        let Some(news) = self.news.take() else { return false };
        self.shared.lanes.remember(news.lanes);
        let (observer, events) = (self.shared.observer(), news.events);
        news.turn.tell(move || tell_all(&*observer, events)).await;
        if !news.arrivals.is_empty() {
            self.shared.work_arrived(news.arrivals);
        }
        news.lines_changed
    }
}

fn tell_all(observer: &dyn Observer, events: Vec<Event>) {
    if !events.is_empty() {
        observer.committed(events);
    }
}

impl Session for Transaction {
    fn dialect(&self) -> &'static dyn Dialect {
        self.shared.backend.dialect()
    }

    fn run(&mut self, batch: Vec<Query>) -> Pending<'_, Vec<Vec<Row>>> {
        Box::pin(self.send(batch, false))
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let clean = matches!(self.stage, Stage::Fresh | Stage::Over);
        if let Some(connection) = self.connection.take().filter(|_| !clean) {
            // Given back to the pool, it would bring its open transaction with it.
            connection.abandon();
        }
    }
}
