//! The text of lists, from the source that reads least.

use backstop_core::JobId;
use backstop_core::job::State;
use backstop_sql::dialect::Listing;
use backstop_sql::encode::status_code;
use backstop_sql::{Query, Value};
use backstop_store::JobFilter;
use backstop_store::show::{ListSource, ListSupport, SearchSpace};

use crate::sql::list as sql;

/// Jobs that succeeded have a table of their own. Each lane is a part of the statement, so there is an end to them.
const REACH: ListSupport = ListSupport { walks_succeeded: true, lanes: 200 };

/// The ids of jobs.
pub(crate) fn list(listing: &Listing<'_>) -> Query {
    let (text, values) = Text::of(listing).write(sql::IDS, listing.limit);
    Query::new(text, values)
}

/// The same jobs, counted by what they have in common.
pub(crate) fn survey(listing: &Listing<'_>) -> Query {
    let text = Text::of(listing);
    let (facts, [begin, end]) =
        if text.is_record() { (sql::FACTS_HERE, sql::SURVEY_HERE) } else { (sql::FACTS, sql::SURVEY) };
    let (text, values) = text.write(facts, listing.limit);
    Query::new([begin, &text, end].concat(), values)
}

/// A query under construction: where it reads and what must hold, with the lists of values in each condition.
struct Text {
    source: &'static str,
    /// The query is run for each of them, and the newest rows of all are the list: the values that come first.
    walks: Vec<Vec<Value>>,
    conditions: Vec<&'static str>,
    values: Vec<Value>,
}

impl Text {
    fn must(&mut self, condition: &'static str, value: Option<Value>) {
        self.conditions.push(condition);
        self.values.extend(value);
    }

    /// Adds a condition on one value, if there is one.
    fn also(&mut self, condition: &'static str, value: Option<Value>) {
        if let Some(value) = value {
            self.must(condition, Some(value));
        }
    }

    /// Adds a condition on one value, as the source of the rows while there is none better.
    fn narrow(&mut self, by: &Narrowing, value: &str) {
        let condition = if self.source == sql::LIST_ALL {
            self.source = by.source;
            by.as_source
        } else {
            by.otherwise
        };
        self.must(condition, Some(Value::text(value)));
    }

