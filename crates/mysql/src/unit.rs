//! A unit of work: one transaction on a connection of our own.
//!
//! It begins with its first statement and is committed together with its last ones, so that most verbs need two round
//! trips. A unit that is dropped in between, because its caller went away, takes its connection with it: nobody else
//! may find a transaction open.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backstop_core::Timestamp;
use backstop_core::event::Event;
use backstop_store::desk::{Desk, LaneKey, Turn, Wants, Writes};
use backstop_store::{Error, Observer};
use futures_util::future::BoxFuture;
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::time::Instant;

use crate::access::{Class, Pass, SHORT_WAIT};
use crate::cancel;
use crate::error::Failure;
use crate::flush;
use crate::incident;
use crate::lanes::{self, LaneIds};
use crate::session::{self, Query, Session, Wire};
use crate::shared::{Shared, moment_of};
use crate::sql;
use crate::values::Row;

/// One transaction under way.
pub(crate) struct Unit {
    pub(crate) shared: Arc<Shared>,
    /// Gone once the connection cannot be used any more.
    conn: Option<Conn>,
    begin: Begin,
    /// How long it waits for a lock.
    patience: Duration,
    stage: Stage,
    news: Option<News>,
}

/// The statements that begin a transaction.
pub(crate) type Begin = &'static [&'static str];

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
    /// True when something may have become claimable (L13).
    arrived: bool,
    lanes: LaneIds,
}

/// Transactions that meet others are begun again so often, with a little more patience each time.
const MOST_TRIES: u32 = 12;

/// Times that a lock is waited for. The server does not say who holds it: where many of our own transactions want the
/// same key, each is short, and the last of them waits for all the others.
const MOST_WAITS: u32 = 3;

/// How a verb is called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    begin: Begin,
    class: Class,
    within: Duration,
}

impl Call {
    pub(crate) const fn new(begin: Begin, class: Class) -> Self {
        Self { begin, class, within: Duration::MAX }
    }

    /// The same with less time.
    pub(crate) const fn within(self, within: Duration) -> Self {
        Self { within, ..self }
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
    /// Runs a verb in a transaction, again when it met another one, within the deadline.
    pub(crate) async fn transact<T>(
        self: &Arc<Self>,
        call: Call,
        verb: impl for<'u> Fn(&'u mut Unit) -> BoxFuture<'u, Result<T, Failure>> + Send + Sync,
    ) -> Result<T, Error> {
        let limit = Instant::now() + call.class.deadline(self.deadline).min(call.within);
        let mut wait = if call.class.hurries() { Wait::Short(SHORT_WAIT) } else { Wait::Here };
        let (mut tries, mut waits) = (0, 0);
        loop {
            let (failure, sent) = match self.once(call, wait, &verb, limit).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            if matches!(failure, Failure::Busy(_)) && wait != Wait::Here && waits < MOST_WAITS {
                waits += 1;
                wait = Wait::Long;
                continue;
            }
            tries += 1;
            if !failure.is_again() || tries == MOST_TRIES {
                return Err(failure.into_error(&self.location, sent));
            }
            // Whoever has just made its lanes has met nobody.
            if !matches!(failure, Failure::NoLane(_)) {
                tokio::time::sleep(pause(tries)).await;
            }
        }
    }

    /// The right to hold a connection, and how long a lock may be waited for with it.
    async fn pass(&self, class: Class, wait: Wait, limit: Instant) -> Result<(Pass<'_>, Duration), Failure> {
        if wait == Wait::Long {
            // Those before us may get what they wait for, so the queue has longer than each of them.
            let until = limit.min(Instant::now() + self.lock_wait * 3);
            let pass = tokio::time::timeout_at(until, self.access.patient()).await;
            let crowd = |_| Failure::Busy("other open transactions hold what many calls need".to_owned());
            return Ok((pass.map_err(crowd)?, self.lock_wait));
        }
        let pass = tokio::time::timeout_at(limit, self.access.pass(class)).await;
        let pass = pass.map_err(|_| Failure::Slow("waiting for a connection"))?;
        Ok((pass, if let Wait::Short(span) = wait { span.min(self.lock_wait) } else { self.lock_wait }))
    }

