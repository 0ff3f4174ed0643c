//! One run of a job that is handled together with others: its way into a call, and the one answer that it gets (W12).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::context::Run;
use crate::outcome::Reply;
use crate::worker::slots::RunSlot;

/// See the module. It is in one call at a time, and in several one after the other when calls fail.
pub(crate) struct BulkEntry {
    pub(crate) payload: Arc<str>,
    pub(crate) run: Arc<Run>,
    /// Fires when nobody waits for the answer any more: the job was canceled or taken by others, or the worker stops.
    left: CancellationToken,
    /// None once it is answered.
    open: Mutex<Option<OpenEntry>>,
}

/// What an entry has until it is answered.
struct OpenEntry {
    reply: oneshot::Sender<Reply>,
    /// The call that it is in, which may answer it; what an earlier one says comes too late.
    call: Option<u32>,
    /// Kept while a call has the job, also when nobody waits for its answer.
    slot: Option<Arc<RunSlot>>,
}

impl BulkEntry {
    /// An entry, and where its answer comes out.
    pub(crate) fn new(
        payload: Arc<str>,
        run: Arc<Run>,
        slot: Option<Arc<RunSlot>>,
    ) -> (Arc<Self>, oneshot::Receiver<Reply>) {
        let (reply, answer) = oneshot::channel();
        let open = Mutex::new(Some(OpenEntry { reply, call: None, slot }));
        (Arc::new(Self { payload, run, left: CancellationToken::new(), open }), answer)
    }

    fn open(&self) -> MutexGuard<'_, Option<OpenEntry>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a call, by its number from 1.
    pub(crate) fn enter(self: &Arc<Self>, call: u32) -> CallEntry {
        if let Some(open) = &mut *self.open() {
            open.call = Some(call);
        }
        CallEntry { entry: self.clone(), call, stop: self.run.canceled.child_token() }
    }

    /// Leaves the call that it is in: it is over, and can answer nothing more.
    pub(super) fn leave(&self) {
        if let Some(open) = &mut *self.open() {
            open.call = None;
        }
    }

    /// Answers it, unless it has an answer.
    pub(super) fn end(&self, reply: Reply) {
        if let Some(open) = self.open().take() {
            // Nobody may wait for it any more, and then nobody misses it.
            let _ = open.reply.send(reply);
        }
    }

    pub(super) fn is_answered(&self) -> bool {
        self.open().is_none()
    }

    /// True when it has no answer, and somebody waits for one.
    pub(super) fn is_awaited(&self) -> bool {
        !self.left.is_cancelled() && !self.is_answered()
    }

    /// Its slot, until it is answered.
    pub(super) fn slot(&self) -> Option<Arc<RunSlot>> {
        self.open().as_ref().and_then(|open| open.slot.clone())
    }

    /// The token that says that nobody waits for the answer any more.
    pub(super) const fn left(&self) -> &CancellationToken {
        &self.left
    }
}

/// An entry in one call.
pub(crate) struct CallEntry {
    pub(crate) entry: Arc<BulkEntry>,
    call: u32,
    /// Fires when this call should stop handling the job.
    pub(crate) stop: CancellationToken,
}

impl CallEntry {
    /// Answers the job, unless it has an answer or the call is over.
    pub(crate) fn answer(&self, reply: Reply) {
        let open = self.entry.open().take_if(|open| open.call == Some(self.call));
        if let Some(open) = open {
            let _ = open.reply.send(reply);
        }
    }
}
