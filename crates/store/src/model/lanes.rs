//! What is shown of queues and lanes. The model counts on every question; other stores keep the counts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backstop_core::job::State;
use backstop_core::{Timestamp, tenant};

use super::tables::{ModelJob, Tables};
use crate::working_set::{LaneKey, lane_of};
use crate::{Duty, Error, HeldLane, Holdings, LaneMark, QueueView, Term};

impl Tables {
    /// How many live workers serve a queue, and how many of them know a kind and version.
    pub(super) fn crew(&self, queue: &str, kind: &str, version: u32, now: Timestamp) -> (usize, usize) {
        let on_queue = || self.workers.values().filter(|row| row.is_live(now) && row.serves(queue));
        (on_queue().count(), on_queue().filter(|row| row.knows(kind, version)).count())
    }

    /// True when a pending job waits only because no live worker of its queue knows it (H10).
    pub(super) fn waits_for_code(&self, row: &ModelJob, now: Timestamp) -> bool {
        let spec = &row.job.spec;
        let (on_queue, for_kind) = self.crew(&spec.queue, &spec.kind, spec.version, now);
        row.record.state == State::Pending && on_queue > 0 && for_kind == 0
    }

    /// True when a pending job shares something with others, and somebody may know its code.
    pub(super) fn may_share(&self, row: &ModelJob, now: Timestamp) -> bool {
        let pending = row.record.state == State::Pending && row.job.spec.needs.is_some();
        pending && !self.waits_for_code(row, now)
    }

    pub(super) fn held_lanes(&self, now: Timestamp) -> Vec<HeldLane> {
        let mut lanes = BTreeMap::new();
        for row in self.jobs.values().filter(|row| self.waits_for_code(row, now)) {
            let spec = &row.job.spec;
            *lanes.entry((spec.queue.to_string(), spec.kind.to_string(), spec.version)).or_default() += 1;
        }
        let lane = |((queue, kind, version), jobs)| HeldLane { queue, kind, version, jobs };
        lanes.into_iter().map(lane).collect()
    }

    pub(super) fn queues(&self, now: Timestamp) -> Vec<QueueView> {
        let of_workers = self
            .workers
            .values()
            .filter(|row| row.is_live(now))
            .flat_map(|row| row.said.queues.iter().map(ToString::to_string));
        let of_lanes: BTreeSet<String> =
            self.lanes_in_use().into_iter().map(|lane| lane.queue.to_string()).collect();
        let at_rest =
            |queue: &str| self.lanes.keys().any(|lane| *lane.queue == *queue) && !of_lanes.contains(queue);
        let of_people = self.paused_queues.iter().filter(|(queue, pause)| pause.is_some() || !at_rest(queue));
        let of_people: Vec<String> = of_people.map(|(queue, _)| queue.clone()).collect();
        let names: BTreeSet<_> = of_lanes.into_iter().chain(of_people).chain(of_workers).collect();
        names.into_iter().map(|name| self.queue_view(name, now)).collect()
    }

    /// How many hot jobs each lane has.
    fn lane_jobs(&self) -> BTreeMap<LaneKey, u64> {
        let mut jobs = BTreeMap::new();
        for row in self.jobs.values() {
            *jobs.entry(lane_of(&row.job.spec)).or_default() += 1;
        }
        jobs
    }

    /// The lanes that lists and limits count: those that have jobs, or are not retired.
    fn lanes_in_use(&self) -> BTreeSet<LaneKey> {
        let known = self.lanes.iter().filter(|(_, mark)| !mark.retired).map(|(lane, _)| lane.clone());
        known.chain(self.lane_jobs().into_keys()).collect()
    }

    pub(super) fn holdings(&self, tenant: &str, most: usize) -> Holdings {
        let mut lanes = self.lanes_in_use();
        lanes.retain(|lane| tenant::of_queue(&lane.queue) == Some(tenant));
        let prefix = tenant::incident_prefix(tenant);
        let paused =
            self.paused_queues.keys().filter(|queue| tenant::of_queue(queue) == Some(tenant)).cloned();
        let queues: BTreeSet<String> =
            lanes.iter().map(|lane| lane.queue.to_string()).chain(paused).collect();
        let kinds: BTreeSet<String> = lanes.iter().map(|lane| lane.kind.to_string()).collect();
        Holdings {
            queues: queues.into_iter().take(most).collect(),
            kinds: kinds.into_iter().take(most).collect(),
            incidents: self.incidents.values().filter(|it| it.kind.starts_with(&prefix)).take(most).count(),
        }
    }

    pub(super) fn retire_lanes(
        &mut self,
        term: &Term,
        idle: Duration,
        limit: usize,
        now: Timestamp,
    ) -> Result<usize, Error> {
        self.expect_term(term, Duty::Prune, now)?;
        let (jobs, mut marked) = (self.lane_jobs(), 0);
        let seen = |lane: &LaneKey, mark: LaneMark| {
            mark.seen(jobs.get(lane).copied().unwrap_or_default(), idle, now)
        };
        let changed = self.lanes.iter_mut().filter(|(lane, mark)| seen(lane, **mark) != **mark);
        for (lane, mark) in changed.take(limit) {
            *mark = seen(lane, *mark);
            marked += 1;
        }
        Ok(marked)
    }

    fn queue_view(&self, name: String, now: Timestamp) -> QueueView {
        let rows = || self.jobs.values().filter(|row| *row.job.spec.queue == *name);
        let in_state = |state| count(rows().filter(|row| row.record.state == state));
        let held = count(rows().filter(|row| self.waits_for_code(row, now)));
        let sharing = count(rows().filter(|row| self.may_share(row, now)));
        let oldest_due = rows()
            .filter(|row| row.record.is_due(now) && !self.waits_for_code(row, now))
            .map(|row| row.record.run_at)
            .min();
        QueueView {
            paused: self.is_paused(&name),
            pause_note: self.paused_queues.get(&name).cloned().flatten().and_then(|pause| pause.0),
            pending: in_state(State::Pending) - held,
            sharing,
            waiting: in_state(State::Waiting) + held,
            running: in_state(State::Running),
            paused_jobs: in_state(State::Paused),
            succeeded: in_state(State::Succeeded),
            failed: in_state(State::Failed),
            canceled: in_state(State::Canceled),
            oldest_due,
            workers: count(self.workers.values().filter(|row| row.is_live(now) && row.serves(&name))),
            name,
        }
    }
}

/// How many there are, in the width that views show.
pub(super) fn count<T>(items: impl Iterator<Item = T>) -> u64 {
    items.fold(0, |sum, _| sum + 1)
}
