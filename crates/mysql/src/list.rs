//! Listing and counting jobs by any combination of conditions, from the source that reads least.

use std::collections::BTreeMap;

use backstop_core::JobId;
use backstop_core::job::{JobView, State};
use backstop_store::show::{self, Roster, Scope};
use backstop_store::{JobFilter, Page, PageRequest, Survey, SurveyGroup};

use crate::error::Failure;
use crate::query::{lane_counts, views};
use crate::rows::{self, status_code};
use crate::session::{Query, Session};
use crate::sql::list as sql;
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
    fn narrow(&mut self, by: &Narrowing, value: Option<Value>) {
        let list = value.map(|value| vec![value]);
        if self.source == sql::LIST_ALL {
            self.source = by.source;
            self.must(by.as_source, list);
        } else if by.source == sql::LIST_SHELF && self.is_shelf(false) {
            self.must(by.as_source, list);
        } else {
            self.must(by.otherwise, list);
        }
    }

    /// The query for up to `limit` ids.
    fn query(&self, limit: usize) -> Query {
        Query::listed(&[sql::IDS, &self.text()].concat(), self.lists(limit))
    }

    /// The query that counts up to `most` jobs by what they have in common.
    fn survey(&self, most: usize) -> Query {
        let [begin, end] = if self.is_shelf(false) { sql::SURVEY_HERE } else { sql::SURVEY };
        Query::listed(&[begin, &self.text(), end].concat(), self.lists(most))
    }

    /// All but what is told of each job.
    fn text(&self) -> String {
        let conditions = if self.conditions.is_empty() { &[sql::ALWAYS] } else { &self.conditions[..] };
        [self.source, sql::WHERE, &conditions.join(sql::AND), sql::LIST_END].concat()
    }

    fn lists(&self, limit: usize) -> Vec<Vec<Value>> {
        self.lists.iter().cloned().chain([vec![Value::count(limit)]]).collect()
    }

    /// True when the rows come from `record`, or from `done` too where that is asked for.
    fn is_shelf(&self, or_done: bool) -> bool {
        let source = self.source;
        source == sql::LIST_SHELF
            || source == sql::LIST_BY_FINGERPRINT
            || (or_done && source == sql::LIST_DONE)
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
    let Some(listing) = listing(unit, filter, &roster).await?.filter(|_| page.limit > 0) else {
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
    let Some(listing) = listing(unit, filter, &roster).await? else {
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
    Ok(SurveyGroup { queue, kind, reason: rows::reason(reason)?, fingerprint, jobs })
}

/// What `filter` means now; none when no job can match.
async fn listing(unit: &mut Unit, filter: &JobFilter, roster: &Roster) -> Result<Option<Listing>, Failure> {
    let scope = Scope::of(filter, &lane_counts(unit).await?, roster);
    if scope.empty {
        return Ok(None);
    }
    let running: Vec<JobId> = if filter.state == Some(State::Running) {
        grips(unit).await?.iter().flat_map(|grip| grip.held().map(|(job, _)| job)).collect()
    } else {
        Vec::new()
    };
    Ok(Some(narrow(filter, &scope, &running)))
}

fn narrow(filter: &JobFilter, scope: &Scope, running: &[JobId]) -> Listing {
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
    let pick = |here: bool, (condition, elsewhere)| if here { condition } else { elsewhere };
    let (in_record, ends) = (listing.is_shelf(false), listing.is_shelf(true));
    let reason = pick(in_record, (sql::WHERE_REASON_HERE, sql::WHERE_REASON));
    let after = pick(ends, (sql::WHERE_ENDED_AFTER, sql::WHERE_FINISHED_AFTER));
    let before = pick(ends, (sql::WHERE_ENDED_BEFORE, sql::WHERE_FINISHED_BEFORE));
    for (condition, value) in [
        (reason, filter.reason.map(|reason| Value::text(reason.as_str()))),
        (sql::WHERE_CREATED_AFTER, filter.created_after.map(Value::at)),
        (sql::WHERE_CREATED_BEFORE, filter.created_before.map(Value::at)),
        (after, filter.finished_after.map(Value::at)),
        (before, filter.finished_before.map(Value::at)),
    ] {
        listing.also(condition, value);
    }
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
