//! Listing jobs by any combination of conditions, from the source that reads least.

use std::collections::BTreeMap;

use backstop_core::job::{JobView, State};
use backstop_core::{JobId, Timestamp};
use backstop_store::show::{self, ListSource, ListSupport, SearchSpace};
use backstop_store::{JobFilter, Page, PageRequest};
use rusqlite::{Connection, Row, ToSql};

use crate::error::SqliteFailure;
use crate::query::Snapshot;
use crate::rows::{self, status_code};
use crate::sql;
use crate::worker::roster;

/// Jobs that succeeded are not indexed by id: an index for them would be written at every end of a run.
const SUPPORT: ListSupport = ListSupport { walks_succeeded: false, lanes: usize::MAX };

/// One of the parts that a list is put together from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListPart {
    lane: Option<i64>,
    status: Option<i64>,
}

/// A query under construction: where it reads, what must hold, and the values.
pub(crate) struct ListQuery {
    source: &'static str,
    /// True when the source is the index of failures and has them in the order of their jobs' ids.
    walks_failures: bool,
    conditions: Vec<&'static str>,
    values: Vec<(&'static str, Box<dyn ToSql>)>,
    limit: usize,
    /// The query is run for each of them, and the newest rows of all are the list.
    parts: Vec<ListPart>,
}

impl ListQuery {
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

    /// Reads the rows, newest first: from the second column on, the first one is the id.
    ///
    /// A part begins above the oldest of the newest rows that were found so far, so most of many parts end where
    /// they begin.
    pub(crate) fn read<T>(
        &self,
        conn: &Connection,
        what: &str,
        read: impl Fn(&Row<'_>) -> Result<T, SqliteFailure>,
    ) -> Result<Vec<T>, SqliteFailure> {
        let mut select = conn.prepare_cached(&self.text(what))?;
        let mut newest: BTreeMap<[u8; 16], T> = BTreeMap::new();
        let merged = self.parts.len() > 1;
        for part in &self.parts {
            let full = newest.len() >= self.limit;
            let oldest = newest.first_key_value().filter(|_| full).map_or(Vec::new(), |(id, _)| id.to_vec());
            let mut bound: Vec<(&str, &dyn ToSql)> =
                self.values.iter().map(|(name, value)| (*name, &**value)).collect();
            bound.extend(part.lane.as_ref().map(|lane| (":lane", lane as &dyn ToSql)));
            bound.extend(part.status.as_ref().map(|status| (":status", status as &dyn ToSql)));
            bound.extend(merged.then_some((":floor", &oldest as &dyn ToSql)));
            let mut rows = select.query(&bound[..])?;
            while let Some(row) = rows.next()? {
                newest.insert(row.get(0)?, read(row)?);
                if newest.len() > self.limit {
                    newest.pop_first();
                }
            }
        }
        Ok(newest.into_values().rev().collect())
    }
}

impl Snapshot<'_> {
    /// Lists jobs, newest id first.
    pub(crate) fn list(
        &mut self,
        filter: &JobFilter,
        page: PageRequest<JobId>,
    ) -> Result<Page<JobView, JobId>, SqliteFailure> {
        show::page_limit(page.limit)?;
        let roster = roster(self.conn, self.now)?;
        let scope = self.scope(filter, &roster)?;
        if scope.empty || page.limit == 0 {
            return Ok(Page { items: Vec::new(), next: None });
        }
        let listing = self.listing(filter, &scope, page.after, page.limit + 1)?;
        let seqs = listing.read(self.conn, sql::LIST, |row| Ok(row.get(1)?))?;
        let views = seqs.into_iter().map(|seq| self.view(&roster, seq)).collect::<Result<Vec<_>, _>>()?;
        Ok(show::cut(views, page.limit, |view| view.job.spec.id))
    }

