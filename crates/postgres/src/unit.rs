//! A unit of work: one transaction on a connection of our own.
//!
//! It begins with its first statement and is committed together with its last ones, so that most verbs need two round
//! trips. A unit that is dropped in between, because its caller went away, takes its connection with it: nobody else
//! may find a transaction open.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backstop_core::Timestamp;
use backstop_core::event::Event;
use backstop_store::desk::{Desk, Position, Turn, Wants, Writes};
use backstop_store::{Error, Observer};
use deadpool_postgres::{Object, PoolError};
use futures_util::future::{BoxFuture, join};

use crate::error::Failure;
use crate::flush;
use crate::incident;
use crate::lanes::LaneIds;
use crate::session::{Query, Session, Wire};
use crate::shared::{Shared, moment_of};
use crate::sql;
use crate::values::Row;

/// One transaction under way.
pub(crate) struct Unit {
    pub(crate) shared: Arc<Shared>,
    /// Gone once the connection cannot be used any more.
    client: Option<Object>,
    begin: &'static str,
    stage: Stage,
    news: Option<News>,
}

/// How far a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No statement has been sent.
    Fresh,
    /// It is open.
    Open,
    /// The commit has been sent.
    Sent,
    /// It has ended and the connection is clean.
    Over,
}

/// What is told after the commit.
struct News {
    turn: Turn,
    events: Vec<Event>,
    /// Queues where something may have become claimable.
    arrivals: BTreeSet<Arc<str>>,
    /// The first of the jobs that became ready in each lane.
    ready: BTreeMap<i64, Position>,
    lanes: LaneIds,
}

/// Transactions that meet others are begun again so often, with a little more patience each time.
const MOST_TRIES: u32 = 12;

impl Shared {
    /// Runs a verb in a transaction, again when it met another one, within the deadline.
    pub(crate) async fn transact<T>(
        self: &Arc<Self>,
        begin: &'static str,
        verb: impl for<'u> Fn(&'u mut Unit) -> BoxFuture<'u, Result<T, Failure>> + Send + Sync,
    ) -> Result<T, Error> {
        let limit = tokio::time::Instant::now() + self.deadline;
        let mut tries = 0;
        loop {
            let (failure, sent) = match self.once(begin, &verb, limit).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            tries += 1;
            if !failure.is_again() || tries == MOST_TRIES {
                return Err(failure.into_error(&self.location, sent));
            }
            tokio::time::sleep(pause(tries)).await;
        }
    }

    async fn once<T>(
        self: &Arc<Self>,
        begin: &'static str,
        verb: &(impl for<'u> Fn(&'u mut Unit) -> BoxFuture<'u, Result<T, Failure>> + Send + Sync),
        limit: tokio::time::Instant,
    ) -> Result<T, (Failure, bool)> {
        let client = tokio::time::timeout_at(limit, self.pool.get()).await;
        let client = match client {
            Ok(Ok(client)) => client,
            Ok(Err(problem)) => return Err((no_connection(problem), false)),
            Err(_) => return Err((Failure::Slow("waiting for a connection"), false)),
        };
        let mut unit =
            Unit { shared: self.clone(), client: Some(client), begin, stage: Stage::Fresh, news: None };
        match tokio::time::timeout_at(limit, verb(&mut unit)).await {
            Ok(Ok(answer)) => {
                unit.close(limit).await;
                unit.tell().await;
                Ok(answer)
            }
            Ok(Err(failure)) => {
                let sent = unit.stage == Stage::Sent;
                unit.close(limit).await;
                Err((failure, sent))
            }
            Err(_) => Err((Failure::Slow("a statement"), unit.stage == Stage::Sent)),
        }
    }
}

/// How long to wait before another try: longer each time, and never in step with whom we met.
fn pause(tries: u32) -> Duration {
    let noise = u64::from(uuid::Uuid::now_v7().as_bytes()[15]);
    Duration::from_micros((noise * 16) << tries.min(6))
}

