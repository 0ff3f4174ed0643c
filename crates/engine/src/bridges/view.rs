//! How bridges stand, from what is stored: decided here, and read elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backstop_core::Timestamp;

use super::SILENT_AFTER;
use super::report::{BridgeCounts, BridgeProblem, BridgeReport, BridgeState, SinkReport, SourceReport};
use super::stored::{BridgeDocuments, BridgePause, StoredHistory};
use crate::sinks::SinkView;

/// A bridge in one process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BridgeProcess {
    /// What people call the process.
    pub node: String,
    /// When it began to run the bridge.
    pub since: Timestamp,
    /// When it was last heard of.
    pub seen_at: Timestamp,
    /// How the bridge is there; [`BridgeState::NotRunning`] when it was not heard of lately.
    pub state: BridgeState,
    /// Connections of its source there that take messages now.
    pub consuming: u32,
    /// True when it is the one that publishes.
    pub publishes: bool,
    /// What is wrong there.
    pub problem: Option<BridgeProblem>,
}

impl BridgeProcess {
    /// True when it was heard of lately.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state != BridgeState::NotRunning
    }
}

/// A bridge, from what all processes tell of it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BridgeView {
    /// Its name.
    pub name: String,
    /// How it is: the worst of the processes that run it.
    pub state: BridgeState,
    /// When a process that runs it was last heard of.
    pub seen_at: Timestamp,
    /// The address of its broker, without credentials.
    pub broker: String,
    /// Its source, as the process tells that has most trouble with it.
    pub source: Option<SourceReport>,
    /// Its sink, likewise.
    pub sink: Option<SinkReport>,
    /// What it has done, ever: in the processes that run it and in those that are gone.
    pub counts: BridgeCounts,
    /// The sink as the store has it: what waits for it, and what was published.
    pub outbox: Option<SinkView>,
    /// Messages in its invalid channel.
    pub invalid_kept: u64,
    /// Who paused it, if somebody did.
    pub paused: Option<BridgePause>,
    /// What is wrong with it.
    pub problem: Option<BridgeProblem>,
    /// The processes that run it, or did a moment ago.
    pub processes: Vec<BridgeProcess>,
    /// The moment of this view.
    pub now: Timestamp,
}

impl BridgeView {
    /// Messages that wait at the broker to be taken; none when there is no source or the broker does not tell.
    #[must_use]
    pub fn source_backlog(&self) -> Option<u64> {
        self.source.as_ref().and_then(|source| source.backlog)
    }

    /// Connections of its source that take messages now, in all processes together.
    #[must_use]
    pub fn consuming(&self) -> u32 {
        self.processes.iter().fold(0, |sum, process| sum.saturating_add(process.consuming))
    }

    /// Messages that wait in the outbox to be published.
    #[must_use]
    pub fn outbox_backlog(&self) -> u64 {
        self.outbox.as_ref().map_or(0, |outbox| outbox.backlog.messages)
    }

    /// How long the oldest message has waited in the outbox.
    #[must_use]
    pub fn lag(&self) -> Duration {
        self.outbox.as_ref().map_or(Duration::ZERO, SinkView::lag)
    }

    /// Messages that were published, ever.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.outbox.as_ref().map_or(0, |outbox| outbox.published)
    }
}

/// What is known beside the documents of bridges.
#[derive(Debug, Default)]
pub(super) struct BridgeContext {
    pub(super) sinks: Vec<SinkView>,
    /// Messages in invalid channels, by bridge.
    pub(super) invalid: BTreeMap<String, u64>,
    /// Kinds that workers know; none when that is not looked at, or there is no worker.
    pub(super) kinds: Option<BTreeSet<String>>,
}

/// Every bridge by name.
pub(super) fn views(found: &BridgeDocuments, around: &BridgeContext) -> Vec<BridgeView> {
    let told = found.processes.iter().flat_map(|(.., process)| process.bridges.iter().map(|it| &it.name));
    let names: BTreeSet<&String> = told.chain(found.past.iter().map(|(name, ..)| name)).collect();
    let mut views: Vec<BridgeView> = names.into_iter().filter_map(|name| view(name, found, around)).collect();
    name_shared_consumers(&mut views);
    views
}

