//! The store as a child sees it: what a handler asks is asked by its worker, and the child opens no store of its own.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use backstop_core::job::{NewJob, NoteError, Remark, Stale};
use backstop_core::reject::RejectBatch;
use backstop_core::{Lease, Refusal, Timestamp};
use backstop_store::{
    Answer, Document, DocumentRange, Documents, Drawer, Error, Layer, ModelStore, Note, Store, StoreInfo,
    Submit, Submitted,
};
use tokio::sync::oneshot;

use super::link::MessageWriter;
use super::messages::{CallAnswer, CallError, ChildMessage, StoreCall, SubmitRefusal};
use crate::job_signals::wait::{WaitRequest, WaitStart};
use crate::outcome::BoxError;

type WaitingCall = oneshot::Sender<Result<CallAnswer, CallError>>;

/// The calls of a child that its worker has not answered yet.
pub(super) struct Calls {
    worker: Arc<MessageWriter>,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, WaitingCall>>,
}

impl Calls {
    pub(super) fn new(worker: Arc<MessageWriter>) -> Self {
        Self { worker, next: AtomicU64::new(1), waiting: Mutex::default() }
    }

    /// Says something that needs no answer.
    pub(super) fn say(&self, message: &ChildMessage) {
        self.worker.say(message);
    }

    pub(super) fn answered(&self, call: u64, answer: Result<CallAnswer, CallError>) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&call);
        if let Some(waiting) = waiting {
            let _ = waiting.send(answer);
        }
    }

    /// Begins to wait for a signal (W10).
    pub(super) async fn begin_wait(
        &self,
        lease: Lease,
        request: WaitRequest,
    ) -> Result<Result<WaitStart, Stale>, Error> {
        match self.ask(StoreCall::Wait(request)).await? {
            CallAnswer::Waits(start) => Ok(start.ok_or(Stale { job: lease.job, fence: lease.fence })),
            other => unexpected(other),
        }
    }

    async fn ask(&self, what: StoreCall) -> Result<CallAnswer, Error> {
        let (tell, answer) = oneshot::channel();
        let call = self.next.fetch_add(1, Ordering::Relaxed);
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(call, tell);
        self.say(&ChildMessage::Call(call, what));
        match answer.await {
            Ok(answer) => answer.map_err(CallError::into_error),
            Err(_) => Err(unavailable("the worker of this process is gone")),
        }
    }
}

/// The one store of this process.
pub(crate) fn child_store() -> Arc<ChildStore> {
    static STORE: OnceLock<Arc<ChildStore>> = OnceLock::new();
    STORE.get_or_init(|| Arc::new(ChildStore::new())).clone()
}

/// See the module.
pub(crate) struct ChildStore {
    worker: OnceLock<(Arc<Calls>, StoreInfo)>,
    /// Answers nothing: every verb that reaches it is refused on the way.
    nothing: ModelStore,
}

impl ChildStore {
    /// A store that nobody can ask anything yet.
    fn new() -> Self {
        Self { worker: OnceLock::new(), nothing: ModelStore::default() }
    }

    /// From now on there is a worker to ask, on the store that `info` tells of.
    pub(super) fn connect(&self, calls: Arc<Calls>, info: StoreInfo) {
        let _ = self.worker.set((calls, info));
    }

    /// Hands rejects to the sink of the worker (W9).
    ///
    /// # Errors
    /// What the sink says, or that there is no worker to ask.
    pub(crate) async fn hand_over(&self, batch: RejectBatch) -> Result<(), BoxError> {
        match self.ask(StoreCall::SinkRejects(batch)).await? {
            CallAnswer::HandedOver(taken) => taken.map_err(BoxError::from),
            other => unexpected(other).map_err(BoxError::from),
        }
    }

    /// Tells the worker of rejects that could not be handed over.
    pub(crate) fn lost_rejects(&self, rejects: usize, problem: &str) {
        if let Some((calls, _)) = self.worker.get() {
            calls.say(&ChildMessage::RejectsLost(rejects, problem.to_owned()));
        }
    }

