//! What follows when jobs of workflows and batches have ended.
//!
//! Whoever ends a job leaves a note in the same transaction. Then any node takes notes, asks
//! `backstop_core::workflow` what follows, and writes that, in one more transaction: how far the workflow is, the jobs
//! that are released, called off or submitted, and that the notes are gone. It rests on the revisions of the workflow
//! and of the notes that it has read, so of two nodes that take the same notes one is refused and begins again: each
//! end counts once, however many look and whoever dies in between. Notes are read before the workflow: one that another
//! node has taken since is not there any more, although the workflow is as it was read. Ends of jobs never wait for
//! each other.
//!
//! A node that is refused has worked for nothing, so nodes keep out of each other's way: the end of a step is for the
//! one where it ran, the end of a job of a batch for whoever is there first, and what is left for the one that leads.

use std::collections::{BTreeMap, BTreeSet};

use backstop_core::job::{NewJob, Operation};
use backstop_core::workflow::{EndNote, JobEnd, NodeEnd, Workflow, WorkflowBody, WorkflowStatus};
use backstop_core::{JobId, Refusal, Timestamp, WorkflowId};
use backstop_store::{Amend, Amended, Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect};
use tokio::time::Instant;

use super::callback::callback_job;
use super::inputs::{FoundResults, InputProblem, results};
use super::renew::renewed;
use super::stored::{self, FoundWorkflow, StoredWorkflow};
use super::told::WorkflowNews;
use super::view::driven_again;
use crate::loops::LoopHeartbeat;
use crate::parts::EngineParts;
use crate::run::write::refused_for_good;

/// Jobs that a batch has before it when its end is far: what all processes end in a moment, and some more.
const FAR: u64 = 5_000;

/// Documents of notes that are read at once: each is of one workflow and one transaction.
const PAGE: usize = 500;

/// Operations and jobs that go into one transaction with those of other workflows.
const MOST_TOGETHER: usize = 2_000;

/// Which notes to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoteScope {
    /// Those of steps that ran here, and of batches whose jobs ran here: somebody else looks after the rest.
    OwnEnds,
    /// Those of workflows whose jobs ran here.
    OwnRuns,
    /// All.
    All,
}

/// Notes as they were read; a document that says nothing is only removed.
struct TakenNotes {
    key: String,
    revision: i64,
    notes: Vec<EndNote>,
}

/// What is written of one workflow.
struct Piece {
    id: WorkflowId,
    /// What it follows from, and when that was read.
    notes: Vec<TakenNotes>,
    now: Timestamp,
    /// Jobs that the store refuses, although they were to take the places of those called off.
    refused: BTreeSet<JobId>,
    edits: Vec<Edit>,
    operations: Vec<(JobId, Operation)>,
    jobs: Vec<NewJob>,
    news: WorkflowNews,
    /// True for a batch whose end is far.
    rests: bool,
}

impl Piece {
    /// That nothing but the end of these notes is written.
    fn of(id: WorkflowId, notes: Vec<TakenNotes>, now: Timestamp) -> Self {
        let remove = |taken: &TakenNotes| Edit {
            drawer: Drawer::WorkflowEnds,
            key: taken.key.clone(),
            expect: Expect::Revision(taken.revision),
            body: None,
        };
        Self {
            id,
            edits: notes.iter().map(remove).collect(),
            notes,
            now,
            refused: BTreeSet::new(),
            operations: Vec::new(),
            jobs: Vec::new(),
            news: WorkflowNews::default(),
            rests: false,
        }
    }

    /// The job of a step that is submitted again, if that is the one which the store refuses for good.
    fn renewed_at(&self, index: usize, refusal: &Refusal) -> Option<JobId> {
        // There is room in a full queue some time.
        if matches!(refusal, Refusal::QueueFull { .. }) {
            return None;
        }
        let spec = &self.jobs.get(index)?.spec;
        spec.part_of().is_some_and(|part| part.renewed).then_some(spec.id)
    }

    /// The same from the beginning, without a job that is refused.
    fn without(mut self, job: JobId) -> Self {
        self.refused.insert(job);
        Self { refused: self.refused, ..Self::of(self.id, self.notes, self.now) }
    }

    fn size(&self) -> usize {
        self.edits.len() + self.operations.len() + self.jobs.len()
    }
}

