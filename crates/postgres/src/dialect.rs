//! How PostgreSQL is asked: one text for each statement, whatever the number of rows.

use backstop_sql::dialect::Listing;
use backstop_sql::statement::{Params, Statement};
use backstop_sql::{Dialect, Query, statement_table};

use crate::error::NO_TRANSACTION;
use crate::list;
use crate::sql::insert::{self, Insert};
use crate::sql::{self, archive, counts, document, incident, turn};

/// The dialect of PostgreSQL.
#[derive(Debug, Clone, Copy)]
pub struct PostgresDialect;

impl Dialect for PostgresDialect {
    fn queries(&self, statement: Statement, params: Params) -> Vec<Query> {
        let values = match (insert_into(statement), params) {
            (Some(into), Params::Rows(rows)) => return vec![into.query(rows)],
            (_, Params::Rows(rows)) => rows.into_params(),
            (_, Params::Values(values)) => values,
        };
        let Some((last, settings)) = texts(statement).split_last() else { return Vec::new() };
        let settings = settings.iter().map(|text| Query::new(*text, Vec::new()));
        settings.chain([Query::new(*last, values)]).collect()
    }

    fn list(&self, listing: &Listing<'_>) -> Vec<Query> {
        list::list(listing)
    }

    fn survey(&self, listing: &Listing<'_>) -> Vec<Query> {
        vec![list::survey(listing)]
    }

    fn first_heads(&self) -> usize {
        turn::FIRST_HEADS
    }

    fn no_transaction(&self) -> &'static str {
        NO_TRANSACTION
    }
}

/// The table that new rows go into, where only what they hold is sent.
const fn insert_into(statement: Statement) -> Option<&'static Insert> {
    match statement {
        Statement::InsertJobs => Some(&insert::JOBS),
        Statement::InsertReady => Some(&insert::READY),
        Statement::SaveRecords => Some(&insert::RECORDS),
        Statement::InsertDone => Some(&insert::DONE),
        Statement::InsertAttempts => Some(&insert::ATTEMPTS),
        Statement::InsertTally => Some(&insert::TALLY),
        _ => None,
    }
}

