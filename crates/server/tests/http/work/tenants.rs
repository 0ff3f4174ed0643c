//! Leases belong to the tenant that took them.

use std::collections::BTreeSet;

use backstop_server::{Caller, Scope};
use serde_json::json;

use super::stage::Stage;

fn holder(tenant: Option<&str>, queues: Option<&[&str]>) -> Caller {
    let queues = queues.map(|names| names.iter().map(ToString::to_string).collect());
    Caller::holder("tester", BTreeSet::from([Scope::Work]), tenant.map(str::to_owned), queues)
}

#[tokio::test(start_paused = true)]
async fn a_tenant_works_on_its_own_queues_under_their_own_names() {
    // E7
    let stage = Stage::new();
    let job = stage.engine().enqueue_raw("mail", "{}").queue("acme/mail").business_key("acme/order-7");
    job.submit().await.unwrap();
    stage.engine().enqueue_raw("mail", "{}").queue("mail").submit().await.unwrap();
    let (acme, other) = (holder(Some("acme"), None), holder(Some("other"), None));
    let ask = json!({ "worker": "w1", "queues": ["mail"], "kinds": ["mail"], "limit": 9 });
    let none = stage.post_as(&other, "/api/v1/work/claim", ask.clone()).await.ok();
    assert_eq!(none["jobs"], json!([]));
    let claimed = stage.post_as(&acme, "/api/v1/work/claim", ask).await.ok();
    assert_eq!(claimed["jobs"].as_array().unwrap().len(), 1);
    let job = &claimed["jobs"][0];
    assert_eq!((&job["queue"], &job["business_key"]), (&json!("mail"), &json!("order-7")));

    let token = &job["lease"]["token"];
    let finish = json!({ "results": [{ "lease": token, "outcome": { "type": "succeeded" } }] });
    let beat = json!({ "worker": "w1", "leases": [token] });
    let progress = json!({ "lease": token, "percent": 1 });
    let log = json!({ "lease": token, "lines": ["a line"] });
    let strangers = [other, holder(None, None), holder(Some("acme"), Some(&["print"]))];
    for stranger in &strangers {
        let answer = stage.post_as(stranger, "/api/v1/work/finish", finish.clone()).await.ok();
        assert_eq!(answer["results"][0]["error"]["code"], "stale_lease", "{stranger:?}");
        let answer = stage.post_as(stranger, "/api/v1/work/heartbeat", beat.clone()).await.ok();
        assert_eq!(answer["lost"][0]["reason"], "stale_lease", "{stranger:?}");
        let answer = stage.post_as(stranger, "/api/v1/work/progress", progress.clone()).await;
        assert_eq!(answer.code(), "stale_lease", "{stranger:?}");
        let answer = stage.post_as(stranger, "/api/v1/work/log", log.clone()).await;
        assert_eq!(answer.code(), "stale_lease", "{stranger:?}");
    }
    stage.post_as(&acme, "/api/v1/work/progress", progress).await.ok();
    let answer = stage.post_as(&acme, "/api/v1/work/finish", finish).await.ok();
    assert_eq!(answer["results"][0], json!({ "ok": true, "status": "succeeded" }));
}

#[tokio::test(start_paused = true)]
async fn work_needs_the_right_to_work_and_the_queue() {
    // E7
    let stage = Stage::new();
    let bodies = [
        ("claim", json!({ "worker": "w1", "queues": ["mail"], "kinds": ["mail"] })),
        ("heartbeat", json!({ "worker": "w1", "leases": [] })),
        ("finish", json!({ "results": [] })),
        ("died", json!({ "worker": "w1", "instance": "a" })),
        ("progress", json!({ "lease": "x", "percent": 1 })),
        ("log", json!({ "lease": "x", "lines": [] })),
    ];
    let all_but_work = Scope::ALL.into_iter().filter(|scope| *scope != Scope::Work).collect();
    let idle = Caller::holder("tester", all_but_work, None, None);
    for (path, body) in bodies {
        let answer = stage.post_as(&idle, &format!("/api/v1/work/{path}"), body).await;
        assert_eq!((answer.status.as_u16(), answer.code().as_str()), (403, "forbidden"), "{path}");
    }
    let printer = holder(None, Some(&["print"]));
    let ask = json!({ "worker": "w1", "queues": ["print", "mail"], "kinds": ["mail"] });
    assert_eq!(stage.post_as(&printer, "/api/v1/work/claim", ask).await.code(), "forbidden");
}
