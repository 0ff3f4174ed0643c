//! The parts around the families: sanitizing, operator patterns, JSON, names, and redactors that fail.

use std::borrow::Cow;

use serde_json::json;

use super::super::{
    FALLBACK, MAX_JSON_DEPTH, PatternError, Redactor, StandardRedactor, is_sensitive_key, mask, mask_json,
    mask_text, sanitize,
};
use super::redact;

struct Panicking;

impl Redactor for Panicking {
    fn redact<'a>(&self, _: &'a str) -> Cow<'a, str> {
        std::panic::panic_any("this redactor always fails")
    }
}

struct Rude;

impl Redactor for Rude {
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        Cow::Owned(format!("{text}\0\u{202e}"))
    }
}

// F11: a failing sanitizer never loses the failure: a plain ASCII fallback is stored.
#[test]
fn a_failing_redactor_is_replaced_by_the_fallback() {
    assert!(FALLBACK.is_ascii());
    assert_eq!(sanitize(&Panicking, "password=hunter2", 200), FALLBACK);
    assert_eq!(sanitize(&Panicking, "password=hunter2", 11), "error text…");
    let mut value = json!({"note": "hunter2", "port": 5432});
    mask_json(&mut value, &Panicking);
    assert!(!value.to_string().contains("hunter2"));
}

// F11: NUL and invalid text made storable, also when another redactor puts it there.
#[test]
fn sanitized_text_is_storable() {
    assert_eq!(sanitize(&Rude, "a\0b", 50), "a␀b␀\\u{202e}");
    assert_eq!(sanitize(&StandardRedactor::default(), "\u{1b}[31mfatal\u{1b}[0m: x\r\ny", 50), "fatal: x\ny");
    let coloured = "\u{1b}[3mpassword\u{1b}[0m\u{1b}[2m=\u{1b}[0mhunter2";
    assert_eq!(sanitize(&StandardRedactor::default(), coloured, 50), "password=[redacted]");
}

// F11: cut at the limit on a character boundary, after redaction.
#[test]
fn a_cut_never_exposes_part_of_a_secret() {
    let redactor = StandardRedactor::default();
    let text = "żółw failed for postgres://app:hunter2hunter2@db/jobs and card 4111 1111 1111 1111 of ann@example.org";
    for limit in 0..120 {
        let clean = sanitize(&redactor, text, limit);
        assert!(clean.chars().count() <= limit);
        assert!(!clean.contains("hunter") && !clean.contains("4111") && !clean.contains("ann"), "{clean:?}");
    }
}

#[test]
fn absurdly_long_text_is_cut_before_redaction_without_exposing_its_end() {
    let redactor = StandardRedactor::default();
    // The long line collapses into one marker, so what was near the early cut becomes visible.
    for filler in 100..700 {
        let text =
            format!("password={} tail ann@example.org and card 4111 1111 1111 1111", "x".repeat(filler));
        let clean = sanitize(&redactor, &format!("{text}{}", " word".repeat(500)), 20);
        assert!(clean.chars().count() <= 20);
        assert!(!clean.contains("ann@") && !clean.contains("4111"), "{clean:?}");
    }
    let huge = "é".repeat(1_000_000);
    let clean = sanitize(&redactor, &huge, 100);
    assert_eq!(clean.chars().count(), 100);
    assert!(clean.ends_with('…'));
}

#[test]
fn operator_patterns_hide_their_match_or_their_first_group() {
    let redactor = StandardRedactor::with_patterns([r"CUST-\d+", r"tenant=(\w+)"]).expect("both are valid");
    assert_eq!(redactor.redact("CUST-123 of tenant=acme failed"), "[redacted] of tenant=[redacted] failed");
    assert_eq!(redactor.redact("password=x CUST-1"), "password=[redacted] [redacted]");
    assert_eq!(redactor.redact("nothing here"), "nothing here");
}

#[test]
fn an_unusable_pattern_is_named_with_the_way_out() {
    let error = StandardRedactor::with_patterns(["ok", "(broken"]).expect_err("the second has an open group");
    assert!(matches!(&error, PatternError::Invalid { pattern, .. } if pattern == "(broken"));
    let message = error.to_string();
    assert!(message.contains("`(broken`") && !message.contains('\n'), "{message}");
    let error = StandardRedactor::with_patterns(["x*"]).expect_err("matches nothing at all");
    assert!(error.to_string().contains("`x*` matches the empty text"));
}

