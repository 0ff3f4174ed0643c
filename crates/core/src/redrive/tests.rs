//! Plans through every phase, by tables and by random walks.

mod conduct;
mod phases;
mod random;
mod selecting;

use std::time::Duration;

use super::*;
use crate::failure::fingerprint::fingerprint;
use crate::failure::{Fingerprint, TerminalReason};
use crate::id::JobId;
use crate::job::{FailureRecord, JobSummary, JobView, PlanId, Record, Spec, State, StoredJob};
use crate::time::Timestamp;

const KIND: &str = "invoice.render";

fn at(seconds: u64) -> Timestamp {
    Timestamp::EPOCH.after(Duration::from_secs(seconds))
}

/// The fingerprint of the bug with this name.
fn bug(name: &str) -> Fingerprint {
    fingerprint(KIND, "RenderError", name)
}

fn failure(name: &str) -> FailureRecord {
    FailureRecord { error_type: "RenderError".into(), message: name.into(), fingerprint: bug(name) }
}

/// A dead letter that died of `bug` at second 10.
fn dead(id: u128, bug: &str) -> JobView {
    let spec = Spec::new(JobId::from_u128(id), KIND, "{}");
    let mut record = Record::new(&spec, at(0));
    record.state = State::Failed;
    record.reason = Some(TerminalReason::RetryExhausted);
    record.finished_at = Some(at(10));
    record.runs = 6;
    record.last_failed_run = Some(6);
    JobView {
        job: StoredJob { spec, created_at: at(0) },
        record,
        waits_for_code: false,
        held_by: None,
        last_failure: Some(failure(bug)),
        result: None,
        warning: None,
        started_at: Some(at(9)),
    }
}

fn draft(selector: PlanSelector, settings: PlanSettings) -> PlanDraft {
    PlanDraft {
        id: PlanId::from_number(7),
        selector,
        settings,
        needs: None,
        about: None,
        by: "ann".into(),
        note: "after the fix".into(),
    }
}

/// A plan for the incident `null`, made at second 100.
fn plan(settings: PlanSettings) -> Plan {
    let draft = draft(PlanSelector::incident(bug("null")), settings);
    Plan::new(draft, 5, at(100)).expect("a sound plan")
}

/// Dead letters and a plan that goes over them, as a store would hold both.
struct World {
    plan: Plan,
    jobs: Vec<JobView>,
    open: Vec<PlanJob>,
    ended: Vec<PlanJob>,
    code_is_live: bool,
}

impl World {
    /// Jobs 1 to `count`, all dead of the bug `null`.
    fn of(count: u128, settings: PlanSettings) -> Self {
        let jobs = (1..=count).map(|id| dead(id, "null")).collect();
        Self { plan: plan(settings), jobs, open: Vec::new(), ended: Vec::new(), code_is_live: true }
    }

    fn started(count: u128, settings: PlanSettings) -> Self {
        let mut world = Self::of(count, settings);
        world.plan.start("ann", at(100)).expect("planned");
        world
    }

    fn job(&mut self, id: u128) -> &mut JobView {
        let id = JobId::from_u128(id);
        self.jobs.iter_mut().find(|view| view.job.spec.id == id).expect("a job of this world")
    }

    /// One step: observe, advance, take from pages of `page` rows, drive. Answers which jobs it drove.
    fn step(&mut self, page: usize, now: Timestamp) -> Vec<u128> {
        let World { plan, jobs, open, ended, .. } = self;
        open.retain_mut(|item| {
            let job = jobs.iter().find(|view| view.job.spec.id == item.job).map(JobSummary::from);
            let is_open =
                plan.observe(item, job.as_ref().map_or(DrivenJob::Missing, DrivenJob::Job), now).is_none();
            if !is_open {
                ended.push(item.clone());
            }
            is_open
        });
        let PlanStep::Candidates(_) = self.plan.advance(self.code_is_live, now) else { return Vec::new() };
        let behind = |view: &&JobView| {
            view.record.state == State::Failed
                && self.plan.cursor.is_none_or(|cursor| view.job.spec.id < cursor)
        };
        let mut offered: Vec<JobView> = self.jobs.iter().filter(behind).cloned().collect();
        offered.sort_by_key(|view| std::cmp::Reverse(view.job.spec.id));
        let more = offered.len() > page;
        offered.truncate(page);
        let taken = self.plan.take(&offered, more, now);
        self.ended.extend(taken.left_out);
        let driven = taken.drives.iter().map(|drive| drive.item.job.as_uuid().as_u128()).collect();
        for PlanDrive { item, operation } in taken.drives {
            let view =
                self.jobs.iter_mut().find(|view| view.job.spec.id == item.job).expect("it was offered");
            view.record.operate(&view.job, &operation, now).expect("a dead letter can be driven");
            view.last_failure = None;
            self.open.push(item);
        }
        driven
    }

    fn succeed(&mut self, id: u128, now: Timestamp) {
        let record = &mut self.job(id).record;
        record.state = State::Succeeded;
        record.finished_at = Some(now);
    }

    fn die(&mut self, id: u128, bug: &str, now: Timestamp) {
        let view = self.job(id);
        view.record.state = State::Failed;
        view.record.reason = Some(TerminalReason::RetryExhausted);
        view.record.finished_at = Some(now);
        view.last_failure = Some(failure(bug));
    }

    fn succeed_all_open(&mut self, now: Timestamp) {
        let open: Vec<u128> = self.open.iter().map(|item| item.job.as_uuid().as_u128()).collect();
        for id in open {
            self.succeed(id, now);
        }
    }
}
