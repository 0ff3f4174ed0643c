//! What all processes said, summed up.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
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
    /// When the claims of each job were asked for.
    pub(super) asked: HashMap<JobId, Vec<u64>>,
    pub(super) began: HashMap<JobId, Vec<HandlerStart>>,
    pub(super) ended: HashSet<(Lease, u32)>,
    /// The keys under which handlers did what they do outside, each time.
    pub(super) effects: HashMap<JobId, Vec<String>>,
    /// What was called and given of each step of each job, by name (W7).
    pub(super) steps: HashMap<JobId, BTreeMap<String, StepRuns>>,
    /// What runs were told when they asked whether an effect had happened (W8).
    pub(super) asked_outside: HashMap<JobId, BTreeMap<u32, bool>>,
    /// What bulk handlers did with each job in each run, in order (W12).
    pub(super) bulk: HashMap<JobId, BTreeMap<u32, Vec<BulkFact>>>,
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
}

/// What a bulk handler did with one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BulkFact {
    /// It was called with so many jobs, this one among them.
    Called(usize),
    /// It said that this one has succeeded.
    Answered,
}

/// In which runs the code of a step was called, how often in each, and what its results said.
#[derive(Debug, Default)]
pub(super) struct StepRuns {
    pub(super) called: BTreeMap<u32, usize>,
    pub(super) given: BTreeSet<u32>,
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
///
/// The lease of a remote worker's jobs may be renewed by another server than the one that gave it: journals are read in
/// any order, and the latest moment of all of them counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaseRenewals {
    /// It surely ran until this moment.
    pub(super) surely: Timestamp,
    latest: Timestamp,
    /// A renewal was asked for in the journal that is being read, and not answered.
    is_asked: bool,
    /// One was never answered.
    is_unknown: bool,
}

impl LeaseRenewals {
    const NONE: Self =
        Self { surely: Timestamp::MIN, latest: Timestamp::MIN, is_asked: false, is_unknown: false };

    /// It may have run until this moment; none when the outcome of a renewal is unknown.
    pub(super) fn at_most(&self) -> Option<Timestamp> {
        let known = !self.is_asked && !self.is_unknown && self.latest > Timestamp::MIN;
        known.then_some(self.latest)
    }

    fn extend(&mut self, surely: Timestamp, latest: Timestamp) {
        self.surely = self.surely.max(surely);
        self.latest = self.latest.max(latest);
        self.is_asked = false;
    }
}

impl JournalSummary {
    /// True when a handler was called for this run of a job.
    #[must_use]
    pub fn began(&self, job: JobId, run: u32) -> bool {
        self.began.get(&job).is_some_and(|starts| starts.iter().any(|start| start.run == run))
    }

    /// Reads the journals.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let mut summary = Self::default();
        let mut answered = Vec::new();
        for (_, lines) in journal::read_all(folder) {
            for line in lines {
                if let JournalEntry::Acked { job, answer } = line.entry {
                    answered.push((job, answer));
                    if job == answer {
                        let first = summary.stored_at.entry(job).or_insert(line.at);
                        *first = line.at.min(*first);
                    }
                } else {
                    summary.note(line.at, line.entry);
                }
            }
            summary.end_of_journal();
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

    /// How often a job did what it does outside.
    #[must_use]
    pub fn effects_of(&self, job: JobId) -> usize {
        self.effects.get(&job).map_or(0, Vec::len)
    }

    fn note(&mut self, at: u64, entry: JournalEntry) {
        match entry {
            JournalEntry::Trying(tried) => {
                self.tried_at.entry(tried.job).and_modify(|first| *first = at.min(*first)).or_insert(at);
                self.tried.insert(tried.job, tried);
            }
            JournalEntry::Acked { .. } => {}
            JournalEntry::Held { lease, asked } => {
                *self.held.entry(lease).or_default() += 1;
                self.asked.entry(lease.job).or_default().push(asked);
            }
            JournalEntry::Began { lease, run } => {
                self.began.entry(lease.job).or_default().push(HandlerStart { lease, run });
            }
            JournalEntry::Ended { lease, run } => drop(self.ended.insert((lease, run))),
            JournalEntry::Effect { job, key } => self.effects.entry(job).or_default().push(key),
            JournalEntry::Stepping { job, name, run } => {
                *self.step(job, name).called.entry(run).or_default() += 1;
            }
            JournalEntry::Stepped { job, name, run } => drop(self.step(job, name).given.insert(run)),
            JournalEntry::Asked { job, run, happened } => {
                self.asked_outside.entry(job).or_default().insert(run, happened);
            }
            JournalEntry::Called { job, run, jobs } => self.bulk(job, run).push(BulkFact::Called(jobs)),
            JournalEntry::Answered { job, run } => self.bulk(job, run).push(BulkFact::Answered),
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
                self.lease(worker).extend(earliest, latest);
            }
            JournalEntry::Renewing(worker) => {
                self.lease(worker).is_asked = true;
            }
            JournalEntry::Renewed(worker, until) => {
                self.lease(worker).extend(until, until);
            }
        }
    }

    fn step(&mut self, job: JobId, name: String) -> &mut StepRuns {
        self.steps.entry(job).or_default().entry(name).or_default()
    }

    fn bulk(&mut self, job: JobId, run: u32) -> &mut Vec<BulkFact> {
        self.bulk.entry(job).or_default().entry(run).or_default()
    }

    fn lease(&mut self, worker: WorkerId) -> &mut LeaseRenewals {
        self.leases.entry(worker).or_insert(LeaseRenewals::NONE)
    }

    /// A journal has been read to its end: what was not answered in it never was.
    fn end_of_journal(&mut self) {
        for lease in self.leases.values_mut() {
            lease.is_unknown |= std::mem::take(&mut lease.is_asked);
        }
    }
}
