//! Keys: nobody replaces, blocks or learns of a job by a key, unless that job is for its eyes (E13).

use backstop_server::{Scope, ServerSettings, TokenRequest};
use backstop_store::{JobFilter, PageRequest};
use serde_json::{Value, json};

use super::stage::{Reply, Stage, wish};

const JOBS: &str = "/api/v1/jobs";
const BATCH: &str = "/api/v1/jobs/batch";

/// A job of tenant acme and one of no tenant, both with keys, and every kind of caller that sees neither.
struct Scene {
    stage: Stage,
    held: Vec<String>,
    strangers: Vec<(&'static str, &'static str, String)>,
}

impl Scene {
    async fn new() -> Self {
        let mut settings = ServerSettings::default();
        settings.access.rate = None;
        let stage = Stage::new(settings).await;
        let mut held = Vec::new();
        for (queue, key) in [("acme/mail", "acme/K1"), ("bills", "K1")] {
            let job = stage.api.engine().enqueue_raw("send", "{}").queue(queue);
            let job = job.business_key(key).idempotency_key(key).submit().await.unwrap();
            held.push(job.id.to_string());
        }
        let bound = |name: &str, tenant: Option<&str>, queue: Option<&str>| TokenRequest {
            tenant: tenant.map(|tenant| tenant.parse().unwrap()),
            queues: queue.map(|queue| vec![queue.to_owned()]),
            ..wish(name, &[Scope::Submit, Scope::Read])
        };
        stage.make(bound("owner", Some("acme"), None)).await;
        let mut strangers = Vec::new();
        for (name, queue, of) in [
            ("bound", "public", bound("bound", None, Some("public"))),
            ("other tenant", "mail", bound("other", Some("other"), None)),
            ("other tenant, bound", "public", bound("other-bound", Some("other"), Some("public"))),
            ("same tenant, other queue", "public", bound("same-bound", Some("acme"), Some("public"))),
        ] {
            strangers.push((name, queue, stage.make(of).await));
        }
        Self { stage, held, strangers }
    }

    /// Submits in each of the three ways.
    async fn tried(&self, token: &str, job: &Value) -> Vec<Reply> {
        let batch = |partial: bool| json!({ "jobs": [job], "partial": partial }).to_string();
        vec![
            self.stage.call_with("POST", JOBS, Some(token), &job.to_string()).await,
            self.stage.call_with("POST", BATCH, Some(token), &batch(false)).await,
            self.stage.call_with("POST", BATCH, Some(token), &batch(true)).await,
        ]
    }

    async fn states(&self) -> Vec<String> {
        let mut states = Vec::new();
        for id in &self.held {
            let job = self.stage.api.engine().job(id.parse().unwrap()).await.unwrap().unwrap();
            states.push(job.view.state().to_string());
        }
        states
    }
}

#[tokio::test]
async fn no_key_reaches_a_job_that_is_not_for_the_callers_eyes() {
    // E13, L10, L11
    let scene = Scene::new().await;
    let mut hidden = 0;
    for (who, queue, token) in &scene.strangers {
        for key in ["K1", "acme/K1", "other/K1"] {
            for keyed in [
                json!({ "business_key": key }),
                json!({ "business_key": key, "on_conflict": "replace" }),
                json!({ "business_key": key, "on_conflict": "skip" }),
                json!({ "business_key": key, "on_conflict": "replace", "idempotency_key": key }),
                json!({ "idempotency_key": key }),
            ] {
                let mut job = json!({ "kind": "send", "queue": queue });
                job.as_object_mut().unwrap().extend(keyed.as_object().unwrap().clone());
                for reply in scene.tried(token, &job).await {
                    let what = format!("{who}: {job}: {reply:?}");
                    assert!(!reply.status.is_server_error(), "{what}");
                    assert!(!scene.held.iter().any(|id| reply.text.contains(id)), "it is told of: {what}");
                    if reply.text.contains("key_held") {
                        // Neither the state nor anything else of it is told.
                        assert!(!reply.text.contains("pending") && !reply.text.contains("holder"), "{what}");
                        hidden += 1;
                    }
                }
            }
        }
        assert_eq!(scene.states().await, ["pending", "pending"], "{who} moved what is another's");
    }
    assert!(hidden > 10, "the keys were met: {hidden}");
}

