//! What is shown of queues and lanes. The model counts on every question; other stores keep the counts.

use std::collections::{BTreeMap, BTreeSet};

use backstop_core::Timestamp;
use backstop_core::job::State;

use super::tables::{JobRow, Tables};
use crate::{HeldLane, QueueView};

impl Tables {
    /// How many live workers serve a queue, and how many of them know a kind and version.
    pub(super) fn crew(&self, queue: &str, kind: &str, version: u32, now: Timestamp) -> (usize, usize) {
        let on_queue = || self.workers.values().filter(|row| row.is_live(now) && row.serves(queue));
        (on_queue().count(), on_queue().filter(|row| row.knows(kind, version)).count())
    }

    /// True when a pending job waits only because no live worker of its queue knows it (H10).
    pub(super) fn waits_for_code(&self, row: &JobRow, now: Timestamp) -> bool {
        let spec = &row.job.spec;
        let (on_queue, for_kind) = self.crew(&spec.queue, &spec.kind, spec.version, now);
        row.record.state == State::Pending && on_queue > 0 && for_kind == 0
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
        let of_jobs = self.jobs.values().map(|row| row.job.spec.queue.to_string());
        let of_workers = self
            .workers
            .values()
            .filter(|row| row.is_live(now))
            .flat_map(|row| row.said.queues.iter().map(ToString::to_string));
        let of_past = self.past_queues.iter().chain(self.paused_queues.keys()).cloned();
        let names: BTreeSet<_> = of_jobs.chain(of_past).chain(of_workers).collect();
        names.into_iter().map(|name| self.queue_view(name, now)).collect()
    }

    fn queue_view(&self, name: String, now: Timestamp) -> QueueView {
        let rows = || self.jobs.values().filter(|row| *row.job.spec.queue == *name);
        let in_state = |state| count(rows().filter(|row| row.record.state == state));
        let held = count(rows().filter(|row| self.waits_for_code(row, now)));
        let oldest_due = rows()
            .filter(|row| row.record.is_due(now) && !self.waits_for_code(row, now))
            .map(|row| row.record.run_at)
            .min();
        QueueView {
            paused: self.is_paused(&name),
            pause_note: self.paused_queues.get(&name).cloned().flatten().and_then(|pause| pause.0),
            pending: in_state(State::Pending) - held,
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
