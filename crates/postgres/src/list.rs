//! Listing and counting jobs by any combination of conditions, from the source that reads least.

use std::collections::HashMap;

use backstop_core::failure::TerminalReason;
use backstop_core::job::{JobView, State};
use backstop_core::{JobId, Timestamp};
use backstop_store::desk::LaneKey;
use backstop_store::show::{self, Scope};
use backstop_store::{JobFilter, Page, PageRequest, Survey, SurveyGroup};

use crate::error::Failure;
use crate::query::{lane_counts, views};
use crate::rows::{reason, status_code};
use crate::session::{Query, Session};
use crate::sql::list as sql;
use crate::unit::Unit;
use crate::values::Value;
use crate::worker::{grips, roster};

/// Below this many pending jobs, sorting all of them is cheaper than looking for them among the others.
const FEW: u64 = 20_000;

/// A query under construction: where it reads and what must hold. Every query has the same parameters.
struct Listing {
    source: &'static str,
    conditions: Vec<&'static str>,
}

impl Listing {
    fn must(&mut self, condition: &'static str) {
        self.conditions.push(condition);
    }

    /// Adds a condition on when a job ended, with less to read when the source knows it.
    fn ended(&mut self, as_source: &'static str, otherwise: &'static str) {
        let knows = [sql::LIST_SHELF, sql::LIST_DONE, sql::LIST_BY_FINGERPRINT].contains(&self.source);
        self.must(if knows { as_source } else { otherwise });
    }

    /// Adds a condition on one value, as the source of the rows while there is none better.
    fn narrow(&mut self, source: &'static str, as_source: &'static str, otherwise: &'static str) {
        if self.source == sql::LIST_ALL {
            self.source = source;
            self.must(as_source);
        } else {
            self.must(otherwise);
        }
    }

    fn text(&self) -> String {
        let conditions =
            if self.conditions.is_empty() { "TRUE".to_owned() } else { self.conditions.join(" AND ") };
        format!("{} WHERE {conditions} {}", self.source, sql::LIST_END)
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
    let scope = Scope::of(filter, &lane_counts(unit).await?, &roster);
    if scope.empty || page.limit == 0 {
        return Ok(Page { items: Vec::new(), next: None });
    }
    let running = running(unit, filter).await?;
    let listing = listing(filter, &scope, page.after);
    let params = params(filter, &scope, &running, page);
    let walks = listing.source == sql::LIST_BY_FINGERPRINT;
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
    let lanes = lane_counts(unit).await?;
    let scope = Scope::of(filter, &lanes, &roster);
    if scope.empty {
        return Ok(Survey::of(Vec::new(), true));
    }
    let running = running(unit, filter).await?;
    let text = [sql::SURVEY_BEGIN, &listing(filter, &scope, None).text(), sql::SURVEY_END].concat();
    let params = params(filter, &scope, &running, PageRequest::first(most));
    let lanes: HashMap<i64, LaneKey> = lanes.into_iter().map(|counts| (counts.id, counts.lane)).collect();
    let (mut groups, mut left) = (HashMap::<Common, u64>::new(), 0);
    for mut row in unit.one(Query::new(text, params)).await? {
        let (lane, reason, fingerprint) = (row.int()?, reason(row.maybe_text()?)?, row.maybe_text()?);
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
fn params(filter: &JobFilter, scope: &Scope, running: &[JobId], page: PageRequest<JobId>) -> Vec<Value> {
    let text = |text: &Option<String>| text.as_ref().map_or(Value::Text(None), Value::text);
    let ints = |ids: &[i64]| Value::Ints(ids.iter().copied().map(Some).collect());
    let moment = |moment: Option<Timestamp>| Value::Int(moment.map(Timestamp::as_micros));
    vec![
        text(&filter.tag),
        text(&filter.business_key),
        text(&filter.fingerprint),
        ints(scope.allowed.as_deref().unwrap_or_default()),
        Value::Int(filter.state.map(status_code)),
        ints(&scope.held),
        Value::jobs(running),
        filter.reason.map_or(Value::Text(None), |reason| Value::text(reason.as_str())),
        Value::Id(page.after.map(|id| id.as_uuid())),
        moment(filter.created_after),
        moment(filter.created_before),
        Value::count(page.limit.saturating_add(1)),
        moment(filter.finished_after),
        moment(filter.finished_before),
    ]
}

fn listing(filter: &JobFilter, scope: &Scope, after: Option<JobId>) -> Listing {
    let mut listing = Listing { source: sql::LIST_ALL, conditions: Vec::new() };
    if filter.business_key.is_some() {
        listing.must(sql::WHERE_KEY);
    }
    if filter.fingerprint.is_some() {
        listing.narrow(sql::LIST_BY_FINGERPRINT, sql::WHERE_FINGERPRINT, sql::WHERE_FAILED_BY);
    }
    if filter.tag.is_some() {
        listing.narrow(sql::LIST_BY_TAG, sql::WHERE_TAG, sql::WHERE_TAGGED);
    }
    if let Some(state) = filter.state {
        by_state(&mut listing, state, scope);
    }
    let mut also = |asked: bool, condition| {
        if asked {
            listing.must(condition);
        }
    };
    also(scope.allowed.is_some(), sql::WHERE_LANES);
    also(filter.reason.is_some(), sql::WHERE_REASON);
    also(after.is_some(), sql::WHERE_AFTER);
    also(filter.created_after.is_some(), sql::WHERE_CREATED_AFTER);
    also(filter.created_before.is_some(), sql::WHERE_CREATED_BEFORE);
    if filter.finished_after.is_some() {
        listing.ended(sql::WHERE_ENDED_AFTER, sql::WHERE_FINISHED_AFTER);
    }
    if filter.finished_before.is_some() {
        listing.ended(sql::WHERE_ENDED_BEFORE, sql::WHERE_FINISHED_BEFORE);
    }
    listing
}

/// Adds the condition on the state that is shown, and the source for it when nothing narrower was asked for.
fn by_state(listing: &mut Listing, state: State, scope: &Scope) {
    match state {
        State::Waiting if !scope.held.is_empty() => listing.must(sql::WHERE_WAITING_OR_HELD),
        State::Pending if scope.pending <= FEW => listing.narrow(sql::LIST_READY, "TRUE", sql::WHERE_READY),
        State::Pending => listing.must(sql::WHERE_READY),
        State::Running => listing.must(sql::WHERE_RUNNING),
        State::Succeeded => listing.narrow(sql::LIST_DONE, "TRUE", sql::WHERE_DONE),
        State::Failed | State::Paused | State::Canceled | State::Waiting => {
            listing.narrow(sql::LIST_SHELF, sql::WHERE_SHELF, sql::WHERE_SHELVED);
        }
    }
}
