//! What all processes said, summed up.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use backstop::core::Lease;
use backstop::core::failure::Verdict;
use backstop::{Cause, JobId, State, Timestamp, WorkerId};

use crate::journal::{self, Entry, Tried};

/// The sum of all journals of a folder.
#[derive(Debug, Default)]
pub struct Said {
    pub(super) tried: HashMap<JobId, Tried>,
    /// What each acknowledged submit was answered.
    pub(super) acked: HashMap<JobId, BTreeSet<JobId>>,
    /// What was answered for each idempotency key.
    pub(super) keys: HashMap<String, BTreeSet<JobId>>,
    /// How often a claim handed out each hold.
    pub(super) held: HashMap<Lease, usize>,
    pub(super) began: HashMap<JobId, Vec<Began>>,
    pub(super) ended: HashSet<(Lease, u32)>,
    pub(super) reports: HashMap<Lease, Reports>,
    pub(super) refused: Vec<Lease>,
    /// When each cancel was acknowledged.
    pub(super) canceled: HashMap<JobId, u64>,
    pub(super) live: Vec<(String, Vec<JobId>)>,
    pub(super) broken: Vec<String>,
    pub(super) leases: HashMap<WorkerId, Renewals>,
}

/// A handler that started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Began {
    pub(super) lease: Lease,
    pub(super) run: u32,
    pub(super) at: u64,
}

/// What became of the reports about one hold.
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Every try, by worker or rescuer.
    pub(super) tries: Vec<(Cause, Verdict)>,
    /// The states that accepted ones answered.
    pub(super) accepted: Vec<State>,
    pub(super) refused: usize,
}

/// What is known of one worker's lease, by the store's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Renewals {
    /// It surely ran until this moment.
    pub(super) surely: Timestamp,
    /// It may have run until this one; none while the outcome of a renewal is unknown.
    pub(super) at_most: Option<Timestamp>,
}

impl Said {
    /// Reads the journals.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let mut said = Self::default();
        let mut answered = Vec::new();
        for line in journal::read_all(folder).into_iter().flat_map(|(_, lines)| lines) {
            if let Entry::Acked { job, answer } = line.entry {
                answered.push((job, answer));
            } else {
                said.note(line.at, line.entry);
            }
        }
        for (job, answer) in answered {
            said.acked.entry(job).or_default().insert(answer);
            // A taken business key is answered with its holder, and the idempotency key is not remembered for that.
            let by_key = said.tried.get(&job).filter(|tried| tried.business_key.is_none());
            if let Some(key) = by_key.and_then(|tried| tried.idempotency_key.clone()) {
                said.keys.entry(key).or_default().insert(answer);
            }
        }
        said
    }

    fn note(&mut self, at: u64, entry: Entry) {
        match entry {
            Entry::Trying(tried) => drop(self.tried.insert(tried.job, tried)),
            Entry::Acked { .. } => {}
            Entry::Held(lease) => *self.held.entry(lease).or_default() += 1,
            Entry::Began { lease, run } => {
                self.began.entry(lease.job).or_default().push(Began { lease, run, at });
            }
            Entry::Ended { lease, run } => drop(self.ended.insert((lease, run))),
            Entry::Finishing { lease, cause, verdict } => {
                self.reports.entry(lease).or_default().tries.push((cause, verdict));
            }
            Entry::Finished { lease, state } => {
                self.reports.entry(lease).or_default().accepted.push(state);
            }
            Entry::Refused(lease) => {
                self.refused.push(lease);
                self.reports.entry(lease).or_default().refused += 1;
            }
            Entry::Canceled(job) => drop(self.canceled.entry(job).or_insert(at)),
            Entry::Broken(error) => self.broken.push(error),
            Entry::Live(key, jobs) => self.live.push((key, jobs)),
            Entry::Enlisted { worker, earliest, latest } => {
                self.leases.insert(worker, Renewals { surely: earliest, at_most: Some(latest) });
            }
            Entry::Renewing(worker) => {
                self.leases.entry(worker).and_modify(|lease| lease.at_most = None);
            }
            Entry::Renewed(worker, until) => {
                self.leases
                    .entry(worker)
                    .and_modify(|lease| *lease = Renewals { surely: until, at_most: Some(until) });
            }
        }
    }
}
