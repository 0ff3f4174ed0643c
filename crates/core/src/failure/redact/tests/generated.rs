//! Thousands of generated texts: every planted secret is hidden, hardly any ordinary message changes.

use proptest::prelude::*;

use super::super::{StandardRedactor, sanitize};
use super::messages::{ORDINARY, uuid};
use super::planted::{FAMILIES, Planted};
use super::{HEX, Lcg, redact};

const OPENINGS: &[&str] = &[
    "request failed",
    "could not reach the server",
    "job aborted:",
    "Error:",
    "unexpected answer from upstream:",
    "panicked at src/main.rs:10:5:",
    "java.io.IOException: stream closed,",
    "błąd połączenia",
    "接続エラー",
    "Fehler beim Senden:",
    "",
    "level=error msg=failed",
];
const ENDINGS: &[&str] = &[
    "",
    " after 3 attempts",
    "\n  at Object.<anonymous> (/srv/app/index.js:12:5)",
    ", giving up",
    " (os error 111)",
    " status=503",
    "\nCaused by: timeout",
    " for job 0192f3a4-77aa-7bbb-8ccc-1234567890ab",
];

/// The shortest piece of a secret that counts as readable.
const READABLE: usize = 6;

/// A piece of `secret` that can still be read in `text`.
fn readable_piece<'s>(secret: &'s str, text: &str) -> Option<&'s str> {
    let starts = 0..=secret.len().saturating_sub(READABLE);
    starts.filter_map(|at| secret.get(at..at + READABLE)).find(|piece| text.contains(piece))
}

fn with_surroundings(lcg: &mut Lcg, planted: &str) -> String {
    let (opening, ending) = (lcg.pick(OPENINGS), lcg.pick(ENDINGS));
    format!("{opening} {planted}{ending}")
}

// F11
#[test]
fn none_of_two_thousand_planted_secrets_stays_readable() {
    let mut hidden = 0;
    let mut seeds = 0u64..;
    while hidden < 2_000 {
        for (family, plant) in FAMILIES {
            let seed = seeds.next().expect("seeds do not end");
            let mut lcg = Lcg(seed);
            let planted = plant(&mut lcg);
            let text = with_surroundings(&mut lcg, &planted.text);
            assert!(text.contains(&planted.secret), "seed {seed}: the generator of {family} is wrong");
            let redacted = redact(&text);
            let piece = readable_piece(&planted.secret, &redacted);
            assert_eq!(piece, None, "seed {seed}, {family}: {:?} stayed in {redacted:?}", planted.secret);
            assert_eq!(redact(&redacted), redacted, "seed {seed}, {family}");
            hidden += 1;
        }
    }
    assert!(hidden >= 2_000 && FAMILIES.len() >= 40, "{hidden} secrets of {} families", FAMILIES.len());
}

const LIMIT: usize = 64;

fn assert_cut(family: &str, planted: &Planted, text: &str) {
    let clean = sanitize(&StandardRedactor::default(), text, LIMIT);
    assert!(clean.chars().count() <= LIMIT);
    let piece = readable_piece(&planted.secret, &clean);
    assert_eq!(piece, None, "{family}: {:?} stayed in {clean:?} of {text:?}", planted.secret);
}

// F11: a secret on the limit leaves no readable part.
#[test]
fn no_cut_at_the_limit_leaves_part_of_a_planted_secret() {
    for (seed, (family, plant)) in (0u64..).zip(FAMILIES) {
        let planted = plant(&mut Lcg(seed));
        for before in 0..LIMIT / 2 {
            assert_cut(family, &planted, &format!("{}{}", "é ".repeat(before), planted.text));
        }
    }
}

