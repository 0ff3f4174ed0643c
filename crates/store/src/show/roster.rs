//! Workers: who is known, who is live, and what none of them can run.

use std::collections::HashMap;

use backstop_core::explain::{ExplainContext, Holder, KeyHolder};
use backstop_core::failure::Decision;
use backstop_core::job::{JobView, LinePlace};
use backstop_core::{Timestamp, WorkerId};

use crate::{KnownKind, WorkerView};

/// A worker as its row says.
#[derive(Debug)]
pub struct WorkerRow {
    /// This incarnation.
    pub id: WorkerId,
    /// Its name.
    pub name: String,
    /// The version of its code.
    pub code_version: Option<String>,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// What it can run.
    pub kinds: Vec<KnownKind>,
    /// When it made itself known.
    pub started_at: Timestamp,
    /// Until when it may be silent.
    pub expires_at: Timestamp,
}

impl WorkerRow {
    fn serves(&self, queue: &str) -> bool {
        self.queues.iter().any(|served| served == queue)
    }
}

/// That a queue is paused, with who or what asked for it, if that was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseNote(pub Option<String>);

/// Every worker that is known, by name and then by id.
#[derive(Debug)]
pub struct Roster {
    rows: Vec<WorkerRow>,
    now: Timestamp,
}

impl Roster {
    /// The workers of these rows, which are in order, at `now`.
    #[must_use]
    pub const fn new(rows: Vec<WorkerRow>, now: Timestamp) -> Self {
        Self { rows, now }
    }

    /// One of them.
    #[must_use]
    pub fn get(&self, worker: WorkerId) -> Option<&WorkerRow> {
        self.rows.iter().find(|row| row.id == worker)
    }

    /// Those whose lease runs.
    pub fn live(&self) -> impl Iterator<Item = &WorkerRow> {
        self.rows.iter().filter(|row| row.expires_at > self.now)
    }

    /// Live workers that serve no queue: the batches of workers elsewhere (E7).
    pub fn batches(&self) -> impl Iterator<Item = WorkerId> + '_ {
        self.live().filter(|row| row.queues.is_empty()).map(|row| row.id)
    }

    /// How many live workers serve a queue, and how many of them know a kind and version.
    #[must_use]
    pub fn crew(&self, queue: &str, kind: &str, version: u32) -> (usize, usize) {
        let on_queue = self.live().filter(|row| row.serves(queue)).count();
        (on_queue, self.able(queue, kind, version).count())
    }

    /// Live workers that serve a queue and know a kind and version.
    fn able<'r>(
        &'r self,
        queue: &'r str,
        kind: &'r str,
        version: u32,
    ) -> impl Iterator<Item = &'r WorkerRow> {
        let knows = move |row: &&WorkerRow| row.kinds.iter().any(|known| known.covers(kind, version));
        self.live().filter(move |row| row.serves(queue)).filter(knows)
    }

    /// True when pending jobs wait because no live worker of their queue knows their kind and version (H10).
    #[must_use]
    pub fn holds(&self, queue: &str, kind: &str, version: u32) -> bool {
        let (on_queue, for_kind) = self.crew(queue, kind, version);
        on_queue > 0 && for_kind == 0
    }

    /// All of them as they are shown, with how many jobs each holds.
    #[must_use]
    pub fn into_views(self, running: &HashMap<WorkerId, u64>) -> Vec<WorkerView> {
        let now = self.now;
        let view = |row: WorkerRow| WorkerView {
            running: running.get(&row.id).copied().unwrap_or_default(),
            id: row.id,
            name: row.name,
            code_version: row.code_version,
            queues: row.queues,
            kinds: row.kinds,
            started_at: row.started_at,
            expires_at: row.expires_at,
            live: row.expires_at > now,
        };
        self.rows.into_iter().map(view).collect()
    }

    /// What surrounds a job (F20). `paused` is none for an open queue; `key_holder` a live job with its business key;
    /// `line` where it waits for its turn.
    #[must_use]
    pub fn around(
        &self,
        view: &JobView,
        paused: Option<PauseNote>,
        key_holder: Option<KeyHolder>,
        line: Option<LinePlace>,
        last_decision: Option<Decision>,
    ) -> ExplainContext {
        let spec = &view.job.spec;
        let (workers_on_queue, workers_for_kind) = self.crew(&spec.queue, &spec.kind, spec.version);
        let fits = |row: &&WorkerRow| view.record.accepts_code(row.code_version.as_deref());
        let workers_with_code = self.able(&spec.queue, &spec.kind, spec.version).filter(fits).count();
        let holder = view.record.hold.map(|hold| match self.get(hold.worker) {
            Some(row) => Holder { worker: hold.worker, name: row.name.clone(), until: row.expires_at },
            None => Holder { worker: hold.worker, name: "unknown".to_owned(), until: Timestamp::MIN },
        });
        ExplainContext {
            now: self.now,
            queue_paused: paused.is_some(),
            pause_note: paused.and_then(|pause| pause.0),
            workers_on_queue,
            workers_for_kind,
            workers_with_code,
            key_holder: key_holder.filter(|holder| holder.job != spec.id),
            line,
            holder,
            last_decision,
        }
    }
}
