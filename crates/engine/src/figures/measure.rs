//! Counts and times by label, with a bound on how many labels there are.
//!
//! Owns the cells that are counted up and the snapshot that is read. It must not know what is measured.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Distinct values of one label that are told apart; the rest is counted as [`OTHER`]. Names come from submits, and a
/// name per customer must not become a series per customer.
const MOST_NAMES: usize = 200;

/// The label of what came after the first [`MOST_NAMES`].
const OTHER: &str = "other";

/// Bounds for what takes milliseconds: calls to the store, requests. In microseconds.
pub const SHORT: &[u64] = &[
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    10_000_000,
];

/// Bounds for what may take hours: waits, runs. In microseconds.
pub const LONG: &[u64] = &[
    1_000,
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    15_000_000,
    60_000_000,
    300_000_000,
    900_000_000,
    3_600_000_000,
    14_400_000_000,
];

/// Figures of one sort, as they are read.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Its name, with its unit.
    pub name: &'static str,
    /// What it tells, in one sentence.
    pub help: &'static str,
    /// What sort of figure it is.
    pub sort: Sort,
    /// The figures.
    pub samples: Vec<Sample>,
}

/// Sorts of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// It only grows while the process lives.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How often something took how long.
    Histogram,
}

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Names and values of its labels.
    pub labels: Vec<(&'static str, Arc<str>)>,
    /// The figure.
    pub value: FigureValue,
}

/// What a figure says.
#[derive(Debug, Clone, PartialEq)]
pub enum FigureValue {
    /// A number.
    Number(f64),
    /// A histogram.
    Times {
        /// Upper bounds in microseconds, each with how many took that long or less.
        up_to: Vec<(u64, u64)>,
        /// How many there were.
        count: u64,
        /// How long they took together, in microseconds.
        sum: u64,
    },
}

impl Family {
    /// Figures that go up and down, or were counted elsewhere.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str, sort: Sort, samples: Vec<Sample>) -> Self {
        Self { name, help, sort, samples }
    }
}

impl Sample {
    /// A number.
    #[must_use]
    pub fn number(labels: Vec<(&'static str, Arc<str>)>, value: f64) -> Self {
        Self { labels, value: FigureValue::Number(value) }
    }
}

/// A whole number as figures are written. Above 2^53 the last digits blur, which no reader of a figure minds.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "see above")]
pub const fn float(number: u64) -> f64 {
    number as f64
}

/// Something that is counted up from many threads.
pub trait FigureCell: Send + Sync {
    /// What it says now.
    fn value(&self) -> FigureValue;
}

impl FigureCell for AtomicU64 {
    fn value(&self) -> FigureValue {
        FigureValue::Number(float(self.load(Ordering::Relaxed)))
    }
}

/// How often something took how long.
#[derive(Debug)]
pub struct Times {
    bounds: &'static [u64],
    /// One per bound and one for what took longer.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Times {
    fn new(bounds: &'static [u64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    fn add(&self, span: Duration) {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let at = self.bounds.partition_point(|bound| *bound < micros);
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(micros, Ordering::Relaxed);
    }
}

impl FigureCell for Times {
    fn value(&self) -> FigureValue {
        let mut count = 0;
        let mut up_to = Vec::with_capacity(self.bounds.len());
        for (at, cell) in self.counts.iter().enumerate() {
            count += cell.load(Ordering::Relaxed);
            up_to.extend(self.bounds.get(at).map(|bound| (*bound, count)));
        }
        FigureValue::Times { up_to, count, sum: self.sum.load(Ordering::Relaxed) }
    }
}

/// By name, each with its words.
type Cells<T> = HashMap<Arc<str>, Vec<(Arc<str>, Arc<T>)>>;

/// Cells by a name and a word. Names are bounded in number; words must come from a list that is.
#[derive(Debug)]
pub struct Labelled<T> {
    labels: [&'static str; 2],
    cells: RwLock<Cells<T>>,
}

impl<T: FigureCell> Labelled<T> {
    /// No cells yet. The labels are those of the name and of the word; an empty one is left out.
    #[must_use]
    pub fn new(labels: [&'static str; 2]) -> Self {
        Self { labels, cells: RwLock::default() }
    }

    fn cell(&self, name: &str, word: &str, make: impl FnOnce() -> T) -> Arc<T> {
        let find = |cells: &Cells<T>, name: &str| {
            cells.get(name)?.iter().find(|(one, _)| **one == *word).map(|(_, cell)| cell.clone())
        };
        if let Some(cell) = find(&self.cells.read().unwrap_or_else(PoisonError::into_inner), name) {
            return cell;
        }
        let mut cells = self.cells.write().unwrap_or_else(PoisonError::into_inner);
        let name = if cells.contains_key(name) || cells.len() < MOST_NAMES { name } else { OTHER };
        if let Some(cell) = find(&cells, name) {
            return cell;
        }
        let cell = Arc::new(make());
        cells.entry(name.into()).or_default().push((word.into(), cell.clone()));
        cell
    }

    /// What the cells say now, by name and word.
    pub fn samples(&self) -> Vec<Sample> {
        let cells = self.cells.read().unwrap_or_else(PoisonError::into_inner);
        let mut rows: Vec<_> = cells
            .iter()
            .flat_map(|(name, words)| {
                words.iter().map(move |(word, cell)| (name.clone(), word.clone(), cell))
            })
            .collect();
        rows.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        let sample = |(name, word, cell): (Arc<str>, Arc<str>, &Arc<T>)| {
            let both = self.labels.into_iter().zip([name, word]);
            Sample { labels: both.filter(|(label, _)| !label.is_empty()).collect(), value: cell.value() }
        };
        rows.into_iter().map(sample).collect()
    }
}

impl Labelled<AtomicU64> {
    /// Counts up.
    pub fn add(&self, name: &str, word: &str, count: u64) {
        self.cell(name, word, AtomicU64::default).fetch_add(count, Ordering::Relaxed);
    }
}

impl Labelled<Times> {
    /// Counts one that took so long; `bounds` are those of the first one with this name and word.
    pub fn add(&self, name: &str, word: &str, bounds: &'static [u64], span: Duration) {
        self.cell(name, word, || Times::new(bounds)).add(span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_bound_are_counted_together() {
        // V3
        let counts = Labelled::<AtomicU64>::new(["kind", "cause"]);
        for at in 0..1_000 {
            counts.add(&format!("kind-{at}"), "error", 1);
        }
        counts.add("kind-7", "timeout", 5);
        counts.add("kind-999", "timeout", 5);
        let samples = counts.samples();
        assert_eq!(samples.len(), MOST_NAMES + 1 + 2, "the names, the rest, and two more words");
        let of = |name: &str, word: &str| {
            let labels = vec![("kind", name.into()), ("cause", word.into())];
            samples.iter().find(|sample| sample.labels == labels).map(|sample| sample.value.clone())
        };
        assert_eq!(of("kind-7", "timeout"), Some(FigureValue::Number(5.0)));
        assert_eq!(of(OTHER, "error"), Some(FigureValue::Number(800.0)));
        assert_eq!(of(OTHER, "timeout"), Some(FigureValue::Number(5.0)));
    }

    #[test]
    fn times_are_counted_up_to_their_bounds() {
        // V3
        let times = Times::new(&[10, 100]);
        for micros in [1, 10, 11, 100, 101, 5_000] {
            times.add(Duration::from_micros(micros));
        }
        let expected = FigureValue::Times { up_to: vec![(10, 2), (100, 4)], count: 6, sum: 5_223 };
        assert_eq!(times.value(), expected);
    }
}
