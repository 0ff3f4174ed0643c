//! Incidents as people read them and judge them (D2, D7), and how they are removed.

use std::time::Duration;

use backstop_core::failure::Fingerprint;
use backstop_core::incident::IncidentUpdate;
use backstop_core::tenant;
use backstop_store::{Duty, Incident, IncidentFilter, Term, retire, show};
use rusqlite::{Connection, params};

use crate::duty::expect_term;
use crate::error::SqliteFailure;
use crate::rows;
use crate::sql;
use crate::transaction::WriteTransaction;

/// Incidents, latest seen first.
pub(crate) fn incidents(
    conn: &Connection,
    filter: &IncidentFilter,
    limit: usize,
) -> Result<Vec<Incident>, SqliteFailure> {
    show::page_limit(limit)?;
    let state = filter.standing_like();
    let prefix = filter.tenant.as_deref().map(tenant::incident_prefix);
    let (seen, fingerprint) =
        filter.after.as_ref().map(|(at, print)| (at.as_micros(), print.as_str())).unzip();
    let params = params![rows::limit(limit), state, filter.open, prefix, seen, fingerprint, filter.closed];
    rows::collect(&mut *conn.prepare_cached(sql::INCIDENTS)?, params, rows::incident)
}

/// Incidents by fingerprint, in order.
pub(crate) fn incidents_of(
    conn: &Connection,
    fingerprints: &[Fingerprint],
) -> Result<Vec<Option<Incident>>, SqliteFailure> {
    fingerprints.iter().map(|fingerprint| find(conn, fingerprint)).collect()
}

fn find(conn: &Connection, fingerprint: &Fingerprint) -> Result<Option<Incident>, SqliteFailure> {
    rows::first(&mut *conn.prepare_cached(sql::INCIDENT)?, [fingerprint.as_str()], rows::incident)
}

/// Removes those of these incidents that are no longer needed.
pub(crate) fn retire(
    tx: &mut WriteTransaction<'_>,
    term: &Term,
    fingerprints: &[Fingerprint],
    keep: Duration,
) -> Result<usize, SqliteFailure> {
    expect_term(tx, term, Duty::Prune)?;
    // The numbers of open dead letters are about to be read.
    tx.flush()?;
    let Some(cutoff) = retire::cutoff(keep, tx.now) else { return Ok(0) };
    let mut retired = 0;
    for fingerprint in fingerprints {
        if find(tx.conn, fingerprint)?.is_some_and(|incident| incident.is_outworn(cutoff)) {
            retired += tx.conn.prepare_cached(sql::INCIDENT_DELETE)?.execute([fingerprint.as_str()])?;
        }
    }
    Ok(retired)
}

/// Stores what a person says of incidents, and answers the incidents as they are now.
pub(crate) fn say(
    tx: &mut WriteTransaction<'_>,
    fingerprints: &[Fingerprint],
    statement: &IncidentUpdate,
) -> Result<Vec<Option<Incident>>, SqliteFailure> {
    // The numbers of open dead letters are about to be read.
    tx.flush()?;
    for fingerprint in fingerprints {
        let Some(mut incident) = find(tx.conn, fingerprint)? else { continue };
        incident.standing.say(statement, tx.now);
        let values = params![fingerprint.as_str(), incident.standing.to_text()];
        tx.conn.prepare_cached(sql::INCIDENT_STAND)?.execute(values)?;
    }
    incidents_of(tx.conn, fingerprints)
}
