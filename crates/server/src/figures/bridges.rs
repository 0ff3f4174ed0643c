//! What passes through bridges, what waits for them, and what could not become a job (B8).

use backstop::bridges::{BridgeCounts, BridgeState, BridgeView};
use backstop::figures::{Family, Sample, Sort, float};

use super::stored::{MOST_QUEUES, gauge};

/// What bridges take, send and keep waiting, of all processes (B8). Neither is among dead letters or rejects.
pub(super) fn families(views: &[BridgeView]) -> Vec<Family> {
    let of = |value: fn(&BridgeView) -> Option<f64>| -> Vec<Sample> {
        let one = |view: &BridgeView| {
            value(view).map(|value| Sample::number(vec![("bridge", view.name.as_str().into())], value))
        };
        views.iter().take(MOST_QUEUES).filter_map(one).collect()
    };
    let counter = |name, help, samples| Family::new(name, help, Sort::Counter, samples);
    vec![
        gauge(
            "backstop_bridge_up",
            "1 while a bridge runs.",
            of(|view| Some(f64::from(view.state == BridgeState::Running))),
        ),
        counter(
            "backstop_bridge_in_total",
            "Messages that became jobs.",
            of(|view| source_count(view, view.counts.admitted)),
        ),
        counter(
            "backstop_bridge_duplicates_total",
            "Messages that were jobs already.",
            of(|view| source_count(view, view.counts.duplicates)),
        ),
        counter(
            "backstop_bridge_invalid_total",
            "Messages that could not become jobs.",
            of(|view| source_count(view, view.counts.invalid)),
        ),
        counter(
            "backstop_bridge_no_job_total",
            "Messages that became no job for another reason: `how` says what became of them.",
            views.iter().take(MOST_QUEUES).flat_map(no_jobs).collect(),
        ),
        gauge(
            "backstop_bridge_invalid_stored",
            "Messages in invalid channels.",
            of(|view| source_count(view, view.invalid_kept)),
        ),
        gauge(
            "backstop_bridge_source_backlog",
            "Messages that wait at the broker, where it tells.",
            of(|view| view.source_backlog().map(float)),
        ),
        counter(
            "backstop_bridge_out_total",
            "Messages that brokers have confirmed.",
            of(|view| sink_count(view, view.published())),
        ),
        gauge(
            "backstop_bridge_outbox_backlog",
            "Messages that wait in the outbox to be published.",
            of(|view| sink_count(view, view.outbox_backlog())),
        ),
        gauge(
            "backstop_bridge_outbox_lag_seconds",
            "How long the oldest message waits in the outbox.",
            of(|view| view.outbox.as_ref().map(|_| view.lag().as_secs_f64())),
        ),
        counter(
            "backstop_bridge_outbox_refused_total",
            "Messages that were refused because too much waited in the outbox.",
            of(|view| view.outbox.as_ref().map(|outbox| float(outbox.refused))),
        ),
    ]
}

fn no_jobs(view: &BridgeView) -> Vec<Sample> {
    let BridgeCounts { abandoned, rejected, passed_on, discarded, given_back, .. } = view.counts;
    let counts = [
        ("abandoned", abandoned),
        ("rejected", rejected),
        ("passed_on", passed_on),
        ("discarded", discarded),
        ("given_back", given_back),
    ];
    let sample = |(how, count): (&'static str, u64)| {
        let labels = vec![("bridge", view.name.as_str().into()), ("how", how.into())];
        source_count(view, count).map(|count| Sample::number(labels, count))
    };
    counts.into_iter().filter_map(sample).collect()
}

fn source_count(view: &BridgeView, count: u64) -> Option<f64> {
    view.source.as_ref().map(|_| float(count))
}

fn sink_count(view: &BridgeView, count: u64) -> Option<f64> {
    view.outbox.as_ref().map(|_| float(count))
}
