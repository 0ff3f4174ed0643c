//! Runs that end well and leave nothing else behind, in one statement: `backstop.end_runs` compares the claims with
//! what is remembered of them, and writes what the rules have made of it.

use backstop_core::Timestamp;
use backstop_core::job::{Attempt, Stale, State};
use backstop_sql::plain_ends::PlainEnds;
use backstop_sql::row::first;
use backstop_sql::{Query, Row, SqlFailure, Transaction, Value};
use backstop_store::Finish;
use backstop_store::working_set::{ClaimRow, Done};

use crate::sql;
use crate::state::ServerState;

/// Ends runs; none when they are to end in the ordinary way, and nothing was written.
pub(crate) async fn finish(
    tx: &mut Transaction,
    state: &ServerState,
    endings: &[Finish],
) -> Result<Option<Vec<Result<State, Stale>>>, SqlFailure> {
    let shared = tx.shared.clone();
    let Some(ends) = PlainEnds::of(&shared, endings, state.short_claims) else { return Ok(None) };
    let Some(query) = query(shared.moment(), &ends) else { return Ok(None) };
    let wrote = first(tx.one_alone(query).await?, Row::bool)?.unwrap_or_default();
    if !wrote {
        return Ok(None);
    }
    let answers = ends.written(&shared, endings);
    if !ends.events.is_empty() {
        tx.tell_of(ends.events);
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
    ];
    Some(Query::new(sql::END, params))
}

/// The values of a column; none at all where no row has one.
fn sparse<T>(values: impl Iterator<Item = Option<T>>) -> Vec<Option<T>> {
    let values: Vec<Option<T>> = values.collect();
    if values.iter().any(Option::is_some) { values } else { Vec::new() }
}
