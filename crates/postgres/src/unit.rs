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
use deadpool_postgres::{Object, PoolError};
use futures_util::future::{BoxFuture, join};
use tokio::time::Instant;

use crate::access::{Class, GROUP_WAIT, Pass, SHORT_WAIT};
use crate::cancel;
use crate::error::Failure;
use crate::flush;
use crate::incident;
use crate::lanes::{self, LaneIds};
use crate::session::{Query, Session, Wire};
use crate::shared::{Shared, moment_of};
use crate::sql;
use crate::values::Row;

/// One transaction under way.
pub(crate) struct Unit {
    pub(crate) shared: Arc<Shared>,
    /// Gone once the connection cannot be used any more.
    client: Option<Object>,
    begin: String,
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
    lanes: LaneIds,
}

/// Transactions that meet others are begun again so often, with a little more patience each time.
const MOST_TRIES: u32 = 12;

/// How a verb is called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    begin: &'static str,
    class: Class,
    within: Duration,
    group: bool,
}

impl Call {
    pub(crate) const fn new(begin: &'static str, class: Class) -> Self {
        Self { begin, class, within: Duration::MAX, group: false }
    }

    /// The same with less time.
    pub(crate) const fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    /// The same for several callers at once: none of them waits for a lock that may concern another only.
    pub(crate) const fn for_group(self) -> Self {
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
    /// Runs a verb in a transaction, again when it met another one, within the deadline.
    pub(crate) async fn transact<T>(
        self: &Arc<Self>,
        begin: &'static str,
        verb: impl for<'u> Fn(&'u mut Unit) -> BoxFuture<'u, Result<T, Failure>> + Send + Sync,
    ) -> Result<T, Error> {
        let class = if begin == sql::BEGIN_READ { Class::Read } else { Class::Write };
        self.transact_as(Call::new(begin, class), verb).await
    }

    /// The same for a call of a certain kind.
    pub(crate) async fn transact_as<T>(
        self: &Arc<Self>,
        call: Call,
        verb: impl for<'u> Fn(&'u mut Unit) -> BoxFuture<'u, Result<T, Failure>> + Send + Sync,
    ) -> Result<T, Error> {
        let limit = Instant::now() + call.class.deadline(self.deadline).min(call.within);
        let mut wait = match call {
            Call { group: true, .. } => Wait::Short(GROUP_WAIT),
            Call { class, .. } if class.hurries() => Wait::Short(SHORT_WAIT),
            _ => Wait::Here,
        };
        let mut tries = 0;
        loop {
            let (failure, sent) = match self.once(call, wait, &verb, limit).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => failed,
            };
            if matches!((&failure, wait), (Failure::Busy(_), Wait::Short(_))) && !call.group {
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
        let client = match tokio::time::timeout_at(limit, self.pool.get()).await {
            Ok(Ok(client)) => client,
            Ok(Err(problem)) => return Err((no_connection(problem), false)),
            Err(_) => return Err((Failure::Slow("waiting for a connection"), false)),
        };
        let begin = sql::with_lock_timeout(call.begin, patience);
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
        let news = News { turn, events, arrivals, lanes: flush.lanes };
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
        let begin = (self.stage == Stage::Fresh).then_some(&*self.begin);
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
    async fn close(&mut self, limit: Instant) {
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

    /// Makes lanes in a transaction of their own, so that nobody waits for the one that needs them (L14). Answers why
    /// the verb is to begin again, or why it cannot.
    async fn make_lanes(&mut self, lanes: BTreeSet<LaneKey>, limit: Instant) -> Failure {
        if self.stage != Stage::Over {
            return Failure::Lost("a transaction could not be ended".to_owned());
        }
        self.stage = Stage::Fresh;
        let made = self.commit(vec![lanes::make(&lanes)]);
        match tokio::time::timeout_at(limit, made).await {
            Ok(Ok(_)) => Failure::NoLane(lanes),
            Ok(Err(failure)) => {
                self.close(limit).await;
                failure
            }
            Err(_) => Failure::Slow("making a lane"),
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
        self.news = Some(News { turn, events, arrivals: BTreeSet::new(), lanes });
    }

    /// Tells what was committed.
    async fn tell(&mut self) {
        let Some(news) = self.news.take() else { return };
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

impl Session for Unit {
    async fn run(&mut self, batch: Vec<Query>) -> Result<Vec<Vec<Row>>, Failure> {
        self.send(batch, false).await
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        let clean = matches!(self.stage, Stage::Fresh | Stage::Over);
        if let Some(client) = self.client.take().filter(|_| !clean) {
            cancel::abandon(&self.shared, client);
        }
    }
}
