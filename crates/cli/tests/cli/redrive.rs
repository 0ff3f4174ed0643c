//! `backstop redrive`: plans made, started, watched, paused, resumed and canceled from the command line (D4).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use backstop::prelude::*;
use backstop::{State, WorkerHandle};
use serde_json::{Value, json};

use crate::program::{Program, on_engine, played};

/// A job of the kind `play` that fails while it rains.
#[derive(Serialize, Deserialize)]
struct Play {
    ends: String,
}

impl Job for Play {
    const KIND: &'static str = "play";
    type Context = Arc<AtomicBool>;
    type Output = JobResult;
    async fn run(self, cx: JobContext<Arc<AtomicBool>>) -> JobResult {
        if cx.app().load(Ordering::SeqCst) {
            Err(format!("it ended as {}", self.ends).into())
        } else {
            Ok(())
        }
    }
}

/// A worker with maintenance; `rains` says whether its jobs fail.
async fn worker(engine: &Backstop, rains: &Arc<AtomicBool>) -> WorkerHandle {
    let worker = engine.worker(rains.clone()).register::<Play>().queue("default", 4).name("tester");
    worker.start().await.expect("it starts")
}

/// Three dead letters of one bug and one of another.
fn stormy() -> Program {
    let program = Program::new();
    played(&program, &["rain", "rain", "rain", "hail"]);
    program
}

fn incident(program: &Program, word: &str) -> String {
    let list = program.run(&["incident", "list", "--json"]).exits(0).json();
    let items = list["items"].as_array().expect("items");
    let found = items.iter().find(|one| one["message"].as_str().is_some_and(|text| text.contains(word)));
    found.and_then(|one| one["fingerprint"].as_str()).expect("it was counted").to_owned()
}

fn plan_id(document: &Value) -> String {
    document["plan"]["id"].as_str().expect("a plan").to_owned()
}

#[test]
fn a_dry_run_counts_by_group_and_changes_nothing() {
    // D4
    let program = stormy();
    program
        .run(&["redrive", "plan", "--kind", "play", "--dry-run"])
        .exits(0)
        .says(&["JOBS", "play", "retry_exhausted", "it ended as rain", "4 jobs would be driven again"])
        .tells(&["matches every dead letter there is, all 4", "nothing was changed"]);
    let rain = incident(&program, "rain");
    let told = program.run(&["redrive", "plan", "--incident", &rain, "--dry-run", "--json"]).exits(0).json();
    assert_eq!((&told["survey"]["jobs"], &told["plan"]), (&json!(3), &json!(null)));
    program.run(&["redrive", "list"]).exits(0).says(&["no plans yet"]);
}

#[test]
fn what_is_asked_wrongly_is_refused_in_one_sentence() {
    // D4
    let program = stormy();
    let refuse = |args: &[&str], code: i32, words: &[&str]| {
        let args: Vec<&str> = ["redrive"].iter().chain(args).copied().collect();
        program.run(&args).exits(code).tells(words);
    };
    refuse(&["plan"], 3, &["would drive every dead letter again", "`--all`", "there are 4 dead letters"]);
    refuse(&["plan", "--kind", "other"], 3, &["no dead letter matches kind `other`"]);
    refuse(&["plan", "--incident", "0123456789abcdef"], 3, &["there is no incident 0123456789abcdef"]);
    refuse(&["plan", "--kind", "play", "--rate", "0"], 2, &["the rate is 0, it must be at least 1"]);
    refuse(&["plan", "--kind", "play", "--batch", "0"], 2, &["the batch is 0"]);
    refuse(&["plan", "--kind", "play", "--all"], 2, &["`--all` and kind exclude each other"]);
    refuse(&["plan", "--kind", "play", "--older-than", "1h"], 3, &["no dead letter matches"]);
    refuse(&["plan", "--older-than", "soon"], 2, &["is not a duration"]);
    refuse(&["start", "rd-00000000"], 3, &["there is no plan rd-00000000"]);
    refuse(&["show", "nonsense"], 2, &["is not the id of a re-drive plan"]);
    let error = program.run(&["redrive", "plan", "--json"]).exits(3).error();
    assert_eq!(error["code"], "selects_everything");
    program.run(&["redrive", "list"]).exits(0).says(&["no plans yet"]);
}

