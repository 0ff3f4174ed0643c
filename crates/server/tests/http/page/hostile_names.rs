//! Hostile texts as names: wherever a name can be given, one is either taken and is text on every view, or refused with
//! a sentence.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::header::CONTENT_SECURITY_POLICY;
use backstop::bridges::{BridgeProblem, BridgeReport};
use backstop::handoffs::{HandOff, HandOffRefusal};
use backstop::{Config, Retention, worker_id};
use backstop_server::ServerSettings;
use backstop_testing::TokioClock;
use serde_json::{Value, json};

use super::escaping::{HOSTILE, VIEWS, is_clean};
use super::{Visitor, proof, whole_token};
use crate::access::stage::Stage;

/// Views of lists that take more than their path to fill.
const MORE_VIEWS: [&str; 4] = ["/batches", "/handoffs", "/retention", "/retry-budgets"];

/// What takes a hostile text as a name at least once.
const TAKEN: [&str; 20] = [
    "acknowledge",
    "batch",
    "blocked line",
    "cancel",
    "circuit",
    "claim",
    "fixed",
    "job",
    "limit",
    "log",
    "parked job",
    "pause",
    "plan",
    "progress",
    "queue",
    "reject",
    "rule",
    "signal",
    "step",
    "workflow",
];

/// What never does.
const REFUSED: [&str; 5] = [
    "name of a token",
    "tenant of a token",
    "address of a webhook",
    "event of a webhook",
    "tenant of a webhook",
];

/// A store that is filled over the API, and what was made of it.
struct Filling<'a> {
    stage: &'a Stage,
    token: &'a str,
    taken: BTreeMap<&'static str, usize>,
    /// The last sentence that each was refused with.
    refused: BTreeMap<&'static str, String>,
}

