//! Stores that are broken on purpose: the comparison with the model must find every one of them.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::event::{Event, EventKind};
use backstop_core::failure::Cause;
use backstop_core::job::{Aging, JobDetail, NoteError, OnConflict, Remark, Retention, Stale, State};
use backstop_core::{Refusal, WorkerId};
use backstop_store::conformance::{MemoryPlace, StorePlace, compare};
use backstop_store::*;

/// What a broken store does to what passes through it; each fault overrides one of these.
trait Fault: Send + Sync + 'static {
    fn submit(submit: Submit) -> Submit {
        submit
    }

    fn claim(claim: Claim) -> Claim {
        claim
    }

    fn finish(finish: Finish, _current: Option<&JobDetail>) -> Finish {
        finish
    }

    fn annotate(notes: Vec<Note>) -> Vec<Note> {
        notes
    }

    fn ttl(ttl: Duration) -> Duration {
        ttl
    }

    fn retention(retention: Retention) -> Retention {
        retention
    }

    fn queues(queues: Vec<QueueView>) -> Vec<QueueView> {
        queues
    }

    fn hears(_event: &Event) -> bool {
        true
    }
}

/// The model with a fault in front of it.
struct Broken<F>(Arc<dyn Store>, PhantomData<F>);

/// A place for such a store.
struct BrokenPlace<F>(MemoryPlace, PhantomData<F>);

impl<F: Fault> StorePlace for BrokenPlace<F> {
    fn fresh() -> Self {
        Self(MemoryPlace::fresh(), PhantomData)
    }

    async fn open(&self, clock: ManualClock) -> Arc<dyn Store> {
        Arc::new(Broken::<F>(self.0.open(clock).await, PhantomData))
    }
}

/// An observer that does not pass everything on.
struct HardOfHearing<F>(Arc<dyn Observer>, PhantomData<F>);

impl<F: Fault> Observer for HardOfHearing<F> {
    fn wants_events(&self) -> bool {
        self.0.wants_events()
    }

    fn wants_alerts(&self) -> bool {
        self.0.wants_alerts()
    }

    fn committed(&self, mut events: Vec<Event>) {
        events.retain(F::hears);
        self.0.committed(events);
    }

    fn work_arrived(&self) {
        self.0.work_arrived();
    }
}

impl<F: Fault> Broken<F> {
    async fn bend(&self, endings: Vec<Finish>) -> Result<Vec<Finish>, Error> {
        let mut bent = Vec::new();
        for finish in endings {
            let found = self.0.jobs(vec![finish.lease.job]).await?;
            bent.push(F::finish(finish, found[0].as_ref()));
        }
        Ok(bent)
    }
}

impl<F: Fault> Layer for Broken<F> {
    fn below(&self) -> &dyn Store {
        &*self.0
    }

    fn observe(&self, observer: Arc<dyn Observer>) {
        self.0.observe(Arc::new(HardOfHearing::<F>(observer, PhantomData)));
    }

    fn submit(&self, submit: Submit) -> Answer<'_, Vec<Result<Submitted, Refusal>>> {
        self.0.submit(F::submit(submit))
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        self.0.claim(F::claim(claim))
    }

    fn finish(&self, endings: Vec<Finish>) -> Answer<'_, Vec<Result<State, Stale>>> {
        Box::pin(async move { self.0.finish(self.bend(endings).await?).await })
    }

    fn annotate(&self, notes: Vec<Note>) -> Answer<'_, Vec<Result<(), NoteError>>> {
        self.0.annotate(F::annotate(notes))
    }

    fn lead(&self, node: WorkerId, duties: Vec<Duty>, ttl: Duration) -> Answer<'_, Vec<Option<Term>>> {
        self.0.lead(node, duties, F::ttl(ttl))
    }

    fn archive(&self, term: Term, retention: Retention, limit: usize) -> Answer<'_, usize> {
        self.0.archive(term, F::retention(retention), limit)
    }

    fn queues(&self) -> Answer<'_, Vec<QueueView>> {
        Box::pin(async move { self.0.queues().await.map(F::queues) })
    }
}

/// How many of the seeds of the ordinary run find the fault; the first finding must name the way to replay it.
fn found<F: Fault>() -> usize {
    let findings: Vec<_> = (1..=60).filter_map(|seed| compare::<BrokenPlace<F>>(seed, 160).err()).collect();
    let first = findings.first().expect("no seed found the fault").to_string();
    assert!(first.contains("replay it with BACKSTOP_SEED="), "{first}");
    findings.len()
}

struct Sound;

impl Fault for Sound {}