/// Does what follows from all notes that there are. Those that cannot be followed up stay where they are, and hold up
/// no others (C7).
pub(crate) async fn advance_all(
    parts: &EngineParts,
    scope: NoteScope,
    heartbeat: Option<&LoopHeartbeat>,
) -> Result<(), StoreError> {
    let (now, memory) = (Instant::now(), &parts.workflows);
    let has_none = match scope {
        NoteScope::OwnEnds => memory.has_no_ends(now),
        NoteScope::OwnRuns => memory.has_none(now),
        NoteScope::All => false,
    };
    if has_none {
        return Ok(());
    }
    let mut range = DocumentRange::first(Drawer::WorkflowEnds, PAGE);
    loop {
        let page = parts.store.documents(range.clone()).await?;
        range.after = page.items.last().map(|last| last.key.clone());
        let mut ends: BTreeMap<WorkflowId, Vec<TakenNotes>> = BTreeMap::new();
        for Document { key, revision, body } in page.items {
            let Some(id) = key.split('/').next().and_then(|id| id.parse().ok()) else { continue };
            if scope != NoteScope::All && memory.is_left(id, now) {
                continue;
            }
            let notes = EndNote::read(&body).unwrap_or_default();
            ends.entry(id).or_default().push(TakenNotes { key, revision, notes });
        }
        ends.retain(|id, taken| match scope {
            NoteScope::OwnEnds => memory.are_ours(*id, taken.iter().flat_map(|taken| &taken.notes)),
            NoteScope::OwnRuns => memory.is_ours(*id),
            NoteScope::All => true,
        });
        if !ends.is_empty() {
            advance_some(parts, ends, page.now, heartbeat).await?;
        }
        if !page.more {
            return Ok(());
        }
    }
}

async fn advance_some(
    parts: &EngineParts,
    ends: BTreeMap<WorkflowId, Vec<TakenNotes>>,
    now: Timestamp,
    heartbeat: Option<&LoopHeartbeat>,
) -> Result<(), StoreError> {
    let ids: Vec<WorkflowId> = ends.keys().copied().collect();
    let found = stored::read(&*parts.store, &parts.workflows, &ids).await?;
    let asked: BTreeSet<JobId> =
        found.iter().zip(ends.values()).flat_map(|(found, notes)| asked_for(found, notes)).collect();
    let results = results(parts, asked.into_iter().collect()).await?;
    let mut together: Vec<Piece> = Vec::new();
    for ((id, notes), found) in ends.into_iter().zip(found) {
        let piece = Piece::of(id, notes, now);
        let Some(piece) = followed_up(parts, piece, found, &results).await? else { continue };
        let size: usize = together.iter().map(Piece::size).sum();
        if !together.is_empty() && size + piece.size() > MOST_TOGETHER {
            write(parts, std::mem::take(&mut together)).await?;
        }
        together.push(piece);
        heartbeat.into_iter().for_each(LoopHeartbeat::record);
    }
    write(parts, together).await
}

/// The jobs of a workflow whose results decide what follows.
fn asked_for(found: &FoundWorkflow, notes: &[TakenNotes]) -> Vec<JobId> {
    let FoundWorkflow::There(stored) = found else { return Vec::new() };
    let Some(graph) = &stored.graph else { return Vec::new() };
    let asks = |note: &&EndNote| note.end == NodeEnd::Succeeded && graph.asks_for_result(note.mark.number);
    notes.iter().flat_map(|taken| &taken.notes).filter(asks).map(|note| note.job).collect()
}

/// True when nobody else has to decide what follows from these results. One that is gone decides, too: no condition on
/// it holds. A branch that was taken stays taken, so what is closed here is for a process that has the key.
fn decide_here(id: WorkflowId, asked: &[JobId], results: &FoundResults) -> bool {
    for job in asked {
        match results.get(job) {
            Some(Ok(_)) => {}
            Some(Err(InputProblem::Sealed(problem))) => {
                let error = problem.to_string();
                tracing::warn!(workflow = %id, %job, error, "a workflow waits for a process that has the key");
                return false;
            }
            Some(Err(InputProblem::NotKept(warning))) => {
                let error = warning.as_str();
                tracing::error!(workflow = %id, %job, error, "no condition on a result holds: it is missing");
            }
            None => {
                let error = "the job was removed";
                tracing::error!(workflow = %id, %job, error, "no condition on a result holds: it is missing");
            }
        }
    }
    true
}

/// The same piece with all that is to be written of its workflow; none when that cannot be read, or a step or a result
/// not be opened, so that nobody knows what follows. Notes of one that is not there any more are only removed.
async fn followed_up(
    parts: &EngineParts,
    mut piece: Piece,
    found: FoundWorkflow,
    results: &FoundResults,
) -> Result<Option<Piece>, StoreError> {
    let asked = asked_for(&found, &piece.notes);
    let mut stored = match found {
        FoundWorkflow::There(stored) => stored,
        FoundWorkflow::Absent => return Ok(Some(piece)),
        FoundWorkflow::Unreadable => return Ok(None),
    };
    if !decide_here(piece.id, &asked, results) {
        return Ok(None);
    }
    let graph = stored.graph.clone();
    let result = |job: &JobId| results.get(job).and_then(|result| result.as_ref().ok()).cloned();
    let notes = piece.notes.iter().flat_map(|taken| &taken.notes).cloned();
    let ends: Vec<JobEnd> = notes.map(|note| JobEnd { result: result(&note.job), note }).collect();
    let was_paused = stored.workflow.status == WorkflowStatus::Paused;
    let mut follows = stored.workflow.advance(graph.as_deref(), &ends, piece.now);
    let renewed = renewed(parts, &mut stored, &mut follows, &piece.refused, piece.now).await?;
    let Some(renewed) = renewed else { return Ok(None) };
    if stored.workflow.status == WorkflowStatus::Paused {
        // They stand for steps that were paused with it.
        piece.operations.extend(renewed.iter().map(|job| (job.spec.id, Operation::Pause)));
    }
    piece.jobs = renewed;
    piece.operations.extend(follows.release.iter().map(|job| (*job, Operation::Release)));
    let canceled = follows.cancel.iter().map(|(job, cause)| (*job, Operation::PassBy { cause: *cause }));
    piece.operations.extend(canceled);
    piece.jobs.extend(callback_job(parts, &stored.workflow, graph.as_deref(), &follows).await?);
    piece.rests = is_far(&stored.workflow);
    piece.news = WorkflowNews::of(parts, &stored.workflow, graph.as_deref(), &ends, &follows);
    // Last: what it came to is told, and what follows from that has its turn, whoever holds it back since.
    if was_paused && stays_paused(parts, &stored).await? {
        stored.workflow.hold_back();
        piece.news = piece.news.and(WorkflowNews::standing(parts, &stored.workflow));
    }
    piece.edits.extend(stored.edits());
    Ok(Some(piece))
}

