//! `dead purge` and `dead export`: what goes, what is asked before, and what is kept of it (D5).

use serde_json::{Value, json};

use crate::program::{Program, on_engine, played};

fn lines(program: &Program, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(program.path(name)).expect("a file");
    text.lines().map(|line| serde_json::from_str(line).expect("a JSON document a line")).collect()
}

fn dead(program: &Program) -> usize {
    let list = program.run(&["dead", "list", "--limit", "1000", "--json"]).exits(0).json();
    list["items"].as_array().expect("items").len()
}

#[test]
fn everything_needs_all_and_says_how_many() {
    // D5
    let program = Program::new();
    played(&program, &["permanent", "error", "error", "well"]);
    for args in [&["dead", "purge"][..], &["dead", "purge", "--yes"], &["dead", "purge", "--dry-run"]] {
        program.run(args).exits(3).tells(&["needs_all", "remove all 3 dead letters", "--all"]);
    }
    let error = program.run(&["dead", "purge", "--yes", "--json"]).exits(3).error();
    assert_eq!((&error["code"], &error["details"]["jobs"]), (&json!("needs_all"), &json!(3)));
    assert_eq!(dead(&program), 3, "nothing was changed");
    program.run(&["dead", "purge", "--all", "--yes"]).exits(0).says(&[
        "play",
        "non_retryable",
        "retry_exhausted",
        "removed 3 dead letters for good",
    ]);
    assert_eq!(dead(&program), 0);
    program.run(&["dead", "purge"]).exits(0).says(&["no dead letters: nothing to remove"]);
    let left = program.run(&["job", "list", "--json"]).exits(0).json();
    assert_eq!(left["items"][0]["status"], "succeeded", "what is not a dead letter stays");
}

#[test]
fn a_dry_run_counts_and_changes_nothing() {
    // D5
    let program = Program::new();
    played(&program, &["permanent", "error", "error"]);
    program
        .run(&["dead", "purge", "--reason", "retry_exhausted", "--dry-run"])
        .exits(0)
        .says(&["QUEUE", "default", "play", "retry_exhausted"])
        .tells(&["this would remove 2 dead letters for good: nothing was changed"]);
    let counted = program.run(&["dead", "purge", "--kind", "play", "--dry-run", "--json"]).exits(0).json();
    assert_eq!((&counted["dry_run"], &counted["jobs"]), (&json!(true), &json!(3)));
    assert_eq!(counted["survey"]["groups"].as_array().map(Vec::len), Some(2));
    program.run(&["dead", "purge", "--older-than", "1h", "--dry-run"]).exits(0).says(&["nothing to remove"]);
    program.run(&["dead", "purge", "--older-than", "soon"]).exits(2).tells(&["is not a duration"]);
    assert_eq!(dead(&program), 3);
}

#[test]
fn without_a_terminal_nothing_goes_before_somebody_says_yes() {
    // D5
    let program = Program::new();
    played(&program, &["permanent"]);
    program.run(&["dead", "purge", "--all"]).exits(3).tells(&[
        "needs_yes",
        "remove 1 dead letter for good?",
        "add --yes",
    ]);
    program.run_reading(&["dead", "purge", "--all"], "y\n").exits(3);
    program.run(&["dead", "purge", "--all", "--json"]).exits(3);
    assert_eq!(dead(&program), 1);
}

#[test]
fn what_goes_is_written_down_first_and_its_keys_keep_answering() {
    // D5, L10
    let program = Program::new();
    let ids = played(&program, &["permanent", "error", "well"]);
    let key = on_engine(&program, async |engine| {
        let job = crate::program::Play { ends: "permanent".to_owned() };
        let id =
            engine.enqueue(job).max_retries(0).idempotency_key("once").submit().await.expect("stored").id;
        let worker = engine.worker(()).register::<crate::program::Play>().queue("default", 1).inline();
        worker.expect("a worker").drain(10).await.expect("it runs");
        id
    });
    program.write("there.jsonl", "mine\n");
    program
        .run(&["dead", "purge", "--all", "--yes", "--export", "there.jsonl"])
        .exits(3)
        .tells(&["file_exists", "there.jsonl already exists"]);
    program.run(&["dead", "purge", "--all", "--yes", "--export", "no/such/folder.jsonl"]).exits(1);
    assert_eq!(dead(&program), 3, "what cannot be kept stays");
    let purged =
        program.run(&["dead", "purge", "--kind", "play", "--yes", "--export", "gone.jsonl", "--json"]);
    let purged = purged.exits(0).json();
    assert_eq!((&purged["purged"], &purged["left"]), (&json!(3), &json!(0)));
    assert_eq!(purged["exported"], json!({ "jobs": 3, "file": "gone.jsonl" }));
    let kept = lines(&program, "gone.jsonl");
    let mut found: Vec<&str> = kept.iter().map(|line| line["job"]["id"].as_str().expect("an id")).collect();
    let mut expected = vec![ids[0].to_string(), ids[1].to_string(), key.to_string()];
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert!(kept.iter().all(|line| line["attempts"].as_array().map(Vec::len) == Some(1)), "{kept:?}");
    assert_eq!(dead(&program), 0);
    let again = program.run(&["enqueue", "play", "--idempotency-key", "once", "--json"]).exits(0).json();
    assert_eq!((&again["id"], &again["deduplicated"]), (&json!(key), &json!(true)));
    assert_eq!(again["status"], "failed");
    program.run(&["job", "show", &key.to_string()]).exits(3).tells(&["no_such_job"]);
}

#[test]
fn dead_letters_are_exported_to_stdout_and_to_a_new_file() {
    // D5
    let program = Program::new();
    played(&program, &["permanent", "hostile", "well"]);
    let ran = program.run(&["dead", "export"]).exits(0).tells(&["exported 2 dead letters"]);
    let shown: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("a document")).collect();
    assert_eq!(shown.len(), 2);
    assert!(!ran.stdout.chars().any(|ch| ch.is_control() && ch != '\n'), "{:?}", ran.stdout);
    program
        .run(&["dead", "export", "--reason", "non_retryable", "--to", "dead.jsonl"])
        .exits(0)
        .says(&["exported 2 dead letters to dead.jsonl"]);
    assert_eq!(lines(&program, "dead.jsonl"), shown);
    program.run(&["dead", "export", "--to", "dead.jsonl"]).exits(3).tells(&["file_exists"]);
    assert_eq!(dead(&program), 2, "an export removes nothing");
}
