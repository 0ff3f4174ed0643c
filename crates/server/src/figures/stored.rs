//! Figures that the store keeps: depth of queues, incidents, dead workers, the size of its file.
//!
//! Every read is bounded and of what is kept; nothing here counts jobs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use backstop::circuits::{CircuitState, CircuitView};
use backstop::figures::{Family, Sample, Sort, float};
use backstop::handoffs::{HandOffState, HandOffView};
use backstop::limits::RunLimitView;
use backstop::queue::QueueRoom;
use backstop::{Backstop, DutyHealth, Timestamp};
use backstop_core::incident::IncidentState;
use backstop_core::scale::ScaleSettings;
use backstop_store::{Error, Incident, QueueView, WorkerView};

use crate::api::Api;
use crate::shape::QueueScale;
use crate::webhooks::stored_families;

/// Queues that are shown one by one; the rest is added up.
pub(super) const MOST_QUEUES: usize = 200;

/// Incidents that are looked at: those that were seen last.
const MOST_INCIDENTS: usize = 1_000;

/// How long the store may take; figures of a store that is slower than this are left out.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the store says, or that it says nothing.
pub(crate) async fn families(api: &Api) -> Vec<Family> {
    let engine = api.engine();
    let read = tokio::time::timeout(PATIENCE, read(engine, &api.settings().scale)).await;
    let answered = matches!(&read, Ok(Ok(_)));
    let up = gauge(
        "backstop_store_up",
        "1 when the store answered this scrape.",
        vec![Sample::number(vec![], if answered { 1.0 } else { 0.0 })],
    );
    let mut families = vec![up];
    families.extend(read.ok().and_then(Result::ok).into_iter().flatten());
    families.extend(file(engine));
    families
}

async fn read(engine: &Backstop, scale: &ScaleSettings) -> Result<Vec<Family>, Error> {
    let now = engine.store().now().await?;
    let most = MOST_INCIDENTS.min(engine.config().limits.page);
    let mut views = engine.queues().list().await?;
    // The fullest ones are those that a person looks for.
    views.sort_by_key(|view| std::cmp::Reverse(view.pending + view.running + view.failed));
    let held_back = engine.queues().held_back(&views[..views.len().min(MOST_QUEUES)]).await?;
    let mut families = queues(&views, &held_back, now, scale);
    families.extend(incidents(&engine.incidents().list(most).await?));
    families.extend(workers(&engine.workers().await?, now));
    families.push(duties(&engine.duties().await?));
    families.extend(limits(&engine.limits().list().await?));
    families.push(circuits(engine.circuits().list().await?));
    families.push(schedules(engine.schedules().count().await?));
    families.push(rejects(engine.rejects().count().await?));
    families.extend(super::bridges::families(&engine.bridges().survey().await?));
    families.extend(handoffs(&engine.handoffs().list().await?));
    let sinks = engine.sinks();
    families.extend(stored_families(&sinks.webhooks().await?, sinks.lost()));
    Ok(families)
}

/// How much of limits is used (H5).
fn limits(views: &[RunLimitView]) -> Vec<Family> {
    let of = |value: fn(&RunLimitView) -> f64| -> Vec<Sample> {
        let one = |view: &RunLimitView| Sample::number(vec![("limit", view.limit.name.clone())], value(view));
        views.iter().take(MOST_QUEUES).map(one).collect()
    };
    vec![
        gauge("backstop_limit_running", "Jobs that count for a limit.", of(|view| float(view.used.running))),
        gauge(
            "backstop_limit_full",
            "1 while a limit lets nothing start.",
            of(|view| f64::from(view.is_full())),
        ),
    ]
}

/// Which dependencies are left alone (H3).
fn circuits(mut views: Vec<CircuitView>) -> Family {
    // Those that are not closed are what a person looks for.
    views.sort_by_key(|view| view.circuit.state == CircuitState::Closed);
    let one = |view: &CircuitView| {
        let open = view.circuit.state != CircuitState::Closed;
        Sample::number(vec![("circuit", view.key.as_str().into())], f64::from(open))
    };
    let samples = views.iter().take(MOST_QUEUES).map(one).collect();
    gauge("backstop_circuit_open", "1 while the circuit of a dependency is not closed.", samples)
}