impl Filling<'_> {
    /// Calls; the answer, or none where it was refused with a sentence.
    async fn call(&mut self, what: &'static str, method: &str, path: &str, body: Value) -> Option<Value> {
        let reply = self.stage.call_with(method, path, Some(self.token), &body.to_string()).await;
        if reply.status.is_success() {
            *self.taken.entry(what).or_default() += 1;
            // Not everything has an answer to read.
            return Some(serde_json::from_str(&reply.text).unwrap_or_default());
        }
        assert!(reply.status.is_client_error(), "{what}: {method} {path} {body}: {reply:?}");
        reply.code();
        let refusal = reply.json();
        let message = refusal["error"]["message"].as_str().unwrap();
        assert!(message.contains(' '), "{what}: not a sentence: {message}");
        self.refused.insert(what, message.to_owned());
        None
    }

    async fn post(&mut self, what: &'static str, path: &str, body: Value) -> Option<Value> {
        self.call(what, "POST", &format!("/api/v1/{path}"), body).await
    }

    async fn put(&mut self, what: &'static str, path: &str, body: Value) -> Option<Value> {
        self.call(what, "PUT", &format!("/api/v1/{path}"), body).await
    }

    /// The rows of a list.
    async fn rows(&self, list: &str) -> Vec<Value> {
        let path = format!("/api/v1/{list}?limit=200");
        let found = self.stage.call("GET", &path, Some(self.token)).await;
        found.json()["items"].as_array().unwrap_or_else(|| panic!("{path}: {found:?}")).clone()
    }

    /// A job with every name that can go together, which runs, says all that a run can say, and dies.
    async fn dead_letter(&mut self, at: usize, hostile: &str) {
        let queue = format!("plain-{at}");
        let job = json!({
            "kind": hostile, "queue": queue, "max_retries": 0, "tags": [hostile], "business_key": hostile,
            "idempotency_key": hostile, "correlation_id": hostile, "payload": { hostile: hostile },
            "params": { hostile: hostile },
        });
        self.post("job", "jobs", job).await.expect("a kind is any text");
        let claim = json!({ "worker": hostile, "instance": hostile, "code_version": hostile, "queues": [queue],
            "kinds": [hostile], "limit": 1 });
        let claimed = if let Some(claimed) = self.post("claim", "work/claim", claim).await {
            claimed
        } else {
            let plain = json!({ "worker": "w", "queues": [queue], "kinds": [hostile], "limit": 1 });
            self.post("plain claim", "work/claim", plain).await.expect("a plain worker")
        };
        let lease = claimed["jobs"][0]["lease"]["token"].clone();
        assert!(lease.is_string(), "{hostile}: {claimed}");
        let effect = format!("pay {hostile}");
        let item = json!({ "error": hostile, "error_type": hostile, "item": { hostile: hostile },
            "fingerprint": hostile, "step": hostile, "keep": true });
        let told = [
            ("progress", json!({ "lease": lease, "percent": 50, "note": hostile })),
            ("log", json!({ "lease": lease, "lines": [hostile] })),
            ("step", json!({ "lease": lease, "name": hostile, "result": { hostile: hostile } })),
            ("effect", json!({ "lease": lease, "name": effect, "key": hostile, "policy": "ask" })),
            ("step", json!({ "lease": lease, "name": effect, "result": hostile })),
            ("reject", json!({ "lease": lease, "items": [item], "seen": 3 })),
        ];
        for (verb, body) in told {
            self.post(verb, &format!("work/{verb}"), body).await;
        }
        let failed =
            json!({ "type": "failed", "class": "permanent", "message": hostile, "error_type": hostile });
        self.finish(&lease, failed).await;
    }

    async fn finish(&mut self, lease: &Value, outcome: Value) {
        let finish = json!({ "results": [{ "lease": lease, "outcome": outcome }] });
        let ended = self.post("finish", "work/finish", finish).await.expect("it is read");
        assert_eq!(ended["results"][0]["ok"], true, "{ended}");
    }

    /// Jobs that wait for something of this name, one that was canceled, and one on a queue of this name.
    async fn waiting(&mut self, hostile: &str) {
        let parked = json!({ "kind": "waits", "queue": "waits", "limit_key": hostile, "single_instance": hostile,
            "permits": { hostile: 1 }, "dependency": hostile });
        self.post("parked job", "jobs", parked).await;
        for _ in 0..2 {
            let line = json!({ "kind": "line", "queue": "lines", "max_retries": 0, "ordering_key": hostile });
            self.post("blocked line", "jobs", line).await;
        }
        let retried = json!({ "kind": hostile, "queue": "retried", "max_retries": 3 });
        self.post("job", "jobs", retried).await;
        self.post("asking job", "jobs", json!({ "kind": "ask", "queue": "asks", "payload": hostile })).await;
        self.post("queue", "jobs", json!({ "kind": "k", "queue": hostile })).await;
        let canceled = self.post("job", "jobs", json!({ "kind": hostile, "queue": "canceled" })).await;
        let id = canceled.expect("a kind is any text")["id"].as_str().unwrap().to_owned();
        self.post("cancel", &format!("jobs/{id}/cancel"), json!({ "reason": hostile })).await;
    }

    /// What people and programs name themselves.
    async fn named(&mut self, at: usize, hostile: &str) {
        let (name, job) = (encoded(hostile), json!({ "kind": hostile, "queue": "elsewhere" }));
        let nodes = json!([{ "name": hostile, "kind": hostile, "queue": "elsewhere" },
            { "name": "then", "kind": hostile, "queue": "elsewhere", "after": [hostile] }]);
        self.post("workflow", "workflows", json!({ "name": hostile, "key": hostile, "nodes": nodes })).await;
        let batch = json!({ "name": hostile, "key": format!("batch {hostile}"), "jobs": [job] });
        self.post("batch", "batches", batch).await;
        let signal =
            json!({ "key": format!("kept {hostile}"), "payload": { hostile: hostile }, "id": hostile });
        self.post("signal", "signals", signal).await;
        let schedule = json!({ "every_ms": 3_600_000, "kind": hostile, "queue": hostile, "tags": [hostile],
            "payload": { hostile: hostile } });
        self.put("schedule", &format!("schedules/{name}"), schedule.clone()).await;
        self.put("schedule", &format!("schedules/{}", encoded(&hostile.replace('/', "|"))), schedule).await;
        let rule = |id: &str| {
            json!({ "id": id, "note": hostile, "by": hostile, "action": "permanent", "enabled": false,
                "matches": { "kind": hostile, "queue": hostile, "error_type": hostile } })
        };
        self.post("name of a rule", "rules", rule(hostile)).await;
        self.post("rule", "rules", rule(&format!("r{at}"))).await;
        self.post("circuit", &format!("circuits/{name}/open"), json!({ "for_ms": 600_000, "by": hostile }))
            .await;
        let token = |name: &str| json!({ "name": name, "scopes": ["read"] });
        self.post("name of a token", "tokens", token(hostile)).await;
        let mut of_tenant = token(&format!("tenant-{at}"));
        of_tenant["tenant"] = json!(hostile);
        self.post("tenant of a token", "tokens", of_tenant).await;
        let mut of_queue = token(&format!("queue-{at}"));
        of_queue["queues"] = json!([hostile]);
        self.post("queue of a token", "tokens", of_queue).await;
        let url = "https://hooks.example/in";
        let webhooks = [
            ("address of a webhook", json!({ "url": hostile })),
            ("event of a webhook", json!({ "url": url, "events": [hostile] })),
            ("tenant of a webhook", json!({ "url": url, "tenant": hostile })),
            ("queue of a webhook", json!({ "url": url, "queues": [hostile] })),
        ];
        for (what, body) in webhooks {
            self.post(what, "webhooks", body).await;
        }
    }

    /// What only this process can tell: whom hand-offs are sent to, and what they were answered.
    async fn handed_off(&self, at: usize, hostile: &'static str) {
        let handoffs = self.stage.api.engine().handoffs();
        let refused = handoffs.set(&HandOff::new(hostile, "https://warehouse.example")).await.unwrap_err();
        assert!(refused.to_string().contains("cannot be the name"), "{refused}");
        let name = format!("handoff-{at}");
        handoffs.set(&HandOff::new(&*name, hostile).kind(hostile)).await.unwrap();
        let (code, message) = (hostile.to_owned(), hostile.to_owned());
        let refusal = HandOffRefusal { status: 403, code, message, job: None };
        assert!(handoffs.publisher(&name).stop(refusal).await.unwrap());
    }

    /// Ends what waits in lines and for signals, and says something of everything that has come of it.
    async fn end(&mut self) {
        let queues: [(&str, &[&str]); 3] = [("lines", &["line"]), ("asks", &["ask"]), ("retried", &HOSTILE)];
        for (queue, kinds) in queues {
            let claim = json!({ "worker": "w", "queues": [queue], "kinds": kinds, "limit": 100 });
            let claimed = self.post("plain claim", "work/claim", claim).await.expect("a plain worker");
            for job in claimed["jobs"].as_array().unwrap() {
                let class = if queue == "retried" { "error" } else { "permanent" };
                let outcome = match queue {
                    "asks" => json!({ "type": "waiting", "signal": job["payload"], "timeout_ms": 3_600_000 }),
                    _ => json!({ "type": "failed", "class": class, "message": "it is full" }),
                };
                self.finish(&job["lease"]["token"], outcome).await;
            }
        }
        // Jobs that were canceled are archived, and rejects are counted.
        self.stage.api.engine().maintain(worker_id(), Duration::from_secs(30)).await.unwrap();
        // A plan is about what had ended before.
        tokio::time::advance(Duration::from_secs(1)).await;
        for hostile in HOSTILE {
            self.post("plan", "redrives", json!({ "kind": hostile, "note": hostile, "by": hostile })).await;
        }
        let incidents = self.rows("incidents").await;
        for (incident, hostile) in incidents.iter().zip(HOSTILE.iter().cycle()) {
            let path = format!("incidents/{}", incident["fingerprint"].as_str().unwrap());
            let note = json!({ "note": hostile, "by": hostile });
            self.post("acknowledge", &format!("{path}/ack"), note).await;
            let fixed = json!({ "version": hostile, "note": hostile, "by": hostile });
            self.post("fixed", &format!("{path}/fixed"), fixed).await;
        }
        // Last, for they hold jobs back.
        for hostile in HOSTILE {
            let name = encoded(hostile);
            let limit = json!({ "queue": hostile, "kind": hostile, "by": "key", "concurrency": 1,
                "weights": { hostile: 2 } });
            self.put("limit", &format!("limits/{name}"), limit).await;
            self.post("pause", &format!("queues/{name}/pause"), json!({ "note": hostile })).await;
        }
    }

    /// Every view of what there is now.
    async fn views(&self) -> Vec<String> {
        let mut paths: Vec<String> = VIEWS.iter().chain(&MORE_VIEWS).map(|path| (*path).to_owned()).collect();
        for (list, view, id) in [
            ("jobs", "jobs", "/id"),
            ("archive", "archive", "/id"),
            ("workflows", "workflows", "/id"),
            ("batches", "batches", "/id"),
            ("redrives", "redrives", "/id"),
            ("redrives", "redrives", "/plan/id"),
            ("incidents", "incidents", "/fingerprint"),
            ("reject-groups", "rejects", "/fingerprint"),
        ] {
            let rows = self.rows(list).await;
            assert!(!rows.is_empty(), "there is nothing to see of {list}");
            paths.extend(
                rows.iter().filter_map(|row| Some(format!("/{view}/{}", row.pointer(id)?.as_str()?))),
            );
        }
        for hostile in HOSTILE {
            let text: String = form_urlencoded::byte_serialize(hostile.as_bytes()).collect();
            paths.extend([
                format!("/find?q={text}"),
                format!("/jobs?kind={text}&queue={text}&tag={text}&business_key={text}"),
                format!("/jobs/change?status=failed&kind={text}&tag={text}&change=purge"),
                format!("/redrives/new?kind={text}&queue={text}&tag={text}&needs={text}"),
                format!("/workflows?name={text}&status={text}"),
                format!("/batches?name={text}"),
                format!("/rules?kind={text}&queue={text}&error_type={text}&text={text}"),
                format!("/retry-budgets?cursor={text}"),
                format!("/archive?kind={text}&queue={text}&status={text}"),
                format!("/archive?kind={text}&queue={text}&created_before={text}"),
                format!("/bridges/{}", encoded(hostile)),
                format!("/schedules/{}", encoded(hostile)),
                format!("/incidents/{}", encoded(hostile)),
                format!("/jobs/{}", encoded(hostile)),
                format!("/rejects/{}", encoded(hostile)),
                format!("/resume/{}", encoded(hostile)),
            ]);
        }
        paths
    }
}