statement_table! {
    /// The text of a statement, behind the settings that it needs.
    texts -> &'static str {
        Savepoint => &[sql::SAVEPOINT],
        Release => &[sql::RELEASE],
        RollbackTo => &[sql::ROLLBACK_TO],
        Clock => &[sql::CLOCK],
        MakeLanes => &[sql::LANES_MAKE],
        FindLanes => &[sql::LANES_FIND],
        LanesById => &[sql::LANES_BY_ID],
        Lanes => &[sql::LANES],
        Totals => &[sql::TOTALS],
        LaneQueues => &[sql::LANE_QUEUES],
        LaneKinds => &[sql::LANE_KINDS],
        LanesToMark => &[sql::LANES_TO_MARK],
        MarkLanes => &[sql::LANES_MARK],
        Load => &[sql::LOAD],
        LockRecords => &[sql::RECORDS_LOCK],
        FindReady => &[sql::READY_FIND],
        LockReady => &[sql::READY_LOCK],
        ClaimsWith => &[sql::CLAIMS_WITH],
        LockClaims => &[sql::CLAIMS_LOCK],
        LockWholeClaims => &[sql::CLAIMS_LOCK_WHOLE],
        ClaimsByFence => &[sql::CLAIMS_BY_FENCE],
        Claims => &[sql::CLAIMS],
        FindIdempotencyKeys => &[sql::IDEMPOTENCY_FIND],
        EndedKeys => &[sql::IDEMPOTENCY_ENDED],
        FindBusinessKeys => &[sql::KEYS_FIND],
        MomentAndWorkers => &[sql::MOMENT_AND_WORKERS],
        InsertTags => &[sql::TAGS_INSERT],
        InsertIdempotencyKeys => &[sql::IDEMPOTENCY_INSERT],
        InsertBusinessKeys => &[sql::KEYS_INSERT],
        DeleteBusinessKeys => &[sql::KEYS_DELETE],
        LockDepths => &[counts::DEPTHS_LOCK],
        Depths => &[counts::DEPTHS],
        FirstTurns => &[sql::BY_KEY, turn::FIRST],
        MoreTurns => &[turn::MORE],
        TakeReady => &[turn::READY_TAKE],
        InsertTurns => &[turn::INSERT],
        DeleteTurns => &[turn::DELETE],
        PermitsHeld => &[turn::PERMITS_HELD],
        InsertPermits => &[turn::PERMITS_INSERT],
        DeletePermits => &[sql::BY_KEY, turn::PERMITS_DELETE],
        InsertPlaces => &[sql::PLACES_INSERT],
        DeletePlaces => &[sql::PLACES_DELETE],
        InsertHeads => &[sql::HEADS_INSERT],
        DeleteHeads => &[sql::HEADS_DELETE],
        MarkHeads => &[sql::HEADS_MARK],
        InsertLineChanges => &[sql::LINE_CHANGES_INSERT],
        LockLineChanges => &[sql::LINE_CHANGES_LOCK],
        DeleteLineChanges => &[sql::LINE_CHANGES_DELETE],
        FirstPlaces => &[sql::PLACES_FIRST],
        Heads => &[sql::HEADS],
        BlockedHeads => &[sql::HEADS_BLOCKED],
        LineLengths => &[sql::LINE_LENGTHS],
        LinePlace => &[sql::LINE_PLACE],
        DeleteReady => &[sql::READY_DELETE],
        DeleteRecords => &[sql::RECORDS_DELETE],
        InsertClaim => &[sql::CLAIM_INSERT],
        UpdateClaims => &[sql::CLAIMS_UPDATE],
        DeleteClaims => &[sql::CLAIMS_DELETE],
        FencesBehind => &[sql::FENCE_BEHIND],
        RaiseFences => &[sql::FENCE_LOCK, sql::FENCE_RAISE],
        RenumberClaim => &[sql::CLAIM_RENUMBER],
        SaveWorker => &[sql::WORKER_SAVE],
        RenewWorker => &[sql::WORKER_RENEW],
        DeleteWorker => &[sql::WORKER_DELETE],
        Workers => &[sql::WORKERS],
        Orphaned => &[sql::ORPHANED],
        MakeTerms => &[sql::TERMS_MAKE],
        LockTerms => &[sql::TERMS_LOCK],
        RenewTerms => &[sql::TERMS_RENEW],
        SaveTerms => &[sql::TERMS_SAVE],
        Terms => &[sql::TERMS],
        ShareTerm => &[sql::TERM_SHARE],
        Overdue => &[sql::OVERDUE],
        LockOverdue => &[sql::OVERDUE_LOCK],
        PauseQueue => &[sql::QUEUE_PAUSE],
        ResumeQueue => &[sql::QUEUE_RESUME],
        Queues => &[sql::QUEUES],
        QueueNames => &[sql::QUEUE_NAMES],
        QueuePaused => &[sql::QUEUE_PAUSED],
        NextDue => &[sql::NEXT_DUE],
        Views => &[sql::BY_KEY, sql::VIEWS],
        Summaries => &[sql::BY_KEY, sql::SUMMARIES],
        Causes => &[sql::CAUSES],
        LastDecision => &[sql::LAST_DECISION],
        Attempts => &[sql::ATTEMPTS],
        RunsUnder => &[sql::RUNS_UNDER],
        CountIncidents => &[incident::COUNT],
        Standings => &[incident::STANDINGS],
        SaveStandings => &[incident::STANDINGS_SAVE],
        ChangeOpen => &[incident::OPEN],
        Incidents => &[incident::LATEST],
        IncidentsByFingerprint => &[incident::BY_FINGERPRINT],
        LockIncidents => &[incident::LOCK],
        DeleteIncidents => &[incident::DELETE],
        CountIncidentsOf => &[incident::OF_TENANT],
        DocumentPage => &[document::PAGE],
        LastDocuments => &[document::LAST],
        OutboxBacklog => &[document::OUTBOX_BACKLOG],
        LockDocuments => &[document::LOCK],
        ReadDocuments => &[document::READ],
        LockDocumentBodies => &[document::LOCK_BODIES],
        DocumentBodies => &[document::BODIES],
        RunCounts => &[counts::RUN_COUNTS],
        InsertDocuments => &[document::INSERT],
        SaveDocuments => &[document::SAVE],
        DeleteDocuments => &[document::DELETE],
        EndedWell => &[archive::ENDED_WELL],
        Ended => &[archive::ENDED],
        SaveArchived => &[archive::SAVE],
        ArchivedById => &[archive::BY_ID],
        ArchivedStates => &[archive::STATUS],
        ArchivePage => &[archive::PAGE],
        LockArchived => &[archive::LOCK],
        Outworn => &[archive::OUTWORN],
        CountOutworn => &[archive::OUTWORN_COUNT],
        MarkNeverRan => &[archive::NEVER_RAN],
        DeleteArchived => &[archive::DELETE],
        EndKeys => &[archive::KEYS_END],
        LockDone => &[archive::DONE_LOCK],
        DeleteTags => &[archive::TAGS_DELETE],
        DeleteDone => &[archive::DONE_DELETE],
        DeleteAttempts => &[archive::ATTEMPTS_DELETE],
        DeleteJobs => &[archive::JOBS_DELETE],
        // Counting answers the sums; what a key answers stands beside the key; and new rows have no text of their own.
        Sums => &[],
        EndAgain => &[],
        InsertJobs => &[],
        InsertReady => &[],
        SaveRecords => &[],
        InsertDone => &[],
        InsertAttempts => &[],
        InsertTally => &[],
    }
}

#[cfg(test)]
mod tests {
    use backstop_core::JobId;
    use backstop_sql::columns::Columns;

    use super::*;

    /// The statement that stores jobs of which the eighth has papers, or none, and how many parameters it has.
    fn store(papers: Option<&str>) -> (String, usize) {
        let mut rows = Columns::default();
        for number in 1..=50 {
            let mut row = rows.row();
            row.job(JobId::from_u128(number))
                .int(1)
                .int(1)
                .int(1)
                .text("{}")
                .maybe_text(None)
                .maybe_int(None);
            // Keys, correlation, tags, params and callbacks.
            (0..7).for_each(|_| {
                row.maybe_text(None);
            });
            row.id(None).maybe_text(papers.filter(|_| number == 8));
        }
        let mut queries = PostgresDialect.queries(Statement::InsertJobs, Params::Rows(rows));
        assert_eq!(queries.len(), 1);
        let Query { sql, params } = queries.remove(0);
        (sql.into_owned(), params.len())
    }

    #[test]
    fn what_a_batch_does_not_use_costs_nothing() {
        // E9
        let (plain, traced) = (store(None), store(Some("{}")));
        let begins =
            |text: &str, columns: &str| text.starts_with(&format!("INSERT INTO backstop.job ({columns})"));
        assert!(begins(&plain.0, "id, lane, created_at, run_at, payload"), "{plain:?}");
        assert!(begins(&traced.0, "id, lane, created_at, run_at, payload, papers"), "{traced:?}");
        assert_eq!((plain.1, traced.1), (5, 6));
    }
}
