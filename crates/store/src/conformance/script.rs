//! Random commands that are likely to meet each other: small pools of names, keys, workers and jobs.
//!
//! A script knows what earlier answers taught it, so leases and terms are real ones, fresh or long stale.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::{TerminalReason, Verdict};
use backstop_core::incident::IncidentState;
use backstop_core::job::{Aging, Operation, Progress, Retention, State, StepFact, StepWrite};
use backstop_core::run_limit::{CountBy, RunLimit, RunRate};
use backstop_core::tenant::NO_TENANT;
use backstop_core::{JobId, Lease, Timestamp, WorkerId};

use super::build::{fingerprint, id, other_fence, worker_id};
use super::command::{ScriptCommand, ScriptState};
use super::dice::SeededRandom;
use crate::{
    Claim, ClaimQueue, ClaimedJob, DocumentRange, Drawer, Duty, Finish, IncidentFilter, JobFilter, KnownKind,
    NewWorker, Note, PageRequest, Submit, Term,
};

pub(super) const QUEUES: [&str; 3] = ["a", "acme/b", "c"];
pub(super) const KINDS: [&str; 3] = ["x", "y", "z"];
pub(super) const KEYS: [&str; 4] = ["k1", "k2", "k3", "k4"];
pub(super) const TAGS: [&str; 2] = ["red", "blue"];
pub(super) const MESSAGES: [&str; 4] = ["broken", "too late", "refused", "no such host"];

/// Where a sequence of commands comes from.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) dice: SeededRandom,
    /// The moment the store shows, for due times near it.
    pub(super) now: Timestamp,
    /// Numbers of jobs given out so far.
    pub(super) latest: u64,
    /// Jobs that were named so far, some of them often.
    pub(super) jobs: Vec<JobId>,
    /// Holds that no ending was sent for yet.
    open: Vec<ClaimedJob>,
    /// Holds of long ago.
    pub(super) past: Vec<ClaimedJob>,
    /// Jobs that an ending wanted dead.
    pub(super) dead: Vec<JobId>,
    /// Jobs that a person wanted paused.
    paused: Vec<JobId>,
    orphans: Vec<ClaimedJob>,
    terms: Vec<Term>,
    workers: Vec<WorkerId>,
}

type Maker = fn(&mut Script) -> ScriptCommand;

/// Every command with its weight.
const WEIGHTS: &[(u64, Maker)] = &[
    (22, |script| ScriptCommand::Submit(script.submit())),
    (24, Script::claim),
    (28, Script::finish),
    (22, Script::operate),
    (9, Script::advance),
    (6, |script| ScriptCommand::Start(script.leases())),
    (4, Script::annotate),
    (6, Script::enlist),
    (7, Script::renew),
    (2, |script| ScriptCommand::Retire(script.worker())),
    (6, Script::lead),
    (5, |script| ScriptCommand::Orphans(script.count(6))),
    (6, Script::rescue),
    (5, Script::expire),
    (8, Script::archive),
    (3, |script| ScriptCommand::PauseQueue(script.dice.one_of(&QUEUES).to_owned(), script.dice.percent(25))),
    (3, |script| ScriptCommand::Peek(script.claim_of())),
    (4, Script::list),
    (1, |script| ScriptCommand::Jobs((0..script.count(4)).map(|_| script.job()).collect())),
    (1, |script| ScriptCommand::Archived((0..script.count(4)).map(|_| script.job()).collect())),
    (2, |script| ScriptCommand::Attempts(script.job(), PageRequest { limit: script.count(3), after: None })),
    (2, |script| ScriptCommand::Surroundings(script.job())),
    (1, |_| ScriptCommand::Queues),
    (1, |_| ScriptCommand::Workers),
    (3, Script::incidents),
    (1, |_| ScriptCommand::HeldLanes),
    (14, Script::say),
    (10, Script::amend),
    (3, Script::purge),
    (4, Script::prune),
    (2, |script| ScriptCommand::Survey(Box::new(script.filter()), script.count(40))),
    (1, |script| {
        let drawer = script.dice.one_of(&Drawer::ALL);
        let is_bucket = matches!(drawer, Drawer::RunBuckets | Drawer::KeyBuckets);
        let drawer = if is_bucket { Drawer::RunLimits } else { drawer };
        ScriptCommand::Documents(DocumentRange::first(drawer, script.count(4)))
    }),
    (1, |script| ScriptCommand::ArchivePage(PageRequest { limit: script.count(4), after: None })),
    (1, |_| ScriptCommand::Reopen),
];

/// The first key may start two jobs in its turn.
fn weights() -> BTreeMap<Arc<str>, u32> {
    [(KEYS[0].into(), 2)].into()
}

