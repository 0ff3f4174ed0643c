//! When a run has rejected too much.

/// How many items a run may reject; more fail it. Nothing is limited unless it is said.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RejectLimit {
    /// Items at most.
    pub most: Option<u64>,
    /// Percent of the items that the run has seen, at most.
    pub percent: Option<f64>,
}

impl RejectLimit {
    /// No limit.
    pub const NONE: Self = Self { most: None, percent: None };

    /// So many items at most; 0 fails the run with the first one.
    #[must_use]
    pub const fn most(mut self, items: u64) -> Self {
        self.most = Some(items);
        self
    }

    /// So many percent of the items that the run has seen at most.
    #[must_use]
    pub const fn percent(mut self, percent: f64) -> Self {
        self.percent = Some(percent);
        self
    }

    /// What is said here, and for the rest what `other` says.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { most: self.most.or(other.most), percent: self.percent.or(other.percent) }
    }

    /// Refuses a percentage that is none.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<(), String> {
        match self.percent {
            Some(percent) if !(0.0..=100.0).contains(&percent) => {
                Err(format!("{percent} is not a percentage: it is between 0 and 100"))
            }
            _ => Ok(()),
        }
    }

    /// Why so many rejects are too many; none when they are not. The share is judged when the run has `ended`: before
    /// that, one bad item among the first few would be half of all.
    #[must_use]
    pub fn exceeded(&self, rejected: u64, seen: u64, ended: bool) -> Option<String> {
        if rejected == 0 {
            return None;
        }
        if let Some(most) = self.most.filter(|most| rejected > *most) {
            return Some(format!("the run has rejected {rejected} items, and its limit is {most}"));
        }
        let percent = self.percent.filter(|_| ended)?;
        // Whoever has rejected an item has seen it, whatever else was told.
        let all = seen.max(rejected);
        #[expect(clippy::cast_precision_loss, reason = "shares of more than 2^53 items need no more digits")]
        let share = rejected as f64 * 100.0 / all as f64;
        let untold = if seen == 0 { ", and its handler has not told how many it has seen" } else { "" };
        (share > percent).then(|| {
            format!("the run has rejected {rejected} of {all} items{untold}; its limit is {percent} percent")
        })
    }
}
