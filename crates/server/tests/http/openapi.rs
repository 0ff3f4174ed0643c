//! The OpenAPI document: complete, consistent, and the same everywhere.

use std::collections::BTreeSet;

use backstop_server::{RouteNeeds, document, table};
use serde_json::{Value, json};

use crate::harness::Harness;

/// What HTTP calls a method, and OpenAPI in lower case.
const METHODS: [&str; 4] = ["get", "post", "put", "delete"];

fn written() -> Value {
    serde_json::to_value(document()).unwrap()
}

/// Every operation as its method in capitals, its path and what is said of it.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            assert!(METHODS.contains(&method.as_str()), "{method} {path}");
            all.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    all
}

#[test]
fn every_route_is_in_the_document_and_the_other_way_round() {
    let described: BTreeSet<_> =
        operations(&written()).into_iter().map(|(method, path, _)| (method, path)).collect();
    let served: BTreeSet<_> = table().into_iter().map(|route| (route.method, route.path)).collect();
    assert_eq!(described, served);
}

#[test]
fn every_operation_says_who_may_call_and_how_it_refuses() {
    for (method, path, operation) in operations(&written()) {
        let what = format!("{method} {path}");
        let route =
            table().into_iter().find(|route| (&route.method, &route.path) == (&method, &path)).unwrap();
        let expected = match route.needs {
            RouteNeeds::Nothing => json!([]),
            RouteNeeds::Right(scope)
            | RouteNeeds::RightOverQueues(scope, _)
            | RouteNeeds::RightOverAll(scope) => {
                json!([{ "bearer": [scope.as_str()] }])
            }
        };
        assert_eq!(operation["security"], expected, "{what}");
        let mut refusals = vec!["429", "503"];
        if route.needs != RouteNeeds::Nothing {
            refusals.extend(["401", "403"]);
        }
        if path.contains('{') {
            refusals.push("404");
        }
        if operation.get("requestBody").is_some() {
            refusals.extend(["400", "413", "415", "422"]);
        }
        let responses = operation["responses"].as_object().unwrap();
        for status in refusals {
            assert!(responses.contains_key(status), "{what} does not say {status}");
        }
        for (status, response) in responses.iter().filter(|(status, _)| status.starts_with(['4', '5'])) {
            let schema = &response["content"]["application/json"]["schema"]["$ref"];
            assert_eq!(schema, "#/components/schemas/Failed", "{what} {status}");
        }
        assert!(operation["summary"].is_string(), "{what} has no sentence");
    }
}

#[test]
fn every_operation_has_a_name_of_its_own_and_a_tag_that_is_described() {
    let document = written();
    let tags: Vec<_> = document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].clone()).collect();
    let mut names = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        let name = operation["operationId"].as_str().unwrap().to_owned();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(name.chars().all(plain), "{name}");
        assert!(names.insert(name.clone()), "{method} {path}: another operation is called {name} too");
        for tag in operation["tags"].as_array().unwrap() {
            assert!(
                tags.contains(tag),
                "{method} {path}: add a sentence about {tag} to TAGS in src/openapi.rs"
            );
        }
    }
}

#[test]
fn every_reference_leads_somewhere() {
    fn look(value: &Value, schemas: &serde_json::Map<String, Value>) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(target)) = fields.get("$ref") {
                    let name = target.strip_prefix("#/components/schemas/").expect("a schema");
                    assert!(schemas.contains_key(name), "there is no schema {name}");
                }
                fields.values().for_each(|value| look(value, schemas));
            }
            Value::Array(items) => items.iter().for_each(|value| look(value, schemas)),
            _ => {}
        }
    }
    let document = written();
    look(&document, document["components"]["schemas"].as_object().unwrap());
}

#[test]
fn shapes_that_are_called_alike_are_told_apart() {
    let document = written();
    let fields = |schema: &str| {
        let schema = &document["components"]["schemas"][schema];
        schema["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(fields("Progress"), ["note", "percent"], "of a job that is shown");
    assert_eq!(fields("RunProgress"), ["lease", "note", "percent"], "what a worker says");
    assert_eq!(fields("Survey"), ["complete", "groups"], "of a purge");
    assert_eq!(
        fields("PlanSurvey"),
        ["complete", "groups", "jobs", "left_out", "selector", "unknown_effects"]
    );
    assert!(fields("PlanSurveyGroup").contains(&"sample".to_owned()));
    assert!(!fields("SurveyGroup").contains(&"sample".to_owned()));
}

#[test]
fn the_committed_copy_is_the_document() {
    let stored =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json")).unwrap();
    let stored: Value = serde_json::from_str(&stored).unwrap();
    assert!(stored == written(), "docs/openapi.json is out of date: `cargo xtask generate` writes it");
}

#[tokio::test]
async fn the_document_is_served_to_everybody() {
    let harness = Harness::new().await;
    let answer = harness.get("/api/v1/openapi.json").await;
    assert_eq!(answer.headers["content-type"], "application/json");
    assert_eq!(answer.ok(), written());
    assert_eq!(written()["openapi"], "3.1.0");
}
