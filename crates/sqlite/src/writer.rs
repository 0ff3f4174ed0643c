//! The one thread that writes, and group commit.
//!
//! Whatever waits is run in one transaction and answered after its COMMIT, so many small calls share one sync of
//! the disk. When a command fails in the database, all of them are rolled back and each runs again on its own:
//! one bad command never fails the others. Commands must therefore be able to run twice.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use backstop_store::Error;
use backstop_store::working_set::Wants;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::context::StoreContext;
use crate::error::{SqliteFailure, meaning, meaning_of_commit};
use crate::open::retry_while_busy;
use crate::rows;
use crate::sql;
use crate::transaction::{News, WriteTransaction, WriterCache};

/// Commands in one transaction at most.
const GROUP_COMMANDS: usize = 256;
/// Rows in one transaction, about: other processes want their turn, and answers wait for the whole group.
const GROUP_ROWS: usize = 20_000;
/// How often an idle store looks whether another process has written.
const WATCH_INTERVAL: Duration = Duration::from_millis(20);
/// How long other processes count as writing too after one was seen to. One that waits for the lock is not seen.
const OTHERS_ACTIVE: Duration = Duration::from_secs(1);
/// How long to stay out of the way after a transaction while other processes write too: as long as it took, within
/// these bounds. Without it, a busy process takes the lock back before any other has woken up, and those wait for
/// seconds.
const SHORTEST_YIELD: Duration = Duration::from_micros(500);
const LONGEST_YIELD: Duration = Duration::from_millis(5);