/// A text as a part of a path.
fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// A stage whose canceled jobs are archived at once, and which counts nobody's requests.
fn stage() -> Stage {
    let mut settings = ServerSettings::default();
    settings.access.rate = None;
    let at_once = Retention::default().canceled(Some(Duration::ZERO));
    Stage::on(TokioClock::engine_with(Config::default().retention(at_once)), settings)
}

async fn filled<'a>(stage: &'a Stage, token: &'a str) -> Filling<'a> {
    let mut filling = Filling { stage, token, taken: BTreeMap::new(), refused: BTreeMap::new() };
    let engine = stage.api.engine();
    let told: Vec<BridgeReport> = HOSTILE
        .iter()
        .map(|hostile| BridgeReport {
            problem: Some(BridgeProblem::new(*hostile, *hostile)),
            ..BridgeReport::new(*hostile, *hostile)
        })
        .collect();
    engine.bridges().reporter().tell(&told).await.unwrap();
    for (at, hostile) in HOSTILE.into_iter().enumerate() {
        filling.dead_letter(at, hostile).await;
        filling.waiting(hostile).await;
        filling.named(at, hostile).await;
        filling.handed_off(at, hostile).await;
    }
    filling.end().await;
    filling
}

#[tokio::test(start_paused = true)]
async fn no_name_becomes_markup_on_any_view() {
    let stage = stage();
    let all = whole_token(&stage).await;
    let filling = filled(&stage, &all).await;
    for what in TAKEN {
        assert!(filling.taken.contains_key(what), "{what} took none: {:?}", filling.refused.get(what));
    }
    for what in REFUSED {
        assert!(!filling.taken.contains_key(what) && filling.refused.contains_key(what), "{what}");
    }
    let visitor = Visitor::with(&stage, &all).await;
    let mut shown = 0;
    for path in filling.views().await {
        let page = visitor.get(&path).await;
        assert!(page.status.as_u16() < 500, "{path}: {}", page.text);
        if page.status == 303 {
            continue;
        }
        assert_eq!(is_clean(&page.text), Ok(()), "{path}\n{}", page.text);
        shown += page.text.matches("run()").count();
        let policy = page.headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
    }
    assert!(shown > 500, "what is hostile was there to be seen: {shown}");
    for path in VIEWS.iter().chain(&MORE_VIEWS).filter(|path| **path != "/login") {
        assert_eq!(visitor.get(path).await.status, 200, "{path}");
    }
}

