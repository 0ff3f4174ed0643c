//! Answers are bounded, whatever the rows hold and however many there are.

use std::collections::BTreeSet;

use backstop::Config;
use backstop_server::{Caller, ServerSettings, document};
use serde_json::{Value, json};

use crate::harness::Harness;

/// What the rows of a page have at most, and the frame around them.
const MOST_BYTES: usize = (1 << 20) + 512;

/// The lists that are never long, and so not pages.
const SHORT: [&str; 2] = ["/api/v1/doctor", "/api/v1/retention"];

#[test]
fn every_list_is_a_page() {
    let document = serde_json::to_value(document()).unwrap();
    let mut lists = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let answer = &item["get"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"];
        let Some(name) = answer.as_str().and_then(|name| name.rsplit('/').next()) else { continue };
        if document["components"]["schemas"][name]["properties"].get("items").is_none() {
            continue;
        }
        lists += 1;
        let named: BTreeSet<&str> = item["get"]["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|parameter| parameter["name"].as_str())
            .collect();
        let paged = named.contains("limit") && named.contains("cursor");
        assert_eq!(paged, !SHORT.contains(&path.as_str()), "{path}: {named:?}");
    }
    assert!(lists >= 15, "{lists} lists");
}

/// Every row of a list, page by page; each page is bounded.
async fn all(harness: &Harness, path: &str) -> (Vec<Value>, usize) {
    let ann = Caller::local("ann");
    let (mut rows, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let answer = harness.get_as(&ann, &format!("{path}{cursor}")).await;
        let page = answer.ok();
        let items = page["items"].as_array().unwrap();
        assert!(answer.text.len() <= MOST_BYTES || items.len() == 1, "{path}: {}", answer.text.len());
        rows.extend(items.iter().cloned());
        pages += 1;
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (rows, pages),
        }
    }
}

fn ids(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn lists_leave_large_data_out_and_tell_its_size() {
    let harness = Harness::with(Config::default(), ServerSettings::default()).await;
    let mut submitted = Vec::new();
    for number in 0..40 {
        let text = "x".repeat(if number % 2 == 0 { 900_000 } else { 10 });
        let payload = json!({ "password": "hunter2", "text": text });
        let job = harness.post("/api/v1/jobs", json!({ "kind": "mail", "payload": payload })).await.ok();
        submitted.push(job["id"].as_str().unwrap().to_owned());
    }
    submitted.reverse();
    let (rows, pages) = all(&harness, "/api/v1/jobs?limit=1000").await;
    assert_eq!(ids(&rows), submitted);
    assert!(pages > 1, "18 MB are not read for one page");
    for row in &rows {
        if row.get("left_out").is_some() {
            assert_eq!(row["payload"], Value::Null);
            assert!(row["left_out"]["payload"].as_u64().unwrap() > 900_000, "{}", row["left_out"]);
        } else {
            assert_eq!(row["payload"]["text"], "xxxxxxxxxx");
        }
    }
    assert_eq!(rows.iter().filter(|row| row.get("left_out").is_some()).count(), 20);
    // On request its beginning, which is masked before it is cut.
    let (rows, _) = all(&harness, "/api/v1/jobs?limit=1000&data_limit=2000").await;
    assert_eq!(ids(&rows), submitted);
    let cut: Vec<&Value> = rows.iter().filter(|row| row.get("left_out").is_some()).collect();
    assert_eq!(cut.len(), 20);
    for row in cut {
        let beginning = row["payload"].as_str().unwrap();
        assert_eq!(beginning.len(), 2_000);
        assert!(
            beginning.starts_with(r#"{"password":"#) && !beginning.contains("hunter2"),
            "{beginning:.60}"
        );
    }
    let whole = harness.get(&format!("/api/v1/jobs/{}", submitted[1])).await.ok();
    assert_eq!(whole["payload"]["text"].as_str().unwrap().len(), 900_000);
    let refused = harness.get("/api/v1/jobs?data_limit=65537").await;
    assert_eq!((refused.status.as_u16(), refused.code()), (422, "invalid".to_owned()));
}

#[tokio::test]
async fn what_was_listed_whole_is_read_page_by_page() {
    let (harness, ann) = (Harness::new().await, Caller::local("ann"));
    for number in 0..7 {
        let queue = format!("queue-{number}");
        harness.post_as(&ann, "/api/v1/jobs", json!({ "kind": "mail", "queue": queue })).await.ok();
        harness.post_as(&ann, "/api/v1/tokens", json!({ "name": queue, "scopes": ["read"] })).await.ok();
    }
    for (path, key) in [("/api/v1/queues", "name"), ("/api/v1/tokens", "name")] {
        let (rows, pages) = all(&harness, &format!("{path}?limit=3")).await;
        let names: Vec<&str> = rows.iter().map(|row| row[key].as_str().unwrap()).collect();
        assert_eq!((names.len(), pages), (7, 3), "{path}: {names:?}");
        assert!(names.is_sorted(), "{path}: {names:?}");
    }
    let refused = harness.get_as(&ann, "/api/v1/tokens?cursor=nobody").await;
    assert_eq!((refused.status.as_u16(), refused.code()), (422, "invalid".to_owned()));
    let refused = harness.get_as(&ann, "/api/v1/workers?cursor=nobody").await;
    assert_eq!((refused.status.as_u16(), refused.code()), (422, "invalid".to_owned()));
    let refused = harness.get_as(&ann, "/api/v1/incidents?cursor=nobody").await;
    assert_eq!((refused.status.as_u16(), refused.code()), (422, "invalid".to_owned()));
}