    async fn once<T>(
        self: &Arc<Self>,
        call: Call,
        wait: Wait,
        verb: &(impl for<'u> Fn(&'u mut Unit) -> BoxFuture<'u, Result<T, Failure>> + Send + Sync),
        limit: Instant,
    ) -> Result<T, (Failure, bool)> {
        let (_pass, patience) =
            self.pass(call.class, wait, limit).await.map_err(|failure| (failure, false))?;
        let conn = match tokio::time::timeout_at(limit, self.pool.get_conn()).await {
            Ok(Ok(conn)) => conn,
            Ok(Err(problem)) => return Err((no_connection(problem), false)),
            Err(_) => return Err((Failure::Slow("waiting for a connection"), false)),
        };
        let mut unit = Unit {
            shared: self.clone(),
            conn: Some(conn),
            begin: call.begin,
            patience,
            stage: Stage::Fresh,
            news: None,
        };
        match tokio::time::timeout_at(limit, verb(&mut unit)).await {
            Ok(Ok(answer)) => {
                unit.close(limit).await;
                unit.tell().await;
                Ok(answer)
            }
            Ok(Err(failure)) => {
                let sent = unit.stage == Stage::Sent;
                unit.close(limit).await;
                let failure = match failure {
                    Failure::NoLane(lanes) => unit.make_lanes(lanes, limit).await,
                    other => other,
                };
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

/// What it means that no connection could be had.
pub(crate) fn no_connection(problem: mysql_async::Error) -> Failure {
    match Failure::from(problem) {
        Failure::Lost(problem) | Failure::Unreadable(problem) => Failure::Unreachable(problem),
        other => other,
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
        self.write_judged(first, writes, now, true).await
    }

    /// The same for failures of incidents of which it is known whether any is said to be fixed: only then the sums must
    /// be judged before the commit, which takes one round trip more. All who fail alike wait for it.
    pub(crate) async fn write_judged(
        &mut self,
        first: Vec<Query>,
        mut writes: Writes,
        now: Timestamp,
        fixed: bool,
    ) -> Result<Vec<Vec<Row>>, Failure> {
        let (own, mut queries) = (first.len(), first);
        if writes.is_empty() {
            return self.commit(queries).await;
        }
        let shared = self.shared.clone();
        let flush = flush::prepare(self, &shared.lanes, &writes, now).await?;
        queries.extend(flush.queries);
        let wants = shared.observer().wants_events();
        let (mut answers, counts) = (Vec::new(), std::mem::take(&mut writes.incidents));
        if fixed && !counts.is_empty() {
            let settled = incident::settle(self, queries, &counts, now).await?;
            (answers, queries) = (settled.answers, settled.standings);
            writes.events.extend(settled.events.into_iter().filter(|_| wants));
        }
        let asked = answers.len() + queries.len();
        if !fixed && wants {
            incident::look(&mut queries, &counts);
        }
        // The jobs are locked, or nobody knows them yet: whoever changes them after us draws a later turn.
        let turn = shared.turns.draw_for(&writes.events);
        let arrived = writes.work_arrived && !writes.ready_in.is_empty();
        answers.extend(self.commit(queries).await?);
        if !fixed && wants {
            writes.events.extend(incident::opened(&counts, answers.split_off(asked), now)?);
        }
        answers.truncate(own);
        self.news = Some(News { turn, events: writes.events, arrived, lanes: flush.lanes });
        Ok(answers)
    }

    /// Runs statements each of which is a transaction of its own, in one round trip. The unit is as fresh as before.
    pub(crate) async fn alone(&mut self, batch: Vec<Query>) -> Result<Vec<Vec<Row>>, Failure> {
        debug_assert_eq!(self.stage, Stage::Fresh, "a transaction is open");
        let Some(conn) = self.conn.as_mut() else {
            return Err(Failure::Lost("the connection is gone".to_owned()));
        };
        self.shared.count_statements(batch.len());
        self.stage = Stage::Sent;
        let mut wire = Wire { conn, prefix: &self.shared.prefix };
        let answers = wire.run(batch).await?;
        self.stage = Stage::Fresh;
        Ok(answers)
    }

    /// True until the first statement of its transaction is sent.
    pub(crate) fn is_fresh(&self) -> bool {
        self.stage == Stage::Fresh
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
        let plain = |text: &&'static str| Query::new(*text, Vec::new());
        let own = batch.len();
        let mut queries = Vec::with_capacity(own + 4);
        if self.stage == Stage::Fresh {
            queries.push(Query::new(sql::lock_timeout(self.patience), Vec::new()));
            queries.extend(self.begin.iter().map(plain));
        }
        let begin = queries.len();
        queries.extend(batch);
        queries.extend(commit.then_some(&sql::COMMIT).map(plain));
        let Some(conn) = self.conn.as_mut() else {
            return Err(Failure::Lost("the connection is gone".to_owned()));
        };
        self.shared.count_statements(own);
        self.stage = Stage::Open;
        let mut packets = session::packets(&queries, &self.shared.prefix).into_iter().peekable();
        let mut answers = Vec::with_capacity(queries.len());
        while let Some(packet) = packets.next() {
            if commit && packets.peek().is_none() {
                self.stage = Stage::Sent;
            }
            answers.extend(session::send(conn, packet).await?);
        }
        answers.drain(..begin);
        answers.truncate(own);
        Ok(answers)
    }

    /// Ends a transaction that was not committed, and gives the connection back if it is clean.
    async fn close(&mut self, limit: Instant) {
        if matches!(self.stage, Stage::Open | Stage::Sent)
            && let Some(conn) = self.conn.as_mut()
        {
            let rolled_back = tokio::time::timeout_at(limit, conn.query_drop(sql::ROLLBACK)).await;
            if matches!(rolled_back, Ok(Ok(()))) {
                self.stage = Stage::Over;
            }
        }
    }

    /// Makes lanes in a transaction of their own, so that nobody waits for the one that needs them (L14). Answers why
    /// the verb is to begin again, or why it cannot.
    async fn make_lanes(&mut self, lanes: BTreeSet<LaneKey>, limit: Instant) -> Failure {
        if self.stage != Stage::Over {
            return Failure::Lost("a transaction could not be ended".to_owned());
        }
        self.stage = Stage::Fresh;
        let made = self.commit(lanes::make(&lanes));
        match tokio::time::timeout_at(limit, made).await {
            Ok(Ok(_)) => Failure::NoLane(lanes),
            Ok(Err(failure)) => {
                self.close(limit).await;
                failure
            }
            Err(_) => Failure::Slow("making a lane"),
        }
    }

    /// Tells what was committed.
    async fn tell(&mut self) {
        let Some(news) = self.news.take() else { return };
        self.shared.lanes.remember(news.lanes);
        let (observer, events) = (self.shared.observer(), news.events);
        news.turn.tell(move || tell_all(&*observer, events)).await;
        if news.arrived {
            self.shared.observer().work_arrived();
        }
    }
}

fn tell_all(observer: &dyn Observer, events: Vec<Event>) {
    if !events.is_empty() {
        observer.committed(events);
    }
}

impl Session for Unit {
    async fn run(&mut self, batch: Vec<Query>) -> Result<Vec<Vec<Row>>, Failure> {
        self.send(batch, false).await
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        let clean = matches!(self.stage, Stage::Fresh | Stage::Over);
        if let Some(conn) = self.conn.take().filter(|_| !clean) {
            // Given back to the pool, it would bring its open transaction with it.
            cancel::abandon(&self.shared, conn);
        }
    }
}
