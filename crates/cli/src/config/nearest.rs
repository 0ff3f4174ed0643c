//! The known word that a mistyped one probably meant.

/// The nearest of `known`, unless all of them are something else altogether.
pub(crate) fn nearest<'k>(given: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let given: Vec<char> = given.to_lowercase().chars().take(64).collect();
    let ranked = known.into_iter().map(|word| (distance(&given, &word.chars().collect::<Vec<_>>()), word));
    let (steps, word) = ranked.min()?;
    // A third of the word may be wrong; beyond that a guess would only confuse.
    (steps <= word.chars().count().max(given.len()).div_ceil(3)).then_some(word)
}

/// Insertions, deletions, replacements and swaps of neighbours that lead from one word to the other.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let replaced = above[j] + usize::from(a != b);
            let mut best = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == to[j - 1] && from[i - 1] == *b {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typing_error_finds_its_word() {
        let known = ["concurrency", "kinds", "timeout", "timeout_ms", "retry"];
        for (given, expected) in [
            ("concurency", Some("concurrency")),
            ("Kinds", Some("kinds")),
            ("tiemout", Some("timeout")),
            ("retries", Some("retry")),
            ("zzzzzz", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, known), expected, "{given}");
        }
    }
}