#[tokio::test]
async fn a_stranger_that_comes_first_does_not_block_a_tenant() {
    // E13, L10, L11
    let scene = Scene::new().await;
    let everybody = scene.stage.make(wish("everybody", &[Scope::Submit])).await;
    let owner = scene.stage.token_of("owner-2", &[Scope::Submit, Scope::Read], Some("acme")).await;
    let strangers = scene.strangers.iter().filter(|(who, ..)| !who.starts_with("same"));
    let strangers = strangers.map(|(_, queue, token)| (*queue, token)).chain([("public", &everybody)]);
    for (at, (queue, token)) in strangers.enumerate() {
        let key = format!("first-{at}");
        for said in [key.clone(), format!("acme/{key}")] {
            let job =
                json!({ "kind": "send", "queue": queue, "business_key": said, "idempotency_key": said });
            scene.tried(token, &job).await;
        }
        let job = json!({ "kind": "send", "queue": "mail", "business_key": key, "idempotency_key": key });
        let reply = scene.stage.call_with("POST", JOBS, Some(&owner), &job.to_string()).await;
        assert_eq!(reply.status, 201, "{queue}: {reply:?}");
    }
    let refused = json!({ "kind": "send", "queue": "public", "business_key": "acme/x" }).to_string();
    let reply = scene.stage.call_with("POST", JOBS, Some(&everybody), &refused).await;
    assert_eq!((reply.status.as_u16(), reply.code()), (422, "reserved_name".to_owned()));
    // Whoever sees everything may act for the tenant, on a queue of the tenant.
    let served = json!({ "kind": "send", "queue": "acme/mail", "business_key": "acme/x" }).to_string();
    let reply = scene.stage.call_with("POST", JOBS, Some(&everybody), &served).await;
    assert_eq!(reply.status, 201, "{reply:?}");
}

#[tokio::test]
async fn what_a_caller_sees_it_replaces_keeps_and_is_told_of() {
    // L10, L11, L22: otherwise the tests above would be passed by a server that refuses every key.
    let scene = Scene::new().await;
    for (who, queue, token) in &scene.strangers {
        let job = |keyed: Value| {
            let mut job = json!({ "kind": "send", "queue": queue, "business_key": format!("mine: {who}") });
            job.as_object_mut().unwrap().extend(keyed.as_object().unwrap().clone());
            job.to_string()
        };
        let send = async |keyed: Value| scene.stage.call_with("POST", JOBS, Some(token), &job(keyed)).await;
        let first = send(json!({})).await.json()["id"].clone();
        let told = send(json!({})).await;
        assert_eq!((told.status.as_u16(), told.code()), (409, "business_key_conflict".to_owned()), "{who}");
        assert!(told.text.contains(first.as_str().unwrap()), "{who}: {told:?}");
        let kept = send(json!({ "on_conflict": "skip" })).await.json();
        assert_eq!((&kept["id"], &kept["deduplicated"]), (&first, &json!(true)), "{who}");
        let second =
            send(json!({ "on_conflict": "replace", "idempotency_key": format!("once: {who}") })).await;
        assert_eq!(second.status, 201, "{who}: {second:?}");
        let again =
            send(json!({ "on_conflict": "replace", "idempotency_key": format!("once: {who}") })).await.json();
        assert_eq!((&again["id"], &again["deduplicated"]), (&second.json()["id"], &json!(true)), "{who}");
        let engine = scene.stage.api.engine();
        let replaced = engine.job(first.as_str().unwrap().parse().unwrap()).await.unwrap().unwrap();
        assert_eq!(replaced.view.state().to_string(), "canceled", "{who}");
    }
    let all = scene.stage.api.engine().jobs(JobFilter::default(), PageRequest::first(100)).await.unwrap();
    assert_eq!(all.items.len(), 2 + 2 * scene.strangers.len());
}
