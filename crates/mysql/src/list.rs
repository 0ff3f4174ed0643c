//! Listing and counting jobs by any combination of conditions, from the source that reads least.

use std::collections::BTreeMap;

use backstop_core::JobId;
use backstop_core::job::{JobView, State};
use backstop_store::show::{self, ListSource, ListSupport, Roster, SearchSpace};
use backstop_store::{JobFilter, Page, PageRequest, Survey, SurveyGroup};

use crate::error::Failure;
use crate::query::{self, views};
use crate::rows::{self, status_code};
use crate::session::{Query, Session};
use crate::sql::list as sql;
use crate::unit::Unit;
use crate::values::Value;
use crate::worker::{grips, roster};

/// Jobs that succeeded have a table of their own. Each lane is a part of the statement, so there is an end to them.
const REACH: ListSupport = ListSupport { walks_succeeded: true, lanes: 200 };

/// A query under construction: where it reads and what must hold, with the lists of values in each condition.
struct Listing {
    source: &'static str,
    /// The query is run for each of them, and the newest rows of all are the list: the values that come first.
    walks: Vec<Vec<Vec<Value>>>,
    conditions: Vec<&'static str>,
    lists: Vec<Vec<Value>>,
}

impl Listing {
    fn must(&mut self, condition: &'static str, lists: impl IntoIterator<Item = Vec<Value>>) {
        self.conditions.push(condition);
        self.lists.extend(lists);
    }

    /// Adds a condition on one value, if there is one.
    fn also(&mut self, condition: &'static str, value: Option<Value>) {
        if let Some(value) = value {
            self.must(condition, [vec![value]]);
        }
    }

    /// What follows this id.
    fn after(mut self, id: Option<JobId>) -> Self {
        self.also(sql::WHERE_AFTER, id.map(Value::job));
        self
    }

    /// Adds a condition on one value, as the source of the rows while there is none better.
    fn narrow(&mut self, by: &Narrowing, value: &str) {
        let condition = if self.source == sql::LIST_ALL {
            self.source = by.source;
            by.as_source
        } else {
            by.otherwise
        };
        self.must(condition, [vec![Value::text(value)]]);
    }

    /// Reads from `source` in several walks, each with its own values for these conditions.
    fn walk(&mut self, source: &'static str, by: &[&'static str], walks: Vec<Vec<Vec<Value>>>) {
        (self.source, self.walks) = (source, walks);
        self.conditions.extend(by);
    }

    /// The query for up to `limit` ids.
    fn query(&self, limit: usize) -> Query {
        let (text, lists) = self.text(sql::IDS, limit);
        Query::listed(&text, lists)
    }

    /// The query that counts up to `most` jobs by what they have in common.
    fn survey(&self, most: usize) -> Query {
        let here = self.is_record();
        let (facts, [begin, end]) =
            if here { (sql::FACTS_HERE, sql::SURVEY_HERE) } else { (sql::FACTS, sql::SURVEY) };
        let (text, lists) = self.text(facts, most);
        Query::listed(&[begin, &text, end].concat(), lists)
    }

    /// The text that tells `what` of each job, and its values.
    fn text(&self, what: &str, limit: usize) -> (String, Vec<Vec<Value>>) {
        let conditions = if self.conditions.is_empty() { &[sql::ALWAYS] } else { &self.conditions[..] };
        let one = [what, self.source, sql::WHERE, &conditions.join(sql::AND), sql::LIST_END].concat();
        let limit = || vec![Value::count(limit)];
        let values = |walk: &Vec<Vec<Value>>| -> Vec<Vec<Value>> {
            walk.iter().chain(&self.lists).cloned().chain([limit()]).collect()
        };
        if let [walk] = &self.walks[..] {
            return (one, values(walk));
        }
        let [begin, between, end] = sql::EACH;
        let each = vec![&*one; self.walks.len()].join(between);
        let lists = self.walks.iter().flat_map(values).chain([limit()]).collect();
        ([begin, &each, end].concat(), lists)
    }

    /// True when the rows come from `job`.
    fn is_job(&self) -> bool {
        let others = [sql::LIST_DONE, sql::LIST_READY];
        !self.is_record() && !others.contains(&self.source)
    }

    /// True when the rows come from `record`.
    fn is_record(&self) -> bool {
        [sql::LIST_SHELF, sql::LIST_LANE_SHELF, sql::LIST_BY_FINGERPRINT].contains(&self.source)
    }
}

/// A condition that can be where the rows come from.
struct Narrowing {
    source: &'static str,
    as_source: &'static str,
    otherwise: &'static str,
}

/// Asked for first, so it is always the source.
const BY_KEY: Narrowing =
    Narrowing { source: sql::LIST_BY_KEY, as_source: sql::WHERE_KEY, otherwise: sql::WHERE_KEY };