    async fn ask(&self, what: StoreCall) -> Result<CallAnswer, Error> {
        match self.worker.get() {
            Some((calls, _)) => calls.ask(what).await,
            None => Err(unavailable(
                "this is an isolated child, and what stands before the start of the worker runs in every child too: \
                 leave it out when `backstop::is_isolated_child()`",
            )),
        }
    }
}

fn unavailable(problem: &str) -> Error {
    Error::Unavailable { location: "of the worker".to_owned(), problem: problem.to_owned(), source: None }
}

fn unexpected<T>(_: CallAnswer) -> Result<T, Error> {
    Err(unavailable("it gave the answer to another question"))
}

impl Layer for ChildStore {
    fn below(&self) -> &dyn Store {
        &self.nothing
    }

    fn around<'a, T: Send + 'a>(
        &'a self,
        verb: &'static str,
        _: impl FnOnce(&'a dyn Store) -> Answer<'a, T>,
    ) -> Answer<'a, T> {
        let problem =
            format!("an isolated handler cannot call `{verb}`: do it in a job that is not isolated");
        Box::pin(std::future::ready(Err(unavailable(&problem))))
    }

    fn info(&self) -> StoreInfo {
        let unknown =
            || StoreInfo { backend: "memory", location: "not known to an isolated child yet".to_owned() };
        self.worker.get().map_or_else(unknown, |(_, info)| info.clone())
    }

    fn now(&self) -> Answer<'_, Timestamp> {
        Box::pin(async move {
            match self.ask(StoreCall::Now).await? {
                CallAnswer::Now(now) => Ok(now),
                other => unexpected(other),
            }
        })
    }

    fn submit(&self, submit: Submit) -> Answer<'_, Vec<Result<Submitted, Refusal>>> {
        Box::pin(async move {
            let Submit { jobs, atomic } = submit;
            match self.ask(StoreCall::Submit { jobs, atomic }).await? {
                CallAnswer::Submitted(answers) => {
                    let answers = answers.into_iter();
                    Ok(answers
                        .map(|answer| answer.map(Into::into).map_err(SubmitRefusal::into_refusal))
                        .collect())
                }
                other => unexpected(other),
            }
        })
    }

    fn prepare(&self, jobs: &[NewJob]) -> Answer<'_, ()> {
        let jobs = jobs.to_vec();
        Box::pin(async move {
            match self.ask(StoreCall::Prepare(jobs)).await? {
                CallAnswer::Done => Ok(()),
                other => unexpected(other),
            }
        })
    }

    fn annotate(&self, notes: Vec<Note>) -> Answer<'_, Vec<Result<(), NoteError>>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(notes.len());
            for note in notes {
                let stale = Stale { job: note.lease.job, fence: note.lease.fence };
                answers.push(match note.remark {
                    Remark::Progress(progress) => {
                        self.ask(StoreCall::Progress(progress)).await.map(|_| Ok(()))
                    }
                    Remark::Step(write) => match self.ask(StoreCall::Step(write)).await? {
                        CallAnswer::Written(taken) => Ok(if taken { Ok(()) } else { Err(stale.into()) }),
                        other => unexpected(other),
                    },
                    Remark::Rejects(batch) => match self.ask(StoreCall::Rejects(batch)).await? {
                        CallAnswer::Written(taken) => Ok(if taken { Ok(()) } else { Err(stale.into()) }),
                        other => unexpected(other),
                    },
                    // Lines go to the worker as they are said.
                    Remark::Log { .. } => Ok(Ok(())),
                }?);
            }
            Ok(answers)
        })
    }

    fn documents(&self, range: DocumentRange) -> Answer<'_, Documents> {
        let call = match range.drawer {
            Drawer::Steps => StoreCall::StepResults(range.after),
            Drawer::Rejects => StoreCall::StoredRejects(range.after),
            _ => return self.around("documents", |store| store.documents(range)),
        };
        Box::pin(async move {
            match self.ask(call).await? {
                CallAnswer::Documents { now, items, more } => {
                    let read = |(key, body)| Document { key, revision: 1, body };
                    Ok(Documents { now, items: items.into_iter().map(read).collect(), more })
                }
                other => unexpected(other),
            }
        })
    }
}
