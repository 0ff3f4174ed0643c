//! `incident` and `rule`: what people say of failures, and what becomes of them.

use serde_json::json;

use crate::program::{Program, played};

fn fingerprint(program: &Program, text: &str) -> String {
    let list = program.run(&["incident", "list", "--json"]).exits(0).json();
    let items = list["items"].as_array().expect("items").clone();
    let one = items.iter().find(|one| one["message"].as_str().is_some_and(|message| message.contains(text)));
    one.expect("the incident is listed")["fingerprint"].as_str().expect("text").to_owned()
}

#[test]
fn an_incident_is_shown_with_what_to_do_about_it() {
    // D2
    let program = Program::new();
    let ids = played(&program, &["permanent", "permanent", "error"]);
    let print = fingerprint(&program, "the card is stolen");
    let ack = format!("backstop incident ack {print}");
    program.run(&["incident", "show", &print]).exits(0).says(&[
        "the card is stolen",
        "dead now",
        "2, 2 of them final",
        &ids[1].to_string(),
        "what to do",
        &ack,
    ]);
    let shown = program.run(&["incident", "show", &print, "--json"]).exits(0).json();
    assert_eq!((&shown["open"], &shown["state"], &shown["failures"]), (&json!(2), &json!("new"), &json!(2)));
    assert_eq!(shown["sample_jobs"].as_array().map(Vec::len), Some(2));
    program
        .run(&["incident", "show", "0123456789abcdef"])
        .exits(1)
        .tells(&["there is no incident", "incident list"]);
    program.run(&["incident", "show", "nonsense"]).exits(2).tells(&["is not a fingerprint"]);
}

#[test]
fn people_say_where_an_incident_stands() {
    // D2, D7
    let program = Program::new();
    played(&program, &["permanent", "error"]);
    let print = fingerprint(&program, "the card is stolen");
    let print = print.as_str();
    let ack =
        program.run(&["incident", "ack", print, "--by", "ann", "--note", "at it", "--json"]).exits(0).json();
    assert_eq!(
        (&ack["state"], &ack["changed_by"], &ack["note"]),
        (&json!("acknowledged"), &json!("ann"), &json!("at it"))
    );
    program.run(&["incident", "fixed", print, "--in", "1.4.0"]).exits(0).says(&[
        "is fixed in 1.4.0",
        "1 dead letter can be driven again",
        &format!("backstop redrive plan --incident {print}"),
    ]);
    program.run(&["incident", "list", "--state", "fixed"]).exits(0).says(&[print, "fixed in 1.4.0"]);
    let new = program.run(&["incident", "list", "--state", "new", "--json"]).exits(0).json();
    assert_eq!(new["items"].as_array().map(Vec::len), Some(1));
    program.run(&["incident", "mute", print]).exits(0).says(&["is muted"]);
    program.run(&["incident", "reopen", print]).exits(0).says(&["is new"]);
    let open = program.run(&["incident", "list", "--open", "--json"]).exits(0).json();
    assert_eq!(open["items"].as_array().map(Vec::len), Some(2));
    program.run(&["incident", "list", "--state", "regressed"]).exits(0).says(&["no incident matches"]);
    program.run(&["incident", "list", "--state", "odd"]).exits(2).tells(&["is not a state of an incident"]);
    program.run(&["incident", "fixed", print, "--in", " "]).exits(2).tells(&["is empty"]);
    program.run(&["incident", "ack", "0123456789abcdef"]).exits(1).tells(&["there is no incident"]);
}

#[test]
fn a_rule_is_tried_added_listed_switched_and_removed() {
    // F18
    let program = Program::new();
    let ids = played(&program, &["permanent", "error", "well"]);
    let tried = program.run(&["rule", "test", "--text", "card is (stolen|lost)", "--json"]).exits(0).json();
    assert_eq!((&tried["looked_at"], tried["matched"].as_array().map(Vec::len)), (&json!(2), Some(1)));
    assert_eq!(tried["matched"][0]["job"], json!(ids[0].to_string()));
    program
        .run(&["rule", "test", "--text", "card is"])
        .exits(0)
        .says(&["it would have decided 1 of the latest 2 failures", &ids[0].to_string()]);
    let add = ["rule", "add", "stolen", "--text", "card is stolen", "--then", "transient", "--delay", "30s"];
    program.run(&add).exits(0).says(&["rule `stolen` is saved", "text `card is stolen` → transient in 30"]);
    program.run(&add).exits(1).tells(&["there is a rule `stolen` already"]);
    program.run(&["rule", "list"]).exits(0).says(&["stolen", "on", "transient in 30"]);
    program.run(&["rule", "disable", "stolen"]).exits(0).says(&["is switched off"]);
    let rules = program.run(&["rule", "list", "--json"]).exits(0).json();
    assert_eq!((&rules["items"][0]["id"], &rules["items"][0]["enabled"]), (&json!("stolen"), &json!(false)));
    program.run(&["rule", "enable", "stolen"]).exits(0).says(&["is switched on"]);
    program.run(&["rule", "test", "stolen"]).exits(0).says(&["it would have decided 1 of"]);
    program.run(&["rule", "remove", "stolen"]).exits(0).says(&["is removed"]);
    program
        .run(&["rule", "remove", "stolen"])
        .exits(1)
        .tells(&["there is no rule `stolen`", "backstop rule list"]);
    program.run(&["rule", "list"]).exits(0).says(&["no rules yet", "backstop rule add"]);
}

#[test]
fn a_rule_that_cannot_work_is_refused_before_anything_changes() {
    // F18
    let program = Program::new();
    played(&program, &["error"]);
    let refused: [(&[&str], &str); 7] = [
        (&["--then", "permanent"], "rule"),
        (&["--text", "(", "--then", "permanent"], "text"),
        (
            &["--text", "x", "--then", "permanent", "--delay", "3s"],
            "--delay has no effect with `--then permanent`",
        ),
        (&["--text", "x", "--then", "transient", "--max-retries", "3"], "--max-retries has no effect"),
        (&["--cause", "succeeded", "--then", "permanent"], "succeeded"),
        (&["--kind", "", "--then", "permanent"], "kind"),
        (&["--text", "x", "--then", "explode"], "explode"),
    ];
    for (options, says) in refused {
        let args: Vec<&str> = ["rule", "add", "r"].iter().chain(options).copied().collect();
        program.run(&args).exits(2).tells(&[says]);
    }
    program.run(&["rule", "add", "Not A Slug", "--text", "x", "--then", "permanent"]).exits(2);
    let none = program.run(&["rule", "list", "--json"]).exits(0).json();
    assert_eq!(none["items"], json!([]));
    program
        .run(&["rule", "add", "r", "--text", "never said", "--then", "permanent"])
        .exits(0)
        .tells(&["matches none of the latest 1 failures"]);
    program.run(&["rule", "test"]).exits(2).tells(&["say either the name of a rule or conditions"]);
}
