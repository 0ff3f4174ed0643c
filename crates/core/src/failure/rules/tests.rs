//! Which rules are refused, which rule decides, and how rules are stored.

use std::time::Duration;

use super::*;

fn rule(id: &str, matches: RuleMatch) -> Rule {
    Rule {
        id: id.parse().expect(id),
        note: String::new(),
        matches,
        action: RuleAction::Permanent,
        enabled: true,
        position: 0,
        created_at: Timestamp::EPOCH,
        created_by: "ann".to_owned(),
    }
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn kind(glob: &str) -> RuleMatch {
    RuleMatch { kind: some(glob), ..RuleMatch::default() }
}

fn text(pattern: &str) -> RuleMatch {
    RuleMatch { text: some(pattern), ..RuleMatch::default() }
}

const FACTS: RuleInput<'_> = RuleInput {
    kind: "mail.send",
    queue: "outgoing",
    cause: Cause::Error,
    error_type: "smtp::Error",
    message: "421 Service not available at mx1.example.org",
};

fn decides(matches: RuleMatch, facts: &RuleInput<'_>) -> bool {
    let (book, left_out) = RuleSet::compile(vec![rule("r", matches)]);
    assert_eq!(left_out, []);
    book.judge(facts).is_some()
}

#[test]
fn ids_are_slugs() {
    // F18
    for id in ["a", "stripe-down", "r_2", &"x".repeat(64)] {
        assert_eq!(id.parse::<RuleId>().expect(id).as_str(), id);
    }
    for id in ["", "Stripe", "a b", "a`b", "ä", "a.b", &"x".repeat(65)] {
        let error = id.parse::<RuleId>().expect_err(id);
        assert!(error.to_string().contains("stripe-down"), "{error}");
        assert!(serde_json::from_value::<RuleId>(id.into()).is_err(), "{id}");
    }
}

#[test]
fn globs_cover_the_whole_text() {
    // F18
    let table = [
        ("mail.send", true),
        ("mail.*", true),
        ("*.send", true),
        ("*", true),
        ("m*l*d", true),
        ("**mail**send**", true),
        ("*mail.send*", true),
        ("mail", false),
        ("mail.send*d", false),
        ("*mail.s*end.", false),
        ("send*mail", false),
        ("Mail.*", false),
        ("mail?send", false),
    ];
    for (glob, expected) in table {
        assert_eq!(decides(kind(glob), &FACTS), expected, "{glob}");
        let by_queue = RuleMatch { queue: some(glob), ..RuleMatch::default() };
        assert_eq!(decides(by_queue, &RuleInput { queue: "mail.send", ..FACTS }), expected, "{glob}");
        let by_type = RuleMatch { error_type: some(glob), ..RuleMatch::default() };
        assert_eq!(decides(by_type, &RuleInput { error_type: "mail.send", ..FACTS }), expected, "{glob}");
    }
}

#[test]
fn all_conditions_must_hold() {
    // F18
    let all = RuleMatch {
        kind: some("mail.*"),
        queue: some("outgoing"),
        error_type: some("smtp::*"),
        cause: Some(Cause::Error),
        text: some(r"^4\d\d "),
    };
    assert!(decides(all.clone(), &FACTS));
    for facts in [
        RuleInput { kind: "sms.send", ..FACTS },
        RuleInput { queue: "slow", ..FACTS },
        RuleInput { error_type: "io::Error", ..FACTS },
        RuleInput { cause: Cause::Timeout, ..FACTS },
        RuleInput { message: "550 no such user", ..FACTS },
    ] {
        assert!(!decides(all.clone(), &facts), "{facts:?}");
    }
}

#[test]
fn text_is_searched_anywhere() {
    // F18
    assert!(decides(text("not available"), &FACTS));
    assert!(decides(text("(?i)SERVICE"), &FACTS));
    assert!(!decides(text("SERVICE"), &FACTS));
    assert!(decides(text("mx[0-9]+"), &FACTS));
    assert!(decides(text("größe"), &RuleInput { message: "die größe fehlt", ..FACTS }));
}

