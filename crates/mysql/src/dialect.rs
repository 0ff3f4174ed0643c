//! How MariaDB and MySQL are asked.

use backstop_sql::dialect::Listing;
use backstop_sql::encode;
use backstop_sql::statement::{Params, Statement};
use backstop_sql::{Dialect, Query, statement_table};

use crate::error::NO_TRANSACTION;
use crate::list;
use crate::shape::StatementShape::{self, Each, Insert, Once, Rows};
use crate::shape::queries;
use crate::sql::{self, archive, depth, document, duty, incident, line, turn, worker};

/// The dialect of MariaDB and MySQL.
#[derive(Debug, Clone, Copy)]
pub struct MysqlDialect;

/// Up to this many jobs are looked up in the claims by the server; for more, reading all claims is less work.
const FEW: usize = 8;

impl Dialect for MysqlDialect {
    fn queries(&self, statement: Statement, params: Params) -> Vec<Query> {
        match &params {
            Params::Rows(rows) if statement == Statement::ClaimsWith && rows.rows() > FEW => {
                vec![Query::new(sql::CLAIMS, Vec::new())]
            }
            _ => queries(shapes(statement), params),
        }
    }

    fn list(&self, listing: &Listing<'_>) -> Vec<Query> {
        vec![list::list(listing)]
    }

    fn survey(&self, listing: &Listing<'_>) -> Vec<Query> {
        vec![list::survey(listing)]
    }

    /// The caller's transaction may see an old state of the tables (REPEATABLE READ, which is the servers' default).
    /// What must be seen as it is now is read with a lock. READ COMMITTED conflicts less often.
    fn see_newest(&self, query: &mut Query) {
        let reads = query.sql.starts_with(sql::READS) && query.sql.contains(sql::OF_TABLE);
        if reads && !query.sql.ends_with(sql::LOCKS) && !query.sql.ends_with(sql::NEWEST) {
            query.sql.to_mut().push_str(sql::NEWEST);
        }
    }

    fn no_transaction(&self) -> &'static str {
        NO_TRANSACTION
    }
}

