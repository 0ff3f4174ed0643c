//! Runs that end well and leave nothing else behind than that they ended, in one statement: `backstop.end_runs`
//! compares the claims with what is remembered of them, and writes what the rules have made of it.

use backstop_core::Timestamp;
use backstop_core::event::Event;
use backstop_core::job::{Attempt, Stale, State};
use backstop_sql::plain_ends::PlainEnds;
use backstop_sql::row::first;
use backstop_sql::{Query, SqlFailure, Transaction, Value};
use backstop_store::working_set::{ClaimRow, Done};
use backstop_store::{Drawer, Finish};

use crate::sql;
use crate::state::ServerState;

/// Ends runs; none when they are to end in the ordinary way, and nothing was written.
pub(crate) async fn finish(
    tx: &mut Transaction,
    state: &ServerState,
    endings: &[Finish],
) -> Result<Option<Vec<Result<State, Stale>>>, SqlFailure> {
    let shared = tx.shared.clone();
    let Some(ends) = (!state.long_way).then(|| PlainEnds::of(&shared, endings)).flatten() else {
        return Ok(None);
    };
    let Some(query) = query(shared.moment(), &ends) else { return Ok(None) };
    // Whoever changed these jobs before our statement has changed or locked their claims, and then nothing is written;
    // whoever changes them after it draws after us.
    let heard = !ends.events.is_empty();
    let turn = tx.draw_turn(endings.iter().filter(|_| heard).map(|finish| finish.lease.job));
    let told = first(tx.one_alone(query).await?, |row| Ok((row.bool()?, row.moment()?)))?;
    let Some((true, now)) = told else { return Ok(None) };
    let answers = ends.written(&shared, endings);
    if heard {
        tx.tell_of(turn, ends.events.into_iter().map(|event| Event { at: now, ..event }).collect());
    }
    Ok(Some(answers))
}

/// The statement; none when the runs are of different versions of the code.
fn query(moment: Value, ends: &PlainEnds) -> Option<Query> {
    let runs: Vec<(&Done, &Attempt)> =
        ends.done.iter().map(|(done, _)| Some((done, done.run.as_ref()?))).collect::<Option<_>>()?;
    let (_, first) = runs.first()?;
    if runs.iter().any(|(_, run)| run.code_version != first.code_version) {
        return None;
    }
    let place = |run: &Attempt| ends.claims.iter().position(|claim| claim.fence == run.fence);
    let places = runs.iter().map(|(_, run)| i64::try_from(place(run)? + 1).ok());
    let slots = |claim: &ClaimRow| if claim.is_spent() { Vec::new() } else { claim.encode_slots() };
    let params = vec![
        moment,
        Value::ints(ends.claims.iter().map(|claim| claim.fence.0)),
        Value::workers(ends.claims.iter().map(|claim| &claim.worker)),
        Value::ints(ends.claims.iter().map(|claim| claim.edits.into())),
        Value::Blobs(ends.claims.iter().map(slots).collect()),
        Value::maybe_text(first.code_version.as_deref()),
        Value::ints(places.collect::<Option<Vec<i64>>>()?),
        Value::jobs(runs.iter().map(|(done, _)| &done.id)),
        Value::ints(ends.done.iter().map(|(_, lane)| *lane)),
        Value::ints(runs.iter().map(|(done, _)| done.record.run_at.as_micros())),
        Value::Ints(sparse(runs.iter().map(|(done, _)| done.record.expires_at.map(Timestamp::as_micros)))),
        Value::ints(runs.iter().map(|(_, run)| run.started_at.as_micros())),
        Value::Texts(sparse(runs.iter().map(|(_, run)| run.result.as_deref().map(str::to_owned)))),
        Value::Texts(sparse(runs.iter().map(|(_, run)| run.warning.clone()))),
        Value::Texts(sparse(runs.iter().map(|(_, run)| run.output.clone()))),
        Value::jobs(&ends.records_out),
        Value::text(Drawer::WorkflowEnds.as_str()),
        Value::texts(ends.noted.iter().map(|noted| noted.before.as_str())),
        Value::texts(ends.noted.iter().map(|noted| noted.behind.as_str())),
        Value::texts(ends.noted.iter().map(|noted| noted.body.as_str())),
    ];
    Some(Query::new(sql::END, params))
}

/// The values of a column; none at all where no row has one.
fn sparse<T>(values: impl Iterator<Item = Option<T>>) -> Vec<Option<T>> {
    let values: Vec<Option<T>> = values.collect();
    if values.iter().any(Option::is_some) { values } else { Vec::new() }
}
