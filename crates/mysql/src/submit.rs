//! Storing jobs (L10-L12, L22).

use backstop_core::{JobId, Refusal};
use backstop_store::desk::{Desk, SubmitNeeds};
use backstop_store::{Submit, Submitted};

use crate::archive;
use crate::error::Failure;
use crate::lanes::Lanes;
use crate::load;
use crate::purge;
use crate::session::{self, Bulk, Session};
use crate::sql;
use crate::unit::Unit;
use crate::values::{Row, Value};

type Answers = Vec<Result<Submitted, Refusal>>;

/// Stores a batch. `optimistic`: jobs that nothing but a repeated id can stand in the way of are stored without a look;
/// when that meets a repeated id, the caller tries again without it.
pub(crate) async fn submit(unit: &mut Unit, submit: &Submit, optimistic: bool) -> Result<Answers, Failure> {
    let now = match &unit.shared.clock {
        Some(clock) => clock.now(),
        None => unit.now().await?,
    };
    let mut desk = unit.desk(now);
    let shared = unit.shared.clone();
    // A lane that has to be made first would stay when a job turns out to be there already.
    let plain = optimistic && SubmitNeeds::are_plain(&submit.jobs) && shared.lanes.know_all_of(&submit.jobs);
    if !plain {
        lay(unit, &shared.lanes, &mut desk, submit).await?;
    }
    let answers = desk.submit(submit)?;
    unit.save(desk).await?;
    Ok(answers)
}

/// Asks about keys, in as many statements as it takes.
pub(crate) async fn by_names(
    session: &mut impl Session,
    question: &Bulk,
    names: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<Vec<Row>, Failure> {
    let mut batch = Vec::new();
    question.add(&mut batch, names.into_iter().map(|name| vec![Value::text(name)]).collect());
    session::all(session, batch).await
}

/// Lays everything on the desk that a submit asks about.
pub(crate) async fn lay(
    session: &mut impl Session,
    lanes: &Lanes,
    desk: &mut Desk,
    submit: &Submit,
) -> Result<(), Failure> {
    let mut needs = SubmitNeeds::of(&submit.jobs);
    let mut known: Vec<JobId> = std::mem::take(&mut needs.jobs);
    let mut owners: Vec<JobId> = Vec::new();
    if !needs.idempotency_keys.is_empty() {
        for mut row in by_names(session, &sql::IDEMPOTENCY_FIND, &needs.idempotency_keys).await? {
            let (key, owner) = (row.text()?, row.job()?);
            desk.lay_idempotency_key(key, owner);
            owners.push(owner);
        }
    }
    known.extend(&owners);
    lay_held(session, lanes, desk, &needs.business_keys, known.clone()).await?;
    known.retain(|id| desk.file(*id).is_none());
    owners.retain(|id| desk.file(*id).is_none());
    for (id, state) in archive::states(session, &known).await? {
        desk.lay_archived(id, state);
        owners.retain(|owner| *owner != id);
    }
    for (id, state) in purge::states(session, &owners).await? {
        desk.lay_archived(id, state);
    }
    Ok(())
}

/// Times that keys may change hands while we look, before the transaction begins anew.
const MOST_SEARCHES: usize = 50;

/// Lays the live holders of business keys on the desk, locked, and `also` these jobs.
///
/// Who holds a key is read without a lock, so that whoever ends the holder does not wait for us in a circle. A holder
/// that was gone by the time it was locked has given the key back, and perhaps to another: then we look again.
pub(crate) async fn lay_held(
    session: &mut impl Session,
    lanes: &Lanes,
    desk: &mut Desk,
    keys: &[String],
    mut also: Vec<JobId>,
) -> Result<(), Failure> {
    for _ in 0..MOST_SEARCHES {
        let mut holders: Vec<(String, JobId)> = Vec::new();
        for mut row in by_names(session, &sql::KEYS_FIND, keys).await? {
            holders.push((row.text()?, row.job()?));
        }
        let mut wanted = std::mem::take(&mut also);
        wanted.extend(holders.iter().map(|(_, holder)| *holder));
        wanted.retain(|id| desk.file(*id).is_none());
        let locked = load::lock(session, lanes, &wanted).await?;
        locked.files.into_iter().for_each(|file| desk.lay(file));
        locked.grips.into_iter().for_each(|grip| desk.lay_grip(grip));
        let is_live = |id: JobId| desk.file(id).is_some_and(|file| file.record.state.is_live());
        if holders.iter().all(|(_, holder)| is_live(*holder)) {
            holders.into_iter().for_each(|(key, holder)| desk.lay_business_key(key, holder));
            return Ok(());
        }
    }
    Err(Failure::Again("a business key kept changing hands".to_owned()))
}