statement_table! {
    /// How a statement is said.
    shapes -> StatementShape {
        Savepoint => &[Once(sql::SAVEPOINT), Once(sql::RELEASE), Once(sql::SAVEPOINT)],
        Release => &[Once(sql::RELEASE)],
        RollbackTo => &[Once(sql::ROLLBACK_TO)],
        Clock => &[Once(sql::CLOCK)],
        MakeLanes => &[Rows(sql::LANES_MAKE)],
        FindLanes => &[Once(sql::LANES_OF)],
        LanesById => &[Once(sql::LANES_BY_ID)],
        Lanes => &[Once(sql::LANES)],
        Totals => &[Once(sql::TOTALS)],
        LaneQueues => &[Once(sql::LANE_QUEUES)],
        LaneKinds => &[Once(sql::LANE_KINDS)],
        LanesToMark => &[Once(sql::LANES_TO_MARK)],
        MarkLanes => &[Each(sql::LANE_MARK)],
        InsertTally => &[Insert(&encode::TALLY, "")],
        Load => &[Rows(sql::LOAD)],
        LockRecords => &[Rows(sql::RECORDS_LOCK)],
        FindReady => &[Rows(sql::READY_FIND)],
        LockReady => &[Rows(sql::READY_LOCK)],
        ClaimsWith => &[Rows(sql::CLAIMS_WITH)],
        LockClaims => &[Rows(sql::CLAIMS_LOCK)],
        LockWholeClaims => &[Rows(sql::CLAIMS_LOCK_WHOLE)],
        ClaimsByFence => &[Once(sql::CLAIMS_BY_FENCE)],
        Claims => &[Once(sql::CLAIMS)],
        FindIdempotencyKeys => &[Rows(sql::IDEMPOTENCY_FIND)],
        EndedKeys => &[Once(archive::PURGED_STATUS)],
        FindBusinessKeys => &[Rows(sql::KEYS_FIND)],
        MomentAndWorkers => &[Once(sql::MOMENT), Once(sql::WORKERS_EXPIRY)],
        InsertJobs => &[Insert(&encode::JOB, "")],
        InsertTags => &[Rows(sql::TAGS_INSERT)],
        InsertIdempotencyKeys => &[Rows(sql::IDEMPOTENCY_INSERT)],
        InsertBusinessKeys => &[Rows(sql::KEYS_INSERT)],
        DeleteBusinessKeys => &[Each(sql::KEY_DELETE)],
        InsertReady => &[Insert(&encode::READY, "")],
        LockDepths => &[Rows(depth::LOCK)],
        Depths => &[Rows(depth::DEPTHS)],
        FirstTurns => &[Each(turn::FIRST)],
        MoreTurns => &[Each(turn::MORE)],
        TakeReady => &[Rows(turn::READY_TAKE)],
        InsertTurns => &[Rows(turn::INSERT)],
        DeleteTurns => &[Rows(turn::DELETE)],
        PermitsHeld => &[Rows(turn::PERMITS_HELD)],
        InsertPermits => &[Rows(turn::PERMITS_INSERT)],
        DeletePermits => &[Rows(turn::PERMITS_DELETE)],
        InsertPlaces => &[Rows(line::PLACES_INSERT)],
        DeletePlaces => &[Rows(line::PLACES_DELETE)],
        InsertHeads => &[Rows(line::HEADS_INSERT)],
        DeleteHeads => &[Each(line::HEAD_DELETE)],
        MarkHeads => &[Rows(line::HEAD_MARK)],
        InsertLineChanges => &[Rows(line::LINE_CHANGES_INSERT)],
        LockLineChanges => &[Once(line::LINE_CHANGES_LOCK)],
        DeleteLineChanges => &[Rows(line::LINE_CHANGES_DELETE)],
        FirstPlaces => &[Each(line::PLACE_FIRST)],
        Heads => &[Once(line::HEADS)],
        BlockedHeads => &[Once(line::HEADS_BLOCKED)],
        LineLengths => &[Each(line::LINE_LENGTH)],
        LinePlace => &[Once(line::LINE_PLACE)],
        DeleteReady => &[Rows(sql::READY_DELETE)],
        SaveRecords => &[Insert(&encode::RECORD, sql::RECORDS_SAVE)],
        DeleteRecords => &[Rows(sql::RECORDS_DELETE)],
        InsertDone => &[Insert(&encode::DONE, "")],
        InsertAttempts => &[Insert(&encode::ATTEMPT, "")],
        InsertClaim => &[Once(sql::CLAIM_INSERT), Once(sql::FENCE)],
        UpdateClaims => &[Each(sql::CLAIM_UPDATE)],
        DeleteClaims => &[Rows(sql::CLAIMS_DELETE)],
        FencesBehind => &[Once(sql::FENCE_BEHIND)],
        RaiseFences => &[Once(sql::FENCE_RAISE[0]), Once(sql::FENCE_RAISE[1]), Once(sql::FENCE_RAISE[2])],
        RenumberClaim => &[Once(sql::CLAIM_RENUMBER[0]), Once(sql::CLAIM_RENUMBER[1])],
        SaveWorker => &[Once(worker::WORKER_SAVE)],
        RenewWorker => &[Once(worker::WORKER_RENEW[0]), Once(worker::WORKER_RENEW[1])],
        DeleteWorker => &[Once(worker::WORKER_DELETE)],
        Workers => &[Once(worker::WORKERS)],
        Orphaned => &[Once(worker::ORPHANED)],
        MakeTerms => &[Rows(duty::TERMS_MAKE)],
        LockTerms => &[Once(duty::TERMS_LOCK)],
        RenewTerms => &[Once(duty::TERMS_RENEW[0]), Once(duty::TERMS_RENEW[1])],
        SaveTerms => &[Each(duty::TERM_SAVE)],
        Terms => &[Once(duty::TERMS)],
        ShareTerm => &[Once(duty::TERM_SHARE)],
        Overdue => &[Once(duty::OVERDUE)],
        LockOverdue => &[Rows(duty::OVERDUE_LOCK)],
        PauseQueue => &[Once(sql::QUEUE_PAUSE[0]), Once(sql::QUEUE_PAUSE[1])],
        ResumeQueue => &[Once(sql::QUEUE_RESUME[0]), Once(sql::QUEUE_RESUME[1])],
        Queues => &[Once(sql::QUEUES)],
        QueueNames => &[Once(sql::QUEUE_NAMES)],
        QueuePaused => &[Once(sql::QUEUE_PAUSED)],
        NextDue => &[Each(sql::NEXT_DUE)],
        Views => &[Rows(sql::VIEWS)],
        Summaries => &[Rows(sql::SUMMARIES)],
        Causes => &[Once(sql::CAUSES)],
        LastDecision => &[Once(sql::LAST_DECISION)],
        Attempts => &[Once(sql::ATTEMPTS)],
        RunsUnder => &[Once(sql::RUNS_UNDER)],
        CountIncidents => &[Rows(incident::COUNT)],
        Sums => &[Rows(incident::SEEN)],
        Standings => &[Once(incident::STANDINGS)],
        SaveStandings => &[Each(incident::STANDING)],
        ChangeOpen => &[Each(incident::OPEN)],
        Incidents => &[Once(incident::LATEST)],
        IncidentsByFingerprint => &[Once(incident::BY_FINGERPRINT)],
        LockIncidents => &[Once(incident::LOCK)],
        DeleteIncidents => &[Once(incident::DELETE)],
        CountIncidentsOf => &[Once(incident::OF_TENANT)],
        DocumentPage => &[Once(document::PAGE)],
        LastDocuments => &[Once(document::LAST)],
        OutboxBacklog => &[Once(document::OUTBOX_BACKLOG)],
        LockDocuments => &[Rows(document::LOCK)],
        ReadDocuments => &[Rows(document::READ)],
        LockDocumentBodies => &[Rows(document::LOCK_BODIES)],
        DocumentBodies => &[Rows(document::BODIES)],
        RunCounts => &[Rows(depth::RUN_COUNTS)],
        InsertDocuments => &[Rows(document::INSERT)],
        SaveDocuments => &[Rows(document::SAVE)],
        DeleteDocuments => &[Rows(document::DELETE)],
        EndedWell => &[Once(archive::ENDED_WELL)],
        Ended => &[Once(archive::ENDED)],
        SaveArchived => &[Rows(archive::SAVE)],
        ArchivedById => &[Once(archive::BY_ID)],
        ArchivedStates => &[Rows(archive::STATUS)],
        ArchivePage => &[Once(archive::PAGE)],
        LockArchived => &[Rows(archive::LOCK)],
        Outworn => &[Once(archive::OUTWORN), Once(archive::OUTWORN_UNTOLD)],
        CountOutworn => &[Once(archive::OUTWORN_COUNT), Once(archive::OUTWORN_UNTOLD_COUNT)],
        MarkNeverRan => &[Once(archive::NEVER_RAN)],
        DeleteArchived => &[Rows(archive::DELETE)],
        EndKeys => &[Rows(archive::PURGED_SAVE)],
        EndAgain => &[Rows(archive::PURGED_AGAIN)],
        LockDone => &[Rows(archive::DONE_LOCK)],
        DeleteTags => &[Rows(archive::TAGS_DELETE)],
        DeleteDone => &[Rows(archive::DONE_DELETE)],
        DeleteAttempts => &[Rows(archive::ATTEMPTS_DELETE)],
        DeleteJobs => &[Rows(archive::JOBS_DELETE)],
    }
}
