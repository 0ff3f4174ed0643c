//! What all processes said, summed up.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use backstop::{Cause, JobId, State, Timestamp, WorkerId};
use backstop_core::Lease;
use backstop_core::failure::Verdict;

use crate::journal::{self, JournalEntry, TriedSubmit};

/// The sum of all journals of a folder.
#[derive(Debug, Default)]
pub struct JournalSummary {
    pub(super) tried: HashMap<JobId, TriedSubmit>,
    /// When each submit was first tried.
    pub(super) tried_at: HashMap<JobId, u64>,
    /// When each submit that made a job was first acknowledged.
    pub(super) stored_at: HashMap<JobId, u64>,
    /// What each acknowledged submit was answered.
    pub(super) acked: HashMap<JobId, BTreeSet<JobId>>,
    /// What was answered for each idempotency key.
    pub(super) keys: HashMap<String, BTreeSet<JobId>>,
    /// How often a claim handed out each hold.
    pub(super) held: HashMap<Lease, usize>,
    pub(super) began: HashMap<JobId, Vec<HandlerStart>>,
    pub(super) ended: HashSet<(Lease, u32)>,
    pub(super) reports: HashMap<Lease, HoldReports>,
    pub(super) refused: Vec<Lease>,
    /// When each cancel was acknowledged.
    pub(super) canceled: HashMap<JobId, u64>,
    pub(super) live: Vec<(String, Vec<JobId>)>,
    pub(super) broken: Vec<String>,
    pub(super) leases: HashMap<WorkerId, LeaseRenewals>,
}

/// A handler that started.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandlerStart {
    pub(super) lease: Lease,
    pub(super) run: u32,
    pub(super) at: u64,
}

/// What became of the reports about one hold.
#[derive(Debug, Default)]
pub(super) struct HoldReports {
    /// Every try, by worker or rescuer.
    pub(super) tries: Vec<(Cause, Verdict)>,
    /// The states that accepted ones answered.
    pub(super) accepted: Vec<State>,
    pub(super) refused: usize,
}

/// What is known of one worker's lease, by the store's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaseRenewals {
    /// It surely ran until this moment.
    pub(super) surely: Timestamp,
    /// It may have run until this one; none while the outcome of a renewal is unknown.
    pub(super) at_most: Option<Timestamp>,
}

impl JournalSummary {
    /// Reads the journals.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let mut summary = Self::default();
        let mut answered = Vec::new();
        for line in journal::read_all(folder).into_iter().flat_map(|(_, lines)| lines) {
            if let JournalEntry::Acked { job, answer } = line.entry {
                answered.push((job, answer));
                if job == answer {
                    summary.stored_at.entry(job).and_modify(|at| *at = line.at.min(*at)).or_insert(line.at);
                }
            } else {
                summary.note(line.at, line.entry);
            }
        }
        for (job, answer) in answered {
            summary.acked.entry(job).or_default().insert(answer);
            // A taken business key is answered with its holder, and the idempotency key is not remembered for that.
            let by_key = summary.tried.get(&job).filter(|tried| tried.business_key.is_none());
            if let Some(key) = by_key.and_then(|tried| tried.idempotency_key.clone()) {
                summary.keys.entry(key).or_default().insert(answer);
            }
        }
        summary
    }

    fn note(&mut self, at: u64, entry: JournalEntry) {
        match entry {
            JournalEntry::Trying(tried) => {
                self.tried_at.entry(tried.job).and_modify(|first| *first = at.min(*first)).or_insert(at);
                self.tried.insert(tried.job, tried);
            }
            JournalEntry::Acked { .. } => {}
            JournalEntry::Held(lease) => *self.held.entry(lease).or_default() += 1,
            JournalEntry::Began { lease, run } => {
                self.began.entry(lease.job).or_default().push(HandlerStart { lease, run, at });
            }
            JournalEntry::Ended { lease, run } => drop(self.ended.insert((lease, run))),
            JournalEntry::Finishing { lease, cause, verdict } => {
                self.reports.entry(lease).or_default().tries.push((cause, verdict));
            }
            JournalEntry::Finished { lease, state } => {
                self.reports.entry(lease).or_default().accepted.push(state);
            }
            JournalEntry::Refused(lease) => {
                self.refused.push(lease);
                self.reports.entry(lease).or_default().refused += 1;
            }
            JournalEntry::Canceled(job) => drop(self.canceled.entry(job).or_insert(at)),
            JournalEntry::Broken(error) => self.broken.push(error),
            JournalEntry::Live(key, jobs) => self.live.push((key, jobs)),
            JournalEntry::Enlisted { worker, earliest, latest } => {
                self.leases.insert(worker, LeaseRenewals { surely: earliest, at_most: Some(latest) });
            }
            JournalEntry::Renewing(worker) => {
                self.leases.entry(worker).and_modify(|lease| lease.at_most = None);
            }
            JournalEntry::Renewed(worker, until) => {
                self.leases
                    .entry(worker)
                    .and_modify(|lease| *lease = LeaseRenewals { surely: until, at_most: Some(until) });
            }
        }
    }
}
