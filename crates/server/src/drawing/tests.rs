//! What pictures of workflows show.

use backstop::State;
use backstop::workflows::{Condition, Join};
use serde_json::json;

use super::{mermaid, picture, svg};
use crate::shape::WorkflowJson;

fn workflow(nodes: serde_json::Value) -> WorkflowJson {
    serde_json::from_value(json!({
        "id": "01890000-0000-7000-8000-000000000001", "name": "order <7>", "status": "running",
        "created_at": "2026-01-01T00:00:00Z", "finished_at": null,
        "progress": { "total": 3, "succeeded": 0, "failed": 0, "canceled": 0, "pending": 1, "waiting": 2 },
        "nodes": nodes,
    }))
    .expect("a workflow")
}

fn node(name: &str, status: &str, after: &[&str]) -> serde_json::Value {
    json!({ "name": name, "job": "01890000-0000-7000-8000-000000000002", "status": status, "after": after })
}

#[test]
fn what_follows_is_right_of_what_it_follows() {
    // W6
    let drawn = picture(&workflow(json!([
        node("end", "waiting", &["left", "right"]),
        node("begin", "succeeded", &[]),
        node("left", "running", &["begin"]),
        node("right", "waiting", &["left"]),
    ])));
    let shown: Vec<(&str, usize, &[usize])> =
        drawn.nodes.iter().map(|node| (&*node.name, node.layer, &*node.after)).collect();
    assert_eq!(shown, [("begin", 0, &[][..]), ("left", 1, &[0]), ("right", 2, &[1]), ("end", 3, &[1, 2])]);
    assert_eq!(drawn.left_out, 0);
}

#[test]
fn many_that_are_alike_are_one_mark() {
    // W3: a fan of 10,000 is one box with its counts.
    let mut nodes = vec![node("split", "succeeded", &[])];
    let names: Vec<String> = (0..10_000).map(|number| format!("part {number}")).collect();
    for (number, name) in names.iter().enumerate() {
        nodes.push(node(name, if number < 3 { "failed" } else { "succeeded" }, &["split"]));
    }
    let after: Vec<&str> = names.iter().map(String::as_str).collect();
    nodes.push(node("join", "waiting", &after));
    let drawn = picture(&workflow(nodes.into()));
    assert_eq!(drawn.nodes.len(), 3);
    let fan = &drawn.nodes[1];
    assert_eq!((fan.count, fan.status), (10_000, State::Failed), "the worst is what is seen");
    assert_eq!(fan.status_text, "3 failed, 9997 succeeded");
    assert_eq!(drawn.nodes[2].after, [1]);
}

#[test]
fn a_picture_stays_small() {
    let nodes: Vec<_> = (0..1_000)
        .map(|number| {
            let before = if number == 0 { Vec::new() } else { vec![format!("step {}", number - 1)] };
            let before: Vec<&str> = before.iter().map(String::as_str).collect();
            node(&format!("step {number}"), "waiting", &before)
        })
        .collect();
    let long = workflow(nodes.into());
    assert_eq!((picture(&long).nodes.len(), picture(&long).left_out), (300, 700));
    assert!(svg(&long).contains("and 700 more steps") && mermaid(&long).contains("and 700 more steps"));
}

#[test]
fn conditions_are_told_and_names_are_harmless() {
    let mut odd = node("<b>\"odd\"</b>", "canceled", &["a", "b"]);
    odd["reason"] = "not_taken".into();
    odd["when"] = serde_json::to_value(Condition::Predicate("is large".to_owned())).expect("JSON");
    odd["join"] = serde_json::to_value(Join::Any).expect("JSON");
    let drawn = workflow(json!([node("a", "succeeded", &[]), node("b", "running", &[]), odd]));
    let mark = &picture(&drawn).nodes[2];
    assert_eq!(mark.condition, "after the first, if is large");
    assert_eq!(mark.status_text, "canceled, not taken");
    let asked = [
        ("canceled", Some("dependency_failed"), "failed", "canceled, its predicate failed"),
        ("canceled", Some("not_taken"), "succeeded", "canceled, not taken"),
        ("waiting", None, "pending", "waiting, its predicate is pending"),
        ("running", None, "succeeded", "running"),
    ];
    for (status, reason, predicate, words) in asked {
        let mut step = node("odd", status, &[]);
        step["reason"] = json!(reason);
        step["asked"] = json!({ "job": step["job"], "status": predicate });
        assert_eq!(picture(&workflow(json!([step]))).nodes[0].status_text, words);
    }
    let (svg, mermaid) = (svg(&drawn), mermaid(&drawn));
    assert!(
        !svg.contains("<b>") && svg.contains("&lt;b&gt;&quot;odd&quot;") && svg.contains("order &lt;7&gt;")
    );
    assert!(!mermaid.contains("<b>") && mermaid.contains("#60;b#62;#34;odd"));
    assert!(mermaid.contains("n0 -->|\"after the first, if is large\"| n2"));
}