// F11: nor does a secret on the earlier cut that keeps huge texts cheap.
#[test]
fn no_cut_of_a_huge_text_leaves_part_of_a_planted_secret() {
    let rest = "and so on ".repeat(60);
    for (seed, (family, plant)) in (0u64..).zip(FAMILIES) {
        let planted = plant(&mut Lcg(seed));
        // What is long and hidden in front of the secret brings the early cut into the part that is kept.
        let early_cut = LIMIT * 16;
        for length in (early_cut - planted.text.len() - 40..early_cut + 280).step_by(5) {
            let text = format!("password={} {} {rest}", "x".repeat(length), planted.text);
            assert_cut(family, &planted, &text);
        }
    }
}

// F11: what is not secret stays readable; the bound is half a percent of messages.
#[test]
fn ordinary_generated_messages_stay_as_they_are() {
    const MESSAGES: usize = 10_000;
    let mut changed = Vec::new();
    let mut kinds = vec![0usize; ORDINARY.len()];
    for (seed, kind) in (0u64..).zip((0..ORDINARY.len()).cycle()).take(MESSAGES) {
        let text = ORDINARY[kind](&mut Lcg(seed));
        kinds[kind] += 1;
        let redacted = redact(&text);
        if redacted != text {
            changed.push(format!("seed {seed}: {redacted}"));
        }
    }
    assert!(kinds.iter().all(|count| *count >= 100), "{kinds:?}");
    assert!(
        changed.len() * 200 < MESSAGES,
        "{} of {MESSAGES} changed: {:#?}",
        changed.len(),
        &changed[..changed.len().min(40)]
    );
}

// F11: UUIDs, digests, hosts and error types stay readable next to a secret.
#[test]
fn what_is_needed_stays_readable_around_every_planted_secret() {
    for (seed, (family, plant)) in (0u64..).zip(FAMILIES) {
        let mut lcg = Lcg(seed);
        let (id, commit) = (uuid(&mut lcg), lcg.string(HEX, 40));
        let digest = format!("sha256:{}", lcg.string(HEX, 64));
        let facts = format!(
            "io.grpc.StatusRuntimeException: job {id} at {commit} ({digest}) on db-3.eu.internal:5432 [10.0.0.7]"
        );
        let planted = plant(&mut lcg);
        for text in [format!("{facts}\n{}", planted.text), format!("{}\n{facts}", planted.text)] {
            if *family == "private key without its end" && text.ends_with(&facts) {
                continue;
            }
            let redacted = redact(&text);
            assert!(redacted.contains(&facts), "seed {seed}, {family}: {redacted:?}");
        }
    }
}

/// Texts built from what the passes look for: plain random text would rarely reach one.
fn secret_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zA-Z0-9]{1,12}",
        "[0-9]{1,19}",
        "[-_.,:;/\\\\\"'`()<>\\[\\]{}=@#%?&+ \n]{1,2}",
        prop::sample::select(vec![
            "password",
            "token",
            "secret",
            "Authorization: ",
            "Cookie: ",
            "Bearer ",
            "://",
            "@",
            "%40",
            "%3D",
            "eyJ",
            "sk-",
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "Some(",
            "[redacted]",
            "ż",
            "日本",
            "é@ż.org",
            "--",
            "IDENTIFIED BY '",
            "DE89",
            "4111 1111 1111 1111",
            "oracle:thin:",
            "@tcp(",
            "<password>",
            "\u{1b}[0m",
            "\0",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    // F11
    #[test]
    fn sanitizing_never_panics_and_keeps_its_promises(text in secret_like(), limit in 0usize..200) {
        let clean = sanitize(&StandardRedactor::default(), &text, limit);
        prop_assert!(clean.chars().count() <= limit);
        prop_assert!(!clean.chars().any(|ch| ch.is_control() && ch != '\n'));
        // The fallback would hide a panic.
        prop_assert!(limit == 0 || !clean.starts_with("error text withheld"), "the redactor panicked on {:?}", text);
    }

    #[test]
    fn redacting_twice_changes_nothing(text in secret_like()) {
        let once = redact(&text);
        prop_assert_eq!(redact(&once), once);
    }
}