/// One of a few steps, by what was thrown: no die is thrown for it (W7, W8).
fn step_of(percent: u8, said: String) -> StepWrite {
    let fact = match percent % 3 {
        0 => StepFact::Begun(said),
        1 if percent > 80 => StepFact::NotDone,
        _ => StepFact::Done(format!("\"{said}\"").into()),
    };
    StepWrite {
        index: (percent > 20).then_some(u32::from(percent % 5)),
        name: format!("s{}", percent % 5),
        fact,
    }
}

impl Script {
    fn incidents(&mut self) -> ScriptCommand {
        let state = self.dice.percent(50).then(|| self.dice.one_of(&IncidentState::ALL));
        let filter = IncidentFilter { state, open: self.dice.percent(50), ..IncidentFilter::default() };
        ScriptCommand::Incidents(filter, self.count(3))
    }

    pub(super) fn new(seed: u64, now: Timestamp) -> Self {
        Self {
            dice: SeededRandom::new(seed),
            now,
            latest: 0,
            jobs: Vec::new(),
            open: Vec::new(),
            past: Vec::new(),
            dead: Vec::new(),
            paused: Vec::new(),
            orphans: Vec::new(),
            terms: Vec::new(),
            workers: Vec::new(),
        }
    }

    /// The next command. A script without workers begins with one, or little would ever happen.
    pub(super) fn next(&mut self) -> ScriptCommand {
        if self.workers.is_empty() {
            return self.enlist();
        }
        let mut throw = self.dice.between(1, WEIGHTS.iter().map(|(weight, _)| weight).sum());
        for (weight, make) in WEIGHTS {
            if throw <= *weight {
                return make(self);
            }
            throw -= weight;
        }
        ScriptCommand::Queues
    }

    /// Takes in what an answer taught.
    pub(super) fn learn(&mut self, learned: ScriptState) {
        self.jobs.extend(learned.claimed.iter().map(|claimed| claimed.job.spec.id));
        self.open.extend(learned.claimed);
        self.terms.extend(learned.terms);
        if !learned.orphans.is_empty() {
            self.orphans = learned.orphans;
        }
    }

    /// A number from 0 to `most`, rarely 0.
    pub(super) fn count(&mut self, most: u64) -> usize {
        let low = u64::from(!self.dice.percent(5));
        usize::try_from(self.dice.between(low, most)).unwrap_or(0)
    }

