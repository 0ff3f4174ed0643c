//! What PostgreSQL does in its own way: claims that begin where the last one stopped, and what goes with them.

use std::sync::Arc;
use std::time::Instant;

use backstop_core::job::{Stale, State};
use backstop_sql::claim::{rooms, rounds};
use backstop_sql::row::first;
use backstop_sql::statement::Request;
use backstop_sql::{Pending, Query, Row, Server, SqlFailure, Transaction, Value};
use backstop_store::{Claim, Claimed, Finding, Finish, Peek};

use crate::check;
use crate::claim;
use crate::cursors::Cursor;
use crate::short_claim;
use crate::short_end;
use crate::sql;
use crate::state::ServerState;

/// Batches of arrivals that are removed in one go at most.
const MOST_CLEARED: usize = 50;

/// PostgreSQL, as the store asks it.
pub(crate) struct PostgresServer(pub(crate) Arc<ServerState>);

impl Server for PostgresServer {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn claim<'a>(&'a self, tx: &'a mut Transaction, claim: &'a Claim) -> Pending<'a, Claimed> {
        Box::pin(async move {
            let rounds = rounds(&claim.queues);
            // In one statement if that can be, in a transaction otherwise.
            let short = match &*rounds {
                [round] if !self.0.long_way && short_claim::is_plain(&tx.shared, claim, round) => {
                    short_claim::take(tx, &self.0, claim, &rooms(round, usize::MAX)).await
                }
                _ => Ok(None),
            };
            let claimed = match short {
                Ok(None) => claim::claim(tx, &self.0, claim).await,
                Ok(Some(claimed)) => Ok(claimed),
                Err(failure) => Err(failure),
            };
            if matches!(&claimed, Err(SqlFailure::Again(problem)) if problem.contains(sql::CLAIM_KEY)) {
                // The number that was drawn is that of a claim which is still there.
                tx.shared.fences.note_behind();
            }
            if let Ok(claimed) = &claimed {
                self.0.notices.look(!claimed.jobs.is_empty(), tokio::time::Instant::now());
            }
            claimed
        })
    }

    fn finish_plain<'a>(
        &'a self,
        tx: &'a mut Transaction,
        endings: &'a [Finish],
    ) -> Pending<'a, Option<Vec<Result<State, Stale>>>> {
        Box::pin(short_end::finish(tx, &self.0, endings))
    }

    fn peek<'a>(&'a self, tx: &'a mut Transaction, claim: &'a Claim) -> Pending<'a, Peek> {
        Box::pin(async move {
            let peek = claim::peek(tx, &self.0, claim).await?;
            // Whether what it sees is there to be taken is found out by the claim.
            if !peek.has_work() {
                self.0.notices.look(false, tokio::time::Instant::now());
            }
            Ok(peek)
        })
    }

    fn fold<'a>(&'a self, tx: &'a mut Transaction, limit: usize) -> Pending<'a, usize> {
        Box::pin(async move {
            if self.0.may_clear_arrivals(Instant::now()) {
                clear_arrivals(tx).await?;
            }
            let folded = tx.one_alone(Query::new(sql::TALLY_FOLD, vec![Value::count(limit)])).await?;
            Ok(first(folded, Row::number)?.unwrap_or_default())
        })
    }

    fn check<'a>(&'a self, tx: &'a mut Transaction) -> Pending<'a, Vec<Finding>> {
        Box::pin(check::check(tx, &self.0))
    }

    /// The cursors that were kept: the process learns where claims have come to.
    fn recall(&self) -> Option<Request> {
        Some(Query::new(sql::CURSORS, Vec::new()).into())
    }

    fn recalled(&self, rows: Vec<Row>) -> Result<(), SqlFailure> {
        let (mut server, mut cursors) = (0, Vec::new());
        for mut row in rows {
            server = row.int()?;
            let (lane, queue) = (row.int()?, Arc::from(row.text()?));
            let cursor = Cursor { queue, at: (row.moment()?, row.job()?) };
            cursors.push((lane, cursor, row.word()?));
        }
        self.0.cursors.recall(server, cursors);
        Ok(())
    }

    /// The cursors of this process; none when nothing moved.
    fn keep(&self) -> Option<Request> {
        let known = self.0.cursors.keep()?;
        let lanes = known.lanes.iter();
        let params = vec![
            Value::ints(lanes.clone().map(|(lane, _)| *lane)),
            Value::ints(lanes.clone().map(|(_, cursor)| cursor.at.0.as_micros())),
            Value::jobs(lanes.map(|(_, cursor)| &cursor.at.1)),
            Value::int(known.server),
            Value::text(known.seen.to_string()),
        ];
        Some(Query::new(sql::CURSORS_SAVE, params).into())
    }
}

/// Removes arrivals that every cursor has seen.
async fn clear_arrivals(tx: &mut Transaction) -> Result<(), SqlFailure> {
    tx.one_alone(Query::new(sql::FLOOR_RAISE, Vec::new())).await?;
    for _ in 0..MOST_CLEARED {
        let gone = tx.one_alone(Query::new(sql::ARRIVALS_DELETE, Vec::new())).await?;
        if first(gone, Row::int)?.unwrap_or_default() == 0 {
            break;
        }
    }
    Ok(())
}
