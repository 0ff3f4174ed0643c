//! Search: what lists show can be looked for, and what cannot be known is not called missing.

use std::sync::Arc;

use backstop::{Backstop, Config};
use backstop_server::{Scope, ServerSettings};
use backstop_testing::{CrashAt, TestEngine};
use serde_json::json;

use super::{Visitor, stage, whole_token};
use crate::access::stage::Stage;

#[tokio::test(start_paused = true)]
async fn an_id_as_lists_show_it_is_found_and_several_are_offered() {
    let stage = stage().await;
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let job = json!({ "kind": "charge", "business_key": format!("order {}", ids.len()) }).to_string();
        let stored = stage.call_with("POST", "/api/v1/jobs", Some(&all), &job).await.json();
        ids.push(stored["id"].as_str().unwrap().to_owned());
    }
    let list = visitor.get("/jobs").await.text;
    for id in &ids {
        let shown = format!("{}…{}", &id[..13], &id[32..]);
        assert!(list.contains(&shown), "{shown}: {list}");
        let asked: String = form_urlencoded::byte_serialize(shown.as_bytes()).collect();
        let found = visitor.get(&format!("/find?q={asked}")).await;
        assert_eq!(found.headers["location"].to_str().unwrap(), format!("/jobs/{id}"));
    }
    let several = visitor.get(&format!("/find?q={}", &ids[0][..6])).await.text;
    assert!(several.contains("Jobs whose id begins so") && several.contains(&ids[1]), "{several}");
    assert!(!several.contains("Nothing was found"), "{several}");
    assert!(visitor.get("/find?q=order+1").await.text.contains(&ids[1]));
    assert!(visitor.get("/find?q=nothing+like+it").await.text.contains("Nothing was found"));
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_not_called_empty() {
    let test = TestEngine::new();
    let stage = Stage::on(test.engine().clone(), ServerSettings::default());
    let token = stage.token("ann", &[Scope::Read]).await;
    let cookie = Visitor::with(&stage, &token).await.cookie;
    // What lets somebody in is read, and what they look for is not.
    for calls in 1..12 {
        let lost = Backstop::on(Arc::new(CrashAt::new(test.store(), calls)), Config::default());
        let lost = Stage::on(lost, ServerSettings::default());
        let visitor = Visitor { stage: &lost, cookie: cookie.clone() };
        let page = visitor.get("/find?q=anything").await;
        let is_told = page.status.is_server_error() || page.text.contains("Nothing was found");
        assert!(
            is_told && (page.status == 200) == page.text.contains("Nothing was found"),
            "{calls}: {page:?}"
        );
        assert!(page.status != 200 || calls > 5, "{calls}: {page:?}");
    }
}
