//! Incidents: counted with every failure, spoken of by people, told when they open or come back (D2, D7).

use std::collections::HashMap;
use std::time::Duration;

use backstop_core::failure::Fingerprint;
use backstop_core::incident::IncidentUpdate;
use backstop_core::{Timestamp, tenant};
use backstop_store::desk::{Aftermath, Seen, Writes};
use backstop_store::{Duty, Incident, IncidentFilter, Term};
use backstop_store::{retire, show};

use crate::columns::Columns;
use crate::duty;
use crate::error::Failure;
use crate::flush::add;
use crate::rows;
use crate::session::{Query, Session};
use crate::sql::incident as sql;
use crate::unit::Unit;
use crate::values::{Row, Value};

/// The statement that counts failures, with the dead letters they left; its rows go to [`judge`].
pub(crate) fn count(writes: &Writes, now: Timestamp) -> Query {
    let mut columns = Columns::default();
    for count in &writes.incidents {
        let open = writes.open.get(count.fingerprint.as_str()).copied().unwrap_or_default();
        columns.push(&[
            Value::text(&count.fingerprint),
            Value::text(&count.kind),
            Value::text(&count.error_type),
            Value::text(&count.message),
            Value::Int(Some(count.failures)),
            Value::Int(Some(count.dead)),
            Value::Int(Some(open.max(0))),
            Value::maybe_text(count.first_version.as_deref()),
            Value::maybe_text(count.last_version.as_deref()),
            Value::job(count.sample_job),
        ]);
    }
    let mut params = columns.into_params();
    params.push(Value::at(now));
    Query::new(sql::COUNT, params)
}

/// Adds the statement for dead letters that came or went and that [`count`] does not tell of.
pub(crate) fn write_open(out: &mut Vec<Query>, writes: &Writes) {
    let counted = |fingerprint: &str| {
        writes.incidents.binary_search_by(|count| count.fingerprint.as_str().cmp(fingerprint)).is_ok()
    };
    let rest = writes.open.iter().filter(|(fingerprint, change)| **change < 0 || !counted(fingerprint));
    let rest = rest.map(|(fingerprint, change)| vec![Value::text(fingerprint), Value::Int(Some(*change))]);
    add(out, sql::OPEN, rest.collect());
}

/// What follows from the sums that the statement of [`count`] answered: statements, and what to tell at the end.
pub(crate) fn judge(
    writes: &Writes,
    sums: Vec<Row>,
    now: Timestamp,
) -> Result<(Vec<Query>, Aftermath), Failure> {
    let read = |mut row: Row| {
        Ok(Seen { fingerprint: row.text()?, failures: row.int()?, standing: row.maybe_text()? })
    };
    let seen = sums.into_iter().map(read).collect::<Result<Vec<_>, Failure>>()?;
    let aftermath = Aftermath::of(&writes.incidents, seen, now)?;
    let standings = aftermath.standings.iter();
    let standings = standings.map(|(fingerprint, text)| vec![Value::text(fingerprint), Value::text(text)]);
    let mut queries = Vec::new();
    add(&mut queries, sql::STANDINGS, standings.collect());
    Ok((queries, aftermath))
}

/// Incidents, latest seen first.
pub(crate) async fn incidents(
    unit: &mut Unit,
    filter: &IncidentFilter,
    limit: usize,
) -> Result<Vec<Incident>, Failure> {
    show::page_limit(limit)?;
    let params = vec![
        Value::count(limit),
        Value::Text(filter.standing_like()),
        Value::Int(Some(filter.open.into())),
        Value::Text(filter.tenant.as_deref().map(tenant::incident_prefix)),
        Value::Int(filter.after.as_ref().map(|(at, _)| at.as_micros())),
        Value::Text(filter.after.as_ref().map(|(_, fingerprint)| fingerprint.to_string())),
        Value::Int(Some(filter.closed.into())),
    ];
    let rows = unit.one(Query::new(sql::LATEST, params)).await?;
    rows.into_iter().map(rows::incident).collect()
}

/// Incidents by fingerprint, in order.
pub(crate) async fn incidents_of(
    unit: &mut Unit,
    fingerprints: &[Fingerprint],
) -> Result<Vec<Option<Incident>>, Failure> {
    let rows = unit.one(Query::new(sql::BY_FINGERPRINT, vec![Value::texts(fingerprints)])).await?;
    Ok(in_order(read(rows)?, fingerprints))
}

/// Keeps what a person says of incidents, and answers them as they are then.
pub(crate) async fn say(
    unit: &mut Unit,
    fingerprints: &[Fingerprint],
    statement: &IncidentUpdate,
) -> Result<Vec<Option<Incident>>, Failure> {
    let lock = Query::new(sql::LOCK, vec![Value::texts(fingerprints)]);
    let clock = unit.clock();
    let mut answers = unit.run(vec![lock, clock]).await?;
    let now = crate::shared::moment_of(answers.pop().unwrap_or_default())?;
    let mut found = read(answers.pop().unwrap_or_default())?;
    let mut standings = Vec::new();
    for incident in &mut found {
        incident.standing.say(statement, now);
        let text = Value::maybe_text(incident.standing.to_text());
        standings.push(vec![Value::text(&incident.fingerprint), text]);
    }
    let mut queries = Vec::new();
    add(&mut queries, sql::STANDINGS, standings);
    unit.commit(queries).await?;
    Ok(in_order(found, fingerprints))
}

/// Removes those of these incidents that nobody needs any more.
pub(crate) async fn retire(
    unit: &mut Unit,
    term: &Term,
    fingerprints: &[Fingerprint],
    keep: Duration,
) -> Result<usize, Failure> {
    let now = duty::lead_on(unit, term, Duty::Prune).await?;
    let Some(cutoff) = retire::cutoff(keep, now) else { return Ok(0) };
    let found = read(unit.one(Query::new(sql::LOCK, vec![Value::texts(fingerprints)])).await?)?;
    let outworn: Vec<Fingerprint> =
        found.into_iter().filter(|it| it.is_outworn(cutoff)).map(|it| it.fingerprint).collect();
    let queries = vec![Query::new(sql::DELETE, vec![Value::texts(&outworn)])];
    unit.commit(if outworn.is_empty() { Vec::new() } else { queries }).await?;
    Ok(outworn.len())
}

fn read(rows: Vec<Row>) -> Result<Vec<Incident>, Failure> {
    rows.into_iter().map(rows::incident).collect()
}

fn in_order(found: Vec<Incident>, fingerprints: &[Fingerprint]) -> Vec<Option<Incident>> {
    let found: HashMap<Fingerprint, Incident> =
        found.into_iter().map(|incident| (incident.fingerprint.clone(), incident)).collect();
    fingerprints.iter().map(|fingerprint| found.get(fingerprint).cloned()).collect()
}