pub(crate) fn no_connection(problem: PoolError) -> Failure {
    match problem {
        PoolError::Backend(error) => match Failure::from(error) {
            Failure::Lost(problem) | Failure::Unreadable(problem) => Failure::Unreachable(problem),
            other => other,
        },
        PoolError::Timeout(_) => Failure::Slow("waiting for a connection"),
        other => Failure::Unreachable(other.to_string()),
    }
}

impl Unit {
    /// The moment of this transaction, by the store's clock.
    pub(crate) async fn now(&mut self) -> Result<Timestamp, Failure> {
        let clock = self.clock();
        moment_of(self.one(clock).await?)
    }

    /// The statement that asks for the moment.
    pub(crate) fn clock(&self) -> Query {
        Query::new(sql::CLOCK, vec![self.shared.moment()])
    }

    /// An empty desk at `now`.
    pub(crate) fn desk(&self, now: Timestamp) -> Desk {
        Desk::new(now, Wants::of(&*self.shared.observer()))
    }

    /// Writes what was changed on the desk, and commits.
    pub(crate) async fn save(&mut self, desk: Desk) -> Result<(), Failure> {
        let now = desk.now;
        self.write(desk.into_writes(), now).await
    }

    /// Writes a sum of changes, and commits.
    pub(crate) async fn write(&mut self, writes: Writes, now: Timestamp) -> Result<(), Failure> {
        self.write_after(Vec::new(), writes, now).await.map(drop)
    }

    /// Runs statements, writes a sum of changes and commits, in one round trip; answers the rows of the statements.
    pub(crate) async fn write_after(
        &mut self,
        first: Vec<Query>,
        writes: Writes,
        now: Timestamp,
    ) -> Result<Vec<Vec<Row>>, Failure> {
        if writes.is_empty() {
            return self.commit(first).await;
        }
        self.write_around(first, writes, None, now).await
    }

    /// Like [`Unit::write_after`], with one more statement that sees what was written.
    pub(crate) async fn write_around(
        &mut self,
        first: Vec<Query>,
        mut writes: Writes,
        last: Option<Query>,
        now: Timestamp,
    ) -> Result<Vec<Vec<Row>>, Failure> {
        let mut queries = first;
        let (own, own_last) = (queries.len(), usize::from(last.is_some()));
        let shared = self.shared.clone();
        let flush = flush::prepare(self, &shared.lanes, &writes, now).await?;
        queries.extend(flush.queries);
        let mut answers = Vec::new();
        let mut events = std::mem::take(&mut writes.events);
        if !writes.incidents.is_empty() {
            answers = self.run(queries).await?;
            let aftermath;
            (queries, aftermath) = incident::judge(&writes, answers.pop().unwrap_or_default(), now)?;
            events.extend(aftermath.events.into_iter().filter(|_| shared.observer().wants_events()));
        }
        // The jobs are locked, or nobody knows them yet: whoever changes them after us draws a later turn.
        let turn = shared.turns.draw_for(&events);
        let arrived = writes.ready_in.iter().filter(|_| writes.work_arrived);
        let arrivals = arrived.map(|row| row.lane.queue.clone()).collect();
        let ready = first_ready(&writes, &flush.lanes);
        let news = News { turn, events, arrivals, ready, lanes: flush.lanes };
        queries.extend(last);
        answers.extend(self.commit(queries).await?);
        let of_last = answers.split_off(answers.len().saturating_sub(own_last));
        answers.truncate(own);
        answers.extend(of_last);
        self.news = Some(news);
        Ok(answers)
    }

    /// Runs one statement as a transaction of its own: it needs none around it. The unit is as fresh as before.
    pub(crate) async fn alone(&mut self, query: Query) -> Result<Vec<Row>, Failure> {
        debug_assert_eq!(self.stage, Stage::Fresh, "a transaction is open");
        self.stage = Stage::Sent;
        self.shared.count_statements(1);
        let Some(client) = self.client.as_deref() else {
            return Err(Failure::Lost("the connection is gone".to_owned()));
        };
        let rows = Wire { client, schema: &self.shared.schema }.one(query).await?;
        self.shared.commits.fetch_add(1, Ordering::Relaxed);
        self.stage = Stage::Fresh;
        Ok(rows)
    }

