//! Every field of a signed job, changed in the database, one by one (E9).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backstop::{JobId, Policy, State, TerminalReason};

use crate::place::{App, Place, after, detail, drain, reason, strict, work};

/// What somebody writes over a column of the job, and over its lane.
const COLUMNS: &[(&str, &str)] = &[
    ("payload", "'{\"say\":\"evil\"}'"),
    ("payload", "'{\"say\": \"well\"}'"),
    ("policy", "NULL"),
    ("policy", "'{\"max_retries\":99}'"),
    ("expires_at", "NULL"),
    ("expires_at", "expires_at + 1"),
    ("idempotency_key", "NULL"),
    ("business_key", "NULL"),
    ("correlation_id", "'another'"),
    ("tags", "'[\"red\"]'"),
    ("tags", "NULL"),
    ("params", "NULL"),
    ("params", "'{\"admin\":true}'"),
    ("on_success", "NULL"),
    ("on_failure", "on_success"),
    ("papers", "NULL"),
    ("papers", "'{\"signature\":{\"key\":\"k1\",\"mac\":\"00\"}}'"),
    ("papers", "'{\"signature\":{\"key\":\"mine\",\"mac\":\"00\"}}'"),
    ("papers", "replace(papers, '4bf92f3577b3', '4bf92f3577b4')"),
];

/// The same for what stands in the lane of a job. Each job has a lane of its own, by its version.
const LANES: &[(&str, &str)] =
    &[("queue", "'other'"), ("kind", "'other'"), ("version", "7"), ("priority", "4")];

async fn submit(engine: &backstop::Backstop, number: u32, version: u32) -> JobId {
    let soon = engine.store().now().await.expect("a clock").after(Duration::from_secs(3_600));
    let job = engine
        .enqueue(work("well"))
        .version(version)
        .policy(Policy::default().retries(3))
        .expires_at(soon)
        .idempotency_key(format!("once {number}"))
        .business_key(format!("order {number}"))
        .correlation_id("request")
        .tag("red")
        .tag("blue")
        .params(serde_json::json!({ "a": 1 }))
        .trace_parent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .on_success(after("good"))
        .on_failure(after("bad"));
    job.submit().await.expect("admitted").id
}

/// Gives a job another id, wherever it stands.
fn renamed(place: &Place, from: JobId, to: JobId) -> String {
    let tables: &[&str] = if matches!(place, Place::Sqlite(_)) { &["state"] } else { &["job", "ready"] };
    let one = |table: &&str| {
        format!("UPDATE {} SET id = {} WHERE id = {}", place.table(table), place.id(to), place.id(from))
    };
    tables.iter().map(one).collect::<Vec<_>>().join(";\n")
}

pub(crate) fn overwritten(place: &Place, id: JobId, column: &str, value: &str) -> String {
    let (job, state) = (place.table("job"), place.table("state"));
    let which = match place {
        Place::Sqlite(_) => format!("seq = (SELECT seq FROM {state} WHERE id = {})", place.id(id)),
        _ => format!("id = {}", place.id(id)),
    };
    format!("UPDATE {job} SET {column} = {value} WHERE {which}")
}

#[tokio::test]
async fn no_field_can_be_changed_in_the_database() {
    // E9
    for place in Place::all("changed").await {
        let engine = place.open(strict()).await;
        let mut changed = Vec::new();
        for (number, (column, value)) in (0..).zip(COLUMNS) {
            let id = submit(&engine, number, 9).await;
            place.sql(&overwritten(&place, id, column, value)).await;
            changed.push((id, format!("{column} = {value}")));
        }
        let parent = submit(&engine, 90, 9).await;
        place.sql(&overwritten(&place, parent, "callback_of", &place.id(JobId::from_u128(5)))).await;
        changed.push((parent, "callback_of".to_owned()));
        let (from, to) = (submit(&engine, 91, 9).await, backstop::job_id());
        place.sql(&renamed(&place, from, to)).await;
        changed.push((to, "id".to_owned()));
        for (version, (column, value)) in (1..).zip(LANES) {
            let id = submit(&engine, 100 + version, version).await;
            let lane =
                format!("UPDATE {} SET {column} = {value} WHERE version = {version}", place.table("lane"));
            place.sql(&lane).await;
            changed.push((id, format!("lane's {column}")));
        }
        let good = submit(&engine, 200, 8).await;
        drop(engine);
        let (engine, app) = (place.open(strict()).await, Arc::new(App::default()));
        drain(&engine, &app).await;
        for (id, what) in &changed {
            let found = (detail(&engine, *id).await.view.state(), reason(&engine, *id).await);
            assert_eq!(found, (State::Failed, Some(TerminalReason::Signature)), "{}: {what}", place.name());
        }
        assert_eq!(detail(&engine, good).await.view.state(), State::Succeeded, "{}", place.name());
        assert_eq!(app.starts.load(Ordering::SeqCst), 1, "{}: nothing else has run", place.name());
        drop(engine);
        place.done().await;
    }
}
