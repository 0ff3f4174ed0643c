//! Counting failures into incidents, and what follows from the sums: news of those that open or come back (D2, D7).

use std::collections::BTreeSet;

use backstop_core::Timestamp;
use backstop_core::event::Event;
use backstop_core::incident::{IncidentState, Standing};
use backstop_store::Finish;
use backstop_store::working_set::{Aftermath, IncidentCount, Seen, Writes};

use crate::columns::Columns;
use crate::encode;
use crate::failure::SqlFailure;
use crate::row::Row;
use crate::session::Session;
use crate::statement::{Request, Statement};
use crate::value::Value;

/// Adds the requests that count failures and open dead letters. Whoever fails alike waits for the rows of these from
/// here to the commit, so they come last.
pub(crate) fn write(out: &mut Vec<Request>, writes: &Writes, now: Timestamp) {
    let counted = |fingerprint: &str| {
        writes.incidents.binary_search_by(|count| count.fingerprint.as_str().cmp(fingerprint)).is_ok()
    };
    // Dead letters that came or went and that no count tells of.
    let mut open = Columns::default();
    for (fingerprint, change) in &writes.open {
        if *change < 0 || !counted(fingerprint) {
            open.row().text(fingerprint).int(*change);
        }
    }
    if open.rows() > 0 {
        out.push(Statement::ChangeOpen.rows(open));
    }
    let mut counts = Columns::default();
    for count in &writes.incidents {
        let open = writes.open.get(count.fingerprint.as_str()).copied().unwrap_or_default();
        encode::incident(&mut counts.row(), count, open.max(0), now);
    }
    if counts.rows() > 0 {
        out.push(Statement::CountIncidents.rows(counts));
    }
}

/// Asks what people have said of the incidents that these endings count.
pub(crate) fn ask(endings: &[Finish]) -> Request {
    let counted = endings.iter().filter_map(|finish| Some(finish.ending.incident()?.fingerprint.as_str()));
    let counted: BTreeSet<&str> = counted.collect();
    Statement::Standings.each(Value::texts(counted))
}

/// True when one of them is said to be fixed: only then can a failure of it be a regression (D7).
pub(crate) fn is_any_fixed(rows: Vec<Row>) -> Result<bool, SqlFailure> {
    let mut fixed = false;
    for mut row in rows {
        let text = row.text_if_any()?;
        fixed |= text.is_some_and(|text| Standing::from_text(&text).state == IncidentState::Fixed);
    }
    Ok(fixed)
}

/// Asks what the sums are once these failures are counted.
pub(crate) fn sums(counts: &[IncidentCount]) -> Request {
    Statement::Sums.each(Value::texts(counts.iter().map(|count| count.fingerprint.as_str())))
}

/// Takes what [`sums`] has answered, or else the request before it, which counted them.
fn seen(answers: &mut Vec<Vec<Row>>) -> Result<Vec<Seen>, SqlFailure> {
    let (sums, counted) = (answers.pop().unwrap_or_default(), answers.pop().unwrap_or_default());
    let read = |mut row: Row| {
        Ok(Seen { fingerprint: row.text()?, failures: row.int()?, standing: row.text_if_any()? })
    };
    counted.into_iter().chain(sums).map(read).collect()
}

/// What there is to tell of incidents of which none is fixed.
pub(crate) fn opened(
    counts: &[IncidentCount],
    answers: &mut Vec<Vec<Row>>,
    now: Timestamp,
) -> Result<Vec<Event>, SqlFailure> {
    let mut seen = seen(answers)?;
    // Whoever has said something since we asked said it after these failures.
    seen.iter_mut().for_each(|seen| seen.standing = None);
    Ok(Aftermath::of(counts, seen, now).events)
}

/// What came of requests that counted failures.
pub(crate) struct Settled {
    /// The rows of the requests before the one that counted.
    pub(crate) answers: Vec<Vec<Row>>,
    /// What is still to be written.
    pub(crate) standings: Request,
    /// What to tell after everything else of the commit.
    pub(crate) events: Vec<Event>,
}

/// Makes requests the last of which counts these failures, and judges what the sums are then.
pub(crate) async fn settle(
    session: &mut dyn Session,
    mut requests: Vec<Request>,
    counts: &[IncidentCount],
    now: Timestamp,
) -> Result<Settled, SqlFailure> {
    requests.push(sums(counts));
    let mut answers = session.ask_all(requests).await?;
    let aftermath = Aftermath::of(counts, seen(&mut answers)?, now);
    let mut standings = Columns::default();
    for (fingerprint, text) in &aftermath.standings {
        standings.row().text(fingerprint).text(text);
    }
    let standings = Statement::SaveStandings.rows(standings);
    Ok(Settled { answers, standings, events: aftermath.events })
}