    /// Runs the last statements and commits, in one round trip.
    pub(crate) async fn commit(&mut self, last: Vec<Query>) -> Result<Vec<Vec<Row>>, Failure> {
        if self.stage == Stage::Fresh && last.is_empty() {
            self.stage = Stage::Over;
            return Ok(Vec::new());
        }
        let answers = self.send(last, true).await?;
        self.shared.commits.fetch_add(1, Ordering::Relaxed);
        self.stage = Stage::Over;
        Ok(answers)
    }

    async fn send(&mut self, batch: Vec<Query>, commit: bool) -> Result<Vec<Vec<Row>>, Failure> {
        let begin = (self.stage == Stage::Fresh).then_some(self.begin);
        self.stage = if commit { Stage::Sent } else { Stage::Open };
        self.shared.count_statements(batch.len());
        let Some(client) = self.client.as_deref() else {
            return Err(Failure::Lost("the connection is gone".to_owned()));
        };
        let mut wire = Wire { client, schema: &self.shared.schema };
        let begun = async {
            match begin {
                Some(text) => client.batch_execute(text).await,
                None => Ok(()),
            }
        };
        let ended = async { if commit { client.batch_execute(sql::COMMIT).await } else { Ok(()) } };
        // Polled in this order, so sent in this order. After a failed statement the commit only rolls back.
        let (begun, (answers, ended)) = join(begun, join(wire.run(batch), ended)).await;
        begun?;
        let answers = answers?;
        ended?;
        Ok(answers)
    }

    /// Ends a transaction that was not committed, and gives the connection back if it is clean.
    async fn close(&mut self, limit: tokio::time::Instant) {
        if matches!(self.stage, Stage::Open | Stage::Sent)
            && let Some(client) = self.client.as_deref()
            && !client.is_closed()
        {
            let rolled_back = tokio::time::timeout_at(limit, client.batch_execute(sql::ROLLBACK)).await;
            if matches!(rolled_back, Ok(Ok(()))) {
                self.stage = Stage::Over;
            }
        }
    }

    /// Nobody needs to be told of work in these queues: it has been taken already.
    pub(crate) fn nothing_arrived(&mut self, queues: &BTreeSet<Arc<str>>) {
        if let Some(news) = &mut self.news {
            news.arrivals.retain(|queue| !queues.contains(queue));
        }
    }

    /// Notes what is to be told of what has been committed already.
    pub(crate) fn tell_of(&mut self, events: Vec<Event>) {
        let (turn, lanes) = (self.shared.turns.draw_for(&events), LaneIds::default());
        self.news = Some(News { turn, events, arrivals: BTreeSet::new(), ready: BTreeMap::new(), lanes });
    }

    /// Tells what was committed.
    async fn tell(&mut self) {
        let Some(news) = self.news.take() else { return };
        self.shared.cursors.go_back(news.ready);
        self.shared.lanes.remember(news.lanes);
        let (observer, events) = (self.shared.observer(), news.events);
        news.turn.tell(move || tell_all(&*observer, events)).await;
        if !news.arrivals.is_empty() {
            self.shared.work_arrived(news.arrivals);
        }
    }
}

fn tell_all(observer: &dyn Observer, events: Vec<Event>) {
    if !events.is_empty() {
        observer.committed(events);
    }
}

fn first_ready(writes: &Writes, lanes: &LaneIds) -> BTreeMap<i64, Position> {
    let mut first = BTreeMap::new();
    for row in &writes.ready_in {
        let Some(lane) = lanes.get(&row.lane) else { continue };
        let at = first.entry(*lane).or_insert((row.run_at, row.id));
        *at = (row.run_at, row.id).min(*at);
    }
    first
}

impl Session for Unit {
    async fn run(&mut self, batch: Vec<Query>) -> Result<Vec<Vec<Row>>, Failure> {
        self.send(batch, false).await
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        let clean = matches!(self.stage, Stage::Fresh | Stage::Over);
        if let Some(client) = self.client.take().filter(|_| !clean) {
            drop(Object::take(client));
        }
    }
}
