//! Keys and answers, by tables.

use serde_json::{Value, json};

use super::*;

fn fields(names: &[&str]) -> Vec<KeyField> {
    names.iter().map(|name| KeyField::parse(name).expect("a field")).collect()
}

fn key(names: &[&str], result: &Value, payload: &Value) -> (String, KeyOrigin) {
    let source = KeySource { incoming: "key:k1", result: Some(result), payload: Some(payload) };
    let key = HandOffKey::new("orders", &fields(names), source);
    (key.text, key.origin)
}

#[test]
fn a_key_is_made_of_fields_or_of_the_incoming_id() {
    // B7
    let (result, payload) =
        (json!({"order": 7, "at": {"day": "mo"}}), json!({"order": 8, "by": "ann", "gone": null}));
    let made = KeyOrigin::Fields;
    let table: [(&[&str], &str, KeyOrigin); 9] = [
        (&["order"], "handoff:orders:[7]", made),
        (&["by"], "handoff:orders:[\"ann\"]", made),
        (&["order", "by"], "handoff:orders:[7,\"ann\"]", made),
        (&["by", "order"], "handoff:orders:[\"ann\",7]", made),
        (&["/at/day"], "handoff:orders:[\"mo\"]", made),
        (&["at"], "handoff:orders:[{\"day\":\"mo\"}]", made),
        (&[], "handoff:orders:@key:k1", KeyOrigin::Incoming),
        (&["order", "nowhere"], "handoff:orders:@key:k1", KeyOrigin::Incoming),
        (&["gone"], "handoff:orders:@key:k1", KeyOrigin::Incoming),
    ];
    for (names, text, origin) in table {
        assert_eq!(key(names, &result, &payload), (text.to_owned(), origin), "{names:?}");
    }
}

#[test]
fn different_values_never_share_a_key() {
    // B7
    let values =
        [json!(1), json!("1"), json!(["1"]), json!(true), json!("true"), json!(1.5), json!(""), json!("[1]")];
    let long = [json!("x".repeat(500)), json!(format!("{}y", "x".repeat(499)))];
    let keys: std::collections::BTreeSet<String> =
        values.iter().chain(&long).map(|value| key(&["v"], &json!({"v": value}), &json!({})).0).collect();
    assert_eq!(keys.len(), values.len() + long.len());
    let name = "n".repeat(NAME_CHARS);
    let source = KeySource { incoming: &"ä".repeat(500), result: None, payload: None };
    let key = HandOffKey::new(&name, &[], source).text;
    assert!(key.chars().count() + 33 <= 255, "it fits with a tenant before it: {key}");
    assert_eq!(publication_of(&key), Some(name.as_str()));
}

#[test]
fn a_published_job_is_known_by_its_key() {
    // B7
    let table = [
        ("handoff:orders:[7]", Some("orders")),
        ("handoff:orders:@job:1", Some("orders")),
        ("handoff:orders:#ab", Some("orders")),
        ("handoff:orders:x", None),
        ("handoff:or ders:[7]", None),
        ("handoff:[7]", None),
        ("handoffs:orders:[7]", None),
        ("", None),
    ];
    for (text, name) in table {
        assert_eq!(publication_of(text), name, "{text}");
    }
}

#[test]
fn a_field_is_a_name_or_a_pointer() {
    // B7
    for good in ["order", "a b", "/order/id", "/a~0b/c~1d", "/"] {
        assert_eq!(KeyField::parse(good).expect("a field").to_string(), good);
    }
    for bad in ["", "/a~2b", "/a~"] {
        let refused = KeyField::parse(bad).expect_err("no field").to_string();
        assert!(refused.starts_with(&format!("`{bad}` names no field")), "{refused}");
    }
}

#[test]
fn every_status_means_one_thing() {
    // B7
    use RequestAnswer::{Away, Each, Pressure, Refused, Smaller};
    let table = [
        (200, Each),
        (201, Each),
        (207, Each),
        (301, Refused),
        (308, Refused),
        (400, Refused),
        (401, Refused),
        (403, Refused),
        (404, Refused),
        (405, Refused),
        (408, Away),
        (409, Refused),
        (413, Smaller),
        (422, Refused),
        (425, Away),
        (429, Pressure),
        (500, Away),
        (502, Away),
        (503, Pressure),
        (504, Away),
        (100, Refused),
        (600, Refused),
    ];
    for (status, expected) in table {
        assert_eq!(RequestAnswer::of(status), expected, "{status}");
    }
    for (code, expected) in [
        ("queue_full", ItemAnswer::Pressure),
        ("tenant_limit", ItemAnswer::Pressure),
        ("invalid", ItemAnswer::Refused),
        ("kind_not_allowed", ItemAnswer::Refused),
        ("key_held", ItemAnswer::Refused),
        ("", ItemAnswer::Refused),
    ] {
        assert_eq!(ItemAnswer::of_code(code), expected, "{code}");
    }
}

#[test]
fn every_refusal_says_what_to_do() {
    // B7, E10
    let table = [
        (401, "unauthorized", "token"),
        (403, "forbidden", "submit"),
        (403, "signature", "secrets"),
        (404, "", "address"),
        (302, "", "redirects"),
        (200, "not_backstop", "something else"),
        (413, "too_large", "limit"),
        (207, "too_large", "limit"),
        (207, "kind_not_allowed", "allow the kind"),
        (207, "key_held", "sees the queue"),
        (400, "unreadable", "correct what the receiver names"),
    ];
    for (status, code, told) in table {
        let (code, message) = (code.to_owned(), String::new());
        let refused = HandOffRefusal { status, code, message, job: None };
        assert!(refused.way_out().contains(told), "{refused:?}: {}", refused.way_out());
    }
}

#[test]
fn a_hand_off_has_a_sink_that_no_bridge_can_have() {
    // B7
    assert_eq!(of_sink(&sink_name("orders")), Some("orders"));
    assert_eq!(of_sink("orders"), None);
    for (name, fits) in
        [("orders", true), ("a.b_c-1", true), ("", false), ("a:b", false), ("a/b", false), ("ä", false)]
    {
        assert_eq!(is_name(name), fits, "{name}");
    }
    assert!(!is_name(&"a".repeat(NAME_CHARS + 1)));
}
