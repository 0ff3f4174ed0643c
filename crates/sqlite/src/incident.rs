//! Incidents: counted with every failure, spoken of by people, told when they open or come back (D2, D7).

use std::collections::BTreeMap;
use std::time::Duration;

use backstop_core::event::Event;
use backstop_core::failure::Fingerprint;
use backstop_core::incident::IncidentUpdate;
use backstop_core::job::Ending;
use backstop_core::{JobId, Timestamp, tenant};
use backstop_store::working_set::{Aftermath, IncidentCount, Seen};
use backstop_store::{Duty, Incident, IncidentFilter, Term};
use backstop_store::{retire, show};
use rusqlite::{Connection, params};

use crate::duty::expect_term;
use crate::error::Failure;
use crate::rows;
use crate::sql;
use crate::unit::Unit;

/// What a transaction adds to incidents and has not yet written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    /// Failures of the verb that runs now, by fingerprint.
    counts: BTreeMap<String, IncidentCount>,
    /// How the numbers of open dead letters change, by fingerprint.
    open: BTreeMap<String, i64>,
}

impl Tally {
    /// Notes that a job's mark moved from one incident to another; none stands for no dead letter.
    pub(crate) fn moved(&mut self, from: Option<&Fingerprint>, to: Option<&Fingerprint>) {
        if from == to {
            return;
        }
        for (fingerprint, change) in [(from, -1), (to, 1)] {
            if let Some(fingerprint) = fingerprint {
                *self.open.entry(fingerprint.to_string()).or_default() += change;
            }
        }
    }

    /// Notes the failure of a run.
    pub(crate) fn count(&mut self, job: JobId, kind: &str, ending: &Ending) {
        IncidentCount::add(&mut self.counts, job, kind, ending);
    }

    /// Writes the failures that a verb has counted, and answers what is to be told of them.
    pub(crate) fn settle(&mut self, conn: &Connection, now: Timestamp) -> Result<Vec<Event>, Failure> {
        if self.counts.is_empty() {
            return Ok(Vec::new());
        }
        let counts: Vec<IncidentCount> = std::mem::take(&mut self.counts).into_values().collect();
        let mut seen = Vec::with_capacity(counts.len());
        for count in &counts {
            let open = self.open.remove(count.fingerprint.as_str()).unwrap_or_default();
            seen.extend(write_count(conn, count, open, now)?);
        }
        let aftermath = Aftermath::of(&counts, seen, now)?;
        for (fingerprint, standing) in &aftermath.standings {
            conn.prepare_cached(sql::INCIDENT_STAND)?.execute([fingerprint, standing])?;
        }
        Ok(aftermath.events)
    }

    /// Writes how the numbers of open dead letters changed otherwise.
    pub(crate) fn write_open(&mut self, conn: &Connection) -> Result<(), Failure> {
        while let Some((fingerprint, change)) = self.open.pop_first() {
            if change != 0 {
                conn.prepare_cached(sql::INCIDENT_OPEN)?.execute(params![fingerprint, change])?;
            }
        }
        Ok(())
    }
}

/// Adds to an incident, and reads what there is of it by now.
fn write_count(
    conn: &Connection,
    count: &IncidentCount,
    open: i64,
    now: Timestamp,
) -> Result<Option<Seen>, Failure> {
    let values = params![
        count.fingerprint.as_str(),
        count.kind,
        count.error_type,
        count.message,
        count.failures,
        count.dead,
        open,
        now.as_micros(),
        count.first_version,
        count.last_version,
        count.sample_job.as_bytes(),
    ];
    rows::first(&mut *conn.prepare_cached(sql::INCIDENT_COUNT)?, values, |row| {
        Ok(Seen { fingerprint: count.fingerprint.to_string(), failures: row.get(0)?, standing: row.get(1)? })
    })
}

/// Incidents, latest seen first.
pub(crate) fn incidents(
    conn: &Connection,
    filter: &IncidentFilter,
    limit: usize,
) -> Result<Vec<Incident>, Failure> {
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
) -> Result<Vec<Option<Incident>>, Failure> {
    fingerprints.iter().map(|fingerprint| find(conn, fingerprint)).collect()
}

fn find(conn: &Connection, fingerprint: &Fingerprint) -> Result<Option<Incident>, Failure> {
    rows::first(&mut *conn.prepare_cached(sql::INCIDENT)?, [fingerprint.as_str()], rows::incident)
}

/// Removes those of these incidents that nobody needs any more.
pub(crate) fn retire(
    unit: &mut Unit<'_>,
    term: &Term,
    fingerprints: &[Fingerprint],
    keep: Duration,
) -> Result<usize, Failure> {
    expect_term(unit, term, Duty::Prune)?;
    // The numbers of open dead letters are about to be read.
    unit.flush()?;
    let Some(cutoff) = retire::cutoff(keep, unit.now) else { return Ok(0) };
    let mut retired = 0;
    for fingerprint in fingerprints {
        if find(unit.conn, fingerprint)?.is_some_and(|incident| incident.is_outworn(cutoff)) {
            retired += unit.conn.prepare_cached(sql::INCIDENT_DELETE)?.execute([fingerprint.as_str()])?;
        }
    }
    Ok(retired)
}

/// Keeps what a person says of incidents, and answers them as they are now.
pub(crate) fn say(
    unit: &mut Unit<'_>,
    fingerprints: &[Fingerprint],
    statement: &IncidentUpdate,
) -> Result<Vec<Option<Incident>>, Failure> {
    // The numbers of open dead letters are about to be read.
    unit.flush()?;
    for fingerprint in fingerprints {
        let Some(mut incident) = find(unit.conn, fingerprint)? else { continue };
        incident.standing.say(statement, unit.now);
        let values = params![fingerprint.as_str(), incident.standing.to_text()];
        unit.conn.prepare_cached(sql::INCIDENT_STAND)?.execute(values)?;
    }
    incidents_of(unit.conn, fingerprints)
}
