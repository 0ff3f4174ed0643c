//! Storing jobs (L10-L12, L22).

use std::collections::{BTreeSet, HashMap};

use backstop_core::depth::DepthScope;
use backstop_core::{JobId, Refusal, Timestamp};
use backstop_store::working_set::{SubmitNeeds, WorkingSet, Writes};
use backstop_store::{NameRange, Submit, Submitted};

use crate::columns::Columns;
use crate::decode::state_of;
use crate::failure::SqlFailure;
use crate::lanes::Lanes;
use crate::load;
use crate::session::Session;
use crate::statement::Statement;
use crate::transaction::Transaction;
use crate::value::Value;

/// One answer for each job.
pub type Answers = Vec<Result<Submitted, Refusal>>;

/// A batch that was decided on and is still to be written.
pub struct Decided {
    /// What became of each job.
    pub answers: Answers,
    /// What is to be written.
    pub writes: Writes,
    /// The moment of the transaction.
    pub now: Timestamp,
}

/// Stores a batch. `optimistic`: jobs that nothing but a repeated id can stand in the way of are stored without a look;
/// when that meets a repeated id, the caller tries again without it.
pub(crate) async fn submit(
    tx: &mut Transaction,
    submit: &Submit,
    optimistic: bool,
) -> Result<Answers, SqlFailure> {
    let decided = decide(tx, submit, optimistic).await?;
    tx.write(decided.writes, decided.now).await?;
    Ok(decided.answers)
}

/// The same, up to what is to be written.
///
/// # Errors
/// Those of the connection, and what the rules refuse.
pub async fn decide(tx: &mut Transaction, submit: &Submit, optimistic: bool) -> Result<Decided, SqlFailure> {
    let shared = tx.shared.clone();
    let mut set = tx.working_set(Timestamp::MIN);
    // A lane that has to be made first would stay when a job turns out to be there already.
    let plain = optimistic && SubmitNeeds::are_plain(&submit.jobs) && shared.lanes.know_all_of(&submit.jobs);
    if !plain {
        lock_depths(tx, submit).await?;
        load_needs(tx, &shared.lanes, &mut set, submit).await?;
    }
    // Asked last: a holder of the same key that ended while it was waited for must not seem to live beside this one.
    let now = match &shared.settings.clock {
        Some(clock) => clock.now(),
        None => tx.now().await?,
    };
    set.now = now;
    let answers = set.submit(submit)?;
    Ok(Decided { answers, writes: set.into_writes(), now })
}

/// Lets nobody else count the jobs that wait where this submit may find no room (H12). Not for callers' transactions,
/// which stay open for long: what they store is counted when it has been committed.
pub(crate) async fn lock_depths(session: &mut dyn Session, submit: &Submit) -> Result<(), SqlFailure> {
    let scopes = SubmitNeeds::of(&submit.jobs).depths;
    let names = Value::texts(scopes.iter().map(ToString::to_string));
    if !scopes.is_empty() {
        session.ask(Statement::LockDepths.each(names)).await?;
    }
    Ok(())
}

/// Adds how many jobs wait in places that are limited to the working set.
async fn load_depths(
    session: &mut dyn Session,
    set: &mut WorkingSet,
    scopes: BTreeSet<DepthScope>,
) -> Result<(), SqlFailure> {
    let mut places: HashMap<String, DepthScope> = HashMap::new();
    let mut ranges = Columns::default();
    for scope in scopes {
        let NameRange { from, end } = NameRange::of_depth(&scope);
        ranges.row().text(&from).text(&end);
        places.insert(end, scope);
    }
    for mut row in session.ask(Statement::Depths.rows(ranges)).await? {
        let (end, depth) = (row.text()?, row.int()?);
        if let Some(scope) = places.remove(&end) {
            set.put_depth(scope, u64::try_from(depth).unwrap_or_default());
        }
    }
    Ok(())
}

/// Adds everything to the working set that a submit asks about.
pub(crate) async fn load_needs(
    session: &mut dyn Session,
    lanes: &Lanes,
    set: &mut WorkingSet,
    submit: &Submit,
) -> Result<(), SqlFailure> {
    let mut needs = SubmitNeeds::of(&submit.jobs);
    load_depths(session, set, std::mem::take(&mut needs.depths)).await?;
    let mut known: Vec<JobId> = std::mem::take(&mut needs.jobs);
    let mut owners: Vec<JobId> = Vec::new();
    let keys = || Value::texts(&needs.idempotency_keys);
    for mut row in session.ask(Statement::FindIdempotencyKeys.each(keys())).await? {
        let (key, owner) = (row.text()?, row.job()?);
        set.put_idempotency_key(key, owner);
        owners.push(owner);
    }
    known.extend(&owners);
    known.sort_unstable();
    known.dedup();
    load_holders(session, lanes, set, &needs.business_keys, known.clone()).await?;
    known.retain(|id| set.job(*id).is_none());
    for mut row in session.ask(Statement::ArchivedStates.each_job(&known)).await? {
        let id = row.job()?;
        set.put_archived(id, state_of(row.int()?)?);
        owners.retain(|owner| *owner != id);
    }
    owners.retain(|id| set.job(*id).is_none());
    if !owners.is_empty() {
        // Asked last: a job that was purged while we looked has left how it ended by now.
        for mut row in session.ask(Statement::EndedKeys.with(vec![keys(), Value::jobs(&owners)])).await? {
            set.put_archived(row.job()?, state_of(row.int()?)?);
        }
    }
    Ok(())
}

/// Times that keys may change hands while we look, before the transaction is retried.
const MOST_SEARCHES: usize = 50;

/// Adds the live holders of business keys to the working set, locked, and `also` these jobs.
///
/// Who holds a key is read without a lock, so that whoever ends the holder does not deadlock with us. A holder
/// that was gone by the time it was locked has given the key back, and perhaps to another: then we look again.
pub(crate) async fn load_holders(
    session: &mut dyn Session,
    lanes: &Lanes,
    set: &mut WorkingSet,
    keys: &[String],
    mut also: Vec<JobId>,
) -> Result<(), SqlFailure> {
    for _ in 0..MOST_SEARCHES {
        let mut holders: Vec<(String, JobId)> = Vec::new();
        for mut row in session.ask(Statement::FindBusinessKeys.each(Value::texts(keys))).await? {
            holders.push((row.text()?, row.job()?));
        }
        let mut wanted = std::mem::take(&mut also);
        wanted.extend(holders.iter().map(|(_, holder)| *holder));
        wanted.retain(|id| set.job(*id).is_none());
        load::lock(session, lanes, &wanted).await?.put_into(set);
        let is_live = |id: JobId| set.job(id).is_some_and(|loaded| loaded.record.state.is_live());
        if holders.iter().all(|(_, holder)| is_live(*holder)) {
            holders.into_iter().for_each(|(key, holder)| set.put_business_key(key, holder));
            return Ok(());
        }
    }
    Err(SqlFailure::Again("a business key kept changing hands".to_owned()))
}
