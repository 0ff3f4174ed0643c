//! Maintenance duties and their leadership (L17).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::job::{Record, StoredJob};
use backstop_core::{JobId, Lease, Timestamp, WorkerId};

/// Work that one node at a time does for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Duty {
    /// Takes back what dead workers held.
    Rescue,
    /// Fails what could not start in time.
    Expire,
    /// Tells of jobs that no live worker knows.
    WatchCode,
    /// Moves what ended long ago out of the hot tables.
    Archive,
    /// Steps re-drive plans (D4).
    Redrive,
    /// Delivers alerts (D3).
    Alert,
    /// Removes archived jobs whose time is over (D5).
    Prune,
    /// Keeps counts cheap to read: see `WorkStore::fold`.
    Count,
    /// Fires schedules (W11).
    Schedule,
}

impl Duty {
    /// Every duty.
    pub const ALL: [Self; 9] = [
        Self::Rescue,
        Self::Expire,
        Self::WatchCode,
        Self::Archive,
        Self::Redrive,
        Self::Alert,
        Self::Prune,
        Self::Count,
        Self::Schedule,
    ];

    /// Its name, as stores keep it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rescue => "rescue",
            Self::Expire => "expire",
            Self::WatchCode => "watch_code",
            Self::Archive => "archive",
            Self::Redrive => "redrive",
            Self::Alert => "alert",
            Self::Prune => "prune",
            Self::Count => "count",
            Self::Schedule => "schedule",
        }
    }

    /// The duty of this name; none for one of a newer contract.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|duty| duty.as_str() == name)
    }
}

impl fmt::Display for Duty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The leadership of one duty. Its number grows with every change of leader, and every write shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// Which duty.
    pub duty: Duty,
    /// Which term.
    pub number: i64,
    /// Who leads.
    pub node: WorkerId,
    /// Until when, unless it is renewed.
    pub expires_at: Timestamp,
}

/// The latest term of every duty that was ever led, as they were at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// That moment, by the store's clock.
    pub now: Timestamp,
    /// The terms, by duty. One that has run out stays until somebody leads again.
    pub terms: Vec<Term>,
}

impl Terms {
    /// The latest term of a duty; none when nobody ever led it.
    #[must_use]
    pub fn of(&self, duty: Duty) -> Option<&Term> {
        self.terms.iter().find(|term| term.duty == duty)
    }

    /// How long nobody has led a duty: zero while somebody does, none when nobody ever did.
    #[must_use]
    pub fn unled(&self, duty: Duty) -> Option<Duration> {
        self.of(duty).map(|term| self.now.since(term.expires_at))
    }
}

/// An unclaimed job whose time to start has passed (L19). The longest overdue come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Overdue {
    /// When it could have started at the latest.
    pub expires_at: Timestamp,
    /// The job.
    pub job: JobId,
}

/// A job whose worker has stopped renewing.
#[derive(Debug, Clone)]
pub struct Orphan {
    /// The job.
    pub job: Arc<StoredJob>,
    /// Its record.
    pub record: Record,
    /// The hold that was lost.
    pub lease: Lease,
    /// The version of the dead worker's code, if it is still known.
    pub code_version: Option<Arc<str>>,
}
