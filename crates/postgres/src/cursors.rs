//! How far claims have come in each lane, so that the next one goes on from there.
//!
//! A job that is taken leaves a dead entry at the head of its lane. The database clears it away, but not while anybody
//! keeps an old snapshot open: then every claim would walk over all that was ever taken. A claim that begins at the
//! cursor walks over nothing.
//!
//! A cursor is believed because of what it was set by: when it was set, nothing before it could be seen. So whatever
//! lies before it later was put there by a transaction that could not be seen then. Such a transaction has a number
//! that was open in the snapshot, or none yet; and each transaction that puts jobs into a lane leaves a row in
//! `arrival` under its number. A claim reads those rows first, by their index, and goes back to the earliest of them.
//! No clock and no interval is in this: a job that becomes visible is found by the next claim, however late its
//! transaction was, however old its due time is, and through whichever process it came. `model` plays all orders of
//! events.
//!
//! Claims of one process share the cursors. Each is sent with the cursors and the snapshot they were set by; what it
//! learns replaces both together, unless another claim has replaced them meanwhile. So they always belong together.

#[cfg(test)]
mod model;
mod snapshot;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backstop_core::{JobId, Timestamp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub(crate) use snapshot::TransactionSnapshot;

/// A place in a lane, in the order of its jobs.
pub(crate) type Position = (Timestamp, JobId);

/// The cursors of one process.
#[derive(Debug, Default)]
pub(crate) struct Cursors(Mutex<CursorState>);

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct CursorState {
    /// Counts the changes: what a claim learned is of use only where it began.
    version: u64,
    known: Option<KnownCursors>,
    /// The cursors that the store keeps, as far as this process knows.
    kept: BTreeMap<i64, Position>,
}

/// Cursors with what they were set by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct KnownCursors {
    /// The run of the server that they are about.
    pub(crate) server: i64,
    /// Everything that could be seen when they were set.
    pub(crate) seen: TransactionSnapshot,
    /// By the ids of lanes. A lane that is not here is read from its start.
    pub(crate) lanes: BTreeMap<i64, Cursor>,
    /// No cursor is farther than this, in microseconds.
    farthest: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Cursor {
    pub(crate) queue: Arc<str>,
    pub(crate) at: Position,
}

/// Where a claim begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ClaimStart {
    version: u64,
    /// What the functions of the server are told; none to read every lane from its start.
    pub(crate) told: Option<String>,
}

#[derive(Serialize)]
struct Told {
    server: i64,
    seen: String,
    last: i64,
    lanes: BTreeMap<i64, (i64, Uuid)>,
}

/// What a claim or a look learned, as the functions of the server tell it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub(crate) struct CursorUpdate {
    pub(crate) server: i64,
    pub(crate) seen: TransactionSnapshot,
    /// The cursors that were sent were of use.
    pub(crate) known: bool,
    /// The caller's own transaction: what it does later has not been seen.
    #[serde(default)]
    own: Option<i64>,
    /// The earliest arrivals that were not seen before, by lane, where they may lie behind a cursor.
    #[serde(default)]
    behind: Option<BTreeMap<i64, i64>>,
    /// The first job that could be seen in lanes, or the moment where there was none.
    #[serde(default)]
    reached: Option<Vec<(i64, i64, Uuid)>>,
    /// Lanes with due jobs that take turns (H5), because of which nothing was taken.
    #[serde(default)]
    pub(crate) turns: Option<Vec<i64>>,
}

impl Cursors {
    fn lock(&self) -> MutexGuard<'_, CursorState> {
        // Every change is made whole before it is put in place.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a claim of these queues begins.
    pub(crate) fn start<'q>(&self, queues: impl IntoIterator<Item = &'q str>) -> ClaimStart {
        self.lock().start(queues)
    }

    /// Goes on with what a claim learned that began at `start` and is committed. Lanes of unknown queues are left out.
    pub(crate) fn learn(
        &self,
        start: &ClaimStart,
        update: CursorUpdate,
        queue_of: impl Fn(i64) -> Option<Arc<str>>,
    ) {
        self.lock().learn(start, update, queue_of);
    }

    /// Begins with what other processes kept, unless this one has claimed already.
    pub(crate) fn recall(&self, server: i64, kept: Vec<(i64, Cursor, TransactionSnapshot)>) {
        self.lock().recall(server, kept);
    }

    /// What the store should keep for other processes; none when no cursor has moved since. It counts as kept.
    pub(crate) fn keep(&self) -> Option<KnownCursors> {
        self.lock().keep()
    }
}

