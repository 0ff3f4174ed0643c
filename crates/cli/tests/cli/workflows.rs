//! `backstop workflow` and `backstop batch`.

use crate::program::Program;

const ORDER: &str = r#"{
    "name": "order",
    "nodes": [
        { "name": "reserve", "kind": "play", "payload": { "ends": "well" } },
        { "name": "charge", "kind": "play", "after": ["reserve"] },
        { "name": "pack", "kind": "play", "after": ["reserve"] },
        { "name": "send", "kind": "play", "after": ["charge", "pack"] },
        { "name": "sorry", "kind": "play", "after": ["charge"], "when": "failure" }
    ]
}"#;

#[test]
fn a_workflow_is_submitted_and_drawn() {
    // W6
    let program = Program::new();
    program.write("order.json", ORDER);
    let id = program.run(&["workflow", "submit", "order.json"]).exits(0).stdout.trim().to_owned();
    program.run(&["workflow", "list"]).exits(0).says(&["order", "running", "0/5"]);
    let shown = program.run(&["workflow", "show", &id[..13]]).exits(0).stdout;
    let picture: Vec<&str> =
        shown.lines().skip_while(|line| !line.contains("reserve")).map(str::trim_end).collect();
    let expected = [
        "  ●      reserve  pending",
        "  ├─┐",
        "  ● │    charge   waiting",
        "  ├─│─┐",
        "  │ ● │  pack     waiting",
        "  ├─┘ │",
        "  ●   │  send     waiting",
        "      ●  sorry    waiting  on failure",
    ];
    assert_eq!(picture, expected, "{shown}");
    program.run(&["workflow", "show", &id, "--svg", "order.svg"]).exits(0);
    assert!(program.has("order.svg"));
    program.run(&["workflow", "show", &id, "--mermaid", "-"]).exits(0).says(&["flowchart LR", "on failure"]);
    program.run(&["workflow", "cancel", &id, "--reason", "sold out"]).exits(0).says(&["5 steps canceled"]);
}

#[test]
fn what_is_wrong_with_a_file_is_told() {
    // W6
    let program = Program::new();
    program.run(&["workflow", "submit", "nowhere.json"]).exits(1).tells(&["cannot read nowhere.json"]);
    program.write("odd.json", "{ not JSON");
    program.run(&["workflow", "submit", "odd.json"]).exits(1).tells(&["odd.json is not valid JSON"]);
    let circle = r#"{"name": "c", "nodes": [{"name": "a", "kind": "k", "after": ["b"]},
        {"name": "b", "kind": "k", "after": ["a"]}]}"#;
    program.write("circle.json", circle);
    let told = program.run(&["workflow", "submit", "circle.json"]);
    assert_ne!(told.code, 0);
    told.tells(&["wait for each other in a circle: a, b"]);
    program.run(&["workflow", "list"]).exits(0).says(&["no workflows yet"]);
}

#[test]
fn a_batch_is_submitted_and_shown() {
    // W3
    let program = Program::new();
    program.write("letters.json", r#"{"name": "letters", "jobs": [{"kind": "play"}, {"kind": "play"}]}"#);
    let id = program.run(&["batch", "submit", "letters.json"]).exits(0).stdout.trim().to_owned();
    program.run(&["batch", "list"]).exits(0).says(&["letters", "running", "0/2"]);
    program.run(&["batch", "show", &id]).exits(0).says(&["sealed", "yes", &format!("--tag batch:{id}")]);
    program.run(&["batch", "cancel", &id]).exits(0).says(&["2 jobs canceled"]);
}