/// How many schedules there are (W11).
fn schedules(count: usize) -> Family {
    let count = float(u64::try_from(count).unwrap_or(u64::MAX));
    gauge("backstop_schedules", "Schedules of the store.", vec![Sample::number(vec![], count)])
}

/// How many rejected items nobody has looked after or removed (W9).
fn rejects(count: u64) -> Family {
    let samples = vec![Sample::number(vec![], float(count))];
    gauge("backstop_rejects_stored", "Items whose rejects the store keeps.", samples)
}

/// What waits to be handed off, and what became of the rest (B7): apart from dead letters and rejects.
fn handoffs(views: &[HandOffView]) -> Vec<Family> {
    let of = |value: fn(&HandOffView) -> f64| -> Vec<Sample> {
        let name = |view: &HandOffView| Arc::from(view.hand_off.name.as_str());
        views.iter().map(|view| Sample::number(vec![("handoff", name(view))], value(view))).collect()
    };
    let counter = |name, help, value| Family::new(name, help, Sort::Counter, of(value));
    vec![
        gauge(
            "backstop_handoff_backlog",
            "Finished jobs that wait to be handed off.",
            of(|view| float(view.backlog.messages)),
        ),
        gauge(
            "backstop_handoff_lag_seconds",
            "How long the oldest of them has waited.",
            of(|view| view.lag().as_secs_f64()),
        ),
        gauge(
            "backstop_handoff_stopped",
            "1 while a hand-off stands still because its receiver refused for good.",
            of(|view| f64::from(view.state == HandOffState::Stopped)),
        ),
        gauge(
            "backstop_handoff_latency_seconds",
            "How long the oldest job of the last request took from its end to its admission.",
            of(|view| float(view.tally.last_latency_ms.unwrap_or_default()) / 1_000.0),
        ),
        counter(
            "backstop_handoff_latency_seconds_total",
            "The same of every job, added up: by `admitted` and `duplicates` it is the mean.",
            |view| float(view.tally.latency_ms) / 1_000.0,
        ),
        counter("backstop_handoff_admitted_total", "Jobs that receivers have made.", |view| {
            float(view.tally.admitted)
        }),
        counter(
            "backstop_handoff_duplicates_total",
            "Jobs whose keys receivers had seen before: suppressed, and no errors.",
            |view| float(view.tally.duplicates),
        ),
        counter(
            "backstop_handoff_pressure_total",
            "Requests that a receiver refused because it takes nothing now.",
            |view| float(view.tally.pressure),
        ),
        counter("backstop_handoff_refused_total", "Requests that a receiver refused for good.", |view| {
            float(view.tally.refused)
        }),
        counter("backstop_handoff_unreachable_total", "Requests that were not answered.", |view| {
            float(view.tally.unreachable)
        }),
    ]
}

pub(super) fn gauge(name: &'static str, help: &'static str, samples: Vec<Sample>) -> Family {
    Family::new(name, help, Sort::Gauge, samples)
}

type Pick = fn(&QueueView) -> u64;