impl CursorState {
    pub(crate) fn start<'q>(&self, queues: impl IntoIterator<Item = &'q str>) -> ClaimStart {
        let queues: Vec<&str> = queues.into_iter().collect();
        let told = self.known.as_ref().map(|known| known.told(&queues));
        ClaimStart { version: self.version, told }
    }

    pub(crate) fn learn(
        &mut self,
        start: &ClaimStart,
        mut update: CursorUpdate,
        queue_of: impl Fn(i64) -> Option<Arc<str>>,
    ) {
        if start.version != self.version {
            return;
        }
        if let Some(own) = update.own {
            update.seen.unsee(own);
        }
        let mut lanes = match self.known.take() {
            Some(known) if update.known => known.lanes,
            _ => BTreeMap::new(),
        };
        for (lane, run_at) in update.behind.into_iter().flatten() {
            let back = (Timestamp::from_micros(run_at), JobId::from_u128(0));
            lanes.entry(lane).and_modify(|cursor| cursor.at = cursor.at.min(back));
        }
        for (lane, run_at, id) in update.reached.into_iter().flatten() {
            let at = (Timestamp::from_micros(run_at), JobId::from_uuid(id));
            if let Some(queue) = queue_of(lane) {
                lanes.insert(lane, Cursor { queue, at });
            }
        }
        self.known = Some(KnownCursors::new(update.server, update.seen, lanes));
        self.version += 1;
    }

    fn recall(&mut self, server: i64, kept: Vec<(i64, Cursor, TransactionSnapshot)>) {
        self.kept = kept.iter().map(|(lane, cursor, _)| (*lane, cursor.at)).collect();
        if self.known.is_some() {
            return;
        }
        // What all of them saw: an arrival that one of them may have missed is read again.
        let seen = kept.iter().map(|(.., seen)| seen.clone()).reduce(|one, other| one.common(&other));
        let lanes = kept.into_iter().map(|(lane, cursor, _)| (lane, cursor)).collect();
        self.known = seen.map(|seen| KnownCursors::new(server, seen, lanes));
        self.version += 1;
    }

    fn keep(&mut self) -> Option<KnownCursors> {
        let known = self.known.as_ref()?;
        let moved = |lane: &i64, cursor: &Cursor| self.kept.get(lane) != Some(&cursor.at);
        let moved = known.lanes.iter().filter(|(lane, cursor)| moved(lane, cursor));
        let moved: BTreeMap<i64, Cursor> = moved.map(|(lane, cursor)| (*lane, cursor.clone())).collect();
        if moved.is_empty() {
            return None;
        }
        self.kept.extend(moved.iter().map(|(lane, cursor)| (*lane, cursor.at)));
        Some(KnownCursors::new(known.server, known.seen.clone(), moved))
    }
}

impl KnownCursors {
    fn new(server: i64, seen: TransactionSnapshot, lanes: BTreeMap<i64, Cursor>) -> Self {
        let farthest = lanes.values().map(|cursor| cursor.at.0.as_micros()).max();
        Self { server, seen, lanes, farthest: farthest.unwrap_or(i64::MIN) }
    }

    fn told(&self, queues: &[&str]) -> String {
        // Most claims are about a few queues; a set pays for itself only beyond that.
        let many: Option<HashSet<&str>> = (queues.len() > 8).then(|| queues.iter().copied().collect());
        let wanted = |queue: &str| match &many {
            Some(many) => many.contains(queue),
            None => queues.contains(&queue),
        };
        let lanes = self.lanes.iter().filter(|(_, cursor)| wanted(&cursor.queue));
        let told = Told {
            server: self.server,
            seen: self.seen.to_string(),
            last: self.farthest,
            lanes: lanes
                .map(|(lane, cursor)| (*lane, (cursor.at.0.as_micros(), cursor.at.1.as_uuid())))
                .collect(),
        };
        serde_json::to_string(&told).unwrap_or_default()
    }
}