const BY_FINGERPRINT: Narrowing = Narrowing {
    source: sql::LIST_BY_FINGERPRINT,
    as_source: sql::WHERE_FINGERPRINT,
    otherwise: sql::WHERE_FAILED_BY,
};
const BY_TAG: Narrowing =
    Narrowing { source: sql::LIST_BY_TAG, as_source: sql::WHERE_TAG, otherwise: sql::WHERE_TAGGED };

/// Lists jobs, newest id first.
pub(crate) async fn list(
    unit: &mut Unit,
    filter: &JobFilter,
    page: PageRequest<JobId>,
) -> Result<Page<JobView, JobId>, Failure> {
    show::page_limit(page.limit)?;
    let now = unit.now().await?;
    let roster = roster(unit, now).await?;
    let Some(listing) = listing(unit, filter, &roster, page.limit + 1).await?.filter(|_| page.limit > 0)
    else {
        return Ok(Page { items: Vec::new(), next: None });
    };
    let ids = read(unit, listing.after(page.after).query(page.limit + 1)).await?;
    let views = views(unit, &ids, &roster).await?.into_iter().flatten().collect();
    Ok(show::cut(views, page.limit, |view: &JobView| view.job.spec.id))
}

async fn read(unit: &mut Unit, query: Query) -> Result<Vec<JobId>, Failure> {
    unit.one(query).await?.into_iter().map(|mut row| row.job()).collect()
}

/// Counts jobs, newest id first and `most` of them at most, by what they have in common.
pub(crate) async fn survey(unit: &mut Unit, filter: &JobFilter, most: usize) -> Result<Survey, Failure> {
    let now = unit.now().await?;
    let roster = roster(unit, now).await?;
    let Some(listing) = listing(unit, filter, &roster, most).await? else {
        return Ok(Survey::of(Vec::new(), true));
    };
    let rows = unit.one(listing.survey(most)).await?;
    let shared = unit.shared.clone();
    shared.lanes.meet(unit, rows.iter().filter_map(|row| row.peek_int(0))).await?;
    // Lanes differ in more than queue and kind.
    let mut counts: BTreeMap<_, u64> = BTreeMap::new();
    let mut lowest: Option<JobId> = None;
    for mut row in rows {
        let lane = shared.lanes.get(row.int()?)?;
        let name = (lane.queue.to_string(), lane.kind.to_string(), row.maybe_text()?, row.maybe_text()?);
        *counts.entry(name).or_default() += row.number::<u64>()?;
        let last = row.job()?;
        lowest = Some(lowest.map_or(last, |lowest| lowest.min(last)));
    }
    let groups = counts.into_iter().map(group).collect::<Result<Vec<_>, _>>()?;
    let survey = Survey::of(groups, true);
    let full = survey.jobs() >= u64::try_from(most).unwrap_or(u64::MAX);
    let complete = !full || read(unit, listing.after(lowest).query(1)).await?.is_empty();
    Ok(Survey { complete, ..survey })
}

/// Queue, kind, reason and fingerprint of a group.
type Name = (String, String, Option<String>, Option<String>);

fn group(((queue, kind, reason, fingerprint), jobs): (Name, u64)) -> Result<SurveyGroup, Failure> {
    Ok(SurveyGroup { queue, kind, reason: rows::reason(reason), fingerprint, jobs })
}

/// What `filter` means now, for so many rows; none when no job can match.
async fn listing(
    unit: &mut Unit,
    filter: &JobFilter,
    roster: &Roster,
    limit: usize,
) -> Result<Option<Listing>, Failure> {
    let (scope, _) = query::scope(unit, filter, roster).await?;
    if scope.empty {
        return Ok(None);
    }
    let running: Vec<JobId> = if filter.state == Some(State::Running) {
        grips(unit).await?.iter().flat_map(|grip| grip.held().map(|(job, _)| job)).collect()
    } else {
        Vec::new()
    };
    Ok(Some(narrow(filter, &scope, &running, limit)))
}

fn narrow(filter: &JobFilter, scope: &SearchSpace, running: &[JobId], limit: usize) -> Listing {
    let mut listing =
        Listing { source: sql::LIST_ALL, walks: vec![Vec::new()], conditions: Vec::new(), lists: Vec::new() };
    for (by, value) in
        [(BY_KEY, &filter.business_key), (BY_FINGERPRINT, &filter.fingerprint), (BY_TAG, &filter.tag)]
    {
        if let Some(value) = value {
            listing.narrow(&by, value);
        }
    }
    let source = if listing.source == sql::LIST_ALL { scope.source(limit, REACH) } else { ListSource::All };
    by_source(&mut listing, source, scope);
    if let Some(state) = filter.state {
        by_state(&mut listing, state, scope, running);
    }
    if scope.confined && !matches!(source, ListSource::Lanes | ListSource::LaneStates) {
        listing.must(sql::WHERE_LANES, [Value::ints(scope.lanes.iter().copied())]);
    }
    and_also(&mut listing, filter);
    listing
}

