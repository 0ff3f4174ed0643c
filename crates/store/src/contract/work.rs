//! What carries jobs along: the verbs of those who submit, of workers and of maintenance.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::Fingerprint;
use backstop_core::job::{NewJob, NoteError, Retention, Stale, State};
use backstop_core::{Lease, Refusal, Timestamp, WorkerId};

use crate::{
    Amend, Amended, Answer, Claim, Claimed, Document, DocumentRange, Documents, Drawer, Duty, Finish,
    HandedRun, NewWorker, Note, Observer, Orphan, OutboxBacklog, Overdue, Peek, Renewed, Signal, StoreInfo,
    Submit, Submitted, Term,
};

/// What those who submit, workers and maintenance call. Its promises are those of [`Store`](crate::Store).
///
/// A worker is live while its row exists and `expires_at > now`.
pub trait WorkStore: Send + Sync + 'static {
    /// What kind of store this is, and where.
    fn info(&self) -> StoreInfo;

    /// Sets who hears of commits and wake-ups. A later call replaces the earlier observer.
    /// It may be called while the store holds a lock: it must not call the store back.
    fn observe(&self, observer: Arc<dyn Observer>);

    /// The store's clock.
    fn now(&self) -> Answer<'_, Timestamp>;

    /// Stores jobs (L10-L12, L22). One answer per job, in order.
    ///
    /// The jobs have passed `backstop_core::admit`. The checks here, in order: the id itself (a repeated submit
    /// answers as deduplicated), the idempotency key, the job to supersede, the business key. All checks of an
    /// item come before its first write: an item that is refused or deduplicated supersedes nothing and does not
    /// remember its idempotency key. A job that the same item supersedes does not stand in the way of its business
    /// key. `Submitted::state` is the stored state, which knows nothing of held lanes.
    ///
    /// Last of all, a job is refused where as many wait as its `depth_limits` allow (H12), those of its batch that were
    /// stored before it among them. Callers on several nodes are counted exactly; what a caller's own transaction
    /// stores is counted when it has been committed.
    ///
    /// A job with an ordering key is stored as waiting and joins the end of its line (L21). The first of a line has its
    /// turn (`Record::take_turn`) until it has succeeded, was canceled, or is not hot any more; so a dead letter keeps
    /// its place, and the line stands still. A job that waits for its turn does not expire before it has it.
    ///
    /// An idempotency key is remembered for ever: when its job is archived, the answer has that job's id and the
    /// state it was archived in. An id is remembered while its job is hot: a submit that brings an archived id and
    /// no known key stores a new job, and the archival of that one will replace the document of the earlier.
    ///
    /// An `atomic` batch with a refused item stores nothing, and its other items answer [`Refusal::BatchRefused`].
    ///
    /// # Errors
    /// [`crate::Error::TooMany`] for more than `Limits::batch` jobs.
    fn submit(&self, submit: Submit) -> Answer<'_, Vec<Result<Submitted, Refusal>>>;

    /// Makes what these jobs share with others, in a transaction of its own, so that a transaction of the caller's that
    /// stores them afterwards has nothing to make that others would wait for (L14). It stores none of the jobs.
    fn prepare(&self, jobs: &[NewJob]) -> Answer<'_, ()> {
        let _ = jobs;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Takes due jobs for a worker (L2-L5), in the order of their rank. Never blocks on what others hold.
    ///
    /// The queues are served in the order given, each from what the ones before it left. A due job that must not
    /// start any more is passed by (L19): [`Self::expire`] fails it, so that a claim writes about nothing but what it
    /// takes, and no job that cannot be failed keeps others from their turn (C7).
    ///
    /// Where a limit of the claim leaves no room (H5), jobs that it is about are passed by, and stay as they are: due,
    /// uncharged, holding nothing. A limit counts the jobs that are claimed, those of dead workers until their runs are
    /// ended; its rate counts what was taken, however it went on. Of all claims with limits of one name, one decides at
    /// a time.
    ///
    /// All jobs of one claim share one fence. The first claim of a store that takes a job gets fence 1, each later
    /// one that takes a job the next number, also after a restart; a claim that takes none uses no number up. On a
    /// database server a transaction that failed may have used one up.
    ///
    /// # Errors
    /// [`crate::Error::NotEnlisted`] when the worker is unknown or its lease has run out.
    fn claim(&self, claim: Claim) -> Answer<'_, Claimed>;

    /// Leaves a claim with the store, for a worker that found nothing to do: a transaction of this process that stores
    /// a job for it may take for it too, so that both share one commit. What it takes is what [`Self::claim`] would at
    /// that moment, in the same order.
    ///
    /// None when it was `withdrawn` before anything was taken, or came to nothing. A store need not take up any offer.
    ///
    /// # Errors
    /// As [`Self::claim`].
    fn offer<'a>(&'a self, claim: Claim, withdrawn: Signal<'a>) -> Answer<'a, Option<Claimed>> {
        drop(claim);
        Box::pin(async move {
            withdrawn.await;
            Ok(None)
        })
    }

    /// Says, without writing, whether a claim would find work and when the next job becomes due.
    ///
    /// It looks where the claim would: not into paused queues nor into those without room. A job that must not
    /// start any more counts, because a claim has something to do about it. The worker need not be live.
    fn peek(&self, claim: &Claim) -> Answer<'_, Peek>;

    /// Counts the start of prefetched jobs before their handlers run (C5). Starting twice changes nothing.
    ///
    /// As in every write about a run, the lease of a worker that is not live is stale, and so is one on a job that
    /// does not exist.
    fn start(&self, leases: Vec<Lease>) -> Answer<'_, Vec<Result<(), Stale>>>;

    /// Ends runs: record, ledger row, counts, incident, callback, all in one transaction (F12).
    ///
    /// The same ending of a run that has ended is answered as the first time and changes nothing, whoever holds the job
    /// by now and whether or not its worker still lives; what makes it the same is for `Attempt::answer_again` to say.
    /// Any other ending of that run is stale (L5). A run is known as long as its job is hot.
    /// A lease whose worker has let it run out is stale, even when nobody has taken the job yet. A hold that was
    /// never started had no run: it leaves no ledger row, no incident and no event, whatever its ending says.
    /// An incident keeps kind, error type, text and code version of its first failure and the job and code version of
    /// its latest; an unknown version leaves the one that was known. `open` follows the mark on the records of dead
    /// letters: it grows with their death and shrinks when they are driven again, archived or purged. One that is said
    /// to be fixed may regress: `Standing::recur` is asked with the latest version among the failures of the call.
    /// After all other events of the commit, by fingerprint, incidents are told that were opened or regressed.
    /// A death whose alert is raised is put into the drawer of alerts, as `alert::Notice` with its key, when the
    /// observer wants that (D3); so are deaths by expiry, here and in every verb.
    /// A callback has no keys, is due as its `start` says, and is skipped in silence when its id is stored already.
    /// The end of a job of a workflow or a batch is noted in [`crate::Drawer::WorkflowEnds`], here and in every verb
    /// that ends jobs (W1-W6): `EndNote` says when, and `EndDocument` under which key.
    fn finish(&self, endings: Vec<Finish>) -> Answer<'_, Vec<Result<State, Stale>>>;

    /// Keeps what runs say while they go on: their progress, lines for the ledger (F15), what became of their steps
    /// (W7, W8), and which items they reject (W9). Stale too when the run has not been started.
    /// `Record::note` says what else is refused.
    ///
    /// What a step says stands on its record; the result of one that succeeded is put into
    /// [`Drawer::Steps`](crate::Drawer::Steps), in the same transaction, and is not written again. It stays there until
    /// its job is archived or purged.
    ///
    /// Of rejects the record keeps the counts; the batch is put into [`Drawer::Rejects`](crate::Drawer::Rejects) and
    /// noted in [`Drawer::RejectNotes`](crate::Drawer::RejectNotes), in the same transaction. The batch that was
    /// written last is known when it comes again, and changes nothing. Nothing here removes them: the engine does.
    fn annotate(&self, notes: Vec<Note>) -> Answer<'_, Vec<Result<(), NoteError>>>;

    /// Makes a worker known, with the queues it serves and the kinds it knows.
    ///
    /// A known id is replaced whole, also when its lease has run out: what it still holds is then held again.
    fn enlist(&self, worker: NewWorker) -> Answer<'_, ()>;

    /// Renews everything the worker holds for `lease` from now, and tells which of `held` it has lost.
    ///
    /// `lost` keeps the order of `held`; a lease is lost when it is not the current hold of its job.
    ///
    /// # Errors
    /// [`crate::Error::NotEnlisted`] when the worker is unknown or its lease has run out: then all is lost.
    fn renew(&self, worker: WorkerId, lease: Duration, held: Vec<Lease>) -> Answer<'_, Renewed>;

    /// Forgets a worker that has handed everything back. What it still holds is orphaned at once.
    /// An unknown worker is fine.
    fn retire(&self, worker: WorkerId) -> Answer<'_, ()>;

    /// Asks for the leadership of duties, or renews it, for `ttl` from now (L17). One answer per duty.
    ///
    /// The first term of a duty is 1. Renewing a term that still runs keeps its number; every other grant, also to
    /// the node whose own term ran out, takes the next one. None: another node leads.
    fn lead(&self, node: WorkerId, duties: Vec<Duty>, ttl: Duration) -> Answer<'_, Vec<Option<Term>>>;

    /// Adds up to `limit` of the changes that commits have left beside the counts of lanes to these counts, and says
    /// how many it added: fewer than `limit` means that it has caught up.
    ///
    /// Counts are exact before and after; it keeps them cheap to read. Any number of nodes may call it at once. A
    /// store that keeps its counts in one place has nothing to add.
    fn fold(&self, limit: usize) -> Answer<'_, usize>;

    /// Moves on up to `limit` lines that have changed and were not moved on since, and says how many changes it has
    /// looked at: fewer than `limit` means that it has caught up (L21).
    ///
    /// Every verb moves on the lines that it has changed, before it answers. What is left are changes that were made in
    /// a transaction of the caller's, or by a process that died right after its commit. Any number of nodes may call it
    /// at once. A store that moves lines on in the transaction that changes them has nothing to do.
    fn advance_lines(&self, limit: usize) -> Answer<'_, usize> {
        let _ = limit;
        Box::pin(std::future::ready(Ok(0)))
    }

    /// Jobs whose worker has stopped renewing, by the moment of the claim and then by id (L15).
    fn orphans(&self, limit: usize) -> Answer<'_, Vec<Orphan>>;

    /// The started runs of live workers that serve no queue, by the moment of their start and then by id: those that
    /// were handed to workers elsewhere, whose time nobody else keeps (E7, F10).
    ///
    /// There are never more than those workers have asked for, so all of them are told, each in a few bytes.
    fn handed_out(&self) -> Answer<'_, Vec<HandedRun>>;

    /// Ends the runs of orphans. Each is refused as stale unless it is still an orphan of that very hold.
    ///
    /// # Errors
    /// [`crate::Error::Deposed`] when the term has passed on, has run out or is one of another duty than
    /// [`crate::Duty::Rescue`]; then nothing was written.
    fn rescue(&self, term: Term, endings: Vec<Finish>) -> Answer<'_, Vec<Result<State, Stale>>>;

    /// Up to `limit` unclaimed jobs whose time to start has passed (L19), the longest overdue first and then by id,
    /// whether due or not, in paused queues and held lanes too; those behind `after`, if one is given.
    fn overdue(&self, after: Option<Overdue>, limit: usize) -> Answer<'_, Vec<Overdue>>;

    /// Fails those of these jobs that are still unclaimed and overdue by that very moment, and says how many.
    ///
    /// # Errors
    /// [`crate::Error::Deposed`] when the term has passed on, has run out or is one of another duty than
    /// [`crate::Duty::Expire`]; then nothing was written.
    fn expire(&self, term: Term, jobs: Vec<Overdue>) -> Answer<'_, usize>;

    /// Moves up to `limit` jobs whose retention is over out of the hot tables, and says how many (L16).
    ///
    /// Those that succeeded go first, then the canceled ones, then the dead letters, each by `finished_at` and then
    /// by id. A job that has not ended stays, whatever its age. One transaction: at every commit a job is either hot
    /// or archived. What is archived is known to [`crate::InspectStore::archived`] and by its idempotency key; every
    /// other verb takes it for unknown, and no count includes it, except those of incidents, which may name it as their
    /// sample. No event tells of it.
    ///
    /// # Errors
    /// [`crate::Error::Deposed`] when the term has passed on, has run out or is one of another duty than
    /// [`crate::Duty::Archive`]; then nothing was written.
    fn archive(&self, term: Term, retention: Retention, limit: usize) -> Answer<'_, usize>;

    /// Retires lanes that have been empty for `idle`: no job of theirs is hot, whatever its state. Changes up to
    /// `limit` marks, as `LaneMark::seen` says, and says how many: fewer than `limit` means that it has caught up. A
    /// lane that is found empty for the first time begins to count then, so it takes at least two calls.
    ///
    /// A retired lane is left out of [`crate::InspectStore::queues`], [`crate::InspectStore::queue_page`] and
    /// [`crate::InspectStore::holdings`], and of nothing else: it keeps its number, claims never ask, and with its next
    /// job it is a lane like any other.
    ///
    /// # Errors
    /// [`crate::Error::Deposed`] when the term has passed on, has run out or is one of another duty than
    /// [`crate::Duty::Prune`]; then nothing was written.
    fn retire_lanes(&self, term: Term, idle: Duration, limit: usize) -> Answer<'_, usize>;

    /// Removes those of these incidents that nobody needs any more, and says how many: `Incident::is_outworn` is asked
    /// with the moment that is `keep` ago. A later failure with the same fingerprint opens a new one.
    ///
    /// # Errors
    /// [`crate::Error::Deposed`] when the term has passed on, has run out or is one of another duty than
    /// [`crate::Duty::Prune`]; then nothing was written.
    fn retire_incidents(
        &self,
        term: Term,
        fingerprints: Vec<Fingerprint>,
        keep: Duration,
    ) -> Answer<'_, usize>;

    /// Reads documents, in the order of the bytes of their keys.
    ///
    /// # Errors
    /// [`crate::Error::TooMany`] for more than `Limits::page`.
    fn documents(&self, range: DocumentRange) -> Answer<'_, Documents>;

    /// Reads documents by name: one answer for each, in order; none for one that is not there.
    ///
    /// # Errors
    /// [`crate::Error::TooMany`] for more than `Limits::batch`.
    fn named_documents(&self, names: Vec<(Drawer, String)>) -> Answer<'_, Vec<Option<Document>>>;

    /// How much of [`crate::Drawer::Outbox`] waits for a sink (B2). Keys are read, and no bodies.
    fn outbox_backlog(&self, sink: &str) -> Answer<'_, OutboxBacklog>;

    /// Changes documents and operates on jobs in one transaction.
    ///
    /// All expectations are checked before anything is written; when one fails, nothing is. Operations are those of
    /// [`crate::InspectStore::operate`] and come in the order given; a refused one is answered and holds up nothing.
    /// Before that the jobs are stored as an atomic [`Self::submit`] does; when one of them is refused, nothing is
    /// written.
    ///
    /// # Errors
    /// [`crate::Error::Deposed`] when there is a term and it has passed on or has run out; then nothing was written.
    /// [`crate::Error::TooMany`] for more than `Limits::batch` edits, or more than
    /// `backstop_core::workflow::MOST_NODES` operations or jobs.
    fn amend(&self, amend: Amend) -> Answer<'_, Amended>;

    /// Removes up to `limit` archived jobs for good that were archived `keep` ago or earlier, and says how many (D5).
    ///
    /// By the moment of their archival and then by id. A job that never ran stays, whatever its age (L16). Their
    /// idempotency keys are kept as [`crate::InspectStore::purge`] does.
    ///
    /// # Errors
    /// [`crate::Error::Deposed`] when the term has passed on, has run out or is one of another duty than
    /// [`crate::Duty::Prune`]; then nothing was written.
    fn prune(&self, term: Term, keep: Duration, limit: usize) -> Answer<'_, usize>;
}
