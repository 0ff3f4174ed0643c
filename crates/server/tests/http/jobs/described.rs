//! How jobs are described in the OpenAPI document.

use std::collections::BTreeSet;

use backstop::Timestamp;
use backstop_core::job::JobJson;
use backstop_server::document;
use serde_json::{Value, json};

use super::played;
use crate::harness::Harness;

fn references(part: &Value, found: &mut BTreeSet<String>) {
    match part {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| references(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let document = serde_json::to_value(document()).unwrap();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.contains("#/components/schemas/Job"), "{found:?}");
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

#[tokio::test]
async fn a_job_has_just_the_described_fields() {
    let harness = Harness::new().await;
    let id = played(&harness, "default", &["permanent"]).await[0];
    let document = serde_json::to_value(document()).unwrap();
    for (schema, path, at) in [
        ("Job", format!("/api/v1/jobs/{id}"), ""),
        ("Attempt", format!("/api/v1/jobs/{id}/attempts"), "/items/0"),
    ] {
        let schema = &document["components"]["schemas"][schema];
        let described: BTreeSet<&String> = schema["properties"].as_object().unwrap().keys().collect();
        let answer = harness.get(&path).await.ok();
        let shown: BTreeSet<&String> = answer.pointer(at).unwrap().as_object().unwrap().keys().collect();
        let missing: Vec<_> = described.difference(&shown).collect();
        let sometimes = [
            "left_out",
            "limit_key",
            "ordering_key",
            "permits",
            "signed_by",
            "single_instance",
            "dependency",
            "schedule",
            "workflow",
            "steps",
            "rejects",
            "trace_parent",
            "waiting_for",
            "waits_for_code",
        ];
        assert!(missing.iter().all(|field| sometimes.contains(&field.as_str())), "{missing:?}");
        assert_eq!(shown.difference(&described).count(), 0, "{shown:?}");
        for field in schema["required"].as_array().unwrap() {
            assert!(shown.contains(&field.as_str().unwrap().to_owned()), "{field}");
        }
    }
}

#[tokio::test]
async fn a_job_is_read_back_as_it_was_written() {
    let harness = Harness::new().await;
    let id = played(&harness, "default", &["permanent"]).await[0];
    let answer = harness.get(&format!("/api/v1/jobs/{id}?reveal=true")).await;
    let job: JobJson = serde_json::from_str(&answer.text).unwrap();
    assert_eq!(job, harness.engine().job(id).await.unwrap().unwrap().reads());
    assert!(job.created_at > Timestamp::EPOCH);
    assert_eq!(serde_json::to_value(&job).unwrap()["payload"], json!({ "ends": "permanent" }));
}
