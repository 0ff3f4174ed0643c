//! `/api/v1/retry-budgets`: how many retries each kind may have, and how many are planned (F19). A budget is about
//! everybody's jobs of its kind.

use axum::Json;
use axum::extract::State;
use backstop::{BudgetSettings, Config, Timestamp};
use backstop_core::admit;
use backstop_core::failure::RetryBudget;
use backstop_store::{Document, DocumentRange, Documents, Drawer};
use serde::Deserialize;
use utoipa_axum::routes;

use crate::access::Scope;
use crate::api::Api;
use crate::body::QueryParams;
use crate::error::ApiError;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{ErrorBody, Items, PageQuery, RetryBudgetJson};

/// With this budget each first run of the five minutes that count is worth one retry a second, beside the floor.
const EACH_FIRST_RUN: BudgetSettings = BudgetSettings { share: 300.0, floor: 1 };

const MICROS: i64 = 1_000_000;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes.add(RouteNeeds::RightOverAll(Scope::Read), routes!(list))
}

/// Every kind by name of which a first run has ended or a retry was planned, with the budget that this server knows.
#[utoipa::path(get, path = "/api/v1/retry-budgets", tag = "retry-budgets", params(PageQuery),
    responses((status = 200, body = Items<RetryBudgetJson>), (status = 422, body = ErrorBody)))]
async fn list(
    State(api): State<Api>,
    QueryParams(PageQuery { limit, cursor }): QueryParams<PageQuery>,
) -> Result<Json<Items<RetryBudgetJson>>, ApiError> {
    let config = api.engine().config();
    if let Some(cursor) = &cursor {
        admit::name("cursor", cursor, &config.limits)?;
    }
    let mut range = DocumentRange::first(Drawer::Budgets, limit.unwrap_or_default().rows());
    range.after = cursor;
    let Documents { now, items, more } = api.engine().store().documents(range).await?;
    let next_cursor = items.last().filter(|_| more).map(|last| last.key.clone());
    let items = items.iter().filter_map(|document| shown(config, now, document)).collect();
    Ok(Json(Items { items, next_cursor }))
}

/// The budget of a kind. One that cannot be read is of another time: the next retry of the kind begins a new one.
fn shown(config: &Config, now: Timestamp, document: &Document) -> Option<RetryBudgetJson> {
    let kind = document.key.clone();
    let mut budget: RetryBudget = serde_json::from_str(&document.body).ok()?;
    let StoredBudget { calendar } = serde_json::from_str(&document.body).ok()?;
    let settings = config.retry_budgets.get(&kind).copied().unwrap_or(config.retry_budget);
    let first_runs = budget.rate(now, &EACH_FIRST_RUN) - EACH_FIRST_RUN.floor;
    let cap = settings.map(|settings| budget.rate(now, &settings));
    let (planned, last) = calendar.planned(now.as_micros().div_euclid(MICROS));
    // It is not stored: what is booked here is booked for nobody.
    let moved = settings.map(|settings| now.until(budget.admit(now, now, &settings))).unwrap_or_default();
    Some(RetryBudgetJson {
        kind,
        first_runs: u64::from(first_runs),
        share: settings.map(|settings| settings.share),
        floor: settings.map(|settings| settings.floor),
        cap,
        planned,
        planned_until: last.map(|second| Timestamp::from_micros(second.saturating_mul(MICROS))),
        moved_ms: u64::try_from(moved.as_millis()).unwrap_or(u64::MAX),
    })
}

/// A budget as nodes share it, read for what is planned.
#[derive(Debug, Deserialize)]
struct StoredBudget {
    calendar: StoredCalendar,
}

/// Planned retries: from a second on, pairs of how many one second holds and for how many seconds that is so.
#[derive(Debug, Deserialize)]
struct StoredCalendar {
    start: i64,
    booked: Vec<(u32, u64)>,
}

impl StoredCalendar {
    /// How many retries are planned from a second on, and the last second that holds one.
    fn planned(&self, now: i64) -> (u64, Option<i64>) {
        let (mut planned, mut last, mut begin) = (0_u64, None, self.start);
        for (count, seconds) in &self.booked {
            let end = begin.saturating_add_unsigned(*seconds);
            let ahead = begin.max(now);
            if *count > 0 && end > ahead {
                planned = planned.saturating_add(u64::from(*count).saturating_mul(end.abs_diff(ahead)));
                last = Some(end - 1);
            }
            begin = end;
        }
        (planned, last)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A document as an engine writes it.
    fn document(budget: &RetryBudget) -> Document {
        let body = serde_json::to_string(budget).unwrap();
        Document { key: "play".to_owned(), revision: 1, body: body.into() }
    }

    #[test]
    fn a_budget_tells_what_it_has_counted_and_planned() {
        // F19
        let now = Timestamp::from_micros(1_767_225_600 * MICROS);
        let settings = BudgetSettings { share: 1.0, floor: 4 };
        let config = Config::default().retry_budget(Some(settings));
        let mut budget = RetryBudget::default();
        assert_eq!(
            shown(&config, now, &document(&budget)).map(|row| (row.planned, row.cap)),
            Some((0, Some(4)))
        );
        budget.note_first_runs(now, 1_499);
        for _ in 0..30 {
            budget.admit(now, now, &settings);
        }
        let row = shown(&config, now, &document(&budget)).unwrap();
        // 1,499 first runs in 300 seconds are five a second, rounded up.
        assert_eq!((row.first_runs, row.share, row.floor, row.cap), (1_499, Some(1.0), Some(4), Some(9)));
        assert_eq!(
            (row.planned, row.moved_ms),
            (30, 3_333),
            "9 + 9 + 9 + 3: the fourth second has room for more"
        );
        assert_eq!(row.planned_until, Some(now.after(Duration::from_secs(3))));
        let later = shown(&config, now.after(Duration::from_secs(2)), &document(&budget)).unwrap();
        assert_eq!((later.planned, later.moved_ms), (12, 1_333), "what has passed is not planned");
        let over = shown(&config, now.after(Duration::from_secs(600)), &document(&budget)).unwrap();
        assert_eq!((over.planned, over.planned_until, over.first_runs, over.moved_ms), (0, None, 0, 0));
        let unbounded = Config::default().retry_budget_of("play", None);
        let row = shown(&unbounded, now, &document(&budget)).unwrap();
        assert_eq!((row.share, row.cap, row.planned, row.moved_ms), (None, None, 30, 0));
    }

    #[test]
    fn a_damaged_budget_is_left_out_and_overflows_nothing() {
        // F19
        let now = Timestamp::from_micros(MICROS);
        let read = |body: &str| {
            let document = Document { key: "play".to_owned(), revision: 1, body: body.into() };
            shown(&Config::default(), now, &document)
        };
        assert_eq!(read("{}"), None);
        assert_eq!(read("[1]"), None);
        let most = u64::MAX;
        let huge = format!(
            "{{\"calendar\":{{\"start\":{},\"booked\":[[{},{most}],[1,{most}]]}}}}",
            i64::MIN,
            u32::MAX
        );
        assert!(read(&huge).is_some_and(|row| row.planned > 0));
    }
}
