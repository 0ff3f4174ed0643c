//! Proves the grouping of rule D2: occurrences of one failure share a fingerprint, different failures do not.

mod corpus;
mod partition;

use std::collections::HashMap;

use proptest::prelude::*;

use super::{Fingerprint, fingerprint, normalize};
use corpus::GROUPS;

// D2
#[test]
fn messages_of_one_group_share_a_fingerprint_and_groups_differ() {
    assert!(GROUPS.len() >= 60);
    let mut seen: HashMap<Fingerprint, &str> = HashMap::new();
    for group in GROUPS {
        assert!((2..=4).contains(&group.len()), "{group:?}");
        let prints: Vec<_> = group.iter().map(|message| fingerprint("kind", "Error", message)).collect();
        for (message, print) in group.iter().zip(&prints) {
            assert_eq!(print, &prints[0], "{} / {}", normalize(group[0]), normalize(message));
        }
        if let Some(other) = seen.insert(prints[0].clone(), group[0]) {
            panic!("{other:?} and {:?} are both {:?}", group[0], normalize(other));
        }
    }
}

#[test]
fn the_corpus_is_stable_under_a_second_pass() {
    for message in GROUPS.iter().copied().flatten() {
        let once = normalize(message);
        assert_eq!(normalize(&once), once, "of {message:?}");
    }
}

#[test]
fn placeholders_say_what_was_there() {
    for (message, expected) in [
        ("job 0192f3a4-77aa-7bbb-8ccc-1234567890ab lost", "job <uuid> lost"),
        ("at 2024-05-01T10:00:00.123Z after 1m30.5s", "at <time> after <dur>"),
        ("Mon, 02 Jan 2006 15:04:05 GMT was long ago", "<time> was long ago"),
        ("10.0.0.7:5432 and [2001:db8::1]:443 and fe80::1", "<addr> and <addr> and <addr>"),
        ("open /srv/app/a.txt:3:9: denied", "open <path>: denied"),
        ("open C:\\data\\x.db failed", "open <path> failed"),
        ("in src/jobs/send.rs:42:7", "in <path>"),
        ("mail to ann@example.org bounced", "mail to <email> bounced"),
        (
            "GET https://u:p@api.example.com:8443/v1/orders/42?x=1: HTTP/1.1 503",
            "GET https://api.example.com:<num>/v<num>/orders/<num>: HTTP 503",
        ),
        ("sha 3f786850e387550fdab836ed7e6dc881de23001b at 0x7ffeefbff5c8", "sha <id> at <id>"),
        ("pod web-7d9f8b6c5-x2x9z and worker12", "pod web-<id> and worker<num>"),
        ("rows (1, 2, 3) and 4,000 of 10%", "rows (<num>) and <num> of <num>"),
        (
            "it can't read 'that' or \"this\" or `those` or «tych» or “these”",
            "it can't read <str> or <str> or <str> or <str> or <str>",
        ),
        (
            "error 1213, errno: 104, status=503, SQLSTATE 42P01, code -5",
            "error 1213, errno: 104, status=503, SQLSTATE 42P01, code -5",
        ),
        ("error: 3 rows failed with ORA-00001", "error: <num> rows failed with ORA-00001"),
        (
            "{\"error\":\"no such user 7\",\"code\":404,\"id\":\"x\"}",
            "{error:no such user <num>,code:404,id:<str>}",
        ),
        ("application/json and/or TCP/IP", "application/json and/or TCP/IP"),
        ("std::io::Error in foo::add", "std::io::Error in foo::add"),
        ("  white \n\t space  ", "white space"),
        ("", ""),
    ] {
        assert_eq!(normalize(message), expected);
    }
}