#[test]
fn what_is_no_failure_matches_no_rule() {
    // F18
    for cause in Cause::ALL {
        let decided = decides(kind("*"), &RuleInput { cause: *cause, ..FACTS });
        assert_eq!(decided, cause.is_failure() && *cause != Cause::Signature, "{cause}");
    }
}

#[test]
fn the_first_rule_in_order_wins_and_disabled_ones_are_left_out() {
    // F18
    let placed = |id: &str, position| Rule { position, ..rule(id, kind("*")) };
    let off = Rule { enabled: false, ..placed("off", -9) };
    let (book, left_out) =
        RuleSet::compile(vec![placed("late", 5), placed("b", 1), off, placed("a", 1), placed("z", 1)]);
    assert_eq!(left_out, []);
    let order: Vec<_> = book.rules().map(|rule| rule.id.as_str()).collect();
    assert_eq!(order, ["a", "b", "z", "late"]);
    assert_eq!(book.judge(&FACTS).map(|rule| rule.id.as_str()), Some("a"));
    assert!(RuleSet::default().is_empty());
    assert!(RuleSet::default().judge(&FACTS).is_none());
}

#[test]
fn a_broken_rule_is_reported_and_the_others_stay() {
    // F18
    let (book, left_out) = RuleSet::compile(vec![rule("broken", text("(")), rule("fine", kind("*"))]);
    assert_eq!(book.rules().count(), 1);
    assert_eq!(left_out.len(), 1);
    assert_eq!(left_out[0].0.as_str(), "broken");
}

#[test]
fn a_rule_that_cannot_match_is_refused_with_the_way_out() {
    // F18
    let caused = |cause| RuleMatch { cause: Some(cause), ..RuleMatch::default() };
    let typed = |glob: &str| RuleMatch { error_type: some(glob), ..RuleMatch::default() };
    let table = [
        (RuleMatch::default(), "no condition"),
        (kind(""), "kind is empty"),
        (RuleMatch { queue: some(""), ..RuleMatch::default() }, "queue is empty"),
        (typed(""), "error_type is empty"),
        (text(""), "text is empty"),
        (kind("mail\n*"), "kind can never match: no name contains the control character U+000A"),
        (
            RuleMatch { queue: some(" slow*"), ..RuleMatch::default() },
            "queue can never match: no name begins",
        ),
        (kind(&"k".repeat(129)), "129 characters besides `*`"),
        (typed(&"T".repeat(129)), "129 characters besides `*`"),
        (kind(&"*".repeat(1_001)), "kind has 1001 characters"),
        (text(&"t".repeat(1_001)), "text has 1001 characters and the limit is 1000"),
        (caused(Cause::Succeeded), "cause `succeeded` is not a failure"),
        (caused(Cause::Canceled), "cause `canceled` is not a failure"),
        (caused(Cause::Snoozed), "cause `snoozed` is not a failure"),
        (caused(Cause::Rejected), "cause `rejected` is not a failure"),
        (caused(Cause::Signature), "wrong signature"),
        (text("ab(c"), "unclosed group at character 3"),
        (text("a{2,1}"), "at character 2"),
        (text("(?=x)"), "look-around"),
        (text("(a{1000}){1000}"), "too costly"),
    ];
    for (matches, expected) in table {
        let error = rule("r", matches.clone()).validate().expect_err(expected).to_string();
        assert!(error.contains(expected), "{error} does not say {expected}");
        assert!(error.contains(": ") && !error.contains('\n') && !error.ends_with('.'), "{error}");
    }
    assert_eq!(rule("r", kind(&"k*".repeat(128))).validate(), Ok(()), "`*` may stand for nothing");
}

