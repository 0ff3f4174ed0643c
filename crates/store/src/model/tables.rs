//! The maps that the model keeps, and the questions and writes that several verbs share.
//!
//! A record is changed by the methods of `Record` only.

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop_core::event::{self, Event};
use backstop_core::failure::Fingerprint;
use backstop_core::job::{Attempt, Ending, NewJob, Record, Stale, State, StoredJob};
use backstop_core::outbox::OutboxMessage;
use backstop_core::workflow::EndNote;
use backstop_core::{JobId, Lease, Timestamp, WorkerId};

use super::lines::ModelLine;
use crate::sharing::LastTurn;
use crate::show::PauseNote;
use crate::working_set::{LaneKey, Wants};
use crate::{Archived, Drawer, Duty, Error, Incident, LaneMark, NewWorker, Term, outbox_document};

/// Everything the model knows.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    pub(super) jobs: BTreeMap<JobId, ModelJob>,
    /// Ended runs by job and number.
    pub(super) ledger: BTreeMap<(JobId, u32), Attempt>,
    /// Jobs that have left `jobs` and `ledger` (L16).
    pub(super) archive: BTreeMap<JobId, Archived>,
    /// Lanes that jobs have left, with their marks: a lane that ever had a job stays known.
    pub(super) lanes: BTreeMap<LaneKey, LaneMark>,
    /// Jobs in the order of their submits, by ordering key (L21).
    pub(super) lines: BTreeMap<Arc<str>, ModelLine>,
    /// Idempotency keys, kept for ever (L10).
    pub(super) idempotency_keys: BTreeMap<String, JobId>,
    /// Purged jobs that an idempotency key still names, with how they had ended (L10, D5).
    pub(super) purged: BTreeMap<JobId, State>,
    /// Queues that were ever paused, with the note of the pause for those that are now.
    pub(super) paused_queues: BTreeMap<String, Option<PauseNote>>,
    pub(super) documents: BTreeMap<(Drawer, String), (i64, Arc<str>)>,
    pub(super) workers: BTreeMap<WorkerId, ModelWorker>,
    pub(super) terms: BTreeMap<Duty, Term>,
    pub(super) incidents: BTreeMap<Fingerprint, Incident>,
    /// Whose turn was the last one in each queue (H5).
    pub(super) turns: LastTurn,
    /// The fence of the latest claim that took something (L5).
    pub(super) latest_fence: i64,
}

/// One job.
#[derive(Debug, Clone)]
pub(super) struct ModelJob {
    pub(super) job: Arc<StoredJob>,
    pub(super) record: Record,
}

/// One worker that made itself known.
#[derive(Debug, Clone)]
pub(super) struct ModelWorker {
    pub(super) said: NewWorker,
    pub(super) started_at: Timestamp,
    pub(super) expires_at: Timestamp,
}

impl ModelWorker {
    pub(super) fn is_live(&self, now: Timestamp) -> bool {
        self.expires_at > now
    }

    pub(super) fn serves(&self, queue: &str) -> bool {
        self.said.queues.iter().any(|served| **served == *queue)
    }

    pub(super) fn knows(&self, kind: &str, version: u32) -> bool {
        self.said.kinds.iter().any(|known| known.covers(kind, version))
    }
}

/// What one verb has to tell once it is done.
#[derive(Debug)]
pub(super) struct ModelCommit {
    /// The moment of the whole commit.
    pub(super) now: Timestamp,
    pub(super) events: Vec<Event>,
    /// True when something may have become claimable (L13).
    pub(super) work_arrived: bool,
    /// What the observer wants: alerts in their drawer (D3), messages for sinks (B2).
    pub(super) wants: Wants,
    /// Incidents that this commit has counted.
    pub(super) incidents: BTreeMap<Fingerprint, IncidentSighting>,
    /// Jobs of workflows and batches that have ended (W1-W6).
    pub(super) ended: Vec<EndNote>,
    /// What sinks are to be sent, beside events (B2).
    pub(super) messages: Vec<OutboxMessage>,
}

/// What one commit has seen of an incident.
#[derive(Debug, Default)]
pub(super) struct IncidentSighting {
    /// The kind of the first job, with its tenant.
    pub(super) kind: Option<String>,
    pub(super) opened: bool,
    /// The latest version of the code in which it was seen.
    pub(super) version: Option<String>,
}

impl ModelCommit {
    pub(super) const fn at(now: Timestamp, wants: Wants) -> Self {
        Self {
            now,
            events: Vec::new(),
            work_arrived: false,
            wants,
            incidents: BTreeMap::new(),
            ended: Vec::new(),
            messages: Vec::new(),
        }
    }
}

