//! Gathers lines of the audit log and writes them, many in one commit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstop::{LoopHeartbeat, Loops, Timestamp};
use backstop_store::{Amend, Drawer, Edit, Error as StoreError, Expect, Store};
use tokio::sync::{Notify, oneshot};
use tokio::time::{sleep, timeout};

use super::AuditEntry;

/// How long lines are gathered that nobody waits for.
const GATHER: Duration = Duration::from_millis(100);

/// Lines in one document: a document is read as a whole.
const LINES: usize = 1_000;

/// Lines that wait for a store that is unavailable; more are counted and lost.
const WAITING: usize = 10_000;

/// How long a call waits for its line.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long one write may take before it is given up and tried again, and how long its task may be silent (H11).
const HANGS: Duration = Duration::from_secs(45);
const SILENT: Duration = Duration::from_secs(60);

/// Between two tries to write: the first pause, and the longest.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MOST: Duration = Duration::from_secs(5);

/// The lines that are not stored yet, and the task that stores them.
pub(super) struct AuditWriter {
    store: Arc<dyn Store>,
    /// Tells the documents of one process from those of another that are written at the same microsecond.
    node: String,
    pending: Mutex<Pending>,
    hurry: Notify,
    heartbeat: Arc<LoopHeartbeat>,
}

#[derive(Default)]
struct Pending {
    lines: Vec<AuditEntry>,
    waiting: Vec<oneshot::Sender<()>>,
    lost: u64,
    written: u64,
    /// True while a task writes.
    running: bool,
}

impl std::fmt::Debug for AuditWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("node", &self.node).finish_non_exhaustive()
    }
}

