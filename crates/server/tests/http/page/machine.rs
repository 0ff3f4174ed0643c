//! Queues and workers on the page: how much comes and ends, and how much of the room for it is used.

use std::time::Duration;

use backstop::prelude::*;
use backstop_server::Scope;
use serde_json::json;

use super::{Visitor, stage, whole_token};

/// What the worker here runs.
#[derive(Serialize, Deserialize)]
struct Print {}

impl Job for Print {
    const KIND: &'static str = "print";
    type Context = ();
    type Output = ();

    async fn run(self, _: JobContext<()>) {}
}

#[tokio::test(start_paused = true)]
async fn slots_and_limits_stand_beside_what_uses_them() {
    // H5
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let limit = json!({ "queue": "mail", "concurrency": 3 }).to_string();
    let set = stage.call_with("PUT", "/api/v1/limits/partner", Some(&all), &limit).await;
    assert!(set.status.is_success(), "{}", set.text);
    let pool = json!({ "queue": "other", "by": "key", "concurrency": 2 }).to_string();
    stage.call_with("PUT", "/api/v1/limits/pool", Some(&all), &pool).await;
    let engine = stage.api.engine();
    let worker = engine.worker(()).register::<Print>().queue("mail", 8).queue("other", 2).name("abe");
    let worker = worker.start().await.unwrap();
    let mut told = json!({});
    for _ in 0..60 {
        tokio::time::advance(Duration::from_secs(1)).await;
        tokio::task::yield_now().await;
        told = stage.call("GET", "/api/v1/workers", Some(&all)).await.json()["items"][0]["slots"].clone();
        if told != json!({}) {
            break;
        }
    }
    assert_eq!(told, json!({ "mail": 8, "other": 2 }), "it is told within its first seconds");
    let visitor = Visitor::with(&stage, &all).await;
    let page = visitor.get("/queues").await.text;
    let row = |name: &str| {
        let (_, row) = page.split_once(&format!("data-key=\"{name}\"")).unwrap_or_else(|| panic!("{page}"));
        row.split("</tr>").next().unwrap().to_owned()
    };
    assert!(row("mail").contains("0 of 8") && row("mail").contains("partner</a> 0 of 3"), "{}", row("mail"));
    assert!(row("other").contains("0 of 2") && row("other").contains("2 for each key"), "{}", row("other"));
    for line in ["Coming, the last hour", "Ending, the last hour"] {
        assert!(row("mail").contains(line), "{}", row("mail"));
    }
    assert!(visitor.get("/workers").await.text.contains("0 of 10"));
    let overview = visitor.get("/").await.text;
    assert!(overview.contains("0 of 10 running"), "{overview}");
    for line in ["half within", "99 % within", "oldest now", "came", "ended"] {
        assert!(overview.contains(line), "{line}: {overview}");
    }
    // Whoever sees one of its queues sees the slots of that one, and no limits, which are about everybody's jobs.
    let queues = Some(vec!["mail".to_owned()]);
    let wish =
        backstop_server::TokenRequest { queues, ..crate::access::stage::wish("bound", &[Scope::Read]) };
    let bound = stage.make(wish).await;
    let seen = stage.call("GET", "/api/v1/workers", Some(&bound)).await.json();
    assert_eq!(
        (&seen["items"][0]["slots"], &seen["items"][0]["running"]),
        (&json!({ "mail": 8 }), &json!(null))
    );
    let page = Visitor::with(&stage, &bound).await.get("/queues").await.text;
    assert!(page.contains("0 of 8") && !page.contains("partner"), "{page}");
    worker.stop().await;
}
