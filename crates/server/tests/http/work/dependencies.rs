//! What the kinds of remote workers need that may be away (H1).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop::{Config, DependencySettings};
use backstop_server::{ServerSettings, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::stage::{Stage, store};
use crate::harness::Harness;

fn needs_smtp() -> Config {
    Config::default().kind_dependency("mail", "smtp")
}

fn ask(worker: &str, kinds: &[&str]) -> Value {
    json!({ "worker": worker, "queues": ["default"], "kinds": kinds })
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_finds_away_is_not_handed_to_it_on_any_node() {
    // H1, H2
    let store = store();
    let (stage, other) = (Stage::on(store.clone(), needs_smtp()), Stage::on(store, needs_smtp()));
    let id = stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    let outcome = json!({ "type": "failed", "class": "transient", "message": "connection refused" });
    assert_eq!(stage.finish(&job, outcome).await["status"], "pending");
    let record = stage.detail(&id).await.view.record;
    assert_eq!((record.attempt, record.deferrals), (0, 1), "uncharged");
    stage.submit("mail", json!({})).await;
    stage.submit("count", json!({})).await;
    let both = ["mail", "count"];
    let taken = other.claim(ask("w1", &both)).await;
    assert_eq!(taken.len(), 1, "its other kinds go on");
    assert_eq!(taken[0]["kind"], "count");
    assert_eq!(stage.claim(ask("w1", &["mail"])).await.len(), 0);
    let list = stage.harness.get("/api/v1/workers").await.ok();
    let of_w1 = |list: &Value| {
        let items = list["items"].as_array().unwrap().clone();
        items.into_iter().find(|one| one["name"] == "w1" && one["queues"] != json!([])).expect("w1 is listed")
    };
    let smtp = of_w1(&list)["dependencies"][0].clone();
    let said = (&smtp["dependency"], &smtp["ok"], &smtp["last"]["result"], &smtp["since"]);
    assert_eq!(said, (&json!("smtp"), &json!(false), &json!("run_failed"), &json!("2026-01-01T00:00:00Z")));
    // After a while it is tried again.
    stage.pass(2).await;
    assert_eq!(other.claim(ask("w1", &["mail"])).await.len(), 1);
    let list = stage.harness.get("/api/v1/workers").await.ok();
    assert_eq!(of_w1(&list)["dependencies"][0]["ok"], true);
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_of_a_kind_that_needs_nothing_gates_nothing() {
    // H1
    let stage = Stage::new();
    stage.submit("mail", json!({})).await;
    let job = stage.claim_one().await;
    let outcome = json!({ "type": "failed", "class": "transient", "message": "no", "dependency": "smtp" });
    stage.finish(&job, outcome).await;
    stage.submit("mail", json!({})).await;
    assert_eq!(stage.claim(ask("w1", &["mail"])).await.len(), 1);
}

#[tokio::test]
async fn a_check_of_the_server_gates_what_it_hands_out_and_not_its_readiness() {
    // H1, H2, H11
    let is_up = Arc::new(AtomicBool::new(false));
    let check = format!("http://{}/health", dependency(is_up.clone()).await).parse().unwrap();
    let often = DependencySettings::default().check(check).every(Duration::from_millis(100));
    let harness = Harness::with(needs_smtp().dependency("smtp", often), ServerSettings::default()).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let served = tokio::spawn(serve(listener, harness.api.clone(), async {
        let _ = stopped.await;
    }));
    let shown = |ready: &Value, name: &str| {
        ready["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).cloned()
    };
    let red = until(&harness, |ready| {
        shown(ready, "remote/dependency/smtp").filter(|smtp| smtp["problem"] == "failed")
    });
    let red = red.await;
    assert_eq!(
        (&red["ok"], &red["required"]),
        (&json!(false), &json!(false)),
        "remote workers must reach it"
    );
    let ready = harness.get("/health/ready").await.ok();
    for own in ["server/listen", "server/dependencies"] {
        assert_eq!(shown(&ready, own).expect(own)["ok"], true, "{own}");
    }
    harness.engine().enqueue_raw("mail", "{}").submit().await.unwrap();
    let claimed = harness.post("/api/v1/work/claim", ask("w1", &["mail"])).await.ok();
    assert_eq!(claimed["jobs"], json!([]));
    is_up.store(true, Ordering::SeqCst);
    until(&harness, |ready| shown(ready, "remote/dependency/smtp").filter(|smtp| smtp["ok"] == true)).await;
    let claimed = harness.post("/api/v1/work/claim", ask("w1", &["mail"])).await.ok();
    assert_eq!(claimed["jobs"].as_array().map(Vec::len), Some(1));
    stop.send(()).unwrap();
    served.await.unwrap().unwrap();
}

/// A server whose health is as it is told; answers its address.
async fn dependency(is_up: Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 1_024]).await;
            let status = if is_up.load(Ordering::SeqCst) { 200 } else { 503 };
            let _ = stream.write_all(format!("HTTP/1.1 {status} X\r\n\r\n").as_bytes()).await;
        }
    });
    at
}

/// Asks for readiness until something is seen in it.
async fn until(harness: &Harness, seen: impl Fn(&Value) -> Option<Value>) -> Value {
    let look = async {
        loop {
            if let Some(seen) = seen(&harness.get("/health/ready").await.ok()) {
                return seen;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), look).await.expect("within a minute")
}
