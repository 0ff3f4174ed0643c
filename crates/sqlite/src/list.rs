//! Listing jobs by any combination of conditions, from the source that reads least.

use backstop_core::job::{JobView, State};
use backstop_core::{JobId, Timestamp};
use backstop_store::show::{self, Scope};
use backstop_store::{JobFilter, Page, PageRequest};
use rusqlite::ToSql;

use crate::error::Failure;
use crate::query::Snapshot;
use crate::rows::{self, status_code};
use crate::sql;
use crate::worker::roster;

/// Below this many pending jobs, sorting all of them is cheaper than looking for them among the others.
const FEW: u64 = 20_000;

/// A query under construction: where it reads, what must hold, and the values.
pub(crate) struct Listing {
    source: &'static str,
    /// True when the source is the index of failures and has them in the order of their jobs' ids.
    walks_failures: bool,
    conditions: Vec<&'static str>,
    values: Vec<(&'static str, Box<dyn ToSql>)>,
}

impl Listing {
    fn must(&mut self, condition: &'static str) {
        self.conditions.push(condition);
    }

    fn value(&mut self, name: &'static str, value: impl ToSql + 'static) {
        self.values.push((name, Box::new(value)));
    }

    /// Adds a condition on one value, as the source of the rows while there is none better.
    fn narrow(
        &mut self,
        source: &'static str,
        as_source: &'static str,
        otherwise: &'static str,
        name: &'static str,
        value: &str,
    ) {
        if self.source == sql::LIST_BY_ID {
            self.source = source;
            self.must(as_source);
        } else {
            self.must(otherwise);
        }
        self.value(name, value.to_owned());
    }

    /// The query that reads `what` of each job.
    pub(crate) fn text(&self, what: &str) -> String {
        let conditions =
            if self.conditions.is_empty() { "1".to_owned() } else { self.conditions.join(" AND ") };
        let end = if self.walks_failures { sql::LIST_END_FAILED } else { sql::LIST_END };
        format!("{what} {} WHERE {conditions} {end}", self.source)
    }

    /// The values of its conditions.
    pub(crate) fn bound(&self) -> Vec<(&str, &dyn ToSql)> {
        self.values.iter().map(|(name, value)| (*name, &**value)).collect()
    }
}

impl Snapshot<'_> {
    /// Lists jobs, newest id first.
    pub(crate) fn list(
        &mut self,
        filter: &JobFilter,
        page: PageRequest<JobId>,
    ) -> Result<Page<JobView, JobId>, Failure> {
        show::page_limit(page.limit)?;
        let limit = rows::limit(page.limit);
        let roster = roster(self.conn, self.now)?;
        let scope = Scope::of(filter, &self.lane_counts()?, &roster);
        if scope.empty || limit == 0 {
            return Ok(Page { items: Vec::new(), next: None });
        }
        let listing = self.listing(filter, &scope, page.after, limit + 1)?;
        let mut select = self.conn.prepare_cached(&listing.text(sql::LIST))?;
        let seqs: Vec<i64> = rows::collect(&mut select, &listing.bound()[..], |row| Ok(row.get(0)?))?;
        let views = seqs.into_iter().map(|seq| self.view(&roster, seq)).collect::<Result<Vec<_>, _>>()?;
        Ok(show::cut(views, page.limit, |view| view.job.spec.id))
    }

    /// The query for a filter in its scope.
    pub(crate) fn listing(
        &self,
        filter: &JobFilter,
        scope: &Scope,
        after: Option<JobId>,
        limit: i64,
    ) -> Result<Listing, Failure> {
        let stamped = match &filter.fingerprint {
            Some(fingerprint) => {
                let mut select = self.conn.prepare_cached(sql::UNSTAMPED)?;
                rows::value::<i64>(&mut select, [fingerprint])?.is_none()
            }
            None => true,
        };
        listing(filter, scope, after, limit, stamped)
    }
}

