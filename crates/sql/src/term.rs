//! The terms of leaders, as they are checked by whoever writes under one (L17).

use backstop_core::{Timestamp, WorkerId};
use backstop_store::{Duty, Error, Term};

use crate::failure::SqlFailure;
use crate::row::{Row, moment_of};
use crate::session::Session as _;
use crate::statement::{Request, Statement};
use crate::transaction::Transaction;
use crate::value::Value;

/// True when `term` is for `duty` and as it is stored: number, node and end.
fn is_current(term: &Term, duty: Duty, stored: (i64, WorkerId, Timestamp), now: Timestamp) -> bool {
    let (number, node, expires_at) = stored;
    term.duty == duty && number == term.number && node == term.node && expires_at > now
}

/// Reads the current term of a duty, and keeps it from passing on until the commit.
pub(crate) fn ask(term: &Term) -> Request {
    Statement::ShareTerm.with(vec![Value::text(term.duty.as_str())])
}

/// Refuses a leader whose term was taken over, has run out, or was for another duty.
pub(crate) fn expect(term: &Term, duty: Duty, rows: Vec<Row>, now: Timestamp) -> Result<(), SqlFailure> {
    let mut leads = false;
    for mut row in rows {
        leads = is_current(term, duty, (row.int()?, row.worker()?, row.moment()?), now);
    }
    if leads { Ok(()) } else { Err(Error::Deposed { duty: term.duty }.into()) }
}

/// Makes sure that `term` is the current one of `duty` and stays so until the commit; answers the moment.
pub(crate) async fn lead_on(tx: &mut Transaction, term: &Term, duty: Duty) -> Result<Timestamp, SqlFailure> {
    let requests = vec![tx.clock(), ask(term)];
    let mut answers = tx.ask_all(requests).await?;
    let current = answers.pop().unwrap_or_default();
    let now = moment_of(answers.pop().unwrap_or_default())?;
    expect(term, duty, current, now)?;
    Ok(now)
}
