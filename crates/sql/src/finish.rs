//! Ending runs, by their workers and by the rescue, and the progress that handlers report.

use std::collections::{BTreeSet, HashMap};

use backstop_core::job::{NoteError, Stale, State};
use backstop_core::{Fence, JobId, Lease};
use backstop_store::working_set::{WorkingSet, stale};
use backstop_store::{Duty, Finish, Note, Term};

use crate::counting;
use crate::failure::SqlFailure;
use crate::hold::{self, Context, Held};
use crate::load;
use crate::query;
use crate::row::Row;
use crate::session::Session;
use crate::term;
use crate::transaction::Transaction;

type Answers = Vec<Result<State, Stale>>;

/// Runs that were ended in a working set.
pub(crate) struct EndedRuns {
    pub(crate) set: WorkingSet,
    pub(crate) answers: Answers,
    /// What people have said of the incidents that they count.
    pub(crate) standings: Vec<Row>,
}

/// Ends runs in a working set: those of live workers, or with a term those of workers that are not live any more (L15).
pub(crate) async fn end(
    session: &mut dyn Session,
    context: &Context<'_>,
    endings: &[Finish],
    term: Option<&Term>,
) -> Result<EndedRuns, SqlFailure> {
    let leases: Vec<Lease> = endings.iter().map(|finish| finish.lease).collect();
    let also = [counting::ask(endings)].into_iter().chain(term.map(term::ask)).collect();
    let (Held { mut set, live }, answers) = hold::lock(session, context, &leases, also).await?;
    let mut answers = answers.into_iter();
    let standings = answers.next().unwrap_or_default();
    if let Some(term) = term {
        term::expect(term, Duty::Rescue, answers.next().unwrap_or_default(), set.now)?;
    }
    let callbacks: Vec<JobId> =
        endings.iter().filter_map(|finish| Some(finish.ending.follow_up.as_ref()?.spec.id)).collect();
    for stored in load::stored(session, context.lanes, &callbacks).await?.into_values() {
        // It is there already, and that is all that matters, unless its own run ends in this batch too.
        if set.job(stored.job.spec.id).is_none() {
            set.put(stored.into_loaded());
        }
    }
    if term.is_none() {
        load_ended(session, &mut set, endings).await?;
    }
    let end = |finish: &Finish| {
        let may_write = live.contains(&finish.lease.worker) == term.is_none();
        if may_write && set.holds(&finish.lease) {
            set.finish(finish)
        } else if term.is_none() {
            set.answer_again(finish)
        } else {
            Err(stale(&finish.lease))
        }
    };
    let answers = endings.iter().map(end).collect();
    Ok(EndedRuns { set, answers, standings })
}

/// Adds the runs that have ended and are spoken of again: their answers are those of then (L5).
async fn load_ended(
    session: &mut dyn Session,
    set: &mut WorkingSet,
    endings: &[Finish],
) -> Result<(), SqlFailure> {
    let again = endings.iter().map(|finish| &finish.lease).filter(|lease| !set.holds(lease));
    let jobs: BTreeSet<JobId> = again.map(|lease| lease.job).collect();
    let fences: BTreeSet<Fence> = endings.iter().map(|finish| finish.lease.fence).collect();
    for (job, run) in query::runs_under(session, &jobs, &fences).await? {
        set.put_ended(job, run);
    }
    Ok(())
}

/// Ends runs, and commits.
pub(crate) async fn finish(
    tx: &mut Transaction,
    endings: &[Finish],
    term: Option<&Term>,
) -> Result<Answers, SqlFailure> {
    let shared = tx.shared.clone();
    let EndedRuns { set, answers, standings } = end(tx, &shared.context(), endings, term).await?;
    let fixed = counting::is_any_fixed(standings)?;
    let now = set.now;
    let writes = set.into_writes();
    let claims = writes.claims.clone();
    tx.write_judged(Vec::new(), writes, now, fixed).await?;
    for claim in claims {
        let mine = endings.iter().map(|finish| finish.lease).filter(|lease| lease.fence == claim.fence);
        let ended: Vec<JobId> =
            mine.map(|lease| lease.job).filter(|id| claim.open_slot(*id).is_none()).collect();
        shared.held_jobs.follow(&claim, ended.into_iter().map(|id| (id, None)));
    }
    Ok(answers)
}

/// Counts the start of prefetched jobs (C5).
pub(crate) async fn start(
    tx: &mut Transaction,
    leases: &[Lease],
) -> Result<Vec<Result<(), Stale>>, SqlFailure> {
    let shared = tx.shared.clone();
    let (Held { mut set, live }, _) = hold::lock(tx, &shared.context(), leases, Vec::new()).await?;
    let start =
        |lease: &Lease| if live.contains(&lease.worker) { set.start(lease) } else { Err(stale(lease)) };
    let answers: Vec<_> = leases.iter().map(start).collect();
    let records: HashMap<JobId, _> =
        leases.iter().filter_map(|lease| Some((lease.job, set.job(lease.job)?.record.clone()))).collect();
    let now = set.now;
    let writes = set.into_writes();
    let claims = writes.claims.clone();
    tx.write(writes, now).await?;
    for claim in claims {
        let mine = claim.jobs.iter().filter_map(|id| Some((*id, Some(records.get(id)?.clone()))));
        shared.held_jobs.follow(&claim, mine);
    }
    Ok(answers)
}

/// Stores the progress that handlers report.
pub(crate) async fn annotate(
    tx: &mut Transaction,
    notes: &[Note],
) -> Result<Vec<Result<(), NoteError>>, SqlFailure> {
    let leases: Vec<Lease> = notes.iter().map(|note| note.lease).collect();
    let shared = tx.shared.clone();
    let (Held { mut set, live }, _) = hold::lock(tx, &shared.context(), &leases, Vec::new()).await?;
    let annotate = |note: &Note| {
        if live.contains(&note.lease.worker) { set.annotate(note) } else { Err(stale(&note.lease).into()) }
    };
    let answers = notes.iter().map(annotate).collect();
    let now = set.now;
    let writes = set.into_writes();
    let changed: Vec<Fence> = writes.claims.iter().map(|claim| claim.fence).collect();
    tx.write(writes, now).await?;
    // The jobs have a past now, which what we remember of them does not say.
    changed.into_iter().for_each(|fence| shared.held_jobs.forget(fence));
    Ok(answers)
}
