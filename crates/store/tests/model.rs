//! The model against its own suite, and the suite against itself.

use backstop_store::conformance::{MemoryPlace, compare};

backstop_store::conformance!(MemoryPlace);

/// The sources of all cases.
const NOUNS: [(&str, &str); 17] = [
    ("archive", include_str!("../src/conformance/archive.rs")),
    ("callbacks", include_str!("../src/conformance/callbacks.rs")),
    ("claim", include_str!("../src/conformance/claim.rs")),
    ("code", include_str!("../src/conformance/code.rs")),
    ("document", include_str!("../src/conformance/document.rs")),
    ("events", include_str!("../src/conformance/events.rs")),
    ("expiry", include_str!("../src/conformance/expiry.rs")),
    ("incident", include_str!("../src/conformance/incident.rs")),
    ("keys", include_str!("../src/conformance/keys.rs")),
    ("leadership", include_str!("../src/conformance/leadership.rs")),
    ("operate", include_str!("../src/conformance/operate.rs")),
    ("purge", include_str!("../src/conformance/purge.rs")),
    ("query", include_str!("../src/conformance/query.rs")),
    ("run", include_str!("../src/conformance/run.rs")),
    ("submit", include_str!("../src/conformance/submit.rs")),
    ("text", include_str!("../src/conformance/text.rs")),
    ("workers", include_str!("../src/conformance/workers.rs")),
];

#[test]
fn every_case_is_in_the_list() {
    let list = include_str!("../src/conformance.rs");
    for (noun, source) in NOUNS {
        let listed = list.split(&format!("            {noun}: [\n")).nth(1).expect("the noun is listed");
        let listed: Vec<_> = listed.lines().map(str::trim).take_while(|line| *line != "]").collect();
        let written: Vec<_> = source
            .lines()
            .filter_map(|line| line.strip_prefix("pub async fn "))
            .map(|line| line.split('(').next().unwrap_or_default())
            .collect();
        assert_eq!(listed, written, "{noun}");
    }
}

#[test]
fn every_case_names_the_rules_it_proves() {
    for (noun, source) in NOUNS {
        let mut rules = "";
        for line in source.lines() {
            if line.starts_with("/// ") && rules.is_empty() {
                rules = line;
            } else if let Some(case) = line.strip_prefix("pub async fn ") {
                let id = rules.trim_start_matches("/// ").split([':', ',']).next().unwrap_or_default();
                let (letter, number) = id.split_at(id.len().min(1));
                assert!(
                    "LFCDEHV".contains(letter) && !letter.is_empty() && number.parse::<u8>().is_ok(),
                    "{noun}: {case}"
                );
                rules = "";
            } else if !line.starts_with("///") {
                rules = "";
            }
        }
    }
}

/// What random scripts must meet, or comparing them would prove little: answers and stored facts.
const REACHED: &[&str] = &[
    "BusinessKeyConflict",
    "NotReplaceable",
    "NoSuchJob",
    "WrongState",
    "BatchRefused",
    "deduplicated: true",
    "Err(Stale",
    "error worker_not_enlisted",
    "error deposed",
    "Overdue {",
    "lost: [Lease",
    "ended_run: Some",
    "Ok(Succeeded)",
    "Ok(Failed)",
    "Ok(Canceled)",
    "Ok(Pending)",
    "reason: Some(Poisoned)",
    "reason: Some(RetryExhausted)",
    "reason: Some(Expired)",
    "waits_for_code: true",
    "paused_from: Some(Failed)",
    "superseded_by: Some",
    "callback_of: Some",
    "redrives: 1",
    "HeldLane {",
    "Incident {",
    "Orphan {",
    "Archived {",
    "MovedOn",
    "open: 1",
    "state: Regressed",
    "Conflict {",
    "operated: [Ok",
    "revision: 2",
    "SurveyGroup {",
    "marks: Some(Marks {",
    "suppressed: 1",
];

#[test]
fn scripts_reach_what_matters() {
    let mut answers = String::new();
    for seed in 1..=100 {
        for step in compare::<MemoryPlace>(seed, 160).expect("the model is equal to itself") {
            answers.push_str(step.split_once(" => ").expect("every step has an answer").1);
        }
    }
    let counts: Vec<_> = REACHED.iter().map(|fact| (*fact, answers.matches(fact).count())).collect();
    println!("{counts:#?}");
    let missed: Vec<_> = counts.iter().filter(|(_, count)| *count < 5).collect();
    assert!(missed.is_empty(), "hardly ever met: {missed:?}");
}

#[test]
fn a_seed_replays_itself() {
    let first = compare::<MemoryPlace>(7, 60).expect("equal");
    let again = compare::<MemoryPlace>(7, 80).expect("equal");
    assert_eq!(first[..60], again[..60], "a longer run begins with the shorter one");
    assert_ne!(first, compare::<MemoryPlace>(8, 60).expect("equal"));
}
