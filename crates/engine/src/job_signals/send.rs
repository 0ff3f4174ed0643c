//! Sending a signal: to those who wait for it, or to be kept for the first that will.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::job::SignalAnswer;
use backstop_core::{JobId, Refusal, Timestamp, admit};
use backstop_store::{Amend, Amended, Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect};
use serde::Serialize;
use serde_json::Value;

use super::stored::{
    self, DeliveredSignal, KeptCount, SignalLook, SignalName, StoredSignal, StoredWait, parsed, remembered,
    remove, tenant_of, write,
};
use crate::engine::Backstop;
use crate::error::OperateError;
use crate::ids::job_id;
use crate::parts::EngineParts;

/// Jobs that are let go in one transaction at most.
const TOGETHER: usize = 1_000;

/// Bytes of payloads that are written in one transaction, roughly: each job gets its own.
const BYTES_TOGETHER: usize = 8 * 1024 * 1024;

/// Lists and objects in each other that a payload has at most. It is kept inside of others, and readers of JSON give up
/// at 128.
const MOST_LEVELS: usize = 100;

/// Times that a change is tried while others send and wait too.
const TRIES: usize = 200;

/// The signals of a store: see [`Backstop::signals`].
#[derive(Debug, Clone)]
pub struct Signals {
    pub(super) parts: Arc<EngineParts>,
    pub(super) tenant: Option<String>,
}

/// What became of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignalSent {
    /// Jobs that have it and go on.
    pub delivered: u64,
    /// True when nobody waited for it, so that it is kept for the first that will.
    pub kept: bool,
    /// True when a signal with this id had been sent before: this is what became of that one.
    pub repeated: bool,
}

impl Backstop {
    /// The signals of the store (W10): see [`JobContext::signal`](crate::JobContext::signal) for the jobs that wait.
    ///
    /// ```
    /// use backstop::prelude::*;
    /// use backstop::job_signals::{KeptSignal, SendSignal, SignalPage, SignalSent, Signals, WaitingJob};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> JobResult {
    /// # let engine = Backstop::open("memory:").await?;
    /// let signals: Signals = engine.signals();
    /// let send: SendSignal = signals.send("order-7/approved", &"ann").id("mail-1");
    /// let sent: SignalSent = send.await?;
    /// assert_eq!((sent.delivered, sent.kept), (0, true));
    /// let again = signals.send("order-7/approved", &"ann").id("mail-1").await?;
    /// assert!(again.kept && again.repeated);
    /// let kept: SignalPage<KeptSignal> = signals.kept(None, 10).await?;
    /// let waiting: SignalPage<WaitingJob> = signals.waiting(None, 10).await?;
    /// assert_eq!((kept.items.len(), waiting.items.len()), (1, 0));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn signals(&self) -> Signals {
        Signals { parts: self.parts.clone(), tenant: None }
    }
}

impl Signals {
    /// Those of a tenant: they reach jobs on its queues and no others (E13).
    #[must_use]
    pub fn of_tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Prepares a signal; it is sent when this is awaited. Every job that waits for `key` at that moment goes on with
    /// `payload`. When none does, the signal is kept for the first that will.
    pub fn send(&self, key: impl Into<String>, payload: &impl Serialize) -> SendSignal {
        SendSignal {
            parts: self.parts.clone(),
            name: SignalName { tenant: self.tenant.clone(), key: key.into() },
            payload: serde_json::to_value(payload).map_err(|problem| problem.to_string()),
            id: None,
            keep: None,
            keep_until: None,
            only: None,
        }
    }
}

/// A signal that is sent when it is awaited.
#[must_use = "it is sent when it is awaited"]
pub struct SendSignal {
    parts: Arc<EngineParts>,
    name: SignalName,
    payload: Result<Value, String>,
    id: Option<String>,
    keep: Option<Duration>,
    keep_until: Option<Timestamp>,
    only: Option<JobId>,
}

impl fmt::Debug for SendSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendSignal").field("name", &self.name).field("id", &self.id).finish_non_exhaustive()
    }
}

impl SendSignal {
    /// The same signal sent again with the same id is delivered once, and answered as the first.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// How long it is kept when nobody waits for it, and how long its id counts; `Config::signals` says it otherwise.
    pub const fn keep(mut self, time: Duration) -> Self {
        self.keep = Some(time);
        self
    }

    /// The same up to this moment, however far the limits let one plan ahead: its id counts until then.
    pub const fn keep_until(mut self, moment: Timestamp) -> Self {
        self.keep_until = Some(moment);
        self
    }

    /// It is for this job alone.
    pub const fn only(mut self, job: JobId) -> Self {
        self.only = Some(job);
        self
    }