    /// The query for a filter in its scope.
    pub(crate) fn listing(
        &self,
        filter: &JobFilter,
        scope: &SearchSpace,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<ListQuery, SqliteFailure> {
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
    scope: &SearchSpace,
    after: Option<JobId>,
    limit: usize,
    stamped: bool,
) -> Result<ListQuery, SqliteFailure> {
    let mut listing = ListQuery {
        source: sql::LIST_BY_ID,
        walks_failures: false,
        conditions: Vec::new(),
        values: Vec::new(),
        limit,
        parts: vec![ListPart { lane: None, status: None }],
    };
    listing.value(":limit", rows::limit(limit));
    by_names(&mut listing, filter, stamped);
    let source =
        if listing.source == sql::LIST_BY_ID { scope.source(limit, SUPPORT) } else { ListSource::All };
    by_source(&mut listing, source, scope);
    if let Some(state) = filter.state {
        by_state(&mut listing, state, scope)?;
    }
    if scope.confined && !matches!(source, ListSource::Lanes | ListSource::LaneStates) {
        listing.must(sql::WHERE_LANES);
        listing.value(":lanes", serde_json::to_string(&scope.lanes)?);
    }
    if listing.parts.len() > 1 {
        listing.must(sql::WHERE_NEWER);
    }
    and_also(&mut listing, filter, after);
    Ok(listing)
}

/// What names single jobs, or few of them, is the source.
fn by_names(listing: &mut ListQuery, filter: &JobFilter, stamped: bool) {
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
}

/// The conditions that no index knows.
fn and_also(listing: &mut ListQuery, filter: &JobFilter, after: Option<JobId>) {
    if let Some(reason) = filter.reason {
        listing.must(sql::WHERE_REASON);
        listing.value(":reason", reason.as_str());
    }
    if let Some(after) = after {
        listing.must(if listing.walks_failures { sql::WHERE_FAILED_AFTER } else { sql::WHERE_AFTER });
        listing.value(":after", *after.as_bytes());
    }
    if let Some(from) = filter.id_from {
        listing.must(if listing.walks_failures { sql::WHERE_FAILED_FROM } else { sql::WHERE_FROM });
        listing.value(":from", *from.as_bytes());
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
}

/// Takes the rows from where the scope says.
fn by_source(listing: &mut ListQuery, source: ListSource, scope: &SearchSpace) {
    let states = scope.states.as_deref().unwrap_or_default();
    let statuses = states.iter().map(|state| Some(status_code(*state)));
    let lanes = scope.lanes.iter().copied().map(Some);
    let part = |lane, status| ListPart { lane, status };
    match (source, states) {
        (ListSource::All, _) => {}
        (ListSource::Lanes, _) => {
            listing.source = sql::LIST_LANE;
            listing.must(sql::WHERE_LANE);
            listing.parts = lanes.map(|lane| part(lane, None)).collect();
        }
        (ListSource::LaneStates, _) => {
            listing.source = sql::LIST_LANE_STATES;
            listing.conditions.extend([sql::WHERE_LANE, sql::WHERE_STATUS, sql::WHERE_LANE_STATE_INDEXED]);
            let every = |lane| statuses.clone().map(move |status| part(lane, status));
            listing.parts = lanes.flat_map(every).collect();
        }
        (ListSource::States, [State::Pending]) => listing.source = sql::LIST_PENDING,
        (ListSource::States, [State::Succeeded]) => {
            listing.source = sql::LIST_ENDED;
            listing.must(sql::WHERE_ENDED);
        }
        (ListSource::States, _) => {
            listing.source = sql::LIST_STATES;
            listing.conditions.extend([sql::WHERE_STATUS, sql::WHERE_STATE_INDEXED]);
            listing.parts = statuses.map(|status| part(None, status)).collect();
        }
    }
}

/// Adds the condition on the state that is shown, unless the source has nothing else.
fn by_state(listing: &mut ListQuery, state: State, scope: &SearchSpace) -> Result<(), SqliteFailure> {
    match state {
        _ if listing.parts.iter().all(|part| part.status.is_some()) => {}
        State::Waiting if !scope.held.is_empty() => {
            listing.must(sql::WHERE_WAITING_OR_HELD);
            listing.value(":held", serde_json::to_string(&scope.held)?);
        }
        State::Pending => listing.must(sql::WHERE_PENDING),
        _ => {
            listing.must(sql::WHERE_STATUS);
            listing.value(":status", status_code(state));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use backstop_store::show::ListSizes;

    use super::*;

    fn scope(state: State, lanes: &[i64], sizes: [u64; 4]) -> SearchSpace {
        let [all, inside, in_state, matching] = sizes;
        SearchSpace {
            lanes: lanes.to_vec(),
            confined: true,
            held: Vec::new(),
            states: Some(vec![state]),
            sizes: ListSizes { all, inside, in_state, matching },
            empty: false,
        }
    }

    fn plans(filter: &JobFilter, scope: &SearchSpace) -> Vec<String> {
        let plan = |after| {
            let text = listing(filter, scope, after, 21, true).expect("a query").text(sql::LIST);
            crate::schema_tests::plan(&text)
        };
        [None, Some(JobId::from_u128(7))].map(plan).to_vec()
    }

    #[test]
    fn failures_alike_are_walked_in_the_order_of_their_jobs() {
        // D2: 20,000 dead letters of one incident are not sorted for one page of them.
        let filter = JobFilter { fingerprint: Some("00112233445566ff".to_owned()), ..JobFilter::default() };
        let scope = SearchSpace { confined: false, ..scope(State::Failed, &[1], [9; 4]) };
        for plan in plans(&filter, &scope) {
            assert!(plan.contains("backstop_attempt_fingerprint (fingerprint=?"), "{plan}");
            assert!(!plan.contains("SCAN") && !plan.contains("B-TREE"), "{plan}");
        }
    }

    #[test]
    fn lanes_are_walked_in_the_order_of_their_jobs() {
        // F20: no list of a small queue reads the jobs of others, and none of a large one sorts.
        const MANY: u64 = 2_000_000;
        let table = [
            (scope(State::Succeeded, &[1, 2], [MANY, 900, MANY, 90]), "backstop_state_lane (lane=? AND id>?"),
            (
                scope(State::Pending, &[1], [MANY, MANY / 2, MANY / 2, MANY / 2]),
                "backstop_state_lane (lane=?",
            ),
            (
                scope(State::Failed, &[1, 2], [MANY, 900, MANY, 90]),
                "backstop_state_lane_shelf (lane=? AND status=? AND id>?",
            ),
        ];
        for (scope, index) in table {
            let state = scope.states.as_ref().map(|states| states[0]);
            for plan in plans(&JobFilter { state, ..JobFilter::default() }, &scope) {
                assert!(plan.contains(index), "{plan}");
                assert!(!plan.contains("SCAN") && !plan.contains("B-TREE"), "{plan}");
            }
        }
    }

    #[test]
    fn few_jobs_of_a_large_lane_are_sorted() {
        let table = [(State::Pending, "backstop_state_pending"), (State::Succeeded, "backstop_state_ended")];
        for (state, index) in table {
            let scope = scope(state, &[1], [2_000_000, 2_000_000, 900, 900]);
            for plan in plans(&JobFilter { state: Some(state), ..JobFilter::default() }, &scope) {
                assert!(plan.contains(index) && plan.contains("B-TREE"), "{plan}");
            }
        }
    }
}
