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

use crate::error::Failure;
use crate::lanes::Lanes;
use crate::open::{self, patiently};
use crate::query::Snapshot;
use crate::shared::Shared;
use crate::sql;
use crate::writer::message;

type Question = Box<dyn FnOnce(&mut Desk) + Send>;

/// The handle on the reader threads. Dropping it answers what is queued, then ends them.
pub(crate) struct Readers {
    questions: Option<Sender<Question>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(crate) fn start(count: usize, shared: &Arc<Shared>) -> Result<Self, Error> {
        let (questions, waiting) = crossbeam_channel::unbounded();
        let mut readers = Self { questions: Some(questions), threads: Vec::with_capacity(count) };
        for _ in 0..count.max(1) {
            let conn = open::reader(&shared.path, shared.busy_timeout)?;
            let desk = Desk { conn, lanes: Lanes::default(), shared: shared.clone() };
            let waiting = waiting.clone();
            let thread = thread::Builder::new()
                .name("backstop-sqlite-reader".into())
                .spawn(move || desk.serve(&waiting))
                .map_err(|problem| cannot_spawn(shared, problem))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    /// Queues a question. It may be asked again when a lock was in the way.
    pub(crate) fn send<T: Send + 'static>(
        &self,
        question: impl FnMut(&mut Snapshot<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, Error>> {
        let (reply, answer) = oneshot::channel();
        if let Some(questions) = &self.questions {
            let _ = questions.send(Box::new(move |desk| {
                let _ = reply.send(desk.answer(question));
            }));
        }
        answer
    }
}

/// The error of a machine that gives no more threads.
pub(crate) fn cannot_spawn(shared: &Shared, problem: std::io::Error) -> Error {
    Error::Unavailable {
        location: shared.location.clone(),
        problem: "no thread could be started for it; raise the limit on threads".to_owned(),
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
struct Desk {
    conn: Connection,
    lanes: Lanes,
    shared: Arc<Shared>,
}

impl Desk {
    fn serve(mut self, waiting: &Receiver<Question>) {
        while let Ok(question) = waiting.recv() {
            question(&mut self);
        }
    }

    fn answer<T>(
        &mut self,
        mut question: impl FnMut(&mut Snapshot<'_>) -> Result<T, Failure>,
    ) -> Result<T, Error> {
        let patience = self.shared.busy_timeout;
        let answer = patiently(patience, || self.ask(&mut question));
        answer.map_err(|failure| failure.into_error(&self.shared.location))
    }

    fn ask<T>(
        &mut self,
        question: &mut impl FnMut(&mut Snapshot<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let conn = &self.conn;
        conn.prepare_cached(sql::BEGIN_READ)?.execute([])?;
        let mut snapshot = Snapshot { conn, lanes: &mut self.lanes, now: self.shared.clock.now() };
        let answer = catch_unwind(AssertUnwindSafe(|| question(&mut snapshot)))
            .unwrap_or_else(|panic| Err(Failure::Panicked(message(&*panic))));
        if !conn.is_autocommit() {
            conn.prepare_cached("COMMIT")?.execute([])?;
        }
        answer
    }
}