#[test]
fn a_sound_store_is_found_sound() {
    assert!((1..=20).all(|seed| compare::<BrokenPlace<Sound>>(seed, 80).is_ok()));
}

struct IgnoresFences;

impl Fault for IgnoresFences {
    fn finish(mut finish: Finish, current: Option<&JobDetail>) -> Finish {
        if let Some(detail) = current {
            finish.lease.fence = detail.view.record.fence;
            finish.lease.worker = detail.view.worker().unwrap_or(finish.lease.worker);
        }
        finish
    }
}

#[test]
fn a_store_that_ignores_fences_is_found() {
    // L5
    assert!(found::<IgnoresFences>() > 3);
}

struct IgnoresAging;

impl Fault for IgnoresAging {
    fn claim(mut claim: Claim) -> Claim {
        claim.aging = Aging(Duration::ZERO);
        claim
    }
}

#[test]
fn a_store_that_ignores_aging_is_found() {
    // L3
    assert!(found::<IgnoresAging>() > 3);
}

struct NeverReplaces;

impl Fault for NeverReplaces {
    fn submit(mut submit: Submit) -> Submit {
        for new in submit.jobs.iter_mut().filter(|new| new.on_conflict == OnConflict::Replace) {
            new.on_conflict = OnConflict::Reject;
        }
        submit
    }
}

#[test]
fn a_store_that_never_replaces_is_found() {
    // L11
    assert!(found::<NeverReplaces>() > 3);
}

struct BlamesInterruptions;

impl Fault for BlamesInterruptions {
    fn finish(mut finish: Finish, _current: Option<&JobDetail>) -> Finish {
        if finish.ending.cause == Cause::Interrupted {
            finish.ending.cause = Cause::NotAllowed;
        }
        finish
    }
}

#[test]
fn a_store_that_blames_interruptions_is_found() {
    // F3
    assert!(found::<BlamesInterruptions>() > 3);
}

struct LosesCallbacks;

impl Fault for LosesCallbacks {
    fn finish(mut finish: Finish, _current: Option<&JobDetail>) -> Finish {
        finish.ending.follow_up = None;
        finish
    }
}

#[test]
fn a_store_that_loses_callbacks_is_found() {
    // F14
    assert!(found::<LosesCallbacks>() > 3);
}

struct LosesChildren;

impl Fault for LosesChildren {
    fn finish(mut finish: Finish, _current: Option<&JobDetail>) -> Finish {
        finish.ending.children.clear();
        finish
    }
}

#[test]
fn a_store_that_loses_children_is_found() {
    // L23
    assert!(found::<LosesChildren>() > 3);
}

struct GarblesNotes;

impl Fault for GarblesNotes {
    fn annotate(mut notes: Vec<Note>) -> Vec<Note> {
        for note in &mut notes {
            if let Remark::Progress(progress) = &mut note.remark {
                progress.note.clear();
            }
        }
        notes
    }
}

#[test]
fn a_store_that_garbles_notes_is_found_by_its_final_state() {
    assert!(found::<GarblesNotes>() > 3);
}

struct LeadsTooLong;

impl Fault for LeadsTooLong {
    fn ttl(ttl: Duration) -> Duration {
        ttl + Duration::from_micros(1)
    }
}

#[test]
fn a_store_that_leads_too_long_is_found() {
    // L17
    assert!(found::<LeadsTooLong>() > 3);
}

struct ArchivesTooEarly;

impl Fault for ArchivesTooEarly {
    fn retention(retention: Retention) -> Retention {
        let half = |span: Option<Duration>| span.map(|span| span / 2);
        let Retention { succeeded, canceled, failed, .. } = retention;
        retention.succeeded(half(succeeded)).canceled(half(canceled)).failed(half(failed))
    }
}

#[test]
fn a_store_that_archives_too_early_is_found() {
    // L16
    assert!(found::<ArchivesTooEarly>() > 3);
}

struct Miscounts;

impl Fault for Miscounts {
    fn queues(mut queues: Vec<QueueView>) -> Vec<QueueView> {
        for queue in queues.iter_mut().filter(|queue| queue.paused_jobs > 0) {
            queue.pending += 1;
        }
        queues
    }
}

#[test]
fn a_store_that_miscounts_is_found() {
    assert!(found::<Miscounts>() > 3);
}

struct ForgetsToTell;

impl Fault for ForgetsToTell {
    fn hears(event: &Event) -> bool {
        !matches!(event.what, EventKind::Resumed)
    }
}

#[test]
fn a_store_that_forgets_an_event_is_found() {
    // V1
    assert!(found::<ForgetsToTell>() > 3);
}
