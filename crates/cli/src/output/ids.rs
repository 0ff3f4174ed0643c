//! Ids as tables show them: no longer than it takes to tell the rows apart. Commands accept them as they stand there.

use backstop::JobId;

/// Characters that are shown at least.
const SHORTEST: usize = 8;

/// Each id cut to one length, at which no two of them look the same.
pub(crate) fn short_ids(ids: impl IntoIterator<Item = JobId>) -> Vec<String> {
    let whole: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
    let mut sorted: Vec<&String> = whole.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let alike = |pair: &[&String]| pair[0].bytes().zip(pair[1].bytes()).take_while(|(a, b)| a == b).count();
    let length = sorted.windows(2).map(|pair| alike(pair) + 1).max().unwrap_or(0).max(SHORTEST);
    whole.iter().map(|id| id.chars().take(length).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_as_long_as_it_takes_to_tell_them_apart() {
        let id = |text: &str| text.parse().expect("an id");
        let (a, b) = ("0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f", "0190b8a2-7c1f-7d3a-9f00-5c1b2a3d4e5f");
        let c = "01a0b8a2-7c1f-7d3a-9f00-5c1b2a3d4e5f";
        for (ids, expected) in [
            (&[][..], &[][..]),
            (&[a], &["0190b8a2"]),
            (&[a, c], &["0190b8a2", "01a0b8a2"]),
            (&[b, a, c], &["0190b8a2-7c1f", "0190b8a2-7c1e", "01a0b8a2-7c1f"]),
            (&[a, a], &["0190b8a2", "0190b8a2"]),
        ] {
            assert_eq!(short_ids(ids.iter().map(|text| id(text))), expected, "{ids:?}");
        }
    }
}
