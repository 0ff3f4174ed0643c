//! What settings are refused for, and how.

use super::*;

fn read(text: &str) -> Result<BridgeSettings, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

fn with(source: &str) -> BridgeSettings {
    read(&format!("broker = \"redis://127.0.0.1\"\nsource = {{ queue = \"q\", kind = \"k\", {source} }}"))
        .unwrap()
}

#[test]
fn a_bridge_is_read_with_its_defaults() {
    let bridge = with("hold = \"90s\"");
    assert_eq!((bridge.place().prefetch, bridge.place().to_queue.as_str()), (100, "default"));
    assert_eq!((bridge.place().concurrency, with("concurrency = 8").place().concurrency), (1, 8));
    assert_eq!(bridge.place().hold, Some(Duration::from_secs(90)));
    assert_eq!((bridge.consumer("orders"), bridge.place().dead_letters().as_str()), ("orders", "q.dead"));
    assert_eq!(bridge.check("orders", |_| true), Ok(()));
}

#[test]
fn unknown_keys_and_bad_values_are_named() {
    let unknown = read("broker = \"redis://127.0.0.1\"\nqueue = \"q\"").unwrap_err();
    assert!(unknown.contains("unknown field `queue`"), "{unknown}");
    let nested = "broker = \"redis://127.0.0.1\"\nsource = { queue = \"q\", kind = \"k\", prefetsch = 3 }";
    assert!(read(nested).unwrap_err().contains("unknown field `prefetsch`"));
    let neither = read("broker = \"redis://127.0.0.1\"").unwrap().check("orders", |_| true).unwrap_err();
    assert!(neither.to_string().contains("at least one of them"), "{neither}");
    let span = "broker = \"redis://127.0.0.1\"\nsource = { queue = \"q\", kind = \"k\", hold = \"1 day\" }";
    assert!(read(span).unwrap_err().contains("`1 day` is not a span of time"));
    for (source, told) in [
        ("prefetch = 0", "`prefetch` is 0: give between 1 and 1000"),
        ("prefetch = 1001", "`prefetch` is 1001: give between 1 and 1000"),
        ("concurrency = 0", "`concurrency` is 0: give between 1 and 64"),
        ("concurrency = 65", "`concurrency` is 65: give between 1 and 64"),
        ("to_queue = \"\"", "`to_queue` is empty"),
        ("hold = \"0s\"", "`hold` is 0"),
        ("id = \"number\"", "`id` `number` does not say where the id is"),
    ] {
        let fault = with(source).check("orders", |_| true).unwrap_err().to_string();
        assert!(fault.starts_with("bridge `orders`: ") && fault.contains(told), "{fault}");
    }
    let open = with("prefetch = 1").trusting("ca.pem").check("orders", |_| true).unwrap_err().to_string();
    assert!(open.contains("`tls_ca` is for encrypted addresses, and redis://127.0.0.1 is not one"), "{open}");
    let sink = read("broker = \"redis://127.0.0.1\"\nsink = { queue = \"q\", of = [\"events\"] }").unwrap();
    assert_eq!(sink.check("audit", |_| true), Ok(()));
    let taken = sink.check("events.audit", |_| true).unwrap_err().to_string();
    assert!(taken.contains("such names are those of subscriptions"), "{taken}");
    for name in ["", "a/b", "a b", "ä", &"x".repeat(65)] {
        let named = BridgeSettingsError::Name(name.to_owned());
        assert_eq!(with("prefetch = 1").check(name, |_| true), Err(named));
    }
}

#[test]
fn an_unknown_kind_and_two_bridges_on_one_consumer_are_one_fault_each() {
    let mut bridges = BTreeMap::new();
    for (name, source) in [("a", "consumer = \"c\""), ("b", "consumer = \"c\""), ("d", "prefetch = 1")] {
        bridges.insert(name.to_owned(), with(source));
    }
    let faults: Vec<String> = check_all(&bridges, |_| true).iter().map(ToString::to_string).collect();
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with("bridges `a` and `b` both take `q` as consumer `c`"), "{faults:?}");
    let nats = |consumer: &str| BridgeSettings {
        broker: SecretText("nats://127.0.0.1".to_owned()),
        ..with(&format!("consumer = \"{consumer}\""))
    };
    let dots = BTreeMap::from([("x".to_owned(), nats("a.b")), ("y".to_owned(), nats("a_b"))]);
    assert_eq!(check_all(&dots, |_| true).len(), 1, "one name to the server");
    let unknown = check_all(&bridges, |_| false);
    assert_eq!(unknown.len(), 4);
    assert_eq!(
        unknown[0].to_string(),
        "bridge `a`: kind `k` is not known here; register it or check the spelling"
    );
}

#[test]
fn no_secret_is_ever_shown() {
    let text = "broker = \"sqs+https://ann:hunter2@sqs.example\"\naccess_key = \"hunter2\"\n\
                secret_key = \"hunter2\"\nsession_token = \"hunter2\"\nsource = { queue = \"q\", kind = \"k\" }";
    let bridge = read(text).unwrap();
    let refused = BridgeSettings::new("redis://:hunter2@cache.example", bridge.place());
    let fault = refused.check("orders", |_| true).unwrap_err();
    let shown = format!("{bridge:?} {refused:?} {fault} {fault:?} {:?}", bridge.address("orders"));
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[tokio::test]
async fn a_sink_takes_no_rejects_that_are_not_stored() {
    // W9, B2
    use backstop::rejects::RejectLog;

    let bridge = |of: &str| {
        read(&format!("broker = \"redis://127.0.0.1\"\nsink = {{ queue = \"q\", of = {of} }}")).unwrap()
    };
    let logged = backstop::Config::default().rejects(RejectSettings::default().sink(RejectLog));
    let engine = backstop::Backstop::open_with("memory:", logged).await.unwrap();
    let problem = crate::BridgeSink::new(&engine, "bad", &bridge("[\"results\", \"rejects\"]")).unwrap_err();
    assert_eq!(problem.code(), "rejects_not_stored");
    let told =
        "they go to `log` instead: set `[rejects] sink = \"store\"`, or remove `rejects` from `sink.of`";
    assert!(problem.to_string().ends_with(told), "{problem}");
    let (log, store) = (&engine.config().rejects, &RejectSettings::default());
    assert_eq!(bridge("[\"results\"]").check_rejects("good", log), Ok(()));
    assert_eq!(bridge("[\"rejects\"]").check_rejects("good", store), Ok(()));
}