    async fn send(self) -> Result<SignalSent, OperateError> {
        let Self { parts, name, payload, id, keep, keep_until, only } = self;
        let limits = &parts.config.limits;
        admit::key("signal", &name.key, limits)?;
        let payload = payload.map_err(|problem| Refusal::invalid("payload", problem))?;
        let (actual, limit) = (payload.to_string().len(), limits.result_bytes);
        if actual > limit {
            return Err(Refusal::TooLarge { field: "payload", actual, limit, unit: "bytes" }.into());
        }
        if is_deeper(&payload, MOST_LEVELS) {
            let problem =
                format!("it is nested more than {MOST_LEVELS} levels deep; send it flatter, or as text");
            return Err(Refusal::invalid("payload", problem).into());
        }
        let named = id.is_some();
        let id = id.unwrap_or_else(|| job_id().to_string());
        admit::key("id", &id, limits)?;
        let now = parts.store.now().await?;
        let keep = keep.unwrap_or(parts.config.signals.keep).min(limits.delay);
        let (key, keep_until) = (name.key.clone(), keep_until.unwrap_or_else(|| now.after(keep)));
        let signal = StoredSignal {
            key,
            id,
            named,
            only,
            payload,
            sent_at: now,
            keep_until,
            look_at: now,
            delivered: 0,
        };
        bring_on(&parts, &name.signal(&signal.id), Some(signal)).await
    }
}

/// True when there are more lists and objects in each other than `levels`.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let inside: Vec<&Value> = match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => return false,
    };
    levels == 0 || inside.into_iter().any(|value| is_deeper(value, levels - 1))
}

impl IntoFuture for SendSignal {
    type Output = Result<SignalSent, OperateError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// Takes a signal as far as it goes: `new` is one that may not be stored yet.
pub(super) async fn bring_on(
    parts: &EngineParts,
    place: &str,
    new: Option<StoredSignal>,
) -> Result<SignalSent, OperateError> {
    let (store, tenant) = (&*parts.store, tenant_of(place));
    let (mut is_ours, mut tries) = (false, 0);
    while tries < TRIES {
        let (found, delivered, count) = stored::read(store, place, tenant).await?;
        let sent = |delivered, kept| SignalSent { delivered, kept, repeated: !is_ours };
        if let Some(DeliveredSignal { delivered, .. }) = delivered {
            return Ok(sent(delivered, false));
        }
        let (expect, signal) = match (found, &new) {
            (Some((_, signal)), _) if signal.is_settled() => return Ok(sent(0, true)),
            (Some((revision, signal)), _) => (Expect::Revision(revision), signal),
            (None, Some(signal)) if !is_ours => (Expect::Absent, signal.clone()),
            // A job took it in between, and nobody remembers its id.
            (None, _) => return Ok(sent(u64::from(is_ours), false)),
        };
        let is_new = expect == Expect::Absent;
        match (SignalStep { parts, place, expect, signal, count }).take().await? {
            StepEnd::Delivered(delivered) => {
                return Ok(SignalSent { delivered, kept: false, repeated: !(is_ours || is_new) });
            }
            StepEnd::Written => is_ours |= is_new,
            StepEnd::Tidied => {}
            StepEnd::Again => tries += 1,
        }
    }
    let (location, problem) =
        (store.info().location, "others change the same signals all the time".to_owned());
    Err(StoreError::Unavailable { location, problem, source: None }.into())
}

/// What a step came to.
enum StepEnd {
    /// So many jobs have the signal, and there is nothing more to do.
    Delivered(u64),
    /// It is stored, and has to be looked at again.
    Written,
    /// Jobs that do not wait any more were in its way, and are not.
    Tidied,
    /// Others have changed something meanwhile: nothing was written.
    Again,
}

/// One step of a signal on its way.
struct SignalStep<'a> {
    parts: &'a EngineParts,
    place: &'a str,
    expect: Expect,
    signal: StoredSignal,
    count: KeptCount,
}

