//! `event`: what is allowed is told to subscribers, and nothing else is.

use backstop::{Cause, EventKind};
use backstop_kinds::{EventSettings, Kinds, Publish};
use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn an_allowed_event_reaches_subscribers_with_its_job() {
    // E6
    let event = EventSettings::default().allow("orders.*").expect("a pattern");
    let stage = Stage::new(Kinds { event, ..Kinds::default() }).await;
    let mut events = stage.engine.events();
    let ran = stage.run(<Publish>::new("orders.created", json!({ "id": 7 }))).await;
    assert_eq!(ran.cause(), Cause::Succeeded);
    let told = loop {
        let event = events.next().await.expect("the engine is there");
        if let EventKind::Published { name, data } = &event.what {
            assert_eq!(event.what.name(), "published");
            break (event.job.as_ref().map(|job| job.id), name.clone(), data.clone());
        }
    };
    assert_eq!(told, (Some(ran.detail.view.job.spec.id), "orders.created".to_owned(), json!({ "id": 7 })));
}

#[tokio::test]
async fn an_empty_list_denies_and_wrong_names_are_invalid() {
    // E6
    let stage = Stage::new(Kinds::default()).await;
    let mut events = stage.engine.events();
    let ran = stage.run(<Publish>::new("orders.created", json!(null))).await;
    assert_eq!(ran.cause(), Cause::Permanent);
    assert!(ran.message().contains("`orders.created` may not be published"), "{}", ran.message());
    // E10
    assert_eq!(ran.error_type(), "event_not_allowed");
    for name in ["", "a b", "a..b", "*", "orders.*", "é"] {
        let ran = stage.run(<Publish>::new(name, json!(1))).await;
        assert_eq!((ran.cause(), ran.error_type()), (Cause::Invalid, "event_name_invalid"), "{name}");
    }
    let ran = stage.run_raw("event", json!({ "name": "a", "dta": 1 }).to_string()).await;
    assert_eq!(ran.cause(), Cause::Invalid);
    while let Some(event) = events.try_next() {
        assert!(!matches!(event.what, EventKind::Published { .. }), "{event:?}");
    }
}
