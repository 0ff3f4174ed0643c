//! What a transaction could see: every transaction below a number, except those that were open.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

/// What could be seen at one moment, as PostgreSQL writes it: `xmin:xmax:open,open`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TransactionSnapshot {
    /// Nothing from here on was seen.
    end: i64,
    /// Nor were these, all of them below `end`.
    open: BTreeSet<i64>,
}

impl TransactionSnapshot {
    /// Takes a transaction out of what was seen.
    pub(crate) fn unsee(&mut self, xid: i64) {
        if xid < self.end {
            self.open.insert(xid);
        }
    }

    /// What both saw.
    pub(crate) fn common(&self, other: &Self) -> Self {
        let end = self.end.min(other.end);
        let open = self.open.union(&other.open).copied().filter(|xid| *xid < end);
        Self { end, open: open.collect() }
    }
}

#[cfg(test)]
impl TransactionSnapshot {
    /// Everything below `end` but these.
    pub(crate) fn below(end: i64, open: impl IntoIterator<Item = i64>) -> Self {
        Self { end, open: open.into_iter().collect() }
    }

    /// True when the transaction was seen.
    pub(crate) fn sees(&self, xid: i64) -> bool {
        xid < self.end && !self.open.contains(&xid)
    }

    /// Every transaction below this was seen.
    pub(crate) fn first(&self) -> i64 {
        self.open.first().copied().unwrap_or(self.end)
    }
}

impl fmt::Display for TransactionSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.open.first().copied().unwrap_or(self.end);
        write!(f, "{first}:{}:", self.end)?;
        for (number, xid) in self.open.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{xid}")?;
        }
        Ok(())
    }
}

impl FromStr for TransactionSnapshot {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let odd = || format!("`{text}` is not a snapshot of PostgreSQL");
        let mut parts = text.splitn(3, ':');
        let mut part = || parts.next().ok_or_else(odd);
        let (_, end, open) = (part()?, part()?, part()?);
        let number = |text: &str| text.parse::<i64>().map_err(|_| odd());
        let open = open.split(',').filter(|text| !text.is_empty()).map(number);
        Ok(Self { end: number(end)?, open: open.collect::<Result<_, _>>()? })
    }
}

impl<'de> Deserialize<'de> for TransactionSnapshot {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> TransactionSnapshot {
        text.parse().expect(text)
    }

    #[test]
    fn a_snapshot_is_written_as_it_was_read() {
        for text in ["7:7:", "3:9:3,5,8", "8:9:8", "10:20:10,14,15"] {
            assert_eq!(snapshot(text).to_string(), text);
        }
        for text in ["", "7", "7:7", "a:b:c", "7:7:x"] {
            assert!(text.parse::<TransactionSnapshot>().is_err(), "{text}");
        }
    }

    #[test]
    fn own_transactions_are_not_seen() {
        let mut seen = snapshot("9:9:");
        seen.unsee(9);
        assert_eq!(seen, snapshot("9:9:"), "it was not below the end");
        seen.unsee(4);
        assert_eq!(seen.to_string(), "4:9:4");
    }

    #[test]
    fn what_both_saw_is_what_neither_missed() {
        let (one, other) = (snapshot("3:9:3,5"), snapshot("5:7:5,6"));
        assert_eq!(one.common(&other), snapshot("3:7:3,5,6"));
        assert_eq!(one.common(&one), one);
    }
}