#[test]
fn names_announce_secrets_by_their_last_word() {
    let sensitive = "\
        password PASSWORD Passwd pwd pass db_pass userPassword password2 password_hash secret client-secret \
        clientSecret token access_token accessToken authtoken CSRFToken api_key apiKey apikey \
        APIKey X-Api-Key private_key privateKey AWS_SECRET_ACCESS_KEY aws.secret.access.key credential \
        credentials Authorization cookie Set-Cookie signing_key passphrase secret_id jwt \
        new_password_confirmation _auth token_value PHPSESSID";
    for name in sensitive.split(' ') {
        assert!(is_sensitive_key(name), "{name} is not seen as sensitive");
    }
    let ordinary = "\
        key primary_key routingKey token_type tokens max_tokens tokenizer tokenExpiresAt \
        TokenExpiredError password_policy passwordless passed bypass compass secretary secretName \
        author auth user id hash public_key cache_key key_id_count credentials_provider";
    for name in ordinary.split(' ').chain([""]) {
        assert!(!is_sensitive_key(name), "{name} is seen as sensitive");
    }
}

// F11
#[test]
fn json_is_masked_by_name_at_any_depth_and_by_content() {
    let mut value = json!({
        "user": "ann",
        "db": {"password": "hunter2", "nested": [{"apiKey": 12345}, {"token": ["a", "b"]}]},
        "env": [{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "PORT", "value": "5432"}],
        "note": "mail ann@example.org via https://u:p@h.example/",
        "card": 4_111_111_111_111_111_u64,
        "created_ms": 1_700_000_000_000_u64,
        "max_tokens": 4096,
        "pass": 12,
        "smtp": {"user": "x", "pass": "y"},
        "secret": null,
        "token": "",
        "ann@example.org": 1,
        "bob@example.org": 2,
    });
    mask_json(&mut value, &StandardRedactor::default());
    let expected = json!({
        "user": "ann",
        "db": {"password": "[redacted]", "nested": [{"apiKey": "[redacted]"}, {"token": "[redacted]"}]},
        "env": [{"name": "DB_PASSWORD", "value": "[redacted]"}, {"name": "PORT", "value": "5432"}],
        "note": "mail [redacted] via https://[redacted]@h.example/",
        "card": "[redacted]",
        "created_ms": 1_700_000_000_000_u64,
        "max_tokens": 4096,
        "pass": 12,
        "smtp": {"user": "x", "pass": "[redacted]"},
        "secret": null,
        "token": "",
        "[redacted]": 1,
        "[redacted] 2": 2,
    });
    assert_eq!(value, expected);
}

// F11: what is shown is masked, what is stored is not.
#[test]
fn a_masked_copy_leaves_its_original_alone() {
    let stored = json!({"a": [{"token": "t-1"}]});
    assert_eq!(mask(&stored), json!({"a": [{"token": "[redacted]"}]}));
    assert_eq!(stored["a"][0]["token"], "t-1");
}

#[test]
fn json_text_is_masked_and_plain_text_is_left_as_it_was_written() {
    let redactor = StandardRedactor::default();
    let plain = "{ \"b\": 1.50,\n  \"a\": [1, 2] }";
    assert!(matches!(mask_text(plain, &redactor), Cow::Borrowed(text) if text == plain));
    assert_eq!(mask_text("{\"pwd\": \"x\"}", &redactor), "{\"pwd\":\"[redacted]\"}");
    assert_eq!(mask_text("not json: password=x", &redactor), "not json: password=[redacted]");
    let deep = format!("{}{{\"password\":\"hunter2\"}}{}", "[".repeat(5_000), "]".repeat(5_000));
    assert!(!mask_text(&deep, &redactor).contains("hunter2"));
    assert_eq!(mask_text("\"hunter2\"", &Panicking), format!("{:?}", FALLBACK));
}

#[test]
fn json_that_is_too_deep_is_replaced_whole() {
    let mut value = json!("plain");
    for _ in 0..MAX_JSON_DEPTH + 10 {
        value = json!([value]);
    }
    mask_json(&mut value, &StandardRedactor::default());
    let mut depth = 0;
    let mut at = &value;
    while let Some(inner) = at.get(0) {
        depth += 1;
        at = inner;
    }
    assert_eq!((depth, at), (MAX_JSON_DEPTH, &json!("[redacted]")));
}

#[test]
fn pathological_text_is_handled() {
    for piece in ["a", "@", "-----BEGIN", "7"] {
        let long = piece.repeat(100_000 / piece.len());
        assert_eq!(redact(&long), long);
        assert_eq!(sanitize(&StandardRedactor::default(), &long, 1_000).chars().count(), 1_000);
    }
    for piece in [
        "a@",
        "a@b.",
        "%40",
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "4111 ",
        "://",
        "a://b:c",
        "://u:p@",
        "password",
        "password=",
        "password=\"",
        "password='${",
        "token: is ",
        "token=(",
        "<password>",
        "password>",
        "authorization: is ",
        "cookie: a=b;",
        "bearer ",
        "basic a!",
        "secret",
        "eyJ",
        "eyJa.",
        "sk-",
        "DE89",
        "[redacted]",
        "\\\"",
        "=",
        "&key=",
        "\u{1b}]",
        "é",
        "identified by ",
        "pwd=/",
        "--password ",
        "a:b@c:1 ",
    ] {
        let once = redact(&piece.repeat(5_000 / piece.len()));
        assert_eq!(redact(&once), once, "of {piece:?}");
    }
}
