//! `archive …`, and what other commands say of a job that was archived (L16, D5).

use std::time::Duration;

use backstop::{Backstop, Config, JobId, Retention, worker_id};
use serde_json::{Value, json};

use crate::program::{Program, on_engine, played};

/// Plays jobs to these endings, lets one be canceled before it ran, and archives all that have ended.
fn archived(program: &Program, endings: &[&str]) -> (Vec<JobId>, JobId) {
    let ids = played(program, endings);
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let never = runtime.block_on(async {
        let at_once = Some(Duration::ZERO);
        let retention = Retention::default().succeeded(at_once).canceled(at_once).failed(at_once);
        let config = Config::default().retention(retention);
        let engine = Backstop::open_with(&program.store(), config).await.expect("a store");
        let never = engine.enqueue_raw("play", "{}").submit().await.expect("stored").id;
        engine.cancel(never, "not needed").await.expect("it is there");
        // Its leadership ends at once, as that of a worker that has stopped long ago.
        engine.maintain(worker_id(), Duration::from_millis(1_500)).await.expect("the store is there");
        never
    });
    (ids, never)
}

#[test]
fn archived_jobs_are_listed_shown_and_exported() {
    // L16
    let program = Program::new();
    program.run(&["migrate"]).exits(0);
    program.run(&["archive", "list"]).exits(0).says(&["no job is archived"]);
    let (ids, never) = archived(&program, &["well", "permanent"]);
    let (well, dead) = (ids[0].to_string(), ids[1].to_string());
    program.run(&["archive", "list"]).exits(0).says(&[
        &well[..8],
        &dead[..8],
        "play",
        "succeeded",
        "failed",
        "canceled",
    ]);
    let page = program.run(&["archive", "list", "--limit", "2", "--json"]).exits(0).json();
    assert_eq!(page["items"][0]["id"], json!(never));
    assert_eq!((&page["items"][0]["ran"], &page["items"][1]["ran"]), (&json!(false), &json!(true)));
    let cursor = page["next_cursor"].as_str().expect("more rows");
    let rest = program.run(&["archive", "list", "--cursor", cursor, "--json"]).exits(0).json();
    assert_eq!(rest["items"][0]["id"], json!(well));
    let found = |conditions: &[&str]| -> Vec<Value> {
        let args = [&["archive", "list", "--json"], conditions].concat();
        let page = program.run(&args).exits(0).json();
        page["items"].as_array().expect("a list").iter().map(|one| one["id"].clone()).collect()
    };
    assert_eq!(found(&["--status", "failed"]), [json!(dead)]);
    assert_eq!(found(&["--kind", "play", "--queue", "default"]).len(), 3);
    assert_eq!(found(&["--created-before", "2020-01-01T00:00:00Z"]).len(), 0);
    program.run(&["archive", "list", "--kind", "mail"]).exits(0).says(&["no archived job is like that"]);
    program.run(&["archive", "list", "--status", "running"]).exits(0).says(&["no archived job is like that"]);
    program.run(&["archive", "show", &dead]).exits(0).says(&[
        "play",
        &dead,
        "failed",
        "archived",
        "terminal_reason",
        "non_retryable",
        "runs",
        "permanent",
        "the card is stolen",
    ]);
    program.run(&["archive", "show", &never.to_string()]).exits(0).says(&["canceled", "it never ran"]);
    let shown = program.run(&["archive", "show", &dead, "--json"]).exits(0).json();
    assert_eq!((&shown["job"]["id"], &shown["attempts"][0]["cause"]), (&json!(dead), &json!("permanent")));
    let ran = program.run(&["archive", "export"]).exits(0).tells(&["exported 3 archived jobs"]);
    let exported: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a document")).collect();
    assert_eq!(exported[2]["job"]["id"], json!(well));
    program
        .run(&["archive", "export", "--to", "all.jsonl"])
        .exits(0)
        .says(&["exported 3 archived jobs to all.jsonl"]);
    program.run(&["archive", "export", "--to", "all.jsonl"]).exits(3).tells(&["file_exists"]);
}

#[test]
fn other_commands_say_where_an_archived_job_is() {
    // L16
    let program = Program::new();
    let (ids, _) = archived(&program, &["permanent"]);
    let id = ids[0].to_string();
    let hint = format!("backstop archive show {id}");
    for args in [["job", "attempts"], ["job", "explain"], ["job", "logs"], ["dead", "show"]] {
        let args = [&args[..], &[id.as_str()]].concat();
        program.run(&args).exits(3).tells(&["archived", &hint]);
    }
    program.run(&["job", "show", &id]).exits(0).says(&["archived"]).tells(&["it is archived", &hint]);
    let hot = program.enqueue(&["play"]);
    program
        .run(&["archive", "show", &hot])
        .exits(3)
        .tells(&["not_archived", &format!("backstop job show {hot}")]);
    let unknown = "0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f";
    program.run(&["archive", "show", unknown]).exits(3).tells(&["no_such_job"]);
}

#[test]
fn pruning_by_hand_counts_asks_and_leaves_what_never_ran() {
    // D5, L16
    let program = Program::new();
    let (ids, never) = archived(&program, &["well", "permanent"]);
    let prune = |args: &[&str]| program.run(&[&["archive", "prune"], args].concat());
    prune(&[]).exits(0).says(&["0 archived jobs that left at least 90 days ago: nothing was changed"]);
    prune(&["--older-than", "0s", "--dry-run"]).exits(0).says(&["2 archived jobs", "nothing was changed"]);
    prune(&["--older-than", "0s"]).exits(3).tells(&["needs_yes", "remove 2 archived jobs"]);
    assert_eq!(prune(&["--older-than", "0s", "--dry-run", "--json"]).exits(0).json()["jobs"], json!(2));
    // While another process prunes, nobody does by hand.
    let (other, duty) = (worker_id(), backstop_store::Duty::Prune);
    let lead = |span| {
        on_engine(&program, async |engine| {
            // Whoever archived what is pruned here leads for a moment longer.
            while engine.store().lead(other, vec![duty], span).await.expect("there")[0].is_none() {
                tokio::task::yield_now().await;
            }
        });
    };
    lead(Duration::from_secs(60));
    prune(&["--older-than", "0s", "--yes"])
        .exits(3)
        .tells(&["led_elsewhere", "a running worker does this by itself"]);
    lead(Duration::ZERO);
    prune(&["--older-than", "0s", "--yes"]).exits(0).says(&["removed 2 archived jobs for good"]);
    let left = program.run(&["archive", "list", "--json"]).exits(0).json();
    assert_eq!(left["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(left["items"][0]["id"], json!(never), "a job that never ran is never removed by age");
    program.run(&["archive", "show", &ids[0].to_string()]).exits(3).tells(&["no_such_job"]);
}
