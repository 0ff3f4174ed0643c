//! A few threads that read, each with a connection that cannot write.
//!
//! Every question sees one snapshot, taken when its turn comes: whatever was acknowledged before it is in it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use backstop_store::Error;
use crossbeam_channel::{Receiver, Sender};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::context::StoreContext;
use crate::error::SqliteFailure;
use crate::lanes::LaneCache;
use crate::open::{self, retry_while_busy};
use crate::query::Snapshot;
use crate::sql;

type Question = Box<dyn FnOnce(&mut ReaderThread) + Send>;

/// The handle on the reader threads. Dropping it answers what is queued, then ends them.
pub(crate) struct Readers {
    questions: Option<Sender<Question>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(crate) fn start(count: usize, context: &Arc<StoreContext>) -> Result<Self, Error> {
        let (questions, waiting) = crossbeam_channel::unbounded();
        let mut readers = Self { questions: Some(questions), threads: Vec::with_capacity(count) };
        for _ in 0..count.max(1) {
            let conn = open::reader(&context.path, context.busy_timeout)?;
            let reader = ReaderThread { conn, lanes: LaneCache::default(), context: context.clone() };
            let waiting = waiting.clone();
            let thread = thread::Builder::new()
                .name("backstop-sqlite-reader".into())
                .spawn(move || reader.serve(&waiting))
                .map_err(|problem| cannot_spawn(context, problem))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Queues a question. It is asked again when another connection held a lock.
    pub(crate) fn send<T: Send + 'static>(
        &self,
        question: impl FnMut(&mut Snapshot<'_>) -> Result<T, SqliteFailure> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, Error>> {
        let (reply, answer) = oneshot::channel();
        if let Some(questions) = &self.questions {
            let _ = questions.send(Box::new(move |reader| {
                let _ = reply.send(reader.answer(question));
            }));
        }
        answer
    }
}

/// The error when the system starts no more threads.
pub(crate) fn cannot_spawn(context: &StoreContext, problem: std::io::Error) -> Error {
    Error::Unavailable {
        location: context.location.clone(),
        problem: "cannot start a thread; raise the limit on threads".to_owned(),
        source: Some(Box::new(problem)),
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.questions = None;
        for thread in self.threads.drain(..) {
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

/// What a reader thread owns.
struct ReaderThread {
    conn: Connection,
    lanes: LaneCache,
    context: Arc<StoreContext>,
}

impl ReaderThread {
    fn serve(mut self, waiting: &Receiver<Question>) {
        while let Ok(question) = waiting.recv() {
            question(&mut self);
        }
    }

    fn answer<T>(
        &mut self,
        mut question: impl FnMut(&mut Snapshot<'_>) -> Result<T, SqliteFailure>,
    ) -> Result<T, Error> {
        let patience = self.context.busy_timeout;
        let answer = retry_while_busy(patience, || self.ask(&mut question));
        answer.map_err(|failure| failure.into_error(&self.context.location))
    }

    fn ask<T>(
        &mut self,
        question: &mut impl FnMut(&mut Snapshot<'_>) -> Result<T, SqliteFailure>,
    ) -> Result<T, SqliteFailure> {
        let conn = &self.conn;
        conn.prepare_cached(sql::BEGIN_READ)?.execute([])?;
        let mut snapshot = Snapshot { conn, lanes: &mut self.lanes, now: self.context.clock.now() };
        let answer = catch_unwind(AssertUnwindSafe(|| question(&mut snapshot)))
            .unwrap_or_else(|panic| Err(SqliteFailure::panicked(&*panic)));
        if !conn.is_autocommit() {
            conn.prepare_cached("COMMIT")?.execute([])?;
        }
        answer
    }
}
