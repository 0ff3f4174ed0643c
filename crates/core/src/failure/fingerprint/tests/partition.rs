//! The corpus of messages in `corpus.txt`, and the proof that fingerprints split it as a person did.

use std::collections::BTreeMap;

use super::super::{Fingerprint, fingerprint, normalize};
use super::corpus::GROUPS;

const CORPUS: &str = include_str!("corpus.txt");

/// What the corpus must have at least, so that nobody makes the test pass by shortening it.
const FEWEST_MESSAGES: usize = 350;
const FEWEST_GROUPS: usize = 100;
const FEWEST_SINGLES: usize = 140;

/// One message, and the number of the paragraph that a person put it in.
struct Filed {
    group: usize,
    message: String,
}

/// The paragraphs of the corpus, each with its messages.
fn paragraphs() -> Vec<Vec<String>> {
    let mut paragraphs = vec![Vec::new()];
    for line in CORPUS.lines() {
        if line.trim().is_empty() {
            paragraphs.push(Vec::new());
        } else if let (false, Some(open)) = (line.starts_with("# "), paragraphs.last_mut()) {
            open.push(line.replace('⏎', "\n").replace('⇥', "\t"));
        }
    }
    paragraphs.retain(|messages| !messages.is_empty());
    paragraphs
}

/// Both corpora, numbered through.
fn filed() -> Vec<Filed> {
    let older = GROUPS.iter().map(|group| group.iter().map(|message| (*message).to_owned()).collect());
    paragraphs()
        .into_iter()
        .chain(older)
        .enumerate()
        .flat_map(|(group, messages): (usize, Vec<String>)| {
            messages.into_iter().map(move |message| Filed { group, message })
        })
        .collect()
}

/// Names every group that fell apart and every two groups that fell together.
fn offenders(filed: &[Filed]) -> Vec<String> {
    let mut by_print: BTreeMap<Fingerprint, Vec<&Filed>> = BTreeMap::new();
    let mut by_group: BTreeMap<usize, Vec<&Filed>> = BTreeMap::new();
    for entry in filed {
        by_print.entry(fingerprint("kind", "Error", &entry.message)).or_default().push(entry);
        by_group.entry(entry.group).or_default().push(entry);
    }
    let split = by_group.values().flat_map(|group| {
        let first = normalize(&group[0].message);
        group.iter().skip(1).filter_map(move |entry| {
            let other = normalize(&entry.message);
            (other != first).then(|| format!("split:\n  {first}\n  {other}"))
        })
    });
    let joined = by_print.values().flat_map(|together| {
        together.iter().skip(1).filter(|entry| entry.group != together[0].group).map(|entry| {
            let text = normalize(&entry.message);
            format!("joined: {:?} and {:?} are both\n  {text}", together[0].message, entry.message)
        })
    });
    split.chain(joined).collect()
}

// D2: every pair of one group shares a fingerprint, every pair of two groups does not.
#[test]
fn the_corpus_is_split_as_a_person_split_it() {
    let offenders = offenders(&filed());
    assert!(offenders.is_empty(), "{} offenders:\n{}", offenders.len(), offenders.join("\n"));
}

#[test]
fn the_corpus_is_large_and_its_groups_are_small() {
    let paragraphs = paragraphs();
    let messages: usize = paragraphs.iter().map(Vec::len).sum();
    let groups = paragraphs.iter().filter(|group| group.len() > 1).count();
    assert!(messages >= FEWEST_MESSAGES, "{messages} messages");
    assert!(groups >= FEWEST_GROUPS, "{groups} groups");
    assert!(paragraphs.len() - groups >= FEWEST_SINGLES, "{} single messages", paragraphs.len() - groups);
    for group in &paragraphs {
        assert!(group.len() <= 6, "{group:?}");
    }
}

#[test]
fn the_written_corpus_is_stable_under_a_second_pass() {
    for entry in filed() {
        let once = normalize(&entry.message);
        assert_eq!(normalize(&once), once, "of {:?}", entry.message);
    }
}