/// Work for the writer, with the place its answer goes to.
trait Command: Send {
    fn rows(&self) -> usize;
    /// Runs it, keeping the answer; an `Err` asks for a rollback.
    fn run(&mut self, tx: &mut WriteTransaction<'_>) -> Result<(), SqliteFailure>;
    /// Sends the answer that [`Command::run`] kept.
    fn answer(self: Box<Self>);
    fn fail(self: Box<Self>, error: Error);
}

struct Task<T, F> {
    verb: F,
    rows: usize,
    outcome: Option<Result<T, Error>>,
    reply: oneshot::Sender<Result<T, Error>>,
}

impl<T, F> Command for Task<T, F>
where
    T: Send,
    F: FnMut(&mut WriteTransaction<'_>) -> Result<T, SqliteFailure> + Send,
{
    fn rows(&self) -> usize {
        self.rows
    }

    fn run(&mut self, tx: &mut WriteTransaction<'_>) -> Result<(), SqliteFailure> {
        self.outcome = match (self.verb)(tx) {
            Ok(answer) => Some(Ok(answer)),
            Err(SqliteFailure::Refused(error)) => Some(Err(error)),
            Err(failure) => return Err(failure),
        };
        Ok(())
    }

    fn answer(self: Box<Self>) {
        if let Some(outcome) = self.outcome {
            // Whoever asked may have gone; what was asked for is done all the same.
            let _ = self.reply.send(outcome);
        }
    }

    fn fail(self: Box<Self>, error: Error) {
        let _ = self.reply.send(Err(error));
    }
}

/// The handle on the writer thread. Dropping it runs what is queued, then ends the thread.
pub(crate) struct Writer {
    commands: Option<Sender<Box<dyn Command>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(crate) fn start(conn: Connection, context: Arc<StoreContext>) -> std::io::Result<Self> {
        let (commands, waiting) = crossbeam_channel::unbounded();
        let cache = WriterCache::with_fences(context.fences.clone());
        let mut writer = WriterThread {
            conn,
            cache,
            context,
            waiting,
            seen_version: None,
            others_seen: None,
            yields_until: None,
        };
        // Looked at before anybody can have missed anything: what others write from here on is noticed.
        writer.others_wrote();
        let thread = thread::Builder::new().name("backstop-sqlite-writer".into()).spawn(|| writer.serve())?;
        Ok(Self { commands: Some(commands), thread: Some(thread) })
    }

    /// Queues a command of about `rows` rows; the answer comes after its commit.
    pub(crate) fn send<T: Send + 'static>(
        &self,
        rows: usize,
        verb: impl FnMut(&mut WriteTransaction<'_>) -> Result<T, SqliteFailure> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, Error>> {
        let (reply, answer) = oneshot::channel();
        if let Some(commands) = &self.commands {
            // When the thread is gone the reply is dropped with the command, which the receiver notices.
            let _ = commands.send(Box::new(Task { verb, rows, outcome: None, reply }));
        }
        answer
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            // An observer may hold the last handle, and then this runs on the writer itself.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

/// Why a transaction did not happen.
enum GroupFailure {
    /// It could not begin: nothing has run.
    Locked(SqliteFailure),
    /// A command failed, and everything was rolled back.
    Broken(SqliteFailure),
    /// The COMMIT itself failed.
    Uncommitted(rusqlite::Error),
}

impl GroupFailure {
    fn is_disk_full(&self) -> bool {
        let error = match self {
            Self::Locked(SqliteFailure::Sql(error))
            | Self::Broken(SqliteFailure::Sql(error))
            | Self::Uncommitted(error) => error,
            _ => return false,
        };
        error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
    }
}

/// What the writer thread owns.
struct WriterThread {
    conn: Connection,
    cache: WriterCache,
    context: Arc<StoreContext>,
    waiting: Receiver<Box<dyn Command>>,
    /// SQLite's count of what other connections committed, as last seen.
    seen_version: Option<i64>,
    /// When another process was last seen to have written.
    others_seen: Option<Instant>,
    /// Until when to stay out of the way of others.
    yields_until: Option<Instant>,
}

impl WriterThread {
    /// Serves until nobody can ask any more. A panic ends what it met and nothing else: whoever waits for an answer to
    /// that gets an error, and the next command finds a connection without a transaction.
    fn serve(mut self) {
        while let Ok(true) | Err(_) = catch_unwind(AssertUnwindSafe(|| self.serve_group())) {
            if !self.conn.is_autocommit() {
                self.roll_back();
            }
        }
    }

    /// Waits for commands and answers a group of them; false when no more will come.
    fn serve_group(&mut self) -> bool {
        let Some(first) = self.next_command() else { return false };
        let mut rows = first.rows();
        let mut group = vec![first];
        while group.len() < GROUP_COMMANDS
            && rows < GROUP_ROWS
            && let Ok(command) = self.waiting.try_recv()
        {
            rows += command.rows();
            group.push(command);
        }
        self.answer_group(group);
        true
    }

    /// Waits for work, and meanwhile looks whether other processes bring some.
    fn next_command(&mut self) -> Option<Box<dyn Command>> {
        loop {
            if !self.context.is_observed() {
                return self.waiting.recv().ok();
            }
            match self.waiting.recv_timeout(WATCH_INTERVAL) {
                Ok(command) => return Some(command),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    if self.others_wrote() {
                        self.tell(News { work_arrived: true, ..News::default() });
                    }
                }
            }
        }
    }

    /// Runs a group and answers every command in it.
    fn answer_group(&mut self, mut group: Vec<Box<dyn Command>>) {
        match self.transact_or_make_room(&mut group) {
            Ok(()) => group.into_iter().for_each(Command::answer),
            Err(GroupFailure::Locked(failure)) => {
                let error = || match &failure {
                    SqliteFailure::Sql(error) => meaning(error, &self.context.location),
                    _ => self.context.closed(),
                };
                group.into_iter().for_each(|command| command.fail(error()));
            }
            Err(GroupFailure::Uncommitted(problem)) => {
                let error = || meaning_of_commit(&problem, &self.context.location);
                group.into_iter().for_each(|command| command.fail(error()));
            }
            Err(GroupFailure::Broken(failure)) if group.len() == 1 => {
                let error = failure.into_error(&self.context.location);
                if let Some(command) = group.into_iter().next() {
                    command.fail(error);
                }
            }
            Err(GroupFailure::Broken(_)) => {
                for command in group {
                    self.answer_group(vec![command]);
                }
            }
        }
    }

    /// Runs a group; on a full disk, moves the log into the file and tries once more. The log grows with every
    /// commit and is used again only from its start, so a disk can be full of what is no longer needed.
    fn transact_or_make_room(&mut self, group: &mut [Box<dyn Command>]) -> Result<(), GroupFailure> {
        match self.transact(group) {
            Err(failure) if failure.is_disk_full() && self.move_log() => self.transact(group),
            outcome => outcome,
        }
    }

    /// Moves the whole log into the file, so that it starts anew; answers whether it did.
    fn move_log(&self) -> bool {
        let blocked = self.conn.query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| row.get::<_, i64>(0));
        blocked.is_ok_and(|blocked| blocked == 0)
    }

    fn transact(&mut self, group: &mut [Box<dyn Command>]) -> Result<(), GroupFailure> {
        self.begin().map_err(GroupFailure::Locked)?;
        let begun = Instant::now();
        let others_wrote = self.others_wrote();
        let run = catch_unwind(AssertUnwindSafe(|| self.run(group)));
        let run = run.unwrap_or_else(|panic| Err(SqliteFailure::panicked(&*panic)));
        let news = run.map_err(|failure| {
            self.roll_back();
            GroupFailure::Broken(failure)
        })?;
        if let Err(problem) = self.execute("COMMIT") {
            self.roll_back();
            return Err(GroupFailure::Uncommitted(problem));
        }
        self.context.commits.fetch_add(1, Ordering::Relaxed);
        self.plan_yield(begun);
        self.tell(News { work_arrived: news.work_arrived || others_wrote, ..news });
        Ok(())
    }

    /// Decides how long to leave the lock to others after a transaction that began at `begun`.
    fn plan_yield(&mut self, begun: Instant) {
        let now = Instant::now();
        let others_active = self.others_seen.is_some_and(|seen| now.duration_since(seen) < OTHERS_ACTIVE);
        let pause = now.duration_since(begun).clamp(SHORTEST_YIELD, LONGEST_YIELD);
        self.yields_until = others_active.then(|| now + pause);
    }

    fn begin(&mut self) -> Result<(), SqliteFailure> {
        if let Some(moment) = self.yields_until.take() {
            thread::sleep(moment.saturating_duration_since(Instant::now()));
        }
        retry_while_busy(self.context.busy_timeout, || Ok(self.execute(sql::BEGIN_WRITE)?))
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(sql)?.execute([]).map(drop)
    }

    fn run(&mut self, group: &mut [Box<dyn Command>]) -> Result<News, SqliteFailure> {
        let wants = Wants::of(&*self.context.observer());
        let clock = &*self.context.clock;
        let mut tx = WriteTransaction::new(&self.conn, &mut self.cache, clock.now(), wants);
        for command in group {
            tx.now = clock.now();
            command.run(&mut tx)?;
            // The next command may read what this one saved.
            tx.write_updates()?;
        }
        tx.flush()?;
        Ok(tx.news)
    }

    fn roll_back(&mut self) {
        // Some errors make SQLite roll back by itself.
        if !self.conn.is_autocommit() {
            let _ = self.execute("ROLLBACK");
        }
        self.cache.forget();
    }

    /// Whether another connection has committed since this was last asked.
    fn others_wrote(&mut self) -> bool {
        let version = self
            .conn
            .prepare_cached("PRAGMA data_version")
            .map_err(SqliteFailure::Sql)
            .and_then(|mut select| rows::value::<i64>(&mut select, []));
        let others_wrote = match version {
            Ok(Some(version)) => self.seen_version.replace(version).is_some_and(|before| before != version),
            // A file that cannot be read now will say so to the next command.
            _ => true,
        };
        if others_wrote {
            self.cache.forget_records();
            self.others_seen = Some(Instant::now());
        }
        others_wrote
    }

    /// Tells the observer. It is foreign code: a panic of its is not the end of the store.
    fn tell(&self, news: News) {
        let observer = self.context.observer();
        let _ = catch_unwind(AssertUnwindSafe(|| {
            if !news.events.is_empty() {
                observer.committed(news.events);
            }
            if news.work_arrived {
                observer.work_arrived();
            }
        }));
    }
}