/// Actions, and the field of each that names what it is about.
const ACTIONS: [(&str, &str); 26] = [
    ("incident.ack", "at.fingerprint"),
    ("incident.fixed", "at.fingerprint"),
    ("redrive.make", "incident"),
    ("redrive.start", "at.id"),
    ("job.cancel", "at.id"),
    ("job.submit", "kind"),
    ("queue.pause", "at.name"),
    ("key.skip", "at.key"),
    ("workflow.cancel", "at.id"),
    ("batch.seal", "at.id"),
    ("signal.send", "key"),
    ("schedule.pause", "at.name"),
    ("schedule.run", "at.name"),
    ("bridge.pause", "at.name"),
    ("bridge.delete", "at.name"),
    ("invalid.purge", "at.name"),
    ("archive.prune", "keep_ms"),
    ("circuit.open", "at.key"),
    ("handoff.retry", "at.name"),
    ("handoff.delete", "at.name"),
    ("rule.enable", "at.id"),
    ("rule.make", "id"),
    ("limit.set", "at.name"),
    ("limit.delete", "at.name"),
    ("token.revoke", "at.name"),
    ("webhook.delete", "at.id"),
];

/// Forms of views that show their answer at once, and what is filled in.
const FORMS: [(&str, &[&str]); 9] = [
    ("/tokens", &["name", "tenant", "queues", "days"]),
    ("/webhooks", &["url", "events", "queues", "tenant"]),
    ("/rules", &["id"]),
    ("/bridges", &["name"]),
    ("/signals", &["job", "signal"]),
    ("/redrives/new", &["kind", "queue", "tag", "reason", "needs", "note"]),
    ("/retention", &["count"]),
    ("/archive", &["days"]),
    ("/rejects/0011223344556677/export", &["fingerprint"]),
];

