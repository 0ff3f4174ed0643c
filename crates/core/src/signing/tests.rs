//! Known answers, every field changed, and keys that come and go.

use std::time::Duration;

use super::*;
use crate::failure::{Backoff, Growth, Jitter};
use crate::job::{Callback, FiredBy, Priority};
use crate::{JobId, Timestamp};

fn key(id: &str, fill: u8) -> SecretKey {
    SecretKey::new(id, vec![fill; 32]).expect("a good key")
}

fn ring(keys: &[(&str, u8)]) -> SigningKeys {
    SigningKeys::new(keys.iter().map(|(id, fill)| key(id, *fill)).collect::<Vec<_>>()).expect("good keys")
}

/// A job with every field set.
fn full() -> Spec {
    let mut spec = Spec::new(JobId::from_u128(7), "send_email", r#"{"to":"ann"}"#);
    spec.version = 3;
    spec.queue = "acme/mail".into();
    spec.priority = Priority::High;
    spec.policy.timeout = Some(Duration::from_millis(1_500));
    spec.policy.max_wait = Some(Duration::from_millis(9_000));
    spec.policy.backoff = Backoff::exponential(Duration::from_secs(2), Duration::from_secs(9));
    spec.expires_at = Some(Timestamp::from_micros(1_000_000));
    spec.idempotency_key = Some("once".into());
    spec.business_key = Some("order 7".into());
    spec.correlation_id = Some("request 9".into());
    spec.tags = vec!["red".into(), "blue".into()];
    spec.params = Some("{}".into());
    let callback =
        |kind: &str| Callback { kind: kind.into(), version: 2, queue: "after".into(), payload: "1".into() };
    spec.on_success = Some(callback("good"));
    spec.on_failure = Some(callback("bad"));
    spec.callback_of = Some(JobId::from_u128(6));
    spec.provenance_mut().trace = Some("00-a-b-01".into());
    spec
}

type Change = fn(&mut Spec);

/// Every single thing that can be changed about a job.
const CHANGES: &[(&str, Change)] = &[
    ("id", |spec| spec.id = JobId::from_u128(8)),
    ("kind", |spec| spec.kind = "send_mail".into()),
    ("version", |spec| spec.version = 4),
    ("queue", |spec| spec.queue = "other/mail".into()),
    ("priority", |spec| spec.priority = Priority::Lowest),
    ("payload", |spec| spec.payload = r#"{"to":"bob"}"#.into()),
    ("dependency", |spec| spec.dependency = Some("partner".into())),
    ("payload, only its spelling", |spec| spec.payload = r#"{"to": "ann"}"#.into()),
    ("retries", |spec| spec.policy.max_retries += 1),
    ("crashes", |spec| spec.policy.max_crashes += 1),
    ("backoff growth", |spec| spec.policy.backoff.growth = Growth::Linear),
    ("backoff base", |spec| spec.policy.backoff.base = Duration::from_secs(3)),
    ("backoff cap", |spec| spec.policy.backoff.cap = Duration::from_secs(10)),
    ("backoff jitter", |spec| spec.policy.backoff.jitter = Jitter::Equal),
    ("backoff percent", |spec| spec.policy.backoff.jitter = Jitter::Percent(7)),
    ("timeout", |spec| spec.policy.timeout = None),
    ("timeout's length", |spec| spec.policy.timeout = Some(Duration::from_millis(1_501))),
    ("max_wait", |spec| spec.policy.max_wait = None),
    ("expiry", |spec| spec.expires_at = Some(Timestamp::from_micros(1_000_001))),
    ("no expiry", |spec| spec.expires_at = None),
    ("idempotency key", |spec| spec.idempotency_key = Some("twice".into())),
    ("no idempotency key", |spec| spec.idempotency_key = None),
    ("business key", |spec| spec.business_key = Some("order 8".into())),
    ("swapped keys", |spec| std::mem::swap(&mut spec.business_key, &mut spec.idempotency_key)),
    ("correlation id", |spec| spec.correlation_id = None),
    ("a tag more", |spec| spec.tags.push(String::new())),
    ("a tag less", |spec| drop(spec.tags.pop())),
    ("tags joined", |spec| spec.tags = vec!["redblue".into()]),
    ("tags cut elsewhere", |spec| spec.tags = vec!["re".into(), "dblue".into()]),
    ("the order of tags", |spec| spec.tags.reverse()),
    ("params", |spec| spec.params = Some("{\"a\":1}".into())),
    ("no params", |spec| spec.params = None),
    ("on_success", |spec| spec.on_success = None),
    ("on_failure", |spec| spec.on_failure = None),
    ("swapped callbacks", |spec| std::mem::swap(&mut spec.on_success, &mut spec.on_failure)),
    ("a callback's kind", |spec| spec.on_success.as_mut().expect("set").kind = "evil".into()),
    ("a callback's version", |spec| spec.on_success.as_mut().expect("set").version = 1),
    ("a callback's queue", |spec| spec.on_success.as_mut().expect("set").queue = "x".into()),
    ("a callback's payload", |spec| spec.on_success.as_mut().expect("set").payload = "2".into()),
    ("callback_of", |spec| spec.callback_of = Some(JobId::from_u128(5))),
    ("no callback_of", |spec| spec.callback_of = None),
    ("trace", |spec| spec.provenance_mut().trace = None),
];

#[test]
fn the_schedule_of_a_job_is_signed() {
    // E9, W11
    let keys = ring(&[("k1", 1)]);
    let mut signed = full();
    signed.provenance_mut().schedule =
        Some(FiredBy { name: "nightly".into(), fire_time: Timestamp::from_micros(7) });
    sign(&keys, &mut signed);
    assert_eq!(keys.verify(&signed), Ok(()));
    let changes: [fn(&mut Option<FiredBy>); 3] = [
        |schedule| *schedule = None,
        |schedule| schedule.as_mut().expect("set").name = "weekly".into(),
        |schedule| schedule.as_mut().expect("set").fire_time = Timestamp::EPOCH,
    ];
    for change in changes {
        let mut changed = signed.clone();
        change(&mut changed.provenance_mut().schedule);
        assert_eq!(keys.verify(&changed), Err(SignatureError::Wrong { key: "k1".into() }));
    }
}

#[test]
fn every_field_is_signed() {
    // E9
    let keys = ring(&[("k1", 1)]);
    let mut signed = full();
    sign(&keys, &mut signed);
    assert_eq!(keys.verify(&signed), Ok(()));
    for (what, change) in CHANGES {
        let mut changed = signed.clone();
        change(&mut changed);
        assert_ne!(changed, signed, "{what}");
        assert_eq!(keys.verify(&changed), Err(SignatureError::Wrong { key: "k1".into() }), "{what}");
    }
}

#[test]
fn a_signature_is_as_it_was() {
    // E9: stored signatures outlive the program that made them, so these bytes must never change.
    let signature = ring(&[("k1", 1)]).sign(&full());
    assert_eq!(&*signature.mac, KNOWN);
    assert_eq!(&*signature.key, "k1");
}

const KNOWN: &str = "a3e732010164b6c9755ef341c326b4931f33c3bfb21269f99fe16ce6c997cc6a";

#[test]
fn keys_come_and_go() {
    // E9
    let old = ring(&[("k1", 1)]);
    let both = ring(&[("k2", 2), ("k1", 1)]);
    let new = ring(&[("k2", 2)]);
    let (mut by_old, mut by_new) = (full(), full());
    sign(&old, &mut by_old);
    sign(&both, &mut by_new);
    assert_eq!(both.verify(&by_old), Ok(()), "an old key still verifies");
    assert_eq!(new.verify(&by_new), Ok(()), "the first key signs");
    assert_eq!(new.verify(&by_old), Err(SignatureError::UnknownKey { key: "k1".into() }));
    let imposter = ring(&[("k1", 3)]);
    assert_eq!(imposter.verify(&by_old), Err(SignatureError::Wrong { key: "k1".into() }));
}

#[test]
fn a_broken_signature_is_refused() {
    // E9
    let keys = ring(&[("k1", 1)]);
    assert_eq!(keys.verify(&full()), Err(SignatureError::Missing));
    let mut signed = full();
    sign(&keys, &mut signed);
    let good = signed.provenance_mut().signature.clone().expect("signed");
    let flipped = |at: usize| {
        let mut digits = good.mac.to_string().into_bytes();
        digits[at] = if digits[at] == b'0' { b'1' } else { b'0' };
        String::from_utf8(digits).expect("digits")
    };
    let mut broken: Vec<String> = (0..64).map(flipped).collect();
    broken.extend([
        "".into(),
        "00".into(),
        format!("{}00", good.mac),
        good.mac.to_uppercase(),
        good.mac[..63].into(),
    ]);
    broken.push(format!("{}é", &good.mac[..62]));
    for mac in broken.into_iter().filter(|mac| **mac != *good.mac) {
        signed.provenance_mut().signature = Some(Signature { key: "k1".into(), mac: mac.as_str().into() });
        assert_eq!(keys.verify(&signed), Err(SignatureError::Wrong { key: "k1".into() }), "{mac}");
    }
    signed.provenance_mut().signature = Some(Signature { key: "line\nbreak".into(), mac: good.mac });
    let refused = keys.verify(&signed).expect_err("no such key").to_string();
    assert!(!refused.contains('\n'), "{refused}");
}

#[test]
fn keys_are_checked() {
    // E9
    let short = SecretKey::new("k", vec![1; 31]).expect_err("too short").to_string();
    assert!(short.starts_with("the secret of the key `k` has 31 bytes and needs at least 32"), "{short}");
    for name in ["", "a b", "ä", "a\n", &"k".repeat(65)] {
        assert_eq!(SecretKey::new(name, vec![1; 32]), Err(KeyError::Name), "{name}");
    }
    let secret = "c2VjcmV0 not base64";
    let refused = SecretKey::from_base64("k", secret).expect_err("no base64").to_string();
    assert!(!refused.contains("c2VjcmV0"), "{refused}");
    let base64 = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    assert_eq!(SecretKey::from_base64("k1", base64), Ok(key("k1", 1)));
    assert_eq!(SigningKeys::new(Vec::new()), Err(KeyError::None));
    assert_eq!(SigningKeys::new(vec![key("k", 1), key("k", 2)]), Err(KeyError::Twice { id: "k".into() }));
    let shown = format!("{:?}", ring(&[("k1", 99)]));
    assert!(shown.contains("k1") && !shown.contains("99"), "{shown}");
}
