//! What a store asks of its database, by name: questions and writes as values.
//!
//! A [`Statement`] says what is asked, with its parameters and the columns of the answer, which are the same in every
//! dialect. How that is said, and in how many statements of SQL, is the business of the dialect.

use backstop_core::{Fence, JobId};

use crate::columns::Columns;
use crate::value::{Query, Value};

/// Something that is asked of the database. Where rows are given, no rows mean that nothing is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Statement {
    /// Marks the caller's transaction, and fails outside of one.
    Savepoint,
    /// Gives the mark up, and keeps what came after it.
    Release,
    /// Takes back what came after the mark.
    RollbackTo,
    /// `moment` or NULL: the moment by the store's clock.
    Clock,

    /// Rows `queue, kind, version, priority`: makes lanes; those that are there stay as they are.
    MakeLanes,
    /// The same rows: `id, queue, kind, version, priority` of those that are there, and maybe of others.
    FindLanes,
    /// Rows `id`: the same columns.
    LanesById,
    /// `from, end` of queues: the same columns, the count of each state, and whether it is retired.
    Lanes,
    /// The sums of the counts of all lanes.
    Totals,
    /// `from, end, limit`: the names of queues that have a lane in use.
    LaneQueues,
    /// The same for the kinds in such queues.
    LaneKinds,
    /// `cutoff, limit`: `id, jobs, empty_since, retired` of lanes whose marks may have to change.
    LanesToMark,
    /// Rows `id, empty_since, retired, jobs`: marks lanes that still have so many jobs.
    MarkLanes,
    /// Rows `lane` and the change of each count.
    InsertTally,

    /// Rows `id`: the columns of `job`, `record` and `done`.
    Load,
    /// Rows `id`: `id` and the columns of `record`, locked in the order given.
    LockRecords,
    /// Rows `lane, run_at, id`: the `id` of those that are in `ready`.
    FindReady,
    /// The same, locked in the order given.
    LockReady,
    /// Rows `id`: the claims that may hold these jobs.
    ClaimsWith,
    /// Rows `fence`: claims without their jobs, locked in the order given.
    LockClaims,
    /// The same with their jobs.
    LockWholeClaims,
    /// Rows `fence`: claims.
    ClaimsByFence,
    /// Every claim.
    Claims,
    /// Rows `key`: `key, job` of idempotency keys.
    FindIdempotencyKeys,
    /// `keys, jobs`: `job, status` of jobs of which nothing but an idempotency key is left.
    EndedKeys,
    /// Rows `key`: `key, job` of business keys.
    FindBusinessKeys,
    /// `moment, workers`: rows `moment, worker, expires_at`, of which the moment or the other two may be NULL.
    MomentAndWorkers,

    /// Rows in the order of [`encode::JOB`](crate::encode::JOB).
    InsertJobs,
    /// Rows `tag, id`.
    InsertTags,
    /// Rows `key, job`: meets a duplicate.
    InsertIdempotencyKeys,
    /// Rows `key, job`: meets a duplicate.
    InsertBusinessKeys,
    /// Rows `key, job`.
    DeleteBusinessKeys,
    /// Rows in the order of [`encode::READY`](crate::encode::READY).
    InsertReady,
    /// Rows `name`: whoever counts the jobs that wait in these places waits until our transaction has ended (H12).
    LockDepths,
    /// Rows `from, end` of queues: `end, count` of jobs that wait there.
    Depths,
    /// Rows `drawer, key`: `key, revision, body` of documents, locked in one order.
    LockDocumentBodies,
    /// Rows `drawer, key`: `key, body` of documents.
    DocumentBodies,
    /// Rows `queue, kind`, each of which may be empty for all: both, and `running, pending` (H5).
    RunCounts,
    /// Rows `lane, from, to, keys, heads, moment`: of so many keys of a lane between two bounds, `lane, key, run_at,
    /// id` of the first due jobs, so many of each, and its extras (H5).
    FirstTurns,
    /// Rows `lane, key, heads, moment`: `lane, key, run_at, id` of the first due jobs of keys.
    MoreTurns,
    /// Rows `lane, run_at, id`: the `id` of those that are in `ready`, locked, without those that others hold.
    TakeReady,
    /// Rows `lane, key, run_at, id`: jobs that take turns, whether they are there or not.
    InsertTurns,
    /// Rows `lane, key, run_at, id`.
    DeleteTurns,
    /// Rows `from, end` of what is shared: `shared, lane, amount` that runs hold, and one of their jobs.
    PermitsHeld,
    /// Rows `shared, id, lane, amount`: what runs hold, whether they are there or not.
    InsertPermits,
    /// Rows `shared, id`.
    DeletePermits,
    /// Rows `key, id`: jobs that join lines, in this order (L21).
    InsertPlaces,
    /// Rows `id`: jobs that do not wait in a line any more.
    DeletePlaces,
    /// Rows `key, id, blocked`: meets a duplicate when another job has its turn in that line.
    InsertHeads,
    /// Rows `key, id`: the heads among them are heads no longer.
    DeleteHeads,
    /// Rows `key, id, blocked`: the heads among them block their lines, or do not.
    MarkHeads,
    /// Rows `key`: lines whose turn may have to pass on.
    InsertLineChanges,
    /// `limit`: `number, key` of the earliest such notes, locked, without those that others hold.
    LockLineChanges,
    /// Rows `number`.
    DeleteLineChanges,
    /// Rows `key`: `key, id` of the first that waits in each line that has no head.
    FirstPlaces,
    /// `from, end, limit`: `key, id` of heads, by key.
    Heads,
    /// The same of those that block their lines.
    BlockedHeads,
    /// Rows `key`: `key, count` of jobs that wait in lines, each counted up to `line::MOST_COUNTED`.
    LineLengths,
    /// `key, key, id`: `head, count` of those that wait before this job, counted as above; the head may be NULL.
    LinePlace,
    /// Rows `lane, run_at, id`.
    DeleteReady,
    /// Rows in the order of [`encode::RECORD`](crate::encode::RECORD), whether they are there or not.
    SaveRecords,
    /// Rows `id`.
    DeleteRecords,
    /// Rows in the order of [`encode::DONE`](crate::encode::DONE).
    InsertDone,
    /// Rows in the order of [`encode::ATTEMPT`](crate::encode::ATTEMPT).
    InsertAttempts,
    /// `worker, claimed_at, jobs, slots`: writes a claim, and answers its `fence`.
    InsertClaim,
    /// Rows `fence, slots`.
    UpdateClaims,
    /// Rows `fence`.
    DeleteClaims,
    /// Whether the counter of fences is behind what is held, or ended last.
    FencesBehind,
    /// Raises the counter of fences above all that are stored.
    RaiseFences,
    /// `fence, worker`: gives a claim a new number, and answers it.
    RenumberClaim,

    /// `id, name, code_version, queues, kinds, started_at, expires_at`.
    SaveWorker,
    /// `worker, moment, span, latest`: renews the lease of a worker that is live, and answers until when.
    RenewWorker,
    /// `worker`.
    DeleteWorker,
    /// Every worker, with the columns of [`Statement::SaveWorker`].
    Workers,
    /// `moment`: whether a claim has no live worker.
    Orphaned,

    /// Rows `name, node, expires_at`: duties that nobody has led.
    MakeTerms,
    /// Rows `name`: `name, number, node, expires_at`, locked in the order given.
    LockTerms,
    /// `names, node, moment, span, latest`: renews what a node leads; `name, number, expires_at` of that.
    RenewTerms,
    /// Rows `name, number, node, expires_at`.
    SaveTerms,
    /// `moment`: `moment, name, number, node, expires_at` of every term; the first alone when there is none.
    Terms,
    /// `name`: `number, node, expires_at` of a term, which cannot pass on before the commit.
    ShareTerm,
    /// `moment, expires_at, job, limit`: `expires_at, job` of those that must not start any more, behind this one.
    Overdue,
    /// Rows `expires_at, job`: those that are still there, locked, without those that others hold.
    LockOverdue,

    /// `queue, note`: a row when that changed anything.
    PauseQueue,
    /// `queue`: a row when that changed anything.
    ResumeQueue,
    /// `from, end`: `name, paused, note`.
    Queues,
    /// `from, end, limit`: the names of queues that were ever paused.
    QueueNames,
    /// `queue`: `paused, note`.
    QueuePaused,
    /// Rows `lane`: `lane, run_at` of the first job of each.
    NextDue,

    /// Rows `id`: the columns of [`Statement::Load`], the last failure, and result, warning and start of the last run.
    Views,
    /// Rows `id`: `id, status, paused_from, redrives, marks, reason, finished_at, fingerprint`.
    Summaries,
    /// Rows `id`: `id, cause, count` of runs.
    Causes,
    /// `job`: the decision of its last run.
    LastDecision,
    /// `job, below, limit`: runs with a lower number, the latest first.
    Attempts,
    /// `jobs, fences`: `job` and the run.
    RunsUnder,

    /// Rows in the order of [`encode::INCIDENT`](crate::encode::INCIDENT): counts failures. It may answer as
    /// [`Statement::Sums`] does.
    CountIncidents,
    /// Rows `fingerprint`: `fingerprint, failures, standing`, unless counting has answered it.
    Sums,
    /// Rows `fingerprint`: the standings that there are.
    Standings,
    /// Rows `fingerprint, standing`.
    SaveStandings,
    /// Rows `fingerprint, change` of the number of open dead letters.
    ChangeOpen,
    /// `limit, standing, open, prefix, after, after_fingerprint, closed`: incidents, the latest first.
    Incidents,
    /// Rows `fingerprint`.
    IncidentsByFingerprint,
    /// The same, locked in the order given.
    LockIncidents,
    /// Rows `fingerprint`.
    DeleteIncidents,
    /// `from, end, most`: how many incidents have such a kind.
    CountIncidentsOf,

    /// `moment, drawer, prefix, after, end, limit`: `moment, key, revision, body`; the first alone when there is none.
    DocumentPage,
    /// The same from the last key on.
    LastDocuments,
    /// `moment, drawer, prefix, end`, then where in a key the number of messages begins and how many digits it has, and
    /// the same for the bytes: `moment, documents, messages, bytes, first key`.
    OutboxBacklog,
    /// Rows `drawer, key`: `drawer, key, revision`, locked in the order given.
    LockDocuments,
    /// Rows `drawer, key`: `drawer, key, revision, body`.
    ReadDocuments,
    /// Rows `drawer, key, revision, body`: meets a duplicate.
    InsertDocuments,
    /// The same rows, whether they are there or not.
    SaveDocuments,
    /// Rows `drawer, key`.
    DeleteDocuments,

    /// `cutoff, limit`: jobs that succeeded by then, locked, without those that others hold.
    EndedWell,
    /// `status, cutoff, limit`: the same of those that ended otherwise.
    Ended,
    /// Rows `id, status, finished_at, archived_at, ran, document`.
    SaveArchived,
    /// Rows `id`: `id, status, archived_at, ran, document`.
    ArchivedById,
    /// Rows `id`: `id, status`.
    ArchivedStates,
    /// `after, limit`: the same columns as [`Statement::ArchivedById`], newest id first.
    ArchivePage,
    /// Rows `id`: `id, status, document`, locked in the order given; the last may be NULL when it names no key.
    LockArchived,
    /// `cutoff, limit`: `archived_at, id, status, ran, document` of the earliest, as [`Statement::LockArchived`].
    Outworn,
    /// `cutoff, most`: counts that are to be added.
    CountOutworn,
    /// Rows `id`.
    MarkNeverRan,
    /// Rows `id`.
    DeleteArchived,
    /// Rows `key, job, status`: how jobs ended of which only a key is left.
    EndKeys,
    /// Rows `job, status`: the same for jobs without a key, whose ids may have had one earlier.
    EndAgain,
    /// Rows `id`: those that succeeded and are still there, locked in the order given.
    LockDone,
    /// Rows `tag, id`.
    DeleteTags,
    /// Rows `id`.
    DeleteDone,
    /// Rows `id`.
    DeleteAttempts,
    /// Rows `id`.
    DeleteJobs,
}

