//! A configuration file as a problem may quote it: what is secret is starred out, and everything keeps its place.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::schema::{ConfigKey, FILE, KeyShape};

/// Words that begin a secret wherever they stand, also in a file that is no TOML.
const MARKS: [&str; 2] = ["whsec_", "bks_"];

/// The text with stars in place of secrets, of the same length to the byte.
pub(super) fn veiled(text: &str) -> String {
    let mut places = Vec::new();
    match DeTable::parse(text) {
        Ok(table) => section(table.get_ref(), FILE, &mut places),
        Err(_) => places.extend(by_line(text)),
    }
    places.extend(marked(text));
    let mut bytes = text.as_bytes().to_vec();
    for place in places {
        let hidden = bytes.get_mut(place).into_iter().flatten();
        hidden.filter(|byte| !matches!(**byte, b'\n' | b'\r')).for_each(|byte| *byte = b'*');
    }
    // Whole values are starred out, and those begin and end between characters.
    String::from_utf8_lossy(&bytes).into_owned()
}

fn section(table: &DeTable<'_>, keys: &'static [ConfigKey], places: &mut Vec<Range<usize>>) {
    for (name, value) in table {
        let known = keys.iter().find(|key| key.name == name.get_ref());
        match (known, value.get_ref().as_table()) {
            (Some(key), _) if key.secret => places.push(value.span()),
            (Some(ConfigKey { shape: KeyShape::Section(keys), .. }), Some(table)) => {
                section(table, keys, places)
            }
            (Some(ConfigKey { shape: KeyShape::Named(keys), .. }), Some(table)) => {
                let named = table.iter().filter_map(|(_, value)| value.get_ref().as_table());
                named.for_each(|table| section(table, keys, places));
            }
            (Some(ConfigKey { shape: KeyShape::SectionAndNamed(own, _), .. }), Some(table)) => {
                section(table, own, places)
            }
            _ => places.extend(credentials(value)),
        }
    }
}

/// Secrets of a file that cannot be parsed: from a key that has one to the next key or section.
fn by_line(text: &str) -> Vec<Range<usize>> {
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let (mut places, mut hidden, mut at) = (Vec::new(), false, 0);
    for line in text.split_inclusive('\n') {
        let word = line.trim_start();
        let name = word.split('=').next().unwrap_or_default().trim_end();
        let is_key = word.contains('=') && !name.is_empty() && name.chars().all(bare);
        if word.starts_with('[') {
            hidden = false;
        } else if is_key {
            hidden = has_secret(name.rsplit('.').next().unwrap_or_default(), FILE);
        }
        if hidden {
            let from = if is_key { line.find('=').map_or(0, |at| at + 1) } else { 0 };
            places.push(at + from..at + line.len());
        }
        at += line.len();
    }
    places
}

/// True when a key of this name is a secret anywhere.
fn has_secret(name: &str, keys: &[ConfigKey]) -> bool {
    keys.iter().any(|key| match key.shape {
        _ if key.secret => key.name == name,
        KeyShape::Section(keys) | KeyShape::Named(keys) => has_secret(name, keys),
        KeyShape::SectionAndNamed(own, named) => has_secret(name, own) || has_secret(name, named),
        KeyShape::Value(_) | KeyShape::Open => false,
    })
}

/// A URL with a password in it.
fn credentials(value: &Spanned<DeValue<'_>>) -> Option<Range<usize>> {
    let text = value.get_ref().as_str()?;
    (text.contains("://") && text.contains('@')).then(|| value.span())
}

/// From each mark to the end of its line.
fn marked(text: &str) -> Vec<Range<usize>> {
    let found = MARKS.iter().flat_map(|mark| text.match_indices(mark).map(|(at, _)| at));
    found.map(|at| at..text[at..].find('\n').map_or(text.len(), |end| at + end)).collect()
}

#[cfg(test)]
mod tests {
    use super::veiled;

    #[test]
    fn secrets_are_starred_out_in_place() {
        // F11
        let text = "[store]\nurl = 'postgres://joe:hunter2@db/x' # é\n[alerts]\nsecrets = [\n  'abc', 'whsec_a'\n]\n\
                    webhook = 'https://h/T0p'\ngap = 1\n[signing]\nkeys = ['a:hush']\n";
        let veil = veiled(text);
        assert_eq!(veil.len(), text.len());
        for secret in ["hunter2", "abc", "whsec_", "T0p", "hush"] {
            assert!(!veil.contains(secret), "{secret} in {veil}");
        }
        assert!(veil.contains("[alerts]\nsecrets = *\n") && veil.contains("gap = 1"), "{veil}");
        let broken = "[alerts\nsecrets = ['whsec_MfKQ9']\ngap = 1";
        assert_eq!(veiled(broken), "[alerts\nsecrets =****************\ngap = 1");
        let broken = "[signing\nkeys = [\n  'k1:AAAA=',\n  \"k2:BBBB==\"\n]\nrequired = true\n\
                      [encryption]\nkeys=['s1:CC']\n";
        let veil = veiled(broken);
        assert_eq!(veil.len(), broken.len());
        for secret in ["AAAA", "BBBB", "CC"] {
            assert!(!veil.contains(secret), "{secret} in {veil}");
        }
        assert!(veil.contains("required = true\n[encryption]\nkeys="), "{veil}");
    }
}