#[test]
fn a_plan_halts_at_its_canary_and_drives_all_after_the_fix() {
    // D4
    let program = stormy();
    let rain = incident(&program, "rain");
    let made =
        program.run(&["redrive", "plan", "--incident", &rain, "--by", "ann", "--json"]).exits(0).json();
    let id = plan_id(&made);
    assert_eq!((&made["plan"]["phase"], &made["plan"]["created_by"]), (&json!("planned"), &json!("ann")));
    on_engine(&program, async |engine| {
        let rains = Arc::new(AtomicBool::new(true));
        let running = worker(&engine, &rains).await;
        program.run(&["redrive", "start", &id, "--watch"]).exits(1).says(&[
            "halted",
            "the cause is still there",
            "1 of 3 driven",
        ]);
        rains.store(false, Ordering::SeqCst);
        program.run(&["redrive", "resume", &id, "--watch"]).exits(0).says(&["done", "3 succeeded"]);
        running.stop().await;
        let dead = engine.queues().list().await.expect("it is there")[0].failed;
        assert_eq!(dead, 1, "the other bug was never touched");
    });
    program.run(&["redrive", "list"]).exits(0).says(&[&id, "done", "ann", &rain]);
    program.run(&["redrive", "show", &id]).exits(0).says(&[
        "done: 4 of 3 driven",
        "it ended as rain",
        "made: 3 jobs match",
        "halted: job",
        "the canaries succeeded",
    ]);
    let items = program.run(&["redrive", "show", &id, "--jobs", "--json"]).exits(0).json();
    let items = items["items"].as_array().expect("items").clone();
    assert_eq!(items.len(), 3);
    assert!(items.iter().all(|item| item["outcome"]["is"] == "succeeded"), "{items:?}");
    let page = ["redrive", "show", &id, "--jobs", "--json", "--limit", "2"];
    let first = program.run(&page).exits(0).json();
    let cursor = first["next_cursor"].as_str().expect("there is a third one").to_owned();
    let second = program.run(&[&page[..], &["--cursor", &cursor]].concat()).exits(0).json();
    assert_eq!((&second["items"][0]["job"], &second["next_cursor"]), (&items[2]["job"], &json!(null)));
    program.run(&["redrive", "show", &id, "--jobs"]).exits(0).says(&["canary", "batch 1", "succeeded"]);
    program.run(&["redrive", "resume", &id]).exits(3).tells(&["is done and cannot be resumed"]);
}

#[test]
fn a_plan_is_started_paused_resumed_and_canceled_without_a_worker() {
    // D4
    let program = stormy();
    let told =
        program.run(&["redrive", "plan", "--all", "--start", "--note", "all of it", "--json"]).exits(0);
    assert!(told.stderr.contains("no worker is running"), "{}", told.stderr);
    let id = told.json()["id"].as_str().expect("a plan").to_owned();
    program.run(&["redrive", "pause", &id]).exits(0).says(&["paused by a person while it was canary"]);
    program.run(&["redrive", "pause", &id]).exits(3).tells(&["is paused and cannot be paused"]);
    program
        .run(&["redrive", "resume", &id])
        .exits(0)
        .says(&["canary: 1 job of 4 goes first"])
        .tells(&["no worker is running", &format!("redrive show {id} --watch")]);
    program.run(&["redrive", "cancel", &id, "--by", "bob"]).exits(0).says(&["canceled by a person"]);
    program.run(&["redrive", "show", &id]).exits(0).says(&["all of it", "bob: canceled", "`--all`"]);
    program.run(&["redrive", "show", &id, "--watch"]).exits(1).says(&["canceled"]);
    program.run(&["redrive", "show", &id, "--jobs"]).exits(0).says(&["has driven no job"]);
    on_engine(&program, async |engine| {
        let failed = engine.queues().list().await.expect("it is there")[0].failed;
        assert_eq!((failed, State::Failed.as_str()), (4, "failed"), "nothing was driven");
    });
}
