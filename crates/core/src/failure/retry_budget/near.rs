//! The bookings of the next 4,096 seconds, with the first one that has room found in a dozen steps.
//!
//! A tree of minima over a ring: the leaf of a second is its number modulo the size, so that time moves on by
//! overwriting the seconds that have passed.

/// Seconds in the ring: an hour, which is how far ahead a retry is booked, the slack of a clock, and the rest
/// of a power of two.
pub(super) const SECONDS: i64 = 4_096;
const SIZE: usize = 4_096;

/// Bookings by second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NearBookings {
    /// A complete binary tree: the root at 1, the children of `n` at `2n` and `2n + 1`, the leaves from `SIZE`.
    /// Each inner node is the smaller of its children.
    least: Vec<u32>,
}

impl NearBookings {
    pub(super) fn empty() -> Self {
        Self { least: vec![0; 2 * SIZE] }
    }

    pub(super) fn count(&self, second: i64) -> u32 {
        self.least[SIZE + slot_of(second)]
    }

    pub(super) fn set(&mut self, second: i64, count: u32) {
        let mut node = SIZE + slot_of(second);
        self.least[node] = count;
        while node > 1 {
            node /= 2;
            self.least[node] = self.least[2 * node].min(self.least[2 * node + 1]);
        }
    }

    /// The first of the seconds `from..end` with fewer than `rate` bookings. The range is within the ring.
    pub(super) fn first_below(&self, from: i64, end: i64, rate: u32) -> Option<i64> {
        let length = usize::try_from(end - from).ok().filter(|length| (1..=SIZE).contains(length))?;
        let first = slot_of(from);
        let before_wrap = (first + length).min(SIZE);
        let slot = self
            .search(1, 0..SIZE, &(first..before_wrap), rate)
            .or_else(|| self.search(1, 0..SIZE, &(0..first + length - before_wrap), rate))?;
        let ahead = (slot + SIZE - first) % SIZE;
        i64::try_from(ahead).ok().map(|ahead| from + ahead)
    }

    /// The first slot in `wanted` below `node`, which covers `covered`, that has room.
    fn search(
        &self,
        node: usize,
        covered: std::ops::Range<usize>,
        wanted: &std::ops::Range<usize>,
        rate: u32,
    ) -> Option<usize> {
        let apart = covered.end <= wanted.start || wanted.end <= covered.start;
        if apart || self.least[node] >= rate {
            return None;
        }
        if node >= SIZE {
            return Some(covered.start);
        }
        let middle = usize::midpoint(covered.start, covered.end);
        self.search(2 * node, covered.start..middle, wanted, rate)
            .or_else(|| self.search(2 * node + 1, middle..covered.end, wanted, rate))
    }
}

fn slot_of(second: i64) -> usize {
    usize::try_from(second.rem_euclid(SECONDS)).unwrap_or_default()
}
