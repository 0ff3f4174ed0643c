//! Runs of bytes that follow each other in a stream that arrives in pieces.

/// Waits for patterns, one after the other.
#[derive(Debug, Clone)]
pub(super) struct ByteSequence {
    patterns: Vec<Vec<u8>>,
    /// What came since the last pattern, as far as the next one may have begun in it.
    past: Vec<u8>,
}

impl ByteSequence {
    pub(super) fn new(patterns: &[&[u8]]) -> Self {
        let known = !patterns.is_empty() && patterns.iter().all(|pattern| !pattern.is_empty());
        assert!(known, "an empty pattern is part of everything");
        Self { patterns: patterns.iter().map(|pattern| pattern.to_vec()).collect(), past: Vec::new() }
    }

    /// Takes what came next; answers where in it the last pattern begins. One that began earlier begins at once.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut taken = 0;
        loop {
            let pattern = self.patterns.first()?;
            let before = self.past.len();
            self.past.extend_from_slice(&bytes[taken..]);
            let found = self.past.windows(pattern.len()).position(|window| window == pattern);
            let Some(at) = found else {
                let kept = (pattern.len() - 1).min(self.past.len());
                self.past.drain(..self.past.len() - kept);
                return None;
            };
            let (begins, ends) = (taken + at.saturating_sub(before), taken + at + pattern.len() - before);
            self.patterns.remove(0);
            self.past.clear();
            if self.patterns.is_empty() {
                return Some(begins);
            }
            taken = ends;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(patterns: &[&[u8]], pieces: &[&str]) -> Option<(usize, usize)> {
        let mut sequence = ByteSequence::new(patterns);
        let at = |(number, piece): (usize, &&str)| Some((number, sequence.feed(piece.as_bytes())?));
        pieces.iter().enumerate().find_map(at)
    }

    #[test]
    fn patterns_are_found_in_their_order_and_in_any_pieces() {
        let both: &[&[u8]] = &[b"job 7", b"COMMIT"];
        assert_eq!(found(both, &["COMMIT; job 7; COMMIT"]), Some((0, 15)));
        assert_eq!(found(both, &["job ", "7; COM", "MIT"]), Some((2, 0)));
        assert_eq!(found(both, &["job 7", " ", "x COMMIT"]), Some((2, 2)));
        assert_eq!(found(both, &["COMMIT", "job 7"]), None);
        assert_eq!(found(&[b"aa", b"aa"], &["aaa", "a"]), Some((1, 0)));
        assert_eq!(found(&[b"a", b"a", b"a"], &["xaa", "xa"]), Some((1, 1)));
    }
}
