//! Listing and counting jobs by any combination of conditions, from the source that reads least.

use std::collections::HashMap;

use backstop_core::failure::TerminalReason;
use backstop_core::job::{JobView, State};
use backstop_core::{JobId, Timestamp};
use backstop_store::desk::LaneKey;
use backstop_store::show::{self, ListSource, ListSupport, SearchSpace};
use backstop_store::{JobFilter, Page, PageRequest, Survey, SurveyGroup};

use crate::error::Failure;
use crate::query::{self, views};
use crate::rows::{reason, status_code};
use crate::session::{Query, Session};
use crate::sql::list as sql;
use crate::unit::Unit;
use crate::values::Value;
use crate::worker::{grips, roster};

/// Jobs that succeeded have a table of their own; and one statement walks any number of lanes.
const REACH: ListSupport = ListSupport { walks_succeeded: true, lanes: usize::MAX };
/// Rows so many lanes on, those with the newest jobs are found first.
const MANY_LANES: usize = 16;

/// Where the rows come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    All,
    Key,
    Tag,
    Fingerprint,
    Ready,
    Done,
    Lanes,
    States,
    LanesAndStates,
}

impl Rows {
    const fn text(self) -> &'static str {
        match self {
            Self::All | Self::Key | Self::Lanes => sql::LIST_ALL,
            Self::Tag => sql::LIST_BY_TAG,
            Self::Fingerprint => sql::LIST_BY_FINGERPRINT,
            Self::Ready => sql::LIST_READY,
            Self::Done => sql::LIST_DONE,
            Self::States | Self::LanesAndStates => sql::LIST_SHELF,
        }
    }

    /// True when the rows are those of `job`.
    fn is_job(self) -> bool {
        self.text() == sql::LIST_ALL || self == Self::Tag
    }

    /// True when the rows are those of `record`.
    fn is_record(self) -> bool {
        self.text() == sql::LIST_SHELF || self == Self::Fingerprint
    }

    /// Picks the condition for where the rows come from.
    fn pick(self, here: bool, [as_source, otherwise]: [&'static str; 2]) -> &'static str {
        if here { as_source } else { otherwise }
    }
}

/// A query under construction: where it reads and what must hold. Every query has the same parameters.
struct Listing {
    from: Rows,
    conditions: Vec<&'static str>,
    /// 1 when it follows another page, 0 for the first one.
    page: usize,
    /// True when only ids from one on are wanted; every walk begins there.
    has_floor: bool,
    many_lanes: bool,
}

impl Listing {
    fn must(&mut self, condition: &'static str) {
        self.conditions.push(condition);
    }

    /// Adds a condition on one value, as the source of the rows while there is none better.
    fn narrow(&mut self, from: Rows, as_source: &'static str, otherwise: &'static str) {
        if self.from == Rows::All {
            self.from = from;
            self.must(as_source);
        } else {
            self.must(otherwise);
        }
    }

    fn text(&self) -> String {
        let (walks, bounds, end) = match self.from {
            Rows::Lanes => (sql::LANES, sql::IN_LANE, sql::LANE_END),
            Rows::States => (sql::STATES, sql::IN_STATE, sql::STATE_END),
            Rows::LanesAndStates => (sql::LANES_AND_STATES, sql::IN_LANE_AND_STATE, sql::LANE_AND_STATE_END),
            _ => return [sql::IDS, self.from.text(), &self.bounded(None), sql::LIST_END].concat(),
        };
        let bounded = self.bounded(Some(bounds[self.page]));
        let newest = [sql::NEWEST_LANES[0], &bounded, sql::NEWEST_LANES[1]].concat();
        let walks = if self.many_lanes { &newest } else { walks };
        let [each, reads, merged] = sql::EACH;
        [each, walks, reads, sql::IDS, self.from.text(), &bounded, end, merged].concat()
    }

    /// What must hold of each row.
    fn bounded(&self, bounds: Option<&'static str>) -> String {
        let after = (bounds.is_none() && self.page > 0).then_some(sql::WHERE_AFTER);
        let from = (bounds.is_none() && self.has_floor).then_some(sql::WHERE_FROM);
        let conditions: Vec<_> =
            bounds.into_iter().chain(after).chain(from).chain(self.conditions.iter().copied()).collect();
        let conditions = if conditions.is_empty() { &[sql::ALWAYS] } else { &conditions[..] };
        [sql::WHERE, &conditions.join(sql::AND)].concat()
    }
}

/// Lists jobs, newest id first.
pub(crate) async fn list(
    unit: &mut Unit,
    filter: &JobFilter,
    page: PageRequest<JobId>,
) -> Result<Page<JobView, JobId>, Failure> {
    show::page_limit(page.limit)?;
    let now = unit.now().await?;
    let roster = roster(unit, now).await?;
    let (scope, _) = query::scope(unit, filter, &roster).await?;
    if scope.empty || page.limit == 0 {
        return Ok(Page { items: Vec::new(), next: None });
    }
    let running = running(unit, filter).await?;
    let listing = listing(filter, &scope, page);
    let params = params(filter, &scope, &running, page);
    // What is sorted may be read in any way.
    let walks = listing.from != Rows::Ready;
    if walks {
        unit.one(Query::new(sql::WALK, Vec::new())).await?;
    }
    let rows = unit.one(Query::new(listing.text(), params)).await?;
    if walks {
        unit.one(Query::new(sql::WALK_END, Vec::new())).await?;
    }
    let ids = rows.into_iter().map(|mut row| row.job()).collect::<Result<Vec<_>, _>>()?;
    let views = views(unit, &ids, &roster).await?.into_iter().flatten().collect();
    Ok(show::cut(views, page.limit, |view: &JobView| view.job.spec.id))
}

/// The jobs that workers hold, if it is those that are asked for.
async fn running(unit: &mut Unit, filter: &JobFilter) -> Result<Vec<JobId>, Failure> {
    if filter.state != Some(State::Running) {
        return Ok(Vec::new());
    }
    Ok(grips(unit).await?.iter().flat_map(|grip| grip.held().map(|(job, _)| job)).collect())
}

/// What the jobs of a group have in common: queue, kind, reason and fingerprint.
type Common = (String, String, Option<TerminalReason>, Option<String>);

/// Counts the jobs that a filter finds, newest id first and `most` of them at most.
pub(crate) async fn survey(unit: &mut Unit, filter: &JobFilter, most: usize) -> Result<Survey, Failure> {
    let now = unit.now().await?;
    let roster = roster(unit, now).await?;
    let (scope, lanes) = query::scope(unit, filter, &roster).await?;
    if scope.empty {
        return Ok(Survey::of(Vec::new(), true));
    }
    let running = running(unit, filter).await?;
    let page = PageRequest::first(most);
    let text = [sql::SURVEY_BEGIN, &listing(filter, &scope, page).text(), sql::SURVEY_END].concat();
    let params = params(filter, &scope, &running, page);
    let lanes: HashMap<i64, LaneKey> = lanes.into_iter().map(|counts| (counts.id, counts.lane)).collect();
    let (mut groups, mut left) = (HashMap::<Common, u64>::new(), 0);
    for mut row in unit.one(Query::new(text, params)).await? {
        let (lane, reason, fingerprint) = (row.int()?, reason(row.maybe_text()?), row.maybe_text()?);
        let (counted, beyond): (u64, i64) = (row.number()?, row.int()?);
        left += beyond;
        if let Some(lane) = lanes.get(&lane).filter(|_| counted > 0) {
            let common = (lane.queue.to_string(), lane.kind.to_string(), reason, fingerprint);
            *groups.entry(common).or_default() += counted;
        }
    }
    let group =
        |((queue, kind, reason, fingerprint), jobs)| SurveyGroup { queue, kind, reason, fingerprint, jobs };
    Ok(Survey::of(groups.into_iter().map(group).collect(), left == 0))
}

/// The parameters of every listing, in the order of the numbers in `sql`.
fn params(
    filter: &JobFilter,
    scope: &SearchSpace,
    running: &[JobId],
    page: PageRequest<JobId>,
) -> Vec<Value> {
    let text = |text: &Option<String>| text.as_ref().map_or(Value::Text(None), Value::text);
    let moment = |moment: Option<Timestamp>| Value::Int(moment.map(Timestamp::as_micros));
    vec![
        text(&filter.tag),
        text(&filter.business_key),
        text(&filter.fingerprint),
        Value::ints(scope.lanes.iter().copied()),
        Value::Int(filter.state.map(status_code)),
        Value::ints(scope.held.iter().copied()),
        Value::jobs(running),
        filter.reason.map_or(Value::Text(None), |reason| Value::text(reason.as_str())),
        Value::Id(page.after.map(|id| id.as_uuid())),
        moment(filter.created_after),
        moment(filter.created_before),
        Value::count(page.limit.saturating_add(1)),
        moment(filter.finished_after),
        moment(filter.finished_before),
        Value::ints(scope.states.iter().flatten().map(|state| status_code(*state))),
        Value::Id(Some(filter.id_from.unwrap_or(JobId::from_u128(0)).as_uuid())),
    ]
}

fn listing(filter: &JobFilter, scope: &SearchSpace, page: PageRequest<JobId>) -> Listing {
    let (page, limit) = (usize::from(page.after.is_some()), page.limit.saturating_add(1));
    let has_floor = filter.id_from.is_some();
    let mut listing = Listing { from: Rows::All, conditions: Vec::new(), page, has_floor, many_lanes: false };
    if filter.business_key.is_some() {
        listing.narrow(Rows::Key, sql::WHERE_KEY, sql::WHERE_KEY);
    }
    if filter.fingerprint.is_some() {
        listing.narrow(Rows::Fingerprint, sql::WHERE_FINGERPRINT, sql::WHERE_FAILED_BY);
    }
    if filter.tag.is_some() {
        listing.narrow(Rows::Tag, sql::WHERE_TAG, sql::WHERE_TAGGED);
    }
    if listing.from == Rows::All {
        listing.from = rows(scope, limit);
        listing.many_lanes = listing.from == Rows::Lanes && scope.lanes.len() > MANY_LANES;
    }
    if let Some(state) = filter.state {
        by_state(&mut listing, state, scope);
    }
    if scope.confined && !matches!(listing.from, Rows::Lanes | Rows::LanesAndStates) {
        listing.must(sql::WHERE_LANES);
    }
    and_also(&mut listing, filter);
    listing
}

/// Where the scope says that the rows come from.
fn rows(scope: &SearchSpace, limit: usize) -> Rows {
    match (scope.source(limit, REACH), scope.states.as_deref()) {
        (ListSource::Lanes, _) => Rows::Lanes,
        (ListSource::LaneStates, _) => Rows::LanesAndStates,
        (ListSource::States, Some([State::Pending])) => Rows::Ready,
        (ListSource::States, Some([State::Succeeded])) => Rows::Done,
        // Those that are held are named one by one.
        (ListSource::States, Some([State::Running])) | (ListSource::All, _) => Rows::All,
        (ListSource::States, _) => Rows::States,
    }
}

/// Adds the condition on the state that is shown, unless the source has nothing else.
fn by_state(listing: &mut Listing, state: State, scope: &SearchSpace) {
    let from = listing.from;
    match state {
        _ if matches!(from, Rows::States | Rows::LanesAndStates | Rows::Ready | Rows::Done) => {}
        State::Waiting if !scope.held.is_empty() => listing.must(sql::WHERE_WAITING_OR_HELD),
        State::Pending => listing.must(sql::WHERE_READY),
        State::Running => listing.must(sql::WHERE_RUNNING),
        State::Succeeded => listing.must(sql::WHERE_DONE),
        State::Failed | State::Paused | State::Canceled | State::Waiting => {
            listing.must(from.pick(from.is_record(), [sql::WHERE_STATUS, sql::WHERE_SHELVED]));
        }
    }
}

/// Adds the conditions that no index knows.
fn and_also(listing: &mut Listing, filter: &JobFilter) {
    let from = listing.from;
    let (job, record) = (from.is_job(), from.is_record());
    let ends = record || from == Rows::Done;
    let mut also = |asked: bool, here, conditions| {
        if asked {
            listing.must(from.pick(here, conditions));
        }
    };
    also(filter.reason.is_some(), record, [sql::WHERE_REASON_HERE, sql::WHERE_REASON]);
    also(filter.created_after.is_some(), job, [sql::WHERE_CREATED_AFTER, sql::WHERE_STORED_AFTER]);
    also(filter.created_before.is_some(), job, [sql::WHERE_CREATED_BEFORE, sql::WHERE_STORED_BEFORE]);
    also(filter.finished_after.is_some(), ends, [sql::WHERE_ENDED_AFTER, sql::WHERE_FINISHED_AFTER]);
    also(filter.finished_before.is_some(), ends, [sql::WHERE_ENDED_BEFORE, sql::WHERE_FINISHED_BEFORE]);
}
