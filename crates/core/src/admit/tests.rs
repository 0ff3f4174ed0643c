//! Every refusal that needs no store, by field and limit.

use std::time::Duration;

use super::*;
use crate::depth::DepthScope;
use crate::id::JobId;
use crate::job::Start;
use crate::signing::SignatureError;

fn job() -> NewJob {
    NewJob::new(Spec::new(JobId::from_u128(1), "send_email", "{}"))
}

fn check(change: impl FnOnce(&mut NewJob)) -> Result<(), Refusal> {
    let mut job = job();
    change(&mut job);
    admit(&job, &Limits::default(), &AllowedKinds::default())
}

#[track_caller]
fn refused(field: &str, code: &str, change: impl FnOnce(&mut NewJob)) {
    let refusal = check(change).expect_err(field);
    assert_eq!(refusal.code(), code, "{refusal}");
    assert!(refusal.to_string().starts_with(field), "`{refusal}` does not name {field}");
    assert!(!refusal.hint().is_empty());
}

#[test]
fn a_plain_job_is_admitted() {
    assert_eq!(check(|_| ()), Ok(()));
}

#[test]
fn sizes_over_the_limit_are_refused_by_name() {
    // L20, E10
    refused("payload", "too_large", |j| j.spec.payload = format!("\"{}\"", "x".repeat(1 << 20)).into());
    refused("kind", "too_large", |j| j.spec.kind = "k".repeat(129).into());
    refused("queue", "too_large", |j| j.spec.queue = "q".repeat(129).into());
    refused("idempotency_key", "too_large", |j| j.spec.idempotency_key = Some("k".repeat(256)));
    refused("business_key", "too_large", |j| j.spec.business_key = Some("é".repeat(256)));
    refused("correlation_id", "too_large", |j| j.spec.correlation_id = Some("k".repeat(256)));
    refused("tags", "too_large", |j| j.spec.tags = vec!["t".into(); 33]);
    refused("tags", "too_large", |j| j.spec.tags = vec!["t".repeat(129)]);
    refused("params", "too_large", |j| {
        j.spec.params = Some(format!("{{\"a\":\"{}\"}}", "x".repeat(16_384)).into())
    });
    refused("max_retries", "too_large", |j| j.spec.policy.max_retries = u32::MAX);
}

#[test]
fn the_message_holds_the_limit() {
    // L20
    let refusal = check(|j| j.spec.kind = "k".repeat(129).into()).expect_err("too long");
    assert_eq!(refusal.to_string(), "kind has 129 characters, the limit is 128");
    assert_eq!(check(|j| j.spec.kind = "é".repeat(128).into()), Ok(()), "characters are counted, not bytes");
}

#[test]
fn what_can_never_run_is_refused() {
    // E11: the envelope is checked before anything is stored.
    refused("payload", "invalid", |j| j.spec.payload = "{\"a\":".into());
    refused("payload", "invalid", |j| j.spec.payload = "".into());
    refused("payload", "invalid", |j| j.spec.payload = "[".repeat(100_000).into());
    refused("payload", "invalid", |j| j.spec.payload = "\"\\ud800\"".into());
    refused("kind", "invalid", |j| j.spec.kind = "".into());
    refused("kind", "invalid", |j| j.spec.kind = " x".into());
    refused("queue", "invalid", |j| j.spec.queue = "a\u{0}b".into());
    refused("business_key", "invalid", |j| j.spec.business_key = Some("\u{1b}[2J".into()));
    refused("idempotency_key", "invalid", |j| j.spec.idempotency_key = Some(String::new()));
    refused("tags", "invalid", |j| j.spec.tags = vec![String::new()]);
    refused("params", "invalid", |j| j.spec.params = Some("[1]".into()));
    refused("timeout_ms", "invalid", |j| j.spec.policy.timeout = Some(Duration::ZERO));
    refused("delay_ms", "invalid", |j| j.start = Start::After(Duration::MAX));
    refused("backoff.cap_ms", "invalid", |j| j.spec.policy.backoff.cap = Duration::MAX);
    refused("trace_parent", "invalid", |j| j.spec.provenance_mut().trace = Some("00-1-2-03".into()));
    refused("callback kind", "invalid", |j| {
        j.spec.on_failure =
            Some(Callback { kind: "".into(), version: 1, queue: "q".into(), payload: "{}".into() });
    });
}

#[test]
fn the_allow_list_comes_last() {
    // E8, L12: a payload that is no JSON is named before the allow list is asked.
    let gate = AllowedKinds { kinds: Some(vec!["other".into()]) };
    let limits = Limits::default();
    let refusal = admit(&job(), &limits, &gate).expect_err("not on the list");
    assert_eq!(refusal.code(), "kind_not_allowed");
    let mut broken = job();
    broken.spec.payload = "nope".into();
    assert_eq!(admit(&broken, &limits, &gate).expect_err("broken").code(), "invalid");
    // The signature stands between the two.
    let unsigned = |_: &Spec| Err(SignatureError::Missing);
    let code = |job| admit_vouched(job, &limits, &gate, unsigned).expect_err("refused").code();
    assert_eq!((code(&broken), code(&job())), ("invalid", "signature"));
    assert!(gate.allows("other") && AllowedKinds::default().allows("anything"));
}

#[test]
fn the_last_free_place_is_given_and_no_more() {
    // H12
    let limit = DepthLimit { scope: DepthScope::Queue("mail".into()), most: 2 };
    assert_eq!((depth(&limit, 0), depth(&limit, 1)), (Ok(()), Ok(())));
    let refused = depth(&limit, 2).expect_err("full");
    assert_eq!(refused.code(), "queue_full");
    assert_eq!(refused.to_string(), "queue `mail` is full (2 waiting, the limit is 2)");
    let details = serde_json::json!({ "queue": "mail", "depth": 2, "limit": 2, "retry_after_ms": 1_000 });
    assert_eq!(refused.details(), details);
    let tenant = DepthLimit { scope: DepthScope::Tenant("acme".into()), most: 1 };
    assert_eq!(depth(&tenant, 7).expect_err("full").details()["tenant"], "acme");
}
