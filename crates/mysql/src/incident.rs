//! Incidents: counted with every failure, spoken of by people, told when they open or come back (D2, D7).

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use backstop_core::event::Event;
use backstop_core::failure::Fingerprint;
use backstop_core::incident::{IncidentState, IncidentUpdate, Standing};
use backstop_core::{Timestamp, tenant};
use backstop_store::desk::{Aftermath, IncidentCount, Seen, Writes};
use backstop_store::{Duty, Finish, Incident, IncidentFilter, Term};
use backstop_store::{retire, show};

use crate::duty;
use crate::error::Failure;
use crate::rows;
use crate::session::{Query, Session};
use crate::sql;
use crate::unit::Unit;
use crate::values::{Row, Value};

/// Adds the statements that count failures and open dead letters. Whoever fails alike waits for the rows of these from
/// here to the commit, so they come last.
pub(crate) fn write(out: &mut Vec<Query>, writes: &Writes, now: Timestamp) {
    let change = |fingerprint: &str| writes.open.get(fingerprint).copied().unwrap_or_default();
    let counts = writes.incidents.iter();
    let counted: BTreeSet<&str> = counts.clone().map(|count| count.fingerprint.as_str()).collect();
    let values =
        counts.map(|count| rows::incident_values(count, change(count.fingerprint.as_str()), now)).collect();
    sql::incident::COUNT.add(out, values);
    let others = writes.open.iter().filter(|(fingerprint, _)| !counted.contains(fingerprint.as_str()));
    out.extend(others.map(|(fingerprint, change)| {
        Query::new(sql::incident::OPEN, vec![Value::int(*change), Value::text(fingerprint)])
    }));
}

/// Asks what people have said of the incidents that these endings count; none when they count none.
pub(crate) fn ask(endings: &[Finish]) -> Option<Query> {
    let counted: BTreeSet<&str> =
        endings.iter().filter_map(|finish| Some(finish.ending.incident()?.fingerprint.as_str())).collect();
    let asked = || Query::listed(sql::incident::STANDINGS, vec![Value::texts(&counted)]);
    (!counted.is_empty()).then(asked)
}

/// True when one of them is said to be fixed: only then can a failure of it be a regression (D7).
pub(crate) fn is_any_fixed(rows: Vec<Row>) -> Result<bool, Failure> {
    let mut fixed = false;
    for mut row in rows {
        fixed |= Standing::from_text(&row.text()?)?.state == IncidentState::Fixed;
    }
    Ok(fixed)
}

/// Adds the questions for what the sums are once these failures are counted.
pub(crate) fn look(out: &mut Vec<Query>, counts: &[IncidentCount]) {
    let asked = counts.iter().map(|count| vec![Value::text(&count.fingerprint)]);
    sql::incident::SEEN.add(out, asked.collect());
}

/// Reads what [`look`] asked for.
fn seen(answers: Vec<Vec<Row>>) -> Result<Vec<Seen>, Failure> {
    let read = |mut row: Row| {
        Ok(Seen { fingerprint: row.text()?, failures: row.int()?, standing: row.maybe_text()? })
    };
    answers.into_iter().flatten().map(read).collect()
}

/// What there is to tell of incidents of which none is fixed.
pub(crate) fn opened(
    counts: &[IncidentCount],
    answers: Vec<Vec<Row>>,
    now: Timestamp,
) -> Result<Vec<Event>, Failure> {
    let mut seen = seen(answers)?;
    // Whoever has said something since we asked said it after these failures.
    seen.iter_mut().for_each(|seen| seen.standing = None);
    Ok(Aftermath::of(counts, seen, now)?.events)
}

/// What came of statements that counted failures.
pub(crate) struct Settled {
    /// The rows of the statements.
    pub(crate) answers: Vec<Vec<Row>>,
    /// What is still to be written.
    pub(crate) standings: Vec<Query>,
    /// What to tell after everything else of the commit.
    pub(crate) events: Vec<Event>,
}

