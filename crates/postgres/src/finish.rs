//! Ending runs, by those who hold them and by those who take them back, and what handlers say meanwhile.

use std::collections::BTreeSet;

use backstop_core::job::{Stale, State};
use backstop_core::{Fence, JobId, Lease};
use backstop_store::desk::{Desk, Writes, stale};
use backstop_store::{Duty, Finish, Note, Term};

use crate::duty;
use crate::error::Failure;
use crate::hold::{self, Ground, Held};
use crate::load;
use crate::query;
use crate::session::Session;
use crate::unit::Unit;

type Answers = Vec<Result<State, Stale>>;

/// Ends runs on a desk: those of live workers, or with a term those of workers that are not live any more (L15).
pub(crate) async fn end(
    session: &mut impl Session,
    ground: &Ground<'_>,
    endings: &[Finish],
    term: Option<&Term>,
) -> Result<(Desk, Answers), Failure> {
    let leases: Vec<Lease> = endings.iter().map(|finish| finish.lease).collect();
    let also = term.map(duty::ask).into_iter().collect();
    let (Held { mut desk, live }, mut answers) = hold::lock(session, ground, &leases, also).await?;
    if let Some(term) = term {
        duty::expect_term(term, Duty::Rescue, answers.pop().unwrap_or_default(), desk.now)?;
    }
    let callbacks: Vec<JobId> =
        endings.iter().filter_map(|finish| Some(finish.ending.follow_up.as_ref()?.spec.id)).collect();
    for sketch in load::sketches(session, ground.lanes, &callbacks).await?.into_values() {
        // It is there already, and that is all that matters, unless its own run ends in this batch too.
        if desk.file(sketch.job.spec.id).is_none() {
            desk.lay(sketch.into_file());
        }
    }
    if term.is_none() {
        lay_ended(session, &mut desk, endings).await?;
    }
    let end = |finish: &Finish| {
        let may_write = live.contains(&finish.lease.worker) == term.is_none();
        if may_write && desk.holds(&finish.lease) {
            desk.finish(finish)
        } else if term.is_none() {
            desk.answer_again(finish)
        } else {
            Err(stale(&finish.lease))
        }
    };
    let answers = endings.iter().map(end).collect();
    Ok((desk, answers))
}

/// Lays the runs on the desk that have ended and are spoken of again: their answers are those of then (L5).
async fn lay_ended(session: &mut impl Session, desk: &mut Desk, endings: &[Finish]) -> Result<(), Failure> {
    let again = endings.iter().map(|finish| &finish.lease).filter(|lease| !desk.holds(lease));
    let jobs: BTreeSet<JobId> = again.map(|lease| lease.job).collect();
    let fences: BTreeSet<Fence> = endings.iter().map(|finish| finish.lease.fence).collect();
    for (job, run) in query::runs_of(session, &jobs, &fences).await? {
        desk.lay_ended(job, run);
    }
    Ok(())
}

/// Ends runs, and commits.
pub(crate) async fn finish(
    unit: &mut Unit,
    endings: &[Finish],
    term: Option<&Term>,
) -> Result<Answers, Failure> {
    let shared = unit.shared.clone();
    let (desk, answers) = end(unit, &shared.ground(), endings, term).await?;
    let now = desk.now;
    let writes = desk.into_writes();
    let grips = writes.grips.clone();
    unit.write(writes, now).await?;
    for grip in grips {
        let mine = endings.iter().map(|finish| finish.lease).filter(|lease| lease.fence == grip.fence);
        let ended: Vec<JobId> =
            mine.map(|lease| lease.job).filter(|id| grip.open_slot(*id).is_none()).collect();
        shared.hands.follow(&grip, ended.into_iter().map(|id| (id, None)));
    }
    Ok(answers)
}

/// Keeps what handlers say of their progress.
pub(crate) async fn annotate(unit: &mut Unit, notes: &[Note]) -> Result<Vec<Result<(), Stale>>, Failure> {
    let leases: Vec<Lease> = notes.iter().map(|note| note.lease).collect();
    let shared = unit.shared.clone();
    let (Held { mut desk, live }, _) = hold::lock(unit, &shared.ground(), &leases, Vec::new()).await?;
    let answers =
        notes
            .iter()
            .map(|note| {
                if live.contains(&note.lease.worker) { desk.annotate(note) } else { Err(stale(&note.lease)) }
            })
            .collect();
    let now = desk.now;
    let writes: Writes = desk.into_writes();
    let changed: Vec<_> = writes.grips.iter().map(|grip| grip.fence).collect();
    unit.write(writes, now).await?;
    // The jobs have a past now, which what we remember of them does not say.
    changed.into_iter().for_each(|fence| unit.shared.hands.forget(fence));
    Ok(answers)
}
