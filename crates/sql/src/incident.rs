//! Incidents as people see and judge them (D2, D7). How they are counted is the business of
//! [`counting`](crate::counting).

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use backstop_core::failure::Fingerprint;
use backstop_core::incident::IncidentUpdate;
use backstop_core::tenant;
use backstop_store::{Duty, Incident, IncidentFilter, Term, retire, show};

use crate::columns::Columns;
use crate::decode;
use crate::failure::SqlFailure;
use crate::session::Session as _;
use crate::statement::Statement;
use crate::term::lead_on;
use crate::transaction::Transaction;
use crate::value::Value;

/// Incidents, latest seen first.
pub(crate) async fn incidents(
    tx: &mut Transaction,
    filter: &IncidentFilter,
    limit: usize,
) -> Result<Vec<Incident>, SqlFailure> {
    show::page_limit(limit)?;
    let after = filter.after.as_ref();
    let request = Statement::Incidents.with(vec![
        Value::count(limit),
        Value::Text(filter.standing_like()),
        Value::int(filter.open),
        Value::Text(filter.tenant.as_deref().map(tenant::incident_prefix)),
        Value::maybe_at(after.map(|(at, _)| *at)),
        Value::maybe_text(after.map(|(_, fingerprint)| fingerprint.as_str())),
        Value::int(filter.closed),
    ]);
    tx.ask(request).await?.into_iter().map(decode::incident).collect()
}

/// Incidents by fingerprint, in order.
pub(crate) async fn incidents_of(
    tx: &mut Transaction,
    fingerprints: &[Fingerprint],
) -> Result<Vec<Option<Incident>>, SqlFailure> {
    let found = find(tx, Statement::IncidentsByFingerprint, fingerprints).await?;
    Ok(fingerprints.iter().map(|fingerprint| found.get(fingerprint).cloned()).collect())
}

async fn find(
    tx: &mut Transaction,
    statement: Statement,
    fingerprints: &[Fingerprint],
) -> Result<HashMap<Fingerprint, Incident>, SqlFailure> {
    let names: BTreeSet<&str> = fingerprints.iter().map(Fingerprint::as_str).collect();
    let rows = tx.ask(statement.each(Value::texts(names))).await?;
    let read = |row| decode::incident(row).map(|incident| (incident.fingerprint.clone(), incident));
    rows.into_iter().map(read).collect()
}

/// Keeps what a person says of incidents, and answers them as they are then.
pub(crate) async fn say(
    tx: &mut Transaction,
    fingerprints: &[Fingerprint],
    said: &IncidentUpdate,
) -> Result<Vec<Option<Incident>>, SqlFailure> {
    let now = tx.now().await?;
    let mut found = find(tx, Statement::LockIncidents, fingerprints).await?;
    let mut standings = Columns::default();
    for incident in found.values_mut() {
        incident.standing.say(said, now);
        let standing = incident.standing.to_text();
        standings.row().text(incident.fingerprint.as_str()).maybe_text(standing.as_deref());
    }
    tx.commit(vec![Statement::SaveStandings.rows(standings)]).await?;
    Ok(fingerprints.iter().map(|fingerprint| found.get(fingerprint).cloned()).collect())
}

/// Removes those of these incidents that are no longer needed.
pub(crate) async fn retire(
    tx: &mut Transaction,
    term: &Term,
    fingerprints: &[Fingerprint],
    keep: Duration,
) -> Result<usize, SqlFailure> {
    let now = lead_on(tx, term, Duty::Prune).await?;
    let Some(cutoff) = retire::cutoff(keep, now) else { return tx.commit(Vec::new()).await.map(|_| 0) };
    let found = find(tx, Statement::LockIncidents, fingerprints).await?;
    let outworn = found.into_values().filter(|it| it.is_outworn(cutoff)).map(|it| it.fingerprint);
    let outworn: BTreeSet<Fingerprint> = outworn.collect();
    let names = Value::texts(outworn.iter().map(Fingerprint::as_str));
    tx.commit(vec![Statement::DeleteIncidents.each(names)]).await?;
    Ok(outworn.len())
}