impl AuditWriter {
    pub(super) fn new(store: Arc<dyn Store>, loops: &Loops) -> Self {
        let heartbeat = loops.heartbeat("audit", SILENT);
        heartbeat.idle();
        // The end of the id is its random part.
        let id = backstop::worker_id().to_string();
        let node = id.get(id.len().saturating_sub(12)..).unwrap_or_default().to_owned();
        Self { store, node, pending: Mutex::default(), hurry: Notify::new(), heartbeat }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line that is stored soon, or counts it to one that is like it.
    pub(super) fn add(
        self: &Arc<Self>,
        is_like: impl Fn(&AuditEntry) -> bool,
        line: impl FnOnce() -> AuditEntry,
    ) {
        let mut pending = self.pending();
        pending.take(is_like, line);
        self.run(&mut pending);
    }

    /// Adds a line and waits until it is stored; false when that took too long.
    pub(super) async fn add_and_wait(
        self: &Arc<Self>,
        is_like: impl Fn(&AuditEntry) -> bool,
        line: AuditEntry,
    ) -> bool {
        let stored = {
            let (tell, stored) = oneshot::channel();
            let mut pending = self.pending();
            pending.take(is_like, || line);
            pending.waiting.push(tell);
            self.run(&mut pending);
            stored
        };
        self.hurry.notify_one();
        matches!(timeout(PATIENCE, stored).await, Ok(Ok(())))
    }

    /// Stores what there is, within the patience.
    pub(super) async fn flush(self: &Arc<Self>) {
        let stored = {
            let mut pending = self.pending();
            if pending.lines.is_empty() && !pending.running {
                return;
            }
            let (tell, stored) = oneshot::channel();
            pending.waiting.push(tell);
            self.run(&mut pending);
            stored
        };
        self.hurry.notify_one();
        if timeout(PATIENCE, stored).await.is_err() {
            tracing::error!("lines of the audit log could not be stored before the end");
        }
    }

    /// Starts the task, unless it runs.
    fn run(self: &Arc<Self>, pending: &mut Pending) {
        if !pending.running {
            pending.running = true;
            tokio::spawn(Writing { writer: self.clone(), ended: false }.run());
        }
    }

    /// Writes until there is nothing left.
    async fn write_all(&self) {
        loop {
            self.heartbeat.record();
            if self.pending().waiting.is_empty() {
                // Somebody who waits ends the gathering: others that come meanwhile go with the next write.
                let _ = timeout(GATHER, self.hurry.notified()).await;
            }
            let (lines, waiting) = {
                let mut pending = self.pending();
                if pending.lines.is_empty() {
                    // Whoever waits now waits for lines of before, and those are stored.
                    pending.waiting.drain(..).for_each(told);
                    self.heartbeat.idle();
                    return pending.running = false;
                }
                pending.batch()
            };
            let (key, mut pause) = (self.key(&lines), PAUSE);
            while let Err(problem) = self.try_write(&key, &lines).await {
                tracing::warn!(
                    problem,
                    lines = lines.len(),
                    "the audit log cannot be written; it is tried again"
                );
                sleep(pause).await;
                self.heartbeat.record();
                pause = (pause * 2).min(PAUSE_MOST);
            }
            waiting.into_iter().for_each(told);
        }
    }

    /// The newest come first in the order of keys.
    fn key(&self, lines: &[AuditEntry]) -> String {
        // The newest line, wherever it stands: a document goes only when all of its lines are old enough.
        let moment = lines.iter().map(|line| line.at).max().unwrap_or(Timestamp::EPOCH);
        let mut pending = self.pending();
        pending.written += 1;
        // Within one microsecond a later document has a smaller key too.
        let later = u64::MAX - pending.written;
        format!("{}-{}-{later:020}", Drawer::audit_moment(moment), self.node)
    }

    /// Writes, and gives up what takes too long: the same again does no harm.
    async fn try_write(&self, key: &str, lines: &[AuditEntry]) -> Result<(), String> {
        match timeout(HANGS, self.write(key, lines)).await {
            Ok(written) => written.map_err(|error| error.to_string()),
            Err(_) => Err("the store does not answer".to_owned()),
        }
    }

    async fn write(&self, key: &str, lines: &[AuditEntry]) -> Result<(), StoreError> {
        let lines: Vec<String> =
            lines.iter().map(|line| serde_json::to_string(line).expect("a line is plain data")).collect();
        let body = Some(lines.join("\n").into());
        // A write whose outcome is unknown is repeated as it was: the same key, the same lines.
        let edit = Edit { drawer: Drawer::Audit, key: key.to_owned(), expect: Expect::Any, body };
        self.store.amend(Amend { edits: vec![edit], ..Amend::default() }).await.map(drop)
    }
}

fn told(waiting: oneshot::Sender<()>) {
    // Somebody who has stopped waiting has been answered.
    let _ = waiting.send(());
}

impl Pending {
    fn take(&mut self, is_like: impl Fn(&AuditEntry) -> bool, line: impl FnOnce() -> AuditEntry) {
        if let Some(known) = self.lines.iter_mut().rev().take(16).find(|known| is_like(known)) {
            known.count += 1;
        } else if self.lines.len() < WAITING {
            self.lines.push(line());
        } else {
            self.lost += 1;
        }
    }

    /// What goes into one document, with those who wait for it when it is the last of what there is.
    fn batch(&mut self) -> (Vec<AuditEntry>, Vec<oneshot::Sender<()>>) {
        if self.lost > 0 {
            tracing::error!(
                lost = self.lost,
                "lines of the audit log were lost while the store was unavailable"
            );
            self.lost = 0;
        }
        let rest = self.lines.split_off(self.lines.len().min(LINES));
        let lines = std::mem::replace(&mut self.lines, rest);
        let waiting = if self.lines.is_empty() { std::mem::take(&mut self.waiting) } else { Vec::new() };
        (lines, waiting)
    }
}

/// A task that may end with its runtime in the middle of its work; the next line starts another.
struct Writing {
    writer: Arc<AuditWriter>,
    /// True when it ended by itself, and another one may run already.
    ended: bool,
}

impl Writing {
    async fn run(mut self) {
        self.writer.write_all().await;
        self.ended = true;
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.ended {
            self.writer.pending().running = false;
        }
    }
}