impl SignalStep<'_> {
    /// Hands it to jobs that wait, or keeps it.
    async fn take(self) -> Result<StepEnd, OperateError> {
        let waits = self.waits().await?;
        if waits.is_empty() {
            return self.keep().await;
        }
        let answer = SignalAnswer::Received(self.signal.payload.clone());
        let more = waits.len() >= self.together();
        let delivered = self.signal.delivered + waits.len() as u64;
        let mut edits = self.delivered(delivered, more);
        for (document, wait) in &waits {
            edits.push(remove(Drawer::SignalWaits, document.key.clone(), Expect::Any));
            edits.push(wait.remove_look(&document.key));
        }
        let answered = waits.iter().map(|(_, wait)| wait.answered(self.parts, &answer));
        let operations = answered.collect::<Result<_, _>>()?;
        let amend = Amend { edits, operations, strict: true, ..Amend::default() };
        match self.parts.store.amend(amend).await? {
            Amended::Done { .. } if more => Ok(StepEnd::Written),
            Amended::Done { .. } => Ok(StepEnd::Delivered(delivered)),
            Amended::Conflict { .. } => Ok(StepEnd::Again),
            Amended::Refused { index, .. } => self.tidy(&waits, index).await,
        }
    }

    /// Removes the waits of jobs that do not wait any more, of which the store has refused one: they were canceled, or
    /// their runs ended otherwise.
    async fn tidy(&self, waits: &[(Document, StoredWait)], refused: usize) -> Result<StepEnd, OperateError> {
        let store = &self.parts.store;
        let found = store.jobs(waits.iter().map(|(_, wait)| wait.job).collect()).await?;
        let mut edits = Vec::new();
        for (place, ((document, wait), detail)) in waits.iter().zip(found).enumerate() {
            let is_current = detail.is_some_and(|detail| wait.is_current(&detail.view.record));
            if place == refused || !is_current {
                let expect = Expect::Revision(document.revision);
                edits.push(remove(Drawer::SignalWaits, document.key.clone(), expect));
                edits.push(wait.remove_look(&document.key));
            }
        }
        Ok(match store.amend(Amend { edits, ..Amend::default() }).await? {
            Amended::Done { .. } => StepEnd::Tidied,
            Amended::Conflict { .. } | Amended::Refused { .. } => StepEnd::Again,
        })
    }

    /// Jobs in one transaction, so that their payloads are not too much for it.
    fn together(&self) -> usize {
        let bytes = self.signal.payload.to_string().len().max(1);
        (BYTES_TOGETHER / bytes).clamp(1, TOGETHER)
    }

    async fn waits(&self) -> Result<Vec<(Document, StoredWait)>, StoreError> {
        let (store, name) = (&self.parts.store, SignalName::new(tenant_of(self.place), &self.signal.key));
        let documents = match self.signal.only {
            Some(job) => {
                let names = vec![(Drawer::SignalWaits, name.wait(job))];
                store.named_documents(names).await?.into_iter().flatten().collect()
            }
            None => {
                let range = DocumentRange::first(Drawer::SignalWaits, self.together());
                store.documents(range.under(name.prefix())).await?.items
            }
        };
        let read = |document: Document| parsed(&document).map(|wait| (document, wait));
        Ok(documents.into_iter().filter_map(read).collect())
    }

    /// True when it is counted among those that its tenant has kept.
    fn is_counted(&self) -> bool {
        self.expect != Expect::Absent
    }

    /// What is written when so many jobs have it; more follow when there may be others.
    fn delivered(&self, delivered: u64, more: bool) -> Vec<Edit> {
        let tenant = tenant_of(self.place);
        let look = SignalLook::Signal(self.place.to_owned());
        if more {
            let signal = StoredSignal { delivered, ..self.signal.clone() };
            let mut edits = vec![write(Drawer::Signals, self.place.to_owned(), self.expect, &signal)];
            if !self.is_counted() {
                edits.extend([look.put(self.signal.look_at), self.count.changed(tenant, true)]);
            }
            return edits;
        }
        let mut edits = vec![remove(Drawer::Signals, self.place.to_owned(), self.expect)];
        if self.is_counted() {
            edits.extend([look.removed(self.signal.look_at), self.count.changed(tenant, false)]);
        }
        edits.extend(remembered(self.place, &self.signal, delivered));
        edits
    }

    /// Nobody waits: it is kept, or, when somebody has looked since it was, it stays until its time is up. One that
    /// other jobs have already has done what it was for.
    async fn keep(self) -> Result<StepEnd, OperateError> {
        let tenant = tenant_of(self.place);
        let look = SignalLook::Signal(self.place.to_owned());
        let delivered = self.signal.delivered;
        let edits = if delivered > 0 {
            self.delivered(delivered, false)
        } else if self.expect == Expect::Absent {
            self.check_room()?;
            vec![
                write(Drawer::Signals, self.place.to_owned(), self.expect, &self.signal),
                look.put(self.signal.look_at),
                self.count.changed(tenant, true),
                // Its id has not been delivered meanwhile.
                remove(Drawer::SignalIds, self.place.to_owned(), Expect::Absent),
            ]
        } else {
            let settled = StoredSignal { look_at: self.signal.keep_until, ..self.signal.clone() };
            vec![
                write(Drawer::Signals, self.place.to_owned(), self.expect, &settled),
                look.removed(self.signal.look_at),
                look.put(settled.look_at),
            ]
        };
        Ok(match self.parts.store.amend(Amend { edits, ..Amend::default() }).await? {
            Amended::Done { .. } if delivered > 0 => StepEnd::Delivered(delivered),
            Amended::Done { .. } => StepEnd::Written,
            Amended::Conflict { .. } | Amended::Refused { .. } => StepEnd::Again,
        })
    }

    fn check_room(&self) -> Result<(), Refusal> {
        let (kept, limit) = (self.count.kept, self.parts.config.signals.max_kept);
        if kept < limit as u64 {
            return Ok(());
        }
        let actual = usize::try_from(kept).unwrap_or(usize::MAX).saturating_add(1);
        Err(Refusal::TooLarge { field: "signals", actual, limit, unit: "kept signals" })
    }
}