#[test]
fn stack_traces_count_by_their_message() {
    let expected = "ValueError: bad row";
    for trace in [
        "Traceback (most recent call last):\n  File \"/srv/a.py\", line 3, in run\n    work(row)\n    ~~~~^^^^^\nValueError: bad row",
        "ValueError: bad row\n    at run (/srv/a.js:3:9)\n    at async main (node:internal/x:1:2)",
        "ValueError: bad row\n\tat com.acme.Job.run(Job.java:42)\n\t... 23 more",
        "ValueError: bad row\n   at Acme.Job.Run() in C:\\src\\Job.cs:line 42",
        "ValueError: bad row\n\tfrom /srv/job.rb:3:in `run'",
        "ValueError: bad row\nStack trace:\n#0 /srv/a.php(3): run()\n#1 {main}",
        "ValueError: bad row\n\ngoroutine 7 [running]:\nmain.run(0xc000010000)\n\t/src/main.go:9 +0x1d",
        "ValueError: bad row\n    (acme 1.0.0) lib/acme/job.ex:42: Acme.Job.run/1",
        "ValueError: bad row\nstack backtrace:\n   0: std::panicking::begin_panic\n   1: acme::run",
    ] {
        assert_eq!(normalize(trace), expected);
    }
    assert_eq!(
        normalize("outer\n\nCaused by:\n    0: middle\n    1: inner"),
        "outer Caused by: <num>: middle <num>: inner"
    );
}

// D2
#[test]
fn kind_class_and_text_all_count() {
    let base = fingerprint("a", "b", "c");
    for other in [
        fingerprint("x", "b", "c"),
        fingerprint("a", "x", "c"),
        fingerprint("a", "b", "x"),
        fingerprint("ab", "", "c"),
    ] {
        assert_ne!(base, other);
    }
    // Stored fingerprints must survive upgrades: a change of this value splits every incident.
    assert_eq!(
        fingerprint("email.send", "Timeout", "no answer from 10.0.0.7:25 after 30s").as_str(),
        "e234cdb78e86a7c2"
    );
}

#[test]
fn a_fingerprint_is_parsed_only_when_it_is_one() {
    let print = fingerprint("a", "b", "c");
    assert_eq!(print.to_string().parse(), Ok(print.clone()));
    let json = serde_json::to_string(&print).expect("a text");
    assert_eq!(json, format!("\"{print}\""));
    assert_eq!(serde_json::from_str::<Fingerprint>(&json).expect("just written"), print);
    for text in ["", "0123", "0123456789ABCDEF", "0123456789abcdeg", "0123456789abcdef0", "żółwżółw"] {
        let error = text.parse::<Fingerprint>().expect_err("not 16 lower-case hexadecimal digits");
        assert!(error.to_string().contains("is not a fingerprint"), "{error}");
        assert!(serde_json::from_str::<Fingerprint>(&format!("\"{text}\"")).is_err());
    }
}

#[test]
fn long_text_is_bounded() {
    for piece in
        ["a", "1", "'", " 'a", "(\"", "/", "::", "a.", "a@", "1:", "<num>", "error 5 ", "日", "-", "https://"]
    {
        let once = normalize(&piece.repeat(100_000 / piece.len()));
        assert!(once.len() < 600, "{piece:?} became {} bytes", once.len());
        assert_eq!(normalize(&once), once, "of {piece:?}");
    }
}

/// Texts built from what messages are made of: plain random text would rarely hit a rule.
fn message_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(" ".to_owned()),
        "[a-zA-Z]{1,8}",
        "[0-9]{1,6}",
        "[0-9a-f]{6,12}",
        "[-_.,:;/\\\\\"'`()<>\\[\\]{}=@#%?+ ]{1,2}",
        prop::sample::select(vec![
            "error",
            "status",
            "code: ",
            "HTTP/1.1",
            "https://",
            "10.0.0.7",
            "2024-05-01",
            "10:00:00",
            "Jan 2",
            "<num>",
            "<str>",
            "::1",
            "\\\"",
            "message:",
            "\n",
            "\n  at x (y:1)",
            "«",
            "»",
            "ż",
            "秒",
            "30s",
            "0x1f",
            "P2002",
            "C:\\x",
            "a@b.co",
            "column ",
            "table named ",
            ")=(",
            " value is (",
            " object",
            "returned ",
            "503",
            "u8",
            "'x_1'",
            "\"A\".\"B\"",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn normalizing_never_panics(message in any::<String>()) {
        prop_assert!(normalize(&message).len() < 600);
    }

    #[test]
    fn normalizing_is_idempotent(message in message_like()) {
        let once = normalize(&message);
        prop_assert_eq!(normalize(&once), once);
    }
}
