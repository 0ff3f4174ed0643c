//! Pages, and the lanes that a filter allows.

use backstop_core::Limits;
use backstop_core::job::State;
use backstop_core::tenant;

use super::{LaneCounts, Roster};
use crate::{Error, JobFilter, Page};

/// Refuses a page that is too large.
///
/// # Errors
/// [`Error::TooMany`].
pub fn page_limit(limit: usize) -> Result<(), Error> {
    let most = Limits::default().page;
    if limit > most {
        return Err(Error::TooMany { what: "the page", actual: limit, limit: most });
    }
    Ok(())
}

/// Cuts the one row too many that was read to see whether more follow.
pub fn cut<T, K>(mut items: Vec<T>, limit: usize, key: impl Fn(&T) -> K) -> Page<T, K> {
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().map(key).filter(|_| more);
    Page { items, next }
}

/// The lanes that a filter allows, and what its state means in them.
#[derive(Debug)]
pub struct Scope {
    /// Numbers of the lanes; none when every lane is allowed.
    pub allowed: Option<Vec<i64>>,
    /// When waiting jobs are asked for: the lanes whose pending jobs are shown as waiting (H10).
    pub held: Vec<i64>,
    /// Pending jobs in the allowed lanes.
    pub pending: u64,
    /// True when no job can match.
    pub empty: bool,
}

impl Scope {
    /// What `filter` means for these lanes.
    #[must_use]
    pub fn of(filter: &JobFilter, lanes: &[LaneCounts], roster: &Roster) -> Self {
        let named = |counts: &&LaneCounts| {
            filter.queue.as_deref().is_none_or(|queue| queue == &*counts.lane.queue)
                && filter.tenant.as_deref().is_none_or(|name| name == tenant::shown(&counts.lane.queue))
                && filter.kind.as_deref().is_none_or(|kind| kind == &*counts.lane.kind)
        };
        let held = |counts: &&LaneCounts| counts.pending > 0 && counts.is_held(roster);
        let open: Vec<&LaneCounts> = lanes
            .iter()
            .filter(named)
            .filter(|counts| filter.state != Some(State::Pending) || !held(counts))
            .collect();
        let waiting = filter.state == Some(State::Waiting);
        let ids = |lanes: &[&LaneCounts]| lanes.iter().map(|counts| counts.id).collect::<Vec<_>>();
        Self {
            empty: open.is_empty(),
            allowed: (open.len() < lanes.len()).then(|| ids(&open)),
            pending: open.iter().map(|counts| counts.pending).sum(),
            held: if waiting { ids(&open.into_iter().filter(held).collect::<Vec<_>>()) } else { Vec::new() },
        }
    }
}
