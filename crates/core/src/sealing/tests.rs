//! What opens, what does not, and what is said about it.

use super::*;

fn key(id: &str, fill: u8) -> SecretKey {
    SecretKey::new(id, vec![fill; 32]).expect("a good key")
}

fn ring(keys: &[(&str, u8)]) -> SealingKeys {
    SealingKeys::new(keys.iter().map(|(id, fill)| key(id, *fill)).collect::<Vec<_>>()).expect("good keys")
}

const PLAIN: &str = r#"{"card":"4111 1111 1111 1111"}"#;

fn job(number: u128) -> Owner<'static> {
    Owner::payload(JobId::from_u128(number), "charge")
}

fn sealed() -> String {
    ring(&[("k1", 1)]).seal(job(1), PLAIN, [9; NONCE_BYTES]).expect("sealed")
}

#[test]
fn what_is_sealed_opens_and_tells_nothing() {
    // E12
    let text = sealed();
    assert!(text.starts_with(r#"{"$sealed":{"key":"k1","nonce":""#), "{text}");
    assert!(!text.contains("4111") && !text.contains("card"), "{text}");
    assert!(is_sealed(&text) && is_sealed_value(&serde_json::from_str(&text).expect("JSON")));
    assert_eq!(key_of(&text).as_deref(), Some("k1"));
    assert_eq!(ring(&[("k1", 1)]).open(job(1), &text).as_deref(), Ok(PLAIN));
    assert_eq!(ring(&[("k2", 2), ("k1", 1)]).open(job(1), &text).as_deref(), Ok(PLAIN), "after a rotation");
    let other = ring(&[("k1", 1)]).seal(job(1), PLAIN, [8; NONCE_BYTES]).expect("sealed");
    assert_ne!(other, text, "another nonce, another text");
}

#[test]
fn it_opens_only_where_it_belongs() {
    // E12
    let (text, keys) = (sealed(), ring(&[("k1", 1)]));
    let mut spec = Spec::new(JobId::from_u128(1), "charge", &*text);
    assert_eq!(keys.open(Owner::payload_of(&spec), &text).as_deref(), Ok(PLAIN));
    let wrong = Err(SealError::Wrong { key: "k1".into() });
    assert_eq!(keys.open(job(2), &text), wrong, "another job");
    assert_eq!(keys.open(Owner::payload(JobId::from_u128(1), "refund"), &text), wrong, "another kind");
    assert_eq!(keys.open(Owner::result_of(&spec), &text), wrong, "a payload is not a result");
    assert_eq!(ring(&[("k1", 2)]).open(job(1), &text), wrong, "another key of the same name");
    assert_eq!(ring(&[("k2", 1)]).open(job(1), &text), Err(SealError::UnknownKey { key: "k1".into() }));
    spec.id = JobId::from_u128(5);
    spec.callback_of = Some(JobId::from_u128(1));
    assert_eq!(keys.open(Owner::payload_of(&spec), &text).as_deref(), Ok(PLAIN), "sealed with its parent");
}

#[test]
fn a_changed_text_does_not_open() {
    // E12: every byte of the encrypted data and of the nonce.
    let (text, keys) = (sealed(), ring(&[("k1", 1)]));
    let from = text.find("nonce").expect("a nonce") + 8;
    for at in from..text.len() {
        let mut changed = text.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).expect("ASCII");
        let refused = keys.open(job(1), &changed).expect_err(&changed).to_string();
        assert!(!refused.contains("4111") && !refused.contains("card"), "{refused}");
    }
    for broken in
        ["", "{}", "null", r#"{"$sealed":{}}"#, r#"{"$sealed":{"key":"k1","nonce":"AA==","data":""}}"#]
    {
        assert_eq!(keys.open(job(1), broken), Err(SealError::Form), "{broken}");
    }
}

#[test]
fn only_sealed_text_looks_sealed() {
    for plain in ["", "{}", "[]", "null", "\"$sealed\"", r#"{"a":{"$sealed":1}}"#, r#"{"sealed":1}"#] {
        assert!(!is_sealed(plain), "{plain}");
        assert_eq!(key_of(plain), None, "{plain}");
    }
    assert!(is_sealed(" { \"$sealed\" : 1}"), "what people wrote is hidden all the same");
}

#[test]
fn keys_have_one_length() {
    // E12
    let refused = SealingKeys::new(vec![SecretKey::new("k", vec![1; 33]).expect("enough")]);
    let refused = refused.expect_err("too long").to_string();
    assert!(
        refused.starts_with("the secret of the key `k` has 33 bytes, and the cipher takes 32"),
        "{refused}"
    );
    assert_eq!(SealingKeys::new(Vec::new()).expect_err("none"), KeyError::None);
    assert_eq!(format!("{:?}", ring(&[("k1", 99)])), r#"["k1"]"#);
}