impl ModelCommit {
    /// Notes what sinks are sent of a job that may have ended (B2, D6).
    pub(super) fn send_end(&mut self, row: &ModelJob, ending: Option<&Ending>) {
        let (sinks, now) = (&self.wants.sinks, self.now);
        self.messages.extend(match ending {
            Some(ending) => OutboxMessage::result(sinks, ending, &row.record, now),
            None => OutboxMessage::result_without_run(sinks, &row.job.spec.header(), &row.record, now),
        });
        let handed = ending.and_then(|one| OutboxMessage::hand_off(sinks, &row.job, one, &row.record, now));
        self.messages.extend(handed);
        let failure = ending.and_then(|ending| ending.failure.as_ref());
        let code_version = ending.and_then(|ending| ending.code_version.as_deref());
        let letter = OutboxMessage::dead_letter(sinks, &row.job, &row.record, failure, code_version, now);
        self.messages.extend(letter);
    }
}

impl Tables {
    /// The answer to a lease that is not the current hold.
    pub(super) const fn stale(lease: &Lease) -> Stale {
        Stale { job: lease.job, fence: lease.fence }
    }

    pub(super) fn is_live(&self, worker: WorkerId, now: Timestamp) -> bool {
        self.workers.get(&worker).is_some_and(|row| row.is_live(now))
    }

    /// Refuses a worker that is not live.
    pub(super) fn expect_live(&self, worker: WorkerId, now: Timestamp) -> Result<(), Error> {
        if self.is_live(worker, now) { Ok(()) } else { Err(Error::NotEnlisted { worker }) }
    }

    /// The job that `lease` is about, if its worker is live.
    pub(super) fn leased(&mut self, lease: &Lease, now: Timestamp) -> Result<&mut ModelJob, Stale> {
        if !self.is_live(lease.worker, now) {
            return Err(Self::stale(lease));
        }
        self.jobs.get_mut(&lease.job).ok_or_else(|| Self::stale(lease))
    }

    /// The live job, other than `except`, that holds a business key (L11).
    pub(super) fn key_holder(&self, key: Option<&str>, except: Option<JobId>) -> Option<(JobId, &ModelJob)> {
        let key = key?;
        self.jobs
            .iter()
            .map(|(id, row)| (*id, row))
            .filter(|(id, row)| row.record.state.is_live() && Some(*id) != except)
            .find(|(_, row)| row.job.spec.business_key.as_deref() == Some(key))
    }

    /// Stores a job whose checks have passed.
    pub(super) fn insert(&mut self, new: &NewJob, commit: &mut ModelCommit) {
        let record = Record::new(&new.spec, new.start.run_at(commit.now));
        commit.events.push(event::enqueued(new, &record, commit.now));
        commit.work_arrived = true;
        let job = Arc::new(StoredJob { spec: new.spec.clone(), created_at: commit.now });
        self.jobs.insert(new.spec.id, ModelJob { job, record });
        self.join_line(&new.spec);
    }

    /// Stores a callback, once (F14).
    pub(super) fn follow_up(&mut self, callback: Option<&NewJob>, commit: &mut ModelCommit) {
        if let Some(new) = callback.filter(|new| !self.jobs.contains_key(&new.spec.id)) {
            self.insert(new, commit);
        }
    }

    /// Notes the ends of jobs of workflows and batches (W1-W6).
    pub(super) fn note_ends(&mut self, commit: &mut ModelCommit) {
        for ends in EndNote::documents(&std::mem::take(&mut commit.ended)) {
            let key = ends.key(commit.now);
            self.documents.insert((Drawer::WorkflowEnds, key), (1, ends.body.into()));
        }
    }

    /// Leaves messages for sinks (B2).
    pub(super) fn note_messages(&mut self, commit: &ModelCommit) {
        let ModelCommit { now, wants, messages, events, .. } = commit;
        for document in wants.sinks.documents(messages, events, *now) {
            let (drawer, key, body) = outbox_document(document);
            self.documents.insert((drawer, key), (1, body));
        }
    }

    /// Fails a job whose time to start has passed, and answers the callback it asks for (L19, F14).
    pub(super) fn expire_job(&mut self, id: JobId, commit: &mut ModelCommit) -> Option<NewJob> {
        let row = self.jobs.get_mut(&id)?;
        let before = row.record.clone();
        if !row.record.expire(&row.job.spec, commit.now) {
            return None;
        }
        commit.ended.extend(EndNote::of(id, Some(&before), &row.record));
        commit.events.extend(event::expired(&row.job.spec.header(), &row.record, commit.now));
        let (follow_up, row) = (row.job.follow_up(&row.record, false), row.clone());
        self.raise_alert(&row, None, None, commit);
        commit.send_end(&row, None);
        follow_up
    }
}