fn view(name: &str, found: &BridgeDocuments, around: &BridgeContext) -> Option<BridgeView> {
    let past = found.past.iter().find(|(known, ..)| known == name).map(|(.., past)| past);
    let (mut processes, mut live) = (Vec::new(), Vec::new());
    let mut counts = past.map(|past| past.counts).unwrap_or_default();
    let mut last: Option<(Timestamp, &BridgeReport)> = past.map(|past| (past.at, &past.last));
    for (.., process) in &found.processes {
        let Some(report) = process.bridges.iter().find(|it| it.name == name) else { continue };
        let heard = found.now.since(process.at) < SILENT_AFTER;
        counts = counts.plus(report.counts());
        live.extend(heard.then_some(report));
        if last.is_none_or(|(at, _)| at <= process.at) {
            last = Some((process.at, report));
        }
        processes.push(BridgeProcess {
            node: process.node.clone(),
            since: process.since,
            seen_at: process.at,
            state: if heard { report.state() } else { BridgeState::NotRunning },
            consuming: report.source.as_ref().filter(|_| heard).map_or(0, |source| source.consuming),
            publishes: heard && report.sink.as_ref().is_some_and(|sink| sink.publishes),
            problem: report.problem().cloned().filter(|_| heard),
        });
    }
    let (seen_at, last) = last?;
    live.sort_by_key(|report| report.state());
    let shown = live.first().copied().unwrap_or(last);
    let paused = found.controls.iter().find(|(known, _)| known == name).and_then(|(_, it)| it.paused.clone());
    let outbox = around.sinks.iter().find(|it| *it.sink.name == *name && last.sink.is_some()).cloned();
    let mut view = BridgeView {
        name: name.to_owned(),
        state: live.first().map_or(BridgeState::NotRunning, |report| report.state()),
        seen_at,
        broker: shown.broker.clone(),
        source: shown.source.clone(),
        sink: shown.sink.clone(),
        counts,
        outbox,
        invalid_kept: around.invalid.get(name).copied().unwrap_or_default(),
        paused,
        problem: live.iter().find_map(|report| report.problem().cloned()),
        processes,
        now: found.now,
    };
    gather_backlog(&mut view, &live);
    stand(&mut view, past, around);
    Some(view)
}

/// What waits at the broker is told by whoever reaches it.
fn gather_backlog(view: &mut BridgeView, live: &[&BridgeReport]) {
    let told = live.iter().filter_map(|report| report.source.as_ref()?.backlog).max();
    if let Some(source) = &mut view.source {
        source.backlog = told;
    }
}

/// What people and the rest of the store say of it.
fn stand(view: &mut BridgeView, past: Option<&StoredHistory>, around: &BridgeContext) {
    let sink_paused = view.outbox.as_ref().is_some_and(|outbox| outbox.paused);
    let runs = !matches!(view.state, BridgeState::NotRunning | BridgeState::Failed);
    if runs && view.paused.is_some() {
        view.state = BridgeState::Paused;
        // What was wrong before it was paused is not tried any more.
        view.problem = None;
    } else if runs && sink_paused {
        view.state = view.state.min(BridgeState::Paused);
    }
    if view.state == BridgeState::NotRunning {
        let last = view.processes.iter().max_by_key(|process| process.seen_at);
        let node = last.map(|process| process.node.clone()).or_else(|| past.map(|past| past.node.clone()));
        let message = format!(
            "no process runs it since {}; the last one was {}",
            view.seen_at,
            node.as_deref().unwrap_or("unknown")
        );
        view.problem = Some(BridgeProblem::new("not_running", message));
    }
    let unknown = |kind: &str| around.kinds.as_ref().is_some_and(|kinds| !kinds.contains(kind));
    if view.problem.is_none()
        && let Some(source) = view.source.as_ref().filter(|source| unknown(&source.kind))
    {
        let message = format!(
            "no worker knows kind `{}`: its jobs wait; start a worker that knows it, or check the spelling",
            source.kind
        );
        view.problem = Some(BridgeProblem::new("unknown_kind", message));
    }
}

/// Two bridges that run under one consumer name take each other's messages, also from two files.
fn name_shared_consumers(views: &mut [BridgeView]) {
    let mut seen: BTreeMap<(String, String, String), Vec<usize>> = BTreeMap::new();
    for (at, view) in views.iter().enumerate() {
        let runs = !matches!(view.state, BridgeState::NotRunning | BridgeState::Failed);
        if let Some(source) = view.source.as_ref().filter(|_| runs) {
            let place = (view.broker.clone(), source.queue.clone(), source.consumer.clone());
            seen.entry(place).or_default().push(at);
        }
    }
    for ((_, queue, consumer), users) in seen.into_iter().filter(|(_, users)| users.len() > 1) {
        let names: Vec<String> = users.iter().map(|at| format!("`{}`", views[*at].name)).collect();
        let message = format!(
            "bridges {} both take `{queue}` as consumer `{consumer}`: give one of them another `consumer`, or \
             remove it",
            names.join(" and ")
        );
        for at in users {
            views[at].problem = Some(BridgeProblem::new("same_consumer", message.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
