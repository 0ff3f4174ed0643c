//! Listing jobs by any combination of conditions, from the source that reads least.

use backstop_core::JobId;
use backstop_core::job::{JobView, State};
use backstop_store::show::{self, Scope};
use backstop_store::{JobFilter, Page, PageRequest};

use crate::error::Failure;
use crate::query::{lane_counts, views};
use crate::rows::status_code;
use crate::session::{Query, Session};
use crate::sql;
use crate::unit::Unit;
use crate::values::Value;
use crate::worker::{grips, roster};

/// Below this many pending jobs, sorting all of them is cheaper than looking for them among the others.
const FEW: u64 = 20_000;

/// A query under construction: where it reads and what must hold, with the lists of values in each condition.
struct Listing {
    source: &'static str,
    conditions: Vec<&'static str>,
    lists: Vec<Vec<Value>>,
}

impl Listing {
    fn must(&mut self, condition: &'static str, lists: impl IntoIterator<Item = Vec<Value>>) {
        self.conditions.push(condition);
        self.lists.extend(lists);
    }

    /// Adds a condition on one value, as the source of the rows while there is none better.
    fn narrow(&mut self, by: &Narrowing, value: Option<Value>) {
        let list = value.map(|value| vec![value]);
        if self.source == sql::LIST_ALL {
            self.source = by.source;
            self.must(by.as_source, list);
        } else {
            self.must(by.otherwise, list);
        }
    }

    fn into_query(mut self, limit: usize) -> Query {
        if self.conditions.is_empty() {
            self.conditions.push(sql::ALWAYS);
        }
        self.lists.push(vec![Value::count(limit)]);
        let text = [self.source, sql::WHERE, &self.conditions.join(sql::AND), sql::LIST_END].concat();
        Query::listed(&text, self.lists)
    }
}

/// A condition that can be where the rows come from.
struct Narrowing {
    source: &'static str,
    as_source: &'static str,
    otherwise: &'static str,
}

const BY_FINGERPRINT: Narrowing = Narrowing {
    source: sql::LIST_BY_FINGERPRINT,
    as_source: sql::WHERE_FINGERPRINT,
    otherwise: sql::WHERE_FAILED_BY,
};
const BY_TAG: Narrowing =
    Narrowing { source: sql::LIST_BY_TAG, as_source: sql::WHERE_TAG, otherwise: sql::WHERE_TAGGED };
const READY: Narrowing =
    Narrowing { source: sql::LIST_READY, as_source: sql::ALWAYS, otherwise: sql::WHERE_READY };
const DONE: Narrowing =
    Narrowing { source: sql::LIST_DONE, as_source: sql::ALWAYS, otherwise: sql::WHERE_DONE };
const SHELF: Narrowing =
    Narrowing { source: sql::LIST_SHELF, as_source: sql::WHERE_SHELF, otherwise: sql::WHERE_SHELVED };

/// Lists jobs, newest id first.
pub(crate) async fn list(
    unit: &mut Unit,
    filter: &JobFilter,
    page: PageRequest<JobId>,
) -> Result<Page<JobView, JobId>, Failure> {
    show::page_limit(page.limit)?;
    let now = unit.now().await?;
    let roster = roster(unit, now).await?;
    let scope = Scope::of(filter, &lane_counts(unit).await?, &roster);
    if scope.empty || page.limit == 0 {
        return Ok(Page { items: Vec::new(), next: None });
    }
    let running: Vec<JobId> = if filter.state == Some(State::Running) {
        grips(unit).await?.iter().flat_map(|grip| grip.held().map(|(job, _)| job)).collect()
    } else {
        Vec::new()
    };
    let listing = listing(filter, &scope, &running, page.after);
    let rows = unit.one(listing.into_query(page.limit + 1)).await?;
    let ids = rows.into_iter().map(|mut row| row.job()).collect::<Result<Vec<_>, _>>()?;
    let views = views(unit, &ids, &roster).await?.into_iter().flatten().collect();
    Ok(show::cut(views, page.limit, |view: &JobView| view.job.spec.id))
}

fn listing(filter: &JobFilter, scope: &Scope, running: &[JobId], after: Option<JobId>) -> Listing {
    let mut listing = Listing { source: sql::LIST_ALL, conditions: Vec::new(), lists: Vec::new() };
    if let Some(key) = &filter.business_key {
        listing.must(sql::WHERE_KEY, [vec![Value::text(key)]]);
    }
    if let Some(fingerprint) = &filter.fingerprint {
        listing.narrow(&BY_FINGERPRINT, Some(Value::text(fingerprint)));
    }
    if let Some(tag) = &filter.tag {
        listing.narrow(&BY_TAG, Some(Value::text(tag)));
    }
    if let Some(state) = filter.state {
        by_state(&mut listing, state, scope, running);
    }
    if let Some(lanes) = &scope.allowed {
        listing.must(sql::WHERE_LANES, [Value::ints(lanes.iter().copied())]);
    }
    let mut also = |condition, value: Option<Value>| {
        if let Some(value) = value {
            listing.must(condition, [vec![value]]);
        }
    };
    also(sql::WHERE_REASON, filter.reason.map(|reason| Value::text(reason.as_str())));
    also(sql::WHERE_AFTER, after.map(Value::job));
    also(sql::WHERE_CREATED_AFTER, filter.created_after.map(Value::at));
    also(sql::WHERE_CREATED_BEFORE, filter.created_before.map(Value::at));
    listing
}

/// Adds the condition on the state that is shown, and the source for it when nothing narrower was asked for.
fn by_state(listing: &mut Listing, state: State, scope: &Scope, running: &[JobId]) {
    match state {
        State::Waiting if !scope.held.is_empty() => {
            listing.must(sql::WHERE_WAITING_OR_HELD, [Value::ints(scope.held.iter().copied())]);
        }
        State::Pending if scope.pending <= FEW => listing.narrow(&READY, None),
        State::Pending => listing.must(sql::WHERE_READY, None),
        State::Running => listing.must(sql::WHERE_RUNNING, [Value::jobs(running)]),
        State::Succeeded => listing.narrow(&DONE, None),
        State::Failed | State::Paused | State::Canceled | State::Waiting => {
            listing.narrow(&SHELF, Some(Value::int(status_code(state))));
        }
    }
}