/// What a statement is given.
#[derive(Debug, PartialEq, Eq)]
pub enum Params {
    /// Values, in order.
    Values(Vec<Value>),
    /// Rows.
    Rows(Columns),
}

/// A statement with what it is given, or queries that only their dialect knows.
#[derive(Debug)]
pub enum Request {
    /// A statement of every dialect.
    Ask(Statement, Params),
    /// A query of one dialect.
    Own(Query),
}

impl From<Query> for Request {
    fn from(query: Query) -> Self {
        Self::Own(query)
    }
}

impl Statement {
    /// Without parameters.
    #[must_use]
    pub const fn plain(self) -> Request {
        self.with(Vec::new())
    }

    /// With these values.
    #[must_use]
    pub const fn with(self, values: Vec<Value>) -> Request {
        Request::Ask(self, Params::Values(values))
    }

    /// With these rows.
    #[must_use]
    pub const fn rows(self, rows: Columns) -> Request {
        Request::Ask(self, Params::Rows(rows))
    }

    /// With a row for each value of a list.
    #[must_use]
    pub fn each(self, list: Value) -> Request {
        self.rows(Columns::of(list))
    }

    /// With a row for each job.
    pub fn each_job<'a>(self, ids: impl IntoIterator<Item = &'a JobId>) -> Request {
        self.each(Value::jobs(ids))
    }

    /// With a row for each claim.
    pub fn each_fence<'a>(self, fences: impl IntoIterator<Item = &'a Fence>) -> Request {
        self.each(Value::ints(fences.into_iter().map(|fence| fence.0)))
    }
}