/// Runs statements that count these failures, and judges what the sums are then.
pub(crate) async fn settle(
    session: &mut impl Session,
    queries: Vec<Query>,
    counts: &[IncidentCount],
    now: Timestamp,
) -> Result<Settled, Failure> {
    let (own, mut batch) = (queries.len(), queries);
    look(&mut batch, counts);
    let mut answers = session.run(batch).await?;
    let Aftermath { standings, events } = Aftermath::of(counts, seen(answers.split_off(own))?, now)?;
    let standings = standings.iter().map(|(fingerprint, text)| stand(fingerprint, Some(text))).collect();
    Ok(Settled { answers, standings, events })
}

fn stand(fingerprint: &str, standing: Option<&String>) -> Query {
    Query::new(sql::incident::STANDING, vec![Value::maybe_text(standing), Value::text(fingerprint)])
}

/// Incidents, latest seen first.
pub(crate) async fn incidents(
    unit: &mut Unit,
    filter: &IncidentFilter,
    limit: usize,
) -> Result<Vec<Incident>, Failure> {
    show::page_limit(limit)?;
    let state = || Value::maybe_text(filter.standing_like());
    let prefix = filter.tenant.as_deref().map(tenant::incident_prefix);
    let prefix = || Value::maybe_text(prefix.as_deref());
    let open = Value::int(i64::from(filter.open));
    let after = filter.after.as_ref();
    let seen = || Value::maybe_at(after.map(|(at, _)| *at));
    let closed = Value::int(i64::from(filter.closed));
    let mut params =
        vec![state(), state(), open, closed, prefix(), prefix(), prefix(), seen(), seen(), seen()];
    params.extend([Value::maybe_text(after.map(|(_, print)| print.as_str())), Value::count(limit)]);
    let rows = unit.one(Query::new(sql::incident::LATEST, params)).await?;
    rows.into_iter().map(rows::incident).collect()
}

/// Incidents by fingerprint, in order.
pub(crate) async fn incidents_of(
    unit: &mut Unit,
    fingerprints: &[Fingerprint],
) -> Result<Vec<Option<Incident>>, Failure> {
    let found = find(unit, sql::incident::BY_FINGERPRINT, fingerprints).await?;
    Ok(fingerprints.iter().map(|fingerprint| found.get(fingerprint).cloned()).collect())
}

async fn find(
    unit: &mut Unit,
    question: &'static str,
    fingerprints: &[Fingerprint],
) -> Result<HashMap<Fingerprint, Incident>, Failure> {
    let rows = unit.one(Query::listed(question, vec![Value::texts(fingerprints)])).await?;
    let read = |row| rows::incident(row).map(|incident| (incident.fingerprint.clone(), incident));
    rows.into_iter().map(read).collect()
}

/// Keeps what a person says of incidents, and answers them as they are now.
pub(crate) async fn say(
    unit: &mut Unit,
    fingerprints: &[Fingerprint],
    statement: &IncidentUpdate,
) -> Result<Vec<Option<Incident>>, Failure> {
    let now = unit.now().await?;
    let mut found = find(unit, sql::incident::LOCK, fingerprints).await?;
    let mut saved = Vec::with_capacity(found.len());
    for incident in found.values_mut() {
        incident.standing.say(statement, now);
        saved.push(stand(incident.fingerprint.as_str(), incident.standing.to_text().as_ref()));
    }
    unit.commit(saved).await?;
    Ok(fingerprints.iter().map(|fingerprint| found.get(fingerprint).cloned()).collect())
}

/// Removes those of these incidents that nobody needs any more.
pub(crate) async fn retire(
    unit: &mut Unit,
    term: &Term,
    fingerprints: &[Fingerprint],
    keep: Duration,
) -> Result<usize, Failure> {
    let now = duty::lead_on(unit, term, Duty::Prune).await?;
    let cutoff = retire::cutoff(keep, now).filter(|_| !fingerprints.is_empty());
    let Some(cutoff) = cutoff else { return unit.commit(Vec::new()).await.map(|_| 0) };
    let found = find(unit, sql::incident::LOCK, fingerprints).await?;
    let mut outworn: Vec<Fingerprint> =
        found.into_values().filter(|it| it.is_outworn(cutoff)).map(|it| it.fingerprint).collect();
    outworn.sort_unstable();
    let removal = || Query::listed(sql::incident::DELETE, vec![Value::texts(&outworn)]);
    unit.commit(if outworn.is_empty() { Vec::new() } else { vec![removal()] }).await?;
    Ok(outworn.len())
}
