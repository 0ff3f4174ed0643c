//! The text of lists, from the source that reads least.

use backstop_core::job::State;
use backstop_core::{JobId, Timestamp};
use backstop_sql::dialect::Listing;
use backstop_sql::encode::status_code;
use backstop_sql::{Query, Value};
use backstop_store::JobFilter;
use backstop_store::show::{ListSource, ListSupport, SearchSpace};

use crate::sql::list as sql;

/// Jobs that succeeded have a table of their own; and one statement walks any number of lanes.
const REACH: ListSupport = ListSupport { walks_succeeded: true, lanes: usize::MAX };
/// Rows so many lanes on, those with the newest jobs are found first.
const MANY_LANES: usize = 16;

/// The ids of jobs. What is sorted may be read in any way; all else walks an index.
pub(crate) fn list(listing: &Listing<'_>) -> Vec<Query> {
    let text = Text::of(listing);
    let walks = text.from != Rows::Ready;
    let setting = |text: &'static str| walks.then(|| Query::new(text, Vec::new()));
    let ids = Query::new(text.write(), params(listing));
    setting(sql::WALK).into_iter().chain([ids]).chain(setting(sql::WALK_END)).collect()
}

/// The same jobs, counted by what they have in common.
pub(crate) fn survey(listing: &Listing<'_>) -> Query {
    let [begin, end] = sql::SURVEY;
    Query::new([begin, &Text::of(listing).write(), end].concat(), params(listing))
}

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
            Self::States | Self::LanesAndStates => sql::LIST_RECORDS,
        }
    }

    /// True when the rows are those of `job`.
    fn is_job(self) -> bool {
        self.text() == sql::LIST_ALL || self == Self::Tag
    }

    /// True when the rows are those of `record`.
    fn is_record(self) -> bool {
        self.text() == sql::LIST_RECORDS || self == Self::Fingerprint
    }

    /// Picks the condition for where the rows come from.
    fn pick(self, here: bool, [as_source, otherwise]: [&'static str; 2]) -> &'static str {
        if here { as_source } else { otherwise }
    }
}

/// A text under construction: where it reads and what must hold. Every one has the same parameters.
struct Text {
    from: Rows,
    conditions: Vec<&'static str>,
    /// 1 when it follows another page, 0 for the first one.
    page: usize,
    /// True when only ids from one on are wanted; every walk begins there.
    has_floor: bool,
    many_lanes: bool,
}

impl Text {
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

    fn write(&self) -> String {
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

/// The parameters of every list, in the order of the numbers in `sql`.
fn params(listing: &Listing<'_>) -> Vec<Value> {
    let Listing { filter, scope, running, after, limit } = listing;
    let moment = |moment: Option<Timestamp>| Value::maybe_at(moment);
    vec![
        Value::Text(filter.tag.clone()),
        Value::Text(filter.business_key.clone()),
        Value::Text(filter.fingerprint.clone()),
        Value::ints(scope.lanes.iter().copied()),
        Value::Int(filter.state.map(status_code)),
        Value::ints(scope.held.iter().copied()),
        Value::jobs(*running),
        Value::maybe_text(filter.reason.map(|reason| reason.as_str())),
        Value::maybe_job(*after),
        moment(filter.created_after),
        moment(filter.created_before),
        Value::count(*limit),
        moment(filter.finished_after),
        moment(filter.finished_before),
        Value::ints(scope.states.iter().flatten().map(|state| status_code(*state))),
        Value::job(filter.id_from.unwrap_or(JobId::from_u128(0))),
    ]
}

impl Text {
    fn of(listing: &Listing<'_>) -> Self {
        let Listing { filter, scope, limit, .. } = *listing;
        let (page, has_floor) = (usize::from(listing.after.is_some()), filter.id_from.is_some());
        let mut text = Self { from: Rows::All, conditions: Vec::new(), page, has_floor, many_lanes: false };
        if filter.business_key.is_some() {
            text.narrow(Rows::Key, sql::WHERE_KEY, sql::WHERE_KEY);
        }
        if filter.fingerprint.is_some() {
            text.narrow(Rows::Fingerprint, sql::WHERE_FINGERPRINT, sql::WHERE_FAILED_BY);
        }
        if filter.tag.is_some() {
            text.narrow(Rows::Tag, sql::WHERE_TAG, sql::WHERE_TAGGED);
        }
        if text.from == Rows::All {
            text.from = rows(scope, limit);
            text.many_lanes = text.from == Rows::Lanes && scope.lanes.len() > MANY_LANES;
        }
        if let Some(state) = filter.state {
            by_state(&mut text, state, scope);
        }
        if scope.confined && !matches!(text.from, Rows::Lanes | Rows::LanesAndStates) {
            text.must(sql::WHERE_LANES);
        }
        and_also(&mut text, filter);
        text
    }
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
fn by_state(text: &mut Text, state: State, scope: &SearchSpace) {
    let from = text.from;
    match state {
        _ if matches!(from, Rows::States | Rows::LanesAndStates | Rows::Ready | Rows::Done) => {}
        State::Waiting if !scope.held.is_empty() => text.must(sql::WHERE_WAITING_OR_HELD),
        State::Pending => text.must(sql::WHERE_READY),
        State::Running => text.must(sql::WHERE_RUNNING),
        State::Succeeded => text.must(sql::WHERE_DONE),
        State::Failed | State::Paused | State::Canceled | State::Waiting => {
            text.must(from.pick(from.is_record(), [sql::WHERE_STATUS, sql::WHERE_RECORD_STATUS]));
        }
    }
}

/// Adds the conditions that no index knows.
fn and_also(text: &mut Text, filter: &JobFilter) {
    let from = text.from;
    let (job, record) = (from.is_job(), from.is_record());
    let ends = record || from == Rows::Done;
    let mut also = |asked: bool, here, conditions| {
        if asked {
            text.must(from.pick(here, conditions));
        }
    };
    also(filter.reason.is_some(), record, [sql::WHERE_REASON_HERE, sql::WHERE_REASON]);
    also(filter.created_after.is_some(), job, [sql::WHERE_CREATED_AFTER, sql::WHERE_STORED_AFTER]);
    also(filter.created_before.is_some(), job, [sql::WHERE_CREATED_BEFORE, sql::WHERE_STORED_BEFORE]);
    also(filter.finished_after.is_some(), ends, [sql::WHERE_ENDED_AFTER, sql::WHERE_FINISHED_AFTER]);
    also(filter.finished_before.is_some(), ends, [sql::WHERE_ENDED_BEFORE, sql::WHERE_FINISHED_BEFORE]);
}
