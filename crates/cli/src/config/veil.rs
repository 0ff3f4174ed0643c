//! A configuration file as a problem may quote it: what is secret is starred out, and everything keeps its place.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::schema::{FILE, Key, Shape};

/// Words that begin a secret wherever they stand, also in a file that is no TOML.
const MARKS: [&str; 2] = ["whsec_", "bks_"];

/// The text with stars in place of secrets, of the same length to the byte.
pub(super) fn veiled(text: &str) -> String {
    let mut places = Vec::new();
    if let Ok(table) = DeTable::parse(text) {
        section(table.get_ref(), FILE, &mut places);
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

fn section(table: &DeTable<'_>, keys: &'static [Key], places: &mut Vec<Range<usize>>) {
    for (name, value) in table {
        let known = keys.iter().find(|key| key.name == name.get_ref());
        match (known, value.get_ref().as_table()) {
            (Some(key), _) if key.secret => places.push(value.span()),
            (Some(Key { shape: Shape::Section(keys), .. }), Some(table)) => section(table, keys, places),
            (Some(Key { shape: Shape::Named(keys), .. }), Some(table)) => {
                let named = table.iter().filter_map(|(_, value)| value.get_ref().as_table());
                named.for_each(|table| section(table, keys, places));
            }
            _ => places.extend(credentials(value)),
        }
    }
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
                    webhook = 'https://h/T0p'\ngap = 1\n[signing]\nkeys = { a = 'hush' }\n";
        let veil = veiled(text);
        assert_eq!(veil.len(), text.len());
        for secret in ["hunter2", "abc", "whsec_", "T0p", "hush"] {
            assert!(!veil.contains(secret), "{secret} in {veil}");
        }
        assert!(veil.contains("[alerts]\nsecrets = *\n") && veil.contains("gap = 1"), "{veil}");
        let broken = "[alerts\nsecrets = ['whsec_MfKQ9']\ngap = 1";
        assert_eq!(veiled(broken), "[alerts\nsecrets = ['*************\ngap = 1");
    }
}