/// The query for a filter in its scope. `stamped`: every failure of the wanted fingerprint has its job's id.
fn listing(
    filter: &JobFilter,
    scope: &Scope,
    after: Option<JobId>,
    limit: i64,
    stamped: bool,
) -> Result<Listing, Failure> {
    let mut listing = Listing {
        source: sql::LIST_BY_ID,
        walks_failures: false,
        conditions: Vec::new(),
        values: Vec::new(),
    };
    listing.value(":limit", limit);
    if let Some(key) = &filter.business_key {
        listing.narrow(sql::LIST_BY_KEY, sql::WHERE_KEY, sql::WHERE_KEYED, ":key", key);
    }
    if let Some(fingerprint) = &filter.fingerprint {
        let (by, otherwise) = (sql::WHERE_FINGERPRINT, sql::WHERE_FAILED_BY);
        listing.narrow(sql::LIST_BY_FINGERPRINT, by, otherwise, ":fingerprint", fingerprint);
        listing.walks_failures = stamped && listing.source == sql::LIST_BY_FINGERPRINT;
    }
    if let Some(tag) = &filter.tag {
        listing.narrow(sql::LIST_BY_TAG, sql::WHERE_TAG, sql::WHERE_TAGGED, ":tag", tag);
    }
    if let Some(state) = filter.state {
        by_state(&mut listing, state, scope)?;
    }
    if let Some(lanes) = &scope.allowed {
        listing.must(sql::WHERE_LANES);
        listing.value(":lanes", serde_json::to_string(lanes)?);
    }
    if let Some(reason) = filter.reason {
        listing.must(sql::WHERE_REASON);
        listing.value(":reason", reason.as_str());
    }
    if let Some(after) = after {
        listing.must(if listing.walks_failures { sql::WHERE_FAILED_AFTER } else { sql::WHERE_AFTER });
        listing.value(":after", *after.as_bytes());
    }
    let mut moment = |condition, name, moment: Option<Timestamp>| {
        if let Some(moment) = moment {
            listing.must(condition);
            listing.value(name, moment.as_micros());
        }
    };
    moment(sql::WHERE_CREATED_AFTER, ":created_after", filter.created_after);
    moment(sql::WHERE_CREATED_BEFORE, ":created_before", filter.created_before);
    moment(sql::WHERE_FINISHED_AFTER, ":finished_after", filter.finished_after);
    moment(sql::WHERE_FINISHED_BEFORE, ":finished_before", filter.finished_before);
    Ok(listing)
}

/// Adds the condition on the state that is shown, and the index for it when nothing narrower was asked for.
fn by_state(listing: &mut Listing, state: State, scope: &Scope) -> Result<(), Failure> {
    let free = listing.source == sql::LIST_BY_ID;
    match state {
        State::Waiting if !scope.held.is_empty() => {
            listing.must(sql::WHERE_WAITING_OR_HELD);
            listing.value(":held", serde_json::to_string(&scope.held)?);
        }
        State::Pending => {
            listing.must(sql::WHERE_PENDING);
            if free && scope.pending <= FEW {
                listing.source = sql::LIST_PENDING;
            }
        }
        State::Succeeded => {
            listing.must(sql::WHERE_STATUS);
            listing.value(":status", status_code(state));
        }
        State::Running | State::Failed | State::Paused | State::Canceled | State::Waiting => {
            listing.must(sql::WHERE_STATUS);
            listing.value(":status", status_code(state));
            if free {
                listing.source = sql::LIST_SHELF;
                listing.must(sql::WHERE_SHELVED);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_alike_are_walked_in_the_order_of_their_jobs() {
        // D2: 20,000 dead letters of one incident are not sorted for one page of them.
        let filter = JobFilter {
            fingerprint: Some("00112233445566ff".to_owned()),
            state: Some(State::Failed),
            ..JobFilter::default()
        };
        let scope = Scope { allowed: None, held: Vec::new(), pending: 0, empty: false };
        for after in [None, Some(JobId::from_u128(7))] {
            let text = listing(&filter, &scope, after, 21, true).expect("a query").text(sql::LIST);
            let plan = crate::schema_tests::plan(&text);
            assert!(plan.contains("backstop_attempt_fingerprint (fingerprint=?"), "{plan}");
            assert!(!plan.contains("SCAN") && !plan.contains("B-TREE"), "{plan}");
        }
    }
}