fn queues(
    views: &[QueueView],
    held_back: &BTreeMap<String, QueueRoom>,
    now: Timestamp,
    scale: &ScaleSettings,
) -> Vec<Family> {
    let (shown, rest) = views.split_at(views.len().min(MOST_QUEUES));
    let states: [(&str, Pick); 5] = [
        ("pending", |view| view.pending),
        ("waiting", |view| view.waiting),
        ("running", |view| view.running),
        ("paused", |view| view.paused_jobs),
        ("failed", |view| view.failed),
    ];
    let sample = |queue: &str, state: &str, count: u64| {
        Sample::number(vec![("queue", queue.into()), ("state", state.into())], float(count))
    };
    let mut depth = Vec::new();
    for (state, pick) in states {
        depth.extend(shown.iter().map(|view| sample(&view.name, state, pick(view))));
        if !rest.is_empty() {
            depth.push(sample("other", state, rest.iter().map(pick).sum()));
        }
    }
    let of = |value: fn(&QueueView, Timestamp) -> f64| -> Vec<Sample> {
        let one =
            |view: &QueueView| Sample::number(vec![("queue", view.name.as_str().into())], value(view, now));
        shown.iter().map(one).collect()
    };
    let of_scale = |value: fn(&QueueScale) -> u64| -> Vec<Sample> {
        let one = |view: &QueueView| {
            let held_back = held_back.get(&view.name).copied().unwrap_or_default();
            let row = QueueScale::of(view, held_back, &view.name, scale, now);
            Sample::number(vec![("queue", view.name.as_str().into())], float(value(&row)))
        };
        shown.iter().map(one).collect()
    };
    let oldest =
        |view: &QueueView, now: Timestamp| view.oldest_due.map_or(0.0, |due| now.since(due).as_secs_f64());
    vec![
        gauge(
            "backstop_jobs",
            "Jobs that are kept, by queue and state; failed ones are dead letters.",
            depth,
        ),
        gauge("backstop_oldest_wait_seconds", "How long the oldest due job waits.", of(oldest)),
        gauge(
            "backstop_queue_workers",
            "Live workers that serve a queue.",
            of(|view, _| float(view.workers)),
        ),
        gauge("backstop_queue_paused", "1 when a queue is paused.", of(|view, _| f64::from(view.paused))),
        gauge(
            "backstop_queue_depth",
            "Jobs that may be claimed; 0 while none is due or the queue is paused.",
            of_scale(|row| row.depth),
        ),
        gauge(
            "backstop_wanted_processes",
            "Processes that have slots for what runs and for what waits too long.",
            of_scale(|row| row.wanted),
        ),
    ]
}

fn incidents(incidents: &[Incident]) -> Vec<Family> {
    let of = |state: IncidentState| incidents.iter().filter(move |one| one.standing.state == state);
    let by_state = |value: &dyn Fn(IncidentState) -> u64| -> Vec<Sample> {
        let one = |state: IncidentState| {
            Sample::number(vec![("state", Arc::from(state.as_str()))], float(value(state)))
        };
        IncidentState::ALL.into_iter().map(one).collect()
    };
    let count = |state| u64::try_from(of(state).count()).unwrap_or(u64::MAX);
    let open = |state| of(state).map(|incident| incident.open).sum();
    vec![
        gauge("backstop_incidents", "Incidents among the latest thousand, by state.", by_state(&count)),
        gauge("backstop_incident_dead_letters", "Dead letters of these incidents.", by_state(&open)),
    ]
}

fn duties(duties: &[DutyHealth]) -> Family {
    let sample = |one: &DutyHealth| {
        let labels = vec![("duty", Arc::from(one.duty.as_str()))];
        one.unled.map(|span| Sample::number(labels, span.as_secs_f64()))
    };
    let led = duties.iter().filter_map(sample).collect();
    gauge(
        "backstop_duty_unled_seconds",
        "How long nobody has led a duty of maintenance; 0 while one does.",
        led,
    )
}

fn workers(workers: &[WorkerView], now: Timestamp) -> Vec<Family> {
    let live = workers.iter().filter(|worker| worker.live).count();
    let dead = || workers.iter().filter(|worker| !worker.live && worker.running > 0);
    let oldest = dead().map(|worker| now.since(worker.expires_at).as_secs_f64()).fold(0.0, f64::max);
    let one = |value: f64| vec![Sample::number(vec![], value)];
    vec![
        gauge("backstop_workers", "Live workers.", one(float(u64::try_from(live).unwrap_or(u64::MAX)))),
        gauge(
            "backstop_orphans",
            "Jobs held by workers that stopped renewing.",
            one(float(dead().map(|worker| worker.running).sum())),
        ),
        gauge(
            "backstop_rescue_lag_seconds",
            "How long the longest-dead worker's jobs wait to be taken back.",
            one(oldest),
        ),
    ]
}

/// The size of the database's files, where there are files.
fn file(engine: &Backstop) -> Option<Family> {
    let info = engine.store().info();
    if info.backend != "sqlite" {
        return None;
    }
    let size =
        |suffix: &str| std::fs::metadata(format!("{}{suffix}", info.location)).map(|found| found.len());
    let samples: Vec<Sample> = [("database", ""), ("wal", "-wal")]
        .into_iter()
        .filter_map(|(file, suffix)| {
            Some(Sample::number(vec![("file", file.into())], float(size(suffix).ok()?)))
        })
        .collect();
    Some(gauge("backstop_store_bytes", "Size of the store's files.", samples))
}