#[test]
fn an_action_that_cannot_be_done_is_refused() {
    // F18
    let crash = RuleMatch { cause: Some(Cause::Crash), ..RuleMatch::default() };
    let long = Duration::from_secs(20 * 366 * 86_400);
    let retry = |max_retries, backoff, delay| RuleAction::Retry { max_retries, backoff, delay };
    let brief = Some(Duration::from_secs(1));
    let table = [
        (kind("*"), retry(None, Some(Backoff::default()), brief), "both delay_ms and backoff"),
        (kind("*"), retry(Some(1_000_001), None, None), "limit of 1000000"),
        (kind("*"), retry(None, None, Some(long)), "delay_ms is longer than 3660 days"),
        (kind("*"), retry(None, Some(Backoff::fixed(long)), None), "backoff.base_ms is longer"),
        (kind("*"), RuleAction::Transient { delay: Some(long) }, "delay_ms is longer"),
        (crash.clone(), retry(Some(3), None, None), "does not count crashes"),
        (crash.clone(), RuleAction::Transient { delay: None }, "always charged"),
    ];
    for (matches, action, expected) in table {
        let error = Rule { action, ..rule("r", matches) }.validate().expect_err(expected).to_string();
        assert!(error.contains(expected), "{error} does not say {expected}");
    }
    for action in [retry(None, None, None), retry(Some(0), None, brief), RuleAction::PauseQueue] {
        assert_eq!(Rule { action, ..rule("r", kind("*")) }.validate(), Ok(()));
    }
    assert_eq!(Rule { action: RuleAction::PauseQueue, ..rule("r", crash) }.validate(), Ok(()));
    let wordy = Rule { note: "n".repeat(1_001), ..rule("r", kind("*")) };
    assert!(wordy.validate().expect_err("too long").to_string().starts_with("note has 1001"));
}

#[test]
fn an_id_that_the_ledger_would_mask_is_refused() {
    // F18, F11: otherwise the ledger could not name the rule that decided.
    let id = "sk_live_4ec39hqlyjwdarjtt1zdp7dc";
    let error = rule(id, kind("*")).validate().expect_err("it looks like a key");
    assert_eq!(error, RuleError::SecretId { id: id.parse().expect("a slug") });
    for id in ["stripe-down", "db-failover-2026-11-15", "token-expired", "password-reset", "a"] {
        assert_eq!(rule(id, kind("*")).validate(), Ok(()), "{id}");
    }
}

#[test]
fn a_rule_goes_round_as_json() {
    // F18
    let actions = [
        (RuleAction::Permanent, r#""permanent""#),
        (RuleAction::Retry { max_retries: None, backoff: None, delay: None }, r#"{"retry":{}}"#),
        (
            RuleAction::Retry { max_retries: Some(9), backoff: None, delay: Some(Duration::from_secs(2)) },
            r#"{"retry":{"max_retries":9,"delay_ms":2000}}"#,
        ),
        (
            RuleAction::Retry { max_retries: None, backoff: Some(Backoff::none()), delay: None },
            r#"{"retry":{"backoff":{"policy":"none","base_ms":0,"cap_ms":0,"jitter":"none"}}}"#,
        ),
        (RuleAction::Transient { delay: None }, r#"{"transient":{}}"#),
        (RuleAction::PauseQueue, r#""pause_queue""#),
    ];
    for (action, json) in actions {
        assert_eq!(serde_json::to_string(&action).expect("plain"), json);
        let rule = Rule { action, ..rule("r", text("x")) };
        let stored = serde_json::to_string(&rule).expect("plain");
        assert_eq!(serde_json::from_str::<Rule>(&stored).expect(&stored), rule);
    }
    assert_eq!(
        serde_json::to_string(&rule("r", kind("a*"))).expect("plain"),
        r#"{"id":"r","note":"","matches":{"kind":"a*"},"action":"permanent","enabled":true,"position":0,"created_at":"1970-01-01T00:00:00Z","created_by":"ann"}"#
    );
}

#[test]
fn unknown_fields_are_refused() {
    // F18: a misspelled condition must not widen a rule.
    for json in [r#"{"knd":"x"}"#, r#"{"kind":"x","cause":"exploded"}"#] {
        assert!(serde_json::from_str::<RuleMatch>(json).is_err(), "{json}");
    }
    for json in [r#"{"retry":{"max_retry":1}}"#, r#"{"permanent":{"x":1}}"#, r#"{"transient":{"delay":1}}"#] {
        assert!(serde_json::from_str::<RuleAction>(json).is_err(), "{json}");
    }
}