    /// Reads from `source` in several walks, each with its own values for these conditions.
    fn walk(&mut self, source: &'static str, by: &[&'static str], walks: Vec<Vec<Value>>) {
        (self.source, self.walks) = (source, walks);
        self.conditions.extend(by);
    }

    /// The text that tells `what` of each job, and its values.
    fn write(&self, what: &str, limit: usize) -> (String, Vec<Value>) {
        let conditions = if self.conditions.is_empty() { &[sql::ALWAYS] } else { &self.conditions[..] };
        let one = [what, self.source, sql::WHERE, &conditions.join(sql::AND), sql::LIST_END].concat();
        let values = |walk: &Vec<Value>| -> Vec<Value> {
            walk.iter().chain(&self.values).cloned().chain([Value::count(limit)]).collect()
        };
        if let [walk] = &self.walks[..] {
            return (one, values(walk));
        }
        let [begin, between, end] = sql::EACH;
        let each = vec![&*one; self.walks.len()].join(between);
        let values = self.walks.iter().flat_map(values).chain([Value::count(limit)]).collect();
        ([begin, &each, end].concat(), values)
    }

    /// True when the rows come from `job`.
    fn is_job(&self) -> bool {
        let others = [sql::LIST_DONE, sql::LIST_READY];
        !self.is_record() && !others.contains(&self.source)
    }

    /// True when the rows come from `record`.
    fn is_record(&self) -> bool {
        [sql::LIST_RECORDS, sql::LIST_LANE_RECORDS, sql::LIST_BY_FINGERPRINT].contains(&self.source)
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

impl Text {
    fn of(listing: &Listing<'_>) -> Self {
        let Listing { filter, scope, running, after, limit } = *listing;
        let (source, walks) = (sql::LIST_ALL, vec![Vec::new()]);
        let mut text = Self { source, walks, conditions: Vec::new(), values: Vec::new() };
        for (by, value) in
            [(BY_KEY, &filter.business_key), (BY_FINGERPRINT, &filter.fingerprint), (BY_TAG, &filter.tag)]
        {
            if let Some(value) = value {
                text.narrow(&by, value);
            }
        }
        let source = if text.source == sql::LIST_ALL { scope.source(limit, REACH) } else { ListSource::All };
        by_source(&mut text, source, scope);
        if let Some(state) = filter.state {
            by_state(&mut text, state, scope, running);
        }
        if scope.confined && !matches!(source, ListSource::Lanes | ListSource::LaneStates) {
            text.must(sql::WHERE_LANES, Some(Value::ints(scope.lanes.iter().copied())));
        }
        and_also(&mut text, filter);
        text.also(sql::WHERE_AFTER, after.map(Value::job));
        text
    }
}

/// Takes the rows from where the scope says.
fn by_source(text: &mut Text, source: ListSource, scope: &SearchSpace) {
    let states = scope.states.as_deref().unwrap_or_default();
    let statuses: Vec<i64> = states.iter().map(|state| status_code(*state)).collect();
    // More than can be walked side by side are one walk, which the server sorts.
    let apart = |numbers: &[i64], walks: usize| -> Vec<Value> {
        if walks > REACH.lanes {
            return vec![Value::ints(numbers.iter().copied())];
        }
        numbers.iter().map(|number| Value::int(*number)).collect()
    };
    match (source, states) {
        (ListSource::All, _) => {}
        (ListSource::Lanes, _) => {
            let walks = apart(&scope.lanes, scope.lanes.len()).into_iter().map(|lane| vec![lane]).collect();
            text.walk(sql::LIST_LANE, &[sql::WHERE_LANES], walks);
        }
        (ListSource::LaneStates, _) => {
            let many = scope.lanes.len() * states.len();
            let statuses = apart(&statuses, many);
            let every = |lane: Value| {
                statuses.iter().map(move |status| vec![lane.clone(), status.clone()]).collect::<Vec<_>>()
            };
            let walks = apart(&scope.lanes, many).into_iter().flat_map(every).collect();
            text.walk(sql::LIST_LANE_RECORDS, &[sql::WHERE_LANES, sql::WHERE_STATES], walks);
        }
        (ListSource::States, [State::Pending]) => text.source = sql::LIST_READY,
        (ListSource::States, [State::Succeeded]) => text.source = sql::LIST_DONE,
        // Those that are held are named one by one.
        (ListSource::States, [State::Running]) => text.source = sql::LIST_RUNNING,
        (ListSource::States, _) => {
            let walks = statuses.into_iter().map(|status| vec![Value::int(status)]).collect();
            text.walk(sql::LIST_RECORDS, &[sql::WHERE_STATES], walks);
        }
    }
}

/// Adds the condition on the state that is shown, unless the source has nothing else.
fn by_state(text: &mut Text, state: State, scope: &SearchSpace, running: &[JobId]) {
    let covers = [sql::LIST_READY, sql::LIST_DONE, sql::LIST_RECORDS, sql::LIST_LANE_RECORDS];
    match state {
        _ if covers.contains(&text.source) => {}
        State::Waiting if !scope.held.is_empty() => {
            text.must(sql::WHERE_WAITING_OR_HELD, Some(Value::ints(scope.held.iter().copied())));
        }
        State::Pending => text.must(sql::WHERE_READY, None),
        State::Running => text.must(sql::WHERE_RUNNING, Some(Value::jobs(running))),
        State::Succeeded => text.must(sql::WHERE_DONE, None),
        State::Failed | State::Paused | State::Canceled | State::Waiting => {
            let condition = if text.is_record() { sql::WHERE_STATES } else { sql::WHERE_RECORD_STATUS };
            text.must(condition, Some(Value::int(status_code(state))));
        }
    }
}

/// Adds the conditions that no index knows.
fn and_also(text: &mut Text, filter: &JobFilter) {
    let pick =
        |here: bool, [condition, elsewhere]: [&'static str; 2]| if here { condition } else { elsewhere };
    let (job, record) = (text.is_job(), text.is_record());
    let ends = record || text.source == sql::LIST_DONE;
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
        text.also(condition, value);
    }
}