/// Takes the rows from where the scope says.
fn by_source(listing: &mut Listing, source: ListSource, scope: &SearchSpace) {
    let states = scope.states.as_deref().unwrap_or_default();
    let statuses: Vec<Value> = states.iter().map(|state| Value::int(status_code(*state))).collect();
    let lanes = Value::ints(scope.lanes.iter().copied());
    // More than can be walked side by side are one walk, which the server sorts.
    let apart = |values: Vec<Value>, walks: usize| -> Vec<Vec<Value>> {
        if walks > REACH.lanes { vec![values] } else { values.into_iter().map(|value| vec![value]).collect() }
    };
    match (source, states) {
        (ListSource::All, _) => {}
        (ListSource::Lanes, _) => {
            let walks = apart(lanes, scope.lanes.len()).into_iter().map(|lane| vec![lane]).collect();
            listing.walk(sql::LIST_LANE, &[sql::WHERE_LANES], walks);
        }
        (ListSource::LaneStates, _) => {
            let many = scope.lanes.len() * states.len();
            let statuses = apart(statuses, many);
            let every = |lane: Vec<Value>| {
                statuses.iter().map(move |status| vec![lane.clone(), status.clone()]).collect::<Vec<_>>()
            };
            let walks = apart(lanes, many).into_iter().flat_map(every).collect();
            listing.walk(sql::LIST_LANE_SHELF, &[sql::WHERE_LANES, sql::WHERE_STATES], walks);
        }
        (ListSource::States, [State::Pending]) => listing.source = sql::LIST_READY,
        (ListSource::States, [State::Succeeded]) => listing.source = sql::LIST_DONE,
        // Those that are held are named one by one.
        (ListSource::States, [State::Running]) => listing.source = sql::LIST_RUNNING,
        (ListSource::States, _) => {
            let walks = statuses.into_iter().map(|status| vec![vec![status]]).collect();
            listing.walk(sql::LIST_SHELF, &[sql::WHERE_STATES], walks);
        }
    }
}

/// Adds the condition on the state that is shown, unless the source has nothing else.
fn by_state(listing: &mut Listing, state: State, scope: &SearchSpace, running: &[JobId]) {
    let covers = [sql::LIST_READY, sql::LIST_DONE, sql::LIST_SHELF, sql::LIST_LANE_SHELF];
    match state {
        _ if covers.contains(&listing.source) => {}
        State::Waiting if !scope.held.is_empty() => {
            listing.must(sql::WHERE_WAITING_OR_HELD, [Value::ints(scope.held.iter().copied())]);
        }
        State::Pending => listing.must(sql::WHERE_READY, None),
        State::Running => listing.must(sql::WHERE_RUNNING, [Value::jobs(running)]),
        State::Succeeded => listing.must(sql::WHERE_DONE, None),
        State::Failed | State::Paused | State::Canceled | State::Waiting => {
            let condition = if listing.is_record() { sql::WHERE_STATES } else { sql::WHERE_SHELVED };
            listing.must(condition, [vec![Value::int(status_code(state))]]);
        }
    }
}

/// Adds the conditions that no index knows.
fn and_also(listing: &mut Listing, filter: &JobFilter) {
    let pick =
        |here: bool, [condition, elsewhere]: [&'static str; 2]| if here { condition } else { elsewhere };
    let (job, record) = (listing.is_job(), listing.is_record());
    let ends = record || listing.source == sql::LIST_DONE;
    for (condition, value) in [
        (
            pick(record, [sql::WHERE_REASON_HERE, sql::WHERE_REASON]),
            filter.reason.map(|reason| Value::text(reason.as_str())),
        ),
        (pick(job, [sql::WHERE_CREATED_AFTER, sql::WHERE_STORED_AFTER]), filter.created_after.map(Value::at)),
        (
            pick(job, [sql::WHERE_CREATED_BEFORE, sql::WHERE_STORED_BEFORE]),
            filter.created_before.map(Value::at),
        ),
        (
            pick(ends, [sql::WHERE_ENDED_AFTER, sql::WHERE_FINISHED_AFTER]),
            filter.finished_after.map(Value::at),
        ),
        (
            pick(ends, [sql::WHERE_ENDED_BEFORE, sql::WHERE_FINISHED_BEFORE]),
            filter.finished_before.map(Value::at),
        ),
        (sql::WHERE_FROM, filter.id_from.map(Value::job)),
    ] {
        listing.also(condition, value);
    }
}