    pub(super) fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.dice.between(0, most))
    }

    /// A job that was named before, often one that has run, rarely one that nobody knows.
    pub(super) fn job(&mut self) -> JobId {
        let run = self.dice.pick(&self.past).map(|hold| hold.job.spec.id);
        let named = self.dice.pick(&self.jobs);
        let known = if self.dice.percent(50) { run.or(named) } else { named };
        known.filter(|_| !self.dice.percent(5)).unwrap_or_else(|| id(9_999))
    }

    fn worker(&mut self) -> WorkerId {
        worker_id(self.dice.between(1, 4))
    }

    /// A worker that made itself known, mostly: it may have fallen silent since.
    fn enlisted(&mut self) -> WorkerId {
        let known = self.dice.pick(&self.workers);
        known.filter(|_| !self.dice.percent(5)).unwrap_or_else(|| worker_id(9))
    }

    fn kinds(&mut self) -> Arc<[KnownKind]> {
        let known: Vec<_> = KINDS.into_iter().filter(|_| self.dice.percent(80)).collect();
        let versions = |script: &mut Self| if script.dice.percent(60) { 3 } else { script.version() };
        known.into_iter().map(|kind| KnownKind { kind: kind.into(), version: versions(self) }).collect()
    }

    fn version(&mut self) -> u32 {
        u32::try_from(self.dice.between(1, 3)).unwrap_or(1)
    }

    fn advance(&mut self) -> ScriptCommand {
        // Odd microseconds, so that no two moments fall together by habit; sometimes exactly whole seconds.
        let step = if self.dice.percent(50) {
            Duration::from_secs(self.dice.between(0, 9))
        } else {
            Duration::from_micros(self.dice.between(1, 9_000_000))
        };
        ScriptCommand::Advance(step)
    }

    fn submit(&mut self) -> Submit {
        let jobs: Vec<_> = (0..self.count(4)).map(|_| self.draft()).collect();
        self.jobs.extend(jobs.iter().map(|new| new.spec.id));
        Submit { jobs, atomic: self.dice.percent(50) }
    }

    fn claim(&mut self) -> ScriptCommand {
        ScriptCommand::Claim(self.claim_of())
    }

    fn claim_of(&mut self) -> Claim {
        let from = self.count(3);
        let wanted = (0..3).map(|step| ClaimQueue {
            queue: QUEUES[(from + step) % QUEUES.len()].into(),
            limit: self.count(3),
            start: self.count(3),
            any_kind: self.dice.percent(20),
        });
        let mut queues: Vec<_> = wanted.collect();
        if self.dice.percent(30) {
            queues.truncate(self.count(2));
        } else if self.dice.percent(10) {
            queues.extend(queues.first().cloned());
        }
        let aging = Aging(Duration::from_secs(self.dice.one_of(&[0, 3, 900])));
        let limits = self.limits(&mut queues);
        Claim { worker: self.enlisted(), queues, kinds: self.kinds(), aging, limits }
    }

    /// Limits for every third claim (H5), by what was thrown for it: no die is thrown for them.
    fn limits(&self, queues: &mut [ClaimQueue]) -> Arc<[RunLimit]> {
        let seed: usize = queues.iter().map(|wanted| wanted.limit + 2 * wanted.start).sum();
        if !seed.is_multiple_of(3) {
            return Arc::default();
        }
        // How limits count kinds that nobody knows is not for a property to say.
        queues.iter_mut().for_each(|wanted| wanted.any_kind = false);
        let rate = RunRate { count: 3, per: Duration::from_secs(60) };
        let first = queues.first().map(|wanted| wanted.queue.clone());
        let all = [
            RunLimit { concurrency: Some(4), ..RunLimit::new("all") },
            RunLimit { kind: Some(KINDS[0].into()), concurrency: Some(2), ..RunLimit::new("kind") },
            RunLimit { queue: first, rate: Some(rate), ..RunLimit::new("rate") },
            RunLimit { permits: Some(3), ..RunLimit::new("pool") },
            RunLimit { by: CountBy::Key, concurrency: Some(2), ..RunLimit::new("key") },
            RunLimit { by: CountBy::Key, rate: Some(rate), weights: weights(), ..RunLimit::new("key rate") },
        ];
        all.into_iter().skip(seed % 2).collect()
    }

    /// A hold that a claim once gave: mostly one that may still stand, now and then one that never was.
    fn hold(&mut self) -> Option<ClaimedJob> {
        let (open, past) = (self.dice.pick(&self.open), self.dice.pick(&self.past));
        let mut hold = if self.dice.percent(85) { open.or(past) } else { past.or(open) }?;
        match self.dice.between(1, 40) {
            1 => hold.lease = other_fence(hold.lease, 1),
            2 => hold.lease.worker = self.worker(),
            3 => hold.lease.job = self.job(),
            _ => {}
        }
        Some(hold)
    }

    fn leases(&mut self) -> Vec<Lease> {
        (0..self.count(4)).filter_map(|_| self.hold()).map(|hold| hold.lease).collect()
    }

    fn finish(&mut self) -> ScriptCommand {
        let holds: Vec<_> = (0..self.count(3)).filter_map(|_| self.hold()).collect();
        self.past.extend(holds.iter().cloned());
        self.open.retain(|open| holds.iter().all(|hold| hold.lease != open.lease));
        ScriptCommand::Finish(self.endings(&holds))
    }

    fn endings(&mut self, holds: &[ClaimedJob]) -> Vec<Finish> {
        let end = |hold: &ClaimedJob| {
            let ending = self.ending(hold);
            if matches!(ending.decision.verdict, Verdict::Dead { .. }) {
                self.dead.push(hold.lease.job);
            }
            Finish { lease: hold.lease, ending }
        };
        holds.iter().map(end).collect()
    }

    fn annotate(&mut self) -> ScriptCommand {
        let note = |script: &mut Self, lease| {
            let percent = u8::try_from(script.dice.between(0, 100)).unwrap_or(0);
            let note = script.dice.one_of(&MESSAGES).to_owned();
            match percent % 4 {
                0 => return Note::log(lease, vec![note], 40),
                1 => return Note::step(lease, step_of(percent, note)),
                _ => {}
            }
            Note::progress(lease, Progress { percent, note })
        };
        let leases = self.leases();
        ScriptCommand::Annotate(leases.into_iter().map(|lease| note(self, lease)).collect())
    }

    fn enlist(&mut self) -> ScriptCommand {
        let id = self.worker();
        self.workers.push(id);
        let served: Vec<_> = QUEUES.into_iter().filter(|_| self.dice.percent(60)).collect();
        ScriptCommand::Enlist(NewWorker {
            id,
            name: self.dice.one_of(&["one", "two"]).to_owned(),
            code_version: self.dice.pick(&[None, Some("v1".to_owned()), Some("v2".to_owned())]).flatten(),
            queues: served.into_iter().map(Into::into).collect(),
            kinds: self.kinds(),
            lease: Duration::from_secs(self.dice.between(8, 90)),
        })
    }

    fn renew(&mut self) -> ScriptCommand {
        let lease = Duration::from_secs(self.dice.between(1, 60));
        ScriptCommand::Renew(self.enlisted(), lease, self.leases())
    }

    pub(super) fn lead(&mut self) -> ScriptCommand {
        let duties = (0..self.count(4)).map(|_| self.dice.one_of(&Duty::ALL)).collect();
        let ttl = Duration::from_secs(self.dice.between(5, 60));
        ScriptCommand::Lead(worker_id(self.dice.between(1, 2)), duties, ttl)
    }

    /// The latest term of a duty, mostly; before there is one, the leadership is asked for.
    pub(super) fn term(&mut self, duty: Duty) -> Option<Term> {
        let of_duty: Vec<_> = self.terms.iter().filter(|term| term.duty == duty).copied().collect();
        match self.dice.between(1, 10) {
            1 => self.dice.pick(&self.terms),
            2 => self.dice.pick(&of_duty),
            _ => of_duty.last().copied(),
        }
    }

    fn rescue(&mut self) -> ScriptCommand {
        let Some(term) = self.term(Duty::Rescue) else { return self.lead() };
        let mut holds: Vec<_> = (0..self.count(3)).filter_map(|_| self.dice.pick(&self.orphans)).collect();
        if self.dice.percent(20) {
            holds.extend(self.hold());
        }
        ScriptCommand::Rescue(term, self.endings(&holds))
    }

    fn expire(&mut self) -> ScriptCommand {
        let Some(term) = self.term(Duty::Expire) else { return self.lead() };
        ScriptCommand::Expire(term, self.count(3))
    }

    fn archive(&mut self) -> ScriptCommand {
        let Some(term) = self.term(Duty::Archive) else {
            return ScriptCommand::Lead(worker_id(1), vec![Duty::Archive], Duration::from_secs(60));
        };
        let most = self.dice.one_of(&[0, 9_000, 9_000]);
        let mut span = || self.dice.percent(80).then(|| self.millis(most));
        let retention = Retention::default().succeeded(span()).canceled(span()).failed(span());
        ScriptCommand::Archive(term, retention, self.count(4))
    }

    fn operate(&mut self) -> ScriptCommand {
        let reason = self.dice.one_of(&MESSAGES).to_owned();
        let (operation, likely) = match self.dice.between(1, 10) {
            10 => (self.redrive(), self.dead.clone()),
            1 | 2 => (Operation::Cancel { reason }, Vec::new()),
            3 | 4 => (Operation::Pause, self.dead.clone()),
            5 | 6 => (Operation::Resume, self.paused.clone()),
            _ => (Operation::Retry, self.dead.clone()),
        };
        let choose = |script: &mut Self| {
            let fitting = script.dice.pick(&likely).filter(|_| script.dice.percent(70));
            fitting.unwrap_or_else(|| script.job())
        };
        let jobs: Vec<_> = (0..self.count(3)).map(|_| choose(self)).collect();
        if operation == Operation::Pause {
            self.paused.extend(&jobs);
        }
        ScriptCommand::Operate(jobs, operation)
    }

    fn list(&mut self) -> ScriptCommand {
        let filter = self.filter();
        let after = self.dice.percent(30).then(|| self.job());
        ScriptCommand::List(Box::new(filter), PageRequest { limit: self.count(5), after })
    }

    pub(super) fn filter(&mut self) -> JobFilter {
        let moment = self.now.before(self.millis(20_000));
        let text = |text: &str| Some(text.to_owned());
        let mut filter = JobFilter::default();
        for _ in 0..self.count(2) {
            match self.dice.between(1, 12) {
                1 => filter.queue = text(self.dice.one_of(&QUEUES)),
                2 => filter.kind = text(self.dice.one_of(&KINDS)),
                3 => filter.state = Some(self.dice.one_of(&State::ALL)),
                4 => filter.tag = text(self.dice.one_of(&TAGS)),
                5 => filter.business_key = text(self.dice.one_of(&KEYS)),
                6 => filter.reason = Some(self.dice.one_of(TerminalReason::ALL)),
                7 => filter.fingerprint = text(fingerprint(self.dice.one_of(&MESSAGES)).as_ref()),
                8 => filter.created_after = Some(moment),
                9 => filter.finished_after = Some(moment),
                11 => filter.tenant = text(self.dice.one_of(&["acme", NO_TENANT, "other"])),
                10 => filter.finished_before = Some(moment),
                // Without a throw of its own: seeds go on to mean what they meant.
                _ if moment.as_micros() % 2_000 == 0 => {
                    filter.id_from = self.jobs.get(self.jobs.len() / 2).copied();
                }
                _ => filter.created_before = Some(moment),
            }
        }
        filter
    }
}
