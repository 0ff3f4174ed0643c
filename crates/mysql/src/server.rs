//! What MariaDB and MySQL do in their own way.

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop_sql::columns::Columns;
use backstop_sql::row::first;
use backstop_sql::{Pending, Query, Row, Server, Session, SqlFailure, Transaction, Value};
use backstop_store::{Claim, Claimed, Finding, Peek};

use crate::check;
use crate::claim;
use crate::shape::{StatementShape, queries};
use crate::sql;
use crate::state::ServerState;
use backstop_sql::statement::{Params, Request};

/// MariaDB or MySQL, as the store asks it.
pub(crate) struct MysqlServer(pub(crate) Arc<ServerState>);

impl Server for MysqlServer {
    fn name(&self) -> &'static str {
        "mysql"
    }

    fn claim<'a>(&'a self, tx: &'a mut Transaction, claim: &'a Claim) -> Pending<'a, Claimed> {
        Box::pin(claim::claim(tx, claim))
    }

    fn peek<'a>(&'a self, tx: &'a mut Transaction, claim: &'a Claim) -> Pending<'a, Peek> {
        Box::pin(claim::peek(tx, claim))
    }

    fn fold<'a>(&'a self, tx: &'a mut Transaction, limit: usize) -> Pending<'a, usize> {
        Box::pin(fold(tx, limit))
    }

    fn check<'a>(&'a self, tx: &'a mut Transaction) -> Pending<'a, Vec<Finding>> {
        Box::pin(check::check(tx, &self.0))
    }
}

/// Adds what commits have left in `tally` to the lanes.
async fn fold(tx: &mut Transaction, limit: usize) -> Result<usize, SqlFailure> {
    // Nearly always an idle store has nothing to add, and one statement sees that.
    if first(tx.one_alone(Query::new(sql::TALLY_LOOK, Vec::new())).await?, Row::bool)? != Some(true) {
        return Ok(0);
    }
    let mut gone = Vec::new();
    let mut sums: BTreeMap<i64, [i64; 7]> = BTreeMap::new();
    for mut row in tx.one(Query::new(sql::TALLY_LOCK, vec![Value::count(limit)])).await? {
        gone.push(row.int()?);
        for sum in sums.entry(row.int()?).or_default() {
            *sum += row.int()?;
        }
    }
    let folded = gone.len();
    let counts = |(lane, sums): (i64, [i64; 7])| {
        Query::new(sql::LANE_COUNT, sums.into_iter().chain([lane]).map(Value::int).collect())
    };
    let mut last: Vec<Query> = sums.into_iter().map(counts).collect();
    let gone = Columns::of(Value::ints(gone));
    last.extend(queries(&[StatementShape::Rows(sql::TALLY_DELETE)], Params::Rows(gone)));
    tx.commit(last.into_iter().map(Request::from).collect()).await?;
    Ok(folded)
}
