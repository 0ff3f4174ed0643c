//! What follows when jobs of workflows and batches have ended.
//!
//! Whoever ends a job leaves a note in the same transaction. Then any node takes notes, asks
//! `backstop_core::workflow` what follows, and writes that, in one more transaction: how far the workflow is, the jobs
//! that are released, called off or submitted, and that the notes are gone. It rests on the revisions of the workflow
//! and of the notes that it has read, so of two nodes that take the same notes one is refused and begins again: each
//! end counts once, however many look and whoever dies in between. Notes are read before the workflow: one that another
//! node has taken since is not there any more, although the workflow is as it was read. Ends of jobs never wait for
//! each other.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use backstop_core::job::{NewJob, Operation};
use backstop_core::workflow::{EndNote, JobEnd, NodeEnd, WorkflowStatus};
use backstop_core::{JobId, Timestamp, WorkflowId};
use backstop_store::{Amend, Amended, Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect};
use serde_json::Value;

use super::callback::callback_job;
use super::inputs::results;
use super::renew::renewed;
use super::stored::{self, FoundWorkflow};
use super::told::WorkflowNews;
use crate::loops::LoopHeartbeat;
use crate::parts::EngineParts;
use crate::run::write::refused_for_good;

/// Documents of notes that are read at once: each is of one workflow and one transaction.
const PAGE: usize = 500;

/// Operations and jobs that go into one transaction with those of other workflows.
const MOST_TOGETHER: usize = 2_000;

/// Which notes to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoteScope {
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
    edits: Vec<Edit>,
    operations: Vec<(JobId, Operation)>,
    jobs: Vec<NewJob>,
    news: WorkflowNews,
}

impl Piece {
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
    if scope == NoteScope::OwnRuns && parts.workflows.is_untouched() {
        return Ok(());
    }
    let mut range = DocumentRange::first(Drawer::WorkflowEnds, PAGE);
    loop {
        let page = parts.store.documents(range.clone()).await?;
        range.after = page.items.last().map(|last| last.key.clone());
        let mut ends: BTreeMap<WorkflowId, Vec<TakenNotes>> = BTreeMap::new();
        for Document { key, revision, body } in page.items {
            let Some(id) = key.split('/').next().and_then(|id| id.parse().ok()) else { continue };
            if scope == NoteScope::All || parts.workflows.has_touched(id) {
                let notes = EndNote::read(&body).unwrap_or_default();
                ends.entry(id).or_default().push(TakenNotes { key, revision, notes });
            }
        }
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
    let results = results(parts, asked_for(&found, &ends)).await?;
    let mut together: Vec<Piece> = Vec::new();
    for ((id, notes), found) in ends.into_iter().zip(found) {
        let Some(piece) = piece(parts, id, notes, found, &results, now).await? else { continue };
        let size: usize = together.iter().map(Piece::size).sum();
        if !together.is_empty() && size + piece.size() > MOST_TOGETHER {
            write(parts, std::mem::take(&mut together)).await?;
        }
        together.push(piece);
        heartbeat.into_iter().for_each(LoopHeartbeat::record);
    }
    write(parts, together).await
}

/// The jobs whose results decide what follows.
fn asked_for(found: &[FoundWorkflow], ends: &BTreeMap<WorkflowId, Vec<TakenNotes>>) -> Vec<JobId> {
    let mut jobs = BTreeSet::new();
    for (stored, notes) in found.iter().zip(ends.values()) {
        let FoundWorkflow::There(stored) = stored else { continue };
        let Some(graph) = &stored.graph else { continue };
        let asks =
            |note: &&EndNote| note.end == NodeEnd::Succeeded && graph.asks_for_result(note.mark.number);
        jobs.extend(notes.iter().flat_map(|taken| &taken.notes).filter(asks).map(|note| note.job));
    }
    jobs.into_iter().collect()
}

/// What is to be written of one workflow; none when it cannot be read, or a step of it not be opened, so that nobody
/// knows what follows. Notes of one that is not there any more are only removed.
async fn piece(
    parts: &EngineParts,
    id: WorkflowId,
    notes: Vec<TakenNotes>,
    found: FoundWorkflow,
    results: &HashMap<JobId, Value>,
    now: Timestamp,
) -> Result<Option<Piece>, StoreError> {
    let remove = |taken: &TakenNotes| Edit {
        drawer: Drawer::WorkflowEnds,
        key: taken.key.clone(),
        expect: Expect::Revision(taken.revision),
        body: None,
    };
    let mut piece = Piece {
        id,
        edits: notes.iter().map(remove).collect(),
        operations: Vec::new(),
        jobs: Vec::new(),
        news: WorkflowNews::default(),
    };
    let mut stored = match found {
        FoundWorkflow::There(stored) => stored,
        FoundWorkflow::Absent => return Ok(Some(piece)),
        FoundWorkflow::Unreadable => return Ok(None),
    };
    let graph = stored.graph.clone();
    let ends: Vec<JobEnd> = notes
        .into_iter()
        .flat_map(|taken| taken.notes)
        .map(|note| JobEnd { result: results.get(&note.job).cloned(), note })
        .collect();
    let mut follows = stored.workflow.advance(graph.as_deref(), &ends, now);
    let Some(renewed) = renewed(parts, &mut stored, &mut follows, now).await? else { return Ok(None) };
    if stored.workflow.status == WorkflowStatus::Paused {
        // They stand for steps that were paused with it.
        piece.operations.extend(renewed.iter().map(|job| (job.spec.id, Operation::Pause)));
    }
    piece.jobs = renewed;
    piece.operations.extend(follows.release.iter().map(|job| (*job, Operation::Release)));
    let canceled = follows.cancel.iter().map(|(job, cause)| (*job, Operation::PassBy { cause: *cause }));
    piece.operations.extend(canceled);
    piece.jobs.extend(callback_job(parts, &stored.workflow, graph.as_deref(), &follows).await?);
    piece.edits.extend(stored.edits());
    piece.news = WorkflowNews::of(parts, &stored.workflow, graph.as_deref(), &ends, &follows);
    Ok(Some(piece))
}

/// Writes pieces in one transaction, and those again that are left when another node wrote one of them. What could not
/// be written stays for the next look; one that the store refuses holds up none of the others (C7).
async fn write(parts: &EngineParts, mut pieces: Vec<Piece>) -> Result<(), StoreError> {
    while !pieces.is_empty() {
        let refused = match write_together(parts, &pieces).await {
            Ok(Amended::Done { now, .. }) => {
                pieces.into_iter().for_each(|piece| piece.news.tell(parts, now));
                return Ok(());
            }
            Ok(Amended::Conflict { key, .. }) => {
                // The key of a workflow, or of a note, which begins with it.
                let (id, all) = (key.split('/').next().unwrap_or_default(), pieces.len());
                pieces.retain(|piece| piece.id.to_string() != id);
                if pieces.len() == all {
                    tracing::error!(key, "what follows in workflows met a document that is none of them");
                    return Ok(());
                }
                continue;
            }
            Ok(Amended::Refused { refusal, .. }) => refusal.to_string(),
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