/// True for a workflow that has come to an end just now, although a dead step of it is driven again: people had done
/// that, and paused the workflow, before anybody looked at how the step had ended.
async fn stays_paused(parts: &EngineParts, stored: &StoredWorkflow) -> Result<bool, StoreError> {
    Ok(stored.workflow.status.is_over() && !driven_again(parts, stored).await?.is_empty())
}

/// True for a batch with so many jobs before it that its end is not near.
fn is_far(workflow: &Workflow) -> bool {
    let WorkflowBody::Batch(batch) = &workflow.body else { return false };
    batch.counts().released > FAR
}

/// The same for one whose workflow is read once more.
async fn once_more(parts: &EngineParts, piece: Piece) -> Result<Option<Piece>, StoreError> {
    let found = stored::read(&*parts.store, &parts.workflows, &[piece.id]).await?.pop();
    let Some(found) = found else { return Ok(None) };
    let results = results(parts, asked_for(&found, &piece.notes)).await?;
    followed_up(parts, piece, found, &results).await
}

/// Writes pieces in one transaction, and those again that are left when another node wrote one of them. What could not
/// be written stays for the next look; one that the store refuses holds up none of the others (C7).
async fn write(parts: &EngineParts, mut pieces: Vec<Piece>) -> Result<(), StoreError> {
    while !pieces.is_empty() {
        let refused = match write_together(parts, &pieces).await {
            Ok(Amended::Done { now, .. }) => {
                for piece in pieces {
                    if piece.rests {
                        parts.workflows.rest(piece.id, Instant::now());
                    } else {
                        parts.workflows.take(piece.id);
                    }
                    parts.workflows.followed_up(piece.notes.iter().flat_map(|taken| &taken.notes));
                    piece.news.tell(parts, now);
                }
                return Ok(());
            }
            Ok(Amended::Conflict { key, .. }) => {
                // The key of a workflow, or of a note, which begins with it.
                let id = key.split('/').next().unwrap_or_default();
                let Some(place) = pieces.iter().position(|piece| piece.id.to_string() == id) else {
                    tracing::error!(key, "what follows in workflows met a document that is none of them");
                    return Ok(());
                };
                let Piece { id, rests, .. } = pieces.remove(place);
                if rests {
                    parts.workflows.rest(id, Instant::now());
                } else {
                    parts.workflows.leave(id, Instant::now());
                }
                continue;
            }
            Ok(Amended::Refused { index, refusal }) => {
                let renewed = match &pieces[..] {
                    [alone] => alone.renewed_at(index, &refusal),
                    _ => None,
                };
                if let Some(job) = renewed
                    && let Some(alone) = pieces.pop()
                {
                    let error = refusal.to_string();
                    tracing::error!(workflow = %alone.id, %job, error, "a step cannot run again and has failed");
                    pieces.extend(once_more(parts, alone.without(job)).await?);
                    continue;
                }
                refusal.to_string()
            }
            Err(error) if refused_for_good(&error) => error.to_string(),
            Err(error) => return Err(error),
        };
        if let [alone] = &pieces[..] {
            tracing::error!(workflow = %alone.id, error = refused, "what follows in a workflow is refused");
            return Ok(());
        }
        for piece in pieces {
            Box::pin(write(parts, vec![piece])).await?;
        }
        return Ok(());
    }
    Ok(())
}

async fn write_together(parts: &EngineParts, pieces: &[Piece]) -> Result<Amended, StoreError> {
    let mut amend = Amend::default();
    for piece in pieces {
        amend.edits.extend(piece.edits.iter().cloned());
        amend.operations.extend(piece.operations.iter().cloned());
        amend.jobs.extend(piece.jobs.iter().cloned());
    }
    parts.store.amend(amend).await
}
