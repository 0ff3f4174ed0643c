//! Whoever started the process of a worker tells that it died (C4).

use std::collections::BTreeSet;

use backstop::Cause;
use backstop_server::{Caller, Scope};
use serde_json::{Value, json};

use super::stage::Stage;
use crate::harness::Answer;

const DIED: &str = "/api/v1/work/died";

fn holder(tenant: Option<&str>) -> Caller {
    Caller::holder("tester", BTreeSet::from([Scope::Work]), tenant.map(str::to_owned), None)
}

/// Tells of a death as somebody without a tenant.
async fn tell(stage: &Stage, death: &Value) -> Answer {
    stage.post_as(&holder(None), DIED, death.clone()).await
}

fn claim(instance: &str) -> Value {
    json!({ "worker": "w1", "instance": instance, "queues": ["default"], "kinds": ["mail"] })
}

#[tokio::test(start_paused = true)]
async fn the_runs_of_a_dead_process_end_with_what_is_known_of_it() {
    // C4, E7
    let stage = Stage::new();
    let (first, second) = (stage.submit("mail", json!({})).await, stage.submit("mail", json!({})).await);
    let dead = stage.claim(claim("a")).await.remove(0);
    let alive = stage.claim(claim("b")).await.remove(0);
    assert_eq!((&dead["id"], &alive["id"]), (&json!(first), &json!(second)));
    let death = json!({ "worker": "w1", "instance": "a", "signal": 9, "peak_memory": 64 << 20,
        "out_of_memory": true, "last_line": format!("reading page 3{}", "!".repeat(5_000)) });

    let answer = stage.post_as(&holder(Some("acme")), DIED, death.clone()).await.ok();
    assert_eq!(answer, json!({ "runs": 0 }), "another tenant has no such worker");
    let unknown = json!({ "worker": "w1", "instance": "c" });
    assert_eq!(tell(&stage, &unknown).await.ok(), json!({ "runs": 0 }));
    assert_eq!(stage.status(&first).await, "running");

    assert_eq!(tell(&stage, &death).await.ok(), json!({ "runs": 1 }));
    let run = stage.last_run(&first).await;
    let failure = run.failure.expect("evidence");
    assert_eq!((run.cause, &*failure.error_type), (Cause::Crash, "Crash::OutOfMemory"));
    let words = "its process was killed by SIGKILL (signal 9), out of memory; peak memory 64 MiB; its last line: \
                 reading page 3!!!";
    assert!(failure.message.starts_with(words), "{}", failure.message);
    assert!(failure.message.len() < 1_200, "{} bytes", failure.message.len());
    assert_eq!(tell(&stage, &death).await.ok(), json!({ "runs": 0 }), "told again");
    let late = stage.finish(&dead, json!({ "type": "succeeded" })).await;
    assert_eq!(late["error"]["code"], "stale_lease");

    let done = stage.finish(&alive, json!({ "type": "succeeded" })).await;
    assert_eq!(done["status"], "succeeded", "the other process of that name goes on");
}

#[tokio::test(start_paused = true)]
async fn a_death_that_cannot_be_is_refused_with_the_field() {
    // C4, E10
    let stage = Stage::new();
    for (field, value) in [
        ("signal", json!(0)),
        ("signal", json!(65)),
        ("code", json!(-1)),
        ("code", json!(256)),
        ("instance", json!("")),
    ] {
        let mut death = json!({ "worker": "w1", "instance": "a" });
        death[field] = value;
        let refused = tell(&stage, &death).await;
        assert!(refused.text.contains(field), "{death}: {}", refused.text);
        assert!(refused.status.is_client_error(), "{death}: {}", refused.status);
    }
    let nameless = tell(&stage, &json!({ "worker": "w1", "signal": 9 })).await;
    assert!(nameless.text.contains("instance"), "{}", nameless.text);
}
