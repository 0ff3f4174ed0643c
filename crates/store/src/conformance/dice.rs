//! A small seeded generator: the same seed throws the same dice on every machine, for ever.

/// `SplitMix64`: one addition and three mixing steps a number.
#[derive(Debug, Clone)]
pub(super) struct SeededRandom(u64);

impl SeededRandom {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// An index below `len`.
    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.next() % len as u64).unwrap_or(0)
    }

    pub(super) fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }

    /// One of `items`, if there is one.
    pub(super) fn pick<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        if items.is_empty() { None } else { items.get(self.index(items.len())).cloned() }
    }

    /// One of `items`, which are a pool of the script and so never empty.
    pub(super) fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())]
    }
}
