//! Versions of the application's code, compared as people mean them (D7).
//!
//! Applications number their code in many ways: `1.10.0`, `v2`, `2026.11.15-3`, `1.4.0-rc.2`, a commit's hash. So a
//! version is read as a row of numbers and words, not by one standard.

use std::cmp::Ordering;

/// True when code of version `have` is the version `need` or a later one.
///
/// Numbers count as numbers, so `1.10` is later than `1.9`. A version with a suffix behind `-` comes before the one
/// without, so `1.4.0-rc.2` is not yet `1.4.0`. Names that are not versions at all, such as hashes, are only equal or
/// not.
///
/// ```
/// use backstop_core::version::at_least;
/// assert!(at_least("1.10.0", "1.9.3"));
/// assert!(!at_least("1.4.0-rc.2", "1.4.0"));
/// ```
#[must_use]
pub fn at_least(have: &str, need: &str) -> bool {
    compare(have, need).is_some_and(Ordering::is_ge)
}

/// How two versions stand to each other; none when at least one of them is no version and they differ.
#[must_use]
pub fn compare(a: &str, b: &str) -> Option<Ordering> {
    let (a, b) = (a.trim(), b.trim());
    if a == b {
        return Some(Ordering::Equal);
    }
    let (a, b) = (Version::read(a)?, Version::read(b)?);
    let release = compare_numbers(&a.release, &b.release);
    Some(release.then_with(|| match (a.suffix, b.suffix) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(a), Some(b)) => compare_suffixes(a, b),
    }))
}

/// The later of two versions; one that is no version gives way.
#[must_use]
pub fn later<'a>(a: &'a str, b: &'a str) -> &'a str {
    match (compare(a, b), Version::read(a).is_some()) {
        (Some(Ordering::Less), _) | (None, false) => b,
        _ => a,
    }
}

struct Version<'a> {
    release: Vec<u64>,
    suffix: Option<&'a str>,
}

impl<'a> Version<'a> {
    /// Reads `v1.2.3-suffix+build`; none when the release is not made of numbers.
    fn read(text: &'a str) -> Option<Self> {
        let text = text.strip_prefix(['v', 'V']).unwrap_or(text);
        // What follows a plus names a build of the same version.
        let text = text.split('+').next().unwrap_or(text);
        let (release, suffix) = match text.split_once('-') {
            Some((release, suffix)) => (release, Some(suffix)),
            None => (text, None),
        };
        let release = release.split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u64>>>()?;
        Some(Self { release, suffix })
    }
}

/// `1.2` and `1.2.0` are the same release.
fn compare_numbers(a: &[u64], b: &[u64]) -> Ordering {
    let part = |list: &[u64], at: usize| list.get(at).copied().unwrap_or(0);
    let parts = a.len().max(b.len());
    (0..parts).map(|at| part(a, at).cmp(&part(b, at))).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn compare_suffixes(a: &str, b: &str) -> Ordering {
    let split = |text| str::split(text, ['.', '-']);
    let (mut a, mut b) = (split(a), split(b));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (a, b) if a.is_none() || b.is_none() => a.cmp(&b),
            (a, b) => compare_words(a.unwrap_or_default(), b.unwrap_or_default()),
        };
        if order.is_ne() {
            return order;
        }
    }
}

fn compare_words(a: &str, b: &str) -> Ordering {
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_people_mean_them() {
        // D7: each line is later than the one before it.
        let rising =
            ["0.9", "1.2.0-rc.1", "1.2.0-rc.2", "1.2.0-rc.10", "1.2", "1.9.3", "v1.10", "2", "2026.11.15"];
        for (at, earlier) in rising.iter().enumerate() {
            for (other, later) in rising.iter().enumerate() {
                assert_eq!(at_least(later, earlier), other >= at, "{later} >= {earlier}");
            }
        }
    }

    #[test]
    fn equal_versions_can_be_written_in_several_ways() {
        for (a, b) in
            [("1.2", "1.2.0"), ("v1.2", "1.2"), ("1.2+build.7", "1.2"), (" 1.2 ", "1.2"), ("abc", "abc")]
        {
            assert_eq!(compare(a, b), Some(Ordering::Equal), "{a} = {b}");
        }
    }

    #[test]
    fn hashes_are_equal_or_nothing() {
        // D7: what cannot be compared is not new enough.
        assert!(!at_least("9f3c2ab", "1.2"));
        assert!(!at_least("1.2", "9f3c2ab"));
        assert!(!at_least("9f3c2ab", "9f3c2ac"));
        assert!(at_least("9f3c2ab", "9f3c2ab"));
        assert!(!at_least("", "1"));
        assert!(!at_least("1.99999999999999999999999", "1.2"), "too large to be a number");
    }

    #[test]
    fn the_later_one_is_kept() {
        assert_eq!(later("1.2", "1.10"), "1.10");
        assert_eq!(later("1.10", "1.2"), "1.10");
        assert_eq!(later("nonsense", "1.2"), "1.2");
        assert_eq!(later("1.2", "nonsense"), "1.2");
    }
}