#[tokio::test(start_paused = true)]
async fn what_a_form_cannot_take_is_refused_with_a_sentence() {
    let stage = stage();
    let all = whole_token(&stage).await;
    let visitor = Visitor::with(&stage, &all).await;
    let proof = proof(&visitor.get("/tokens").await.text);
    let mut refused = 0;
    for hostile in HOSTILE {
        let common = [("proof", &*proof), ("note", hostile), ("reason", hostile), ("payload", "null")];
        for (action, field) in ACTIONS {
            let mut fields = vec![("do", action), ("back", hostile), ("concurrency", "1"), (field, hostile)];
            fields.extend(common);
            let reply = visitor.send("/act", &fields).await;
            let what = format!("{action} {hostile}: {reply:?}");
            if reply.status == 303 {
                let to = reply.headers["location"].to_str().unwrap();
                assert!(to.starts_with('/') && !to.starts_with("//"), "{what}");
                continue;
            }
            assert!(reply.status.is_client_error(), "{what}");
            assert_eq!(is_clean(&reply.text), Ok(()), "{what}");
            assert!(reply.text.contains("<h1>"), "{what}");
            refused += 1;
        }
        for (path, names) in FORMS {
            let mut fields = vec![("proof", &*proof)];
            fields.extend(names.iter().map(|name| (*name, hostile)));
            let reply = visitor.send(path, &fields).await;
            assert!(reply.status.as_u16() < 500, "{path} {hostile}: {reply:?}");
            // A file that is kept is no page.
            if !reply.headers.contains_key("content-disposition") {
                assert_eq!(is_clean(&reply.text), Ok(()), "{path} {hostile}: {reply:?}");
            }
            refused += usize::from(reply.status.is_client_error());
        }
    }
    assert!(refused > 80, "most of it cannot be meant: {refused}");
}
