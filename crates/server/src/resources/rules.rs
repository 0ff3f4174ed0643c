//! `/api/v1/rules`: what becomes of failures, without a deploy (F18). A rule is about everybody's failures.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstop::rule::RuleProblem;
use backstop_core::failure::{Rule, RuleAction, RuleId};
use backstop_store::JobFilter;
use utoipa_axum::routes;

use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, PathParams, QueryParams, wrong_field};
use crate::error::ApiError;
use crate::page::{behind, page};
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{ErrorBody, Items, NewRule, PageQuery, RuleRehearsal, RuleTest};

/// Past failures that a test looks at unless it is told otherwise, and at most: each is a read of its own.
const LOOK_BACK: u32 = 1_000;
const LOOK_BACK_MOST: u32 = 10_000;

pub(crate) fn routes(routes: Routes) -> Routes {
    let (look, change) = (RouteNeeds::RightOverAll(Scope::Read), RouteNeeds::RightOverAll(Scope::Admin));
    routes
        .add(look, routes!(list))
        .add(change, routes!(add))
        .add(look, routes!(test))
        .add(change, routes!(enable))
        .add(change, routes!(disable))
        .add(change, routes!(remove))
}

/// Every rule, in the order they are asked.
#[utoipa::path(get, path = "/api/v1/rules", tag = "rules", params(PageQuery),
    responses((status = 200, body = Items<Rule>), (status = 422, body = crate::shape::ErrorBody)))]
async fn list(
    State(api): State<Api>,
    QueryParams(PageQuery { limit, cursor }): QueryParams<PageQuery>,
) -> Result<Response, ApiError> {
    let rows = api.engine().rules().list().await?;
    page(behind(rows, cursor.as_deref(), |last| last.id.to_string())?, limit.unwrap_or_default(), |last| {
        last.id.to_string()
    })
}

/// Keeps a new rule; every worker follows it within a second.
#[utoipa::path(post, path = "/api/v1/rules", tag = "rules", request_body = NewRule,
    responses((status = 201, body = Rule),
        (status = 409, description = "A rule has this name, or there are too many.", body = ErrorBody)))]
async fn add(
    State(api): State<Api>,
    caller: Caller,
    JsonBody(new): JsonBody<NewRule>,
) -> Result<(StatusCode, Json<Rule>), ApiError> {
    let rule = Rule {
        id: new.id,
        note: new.note,
        matches: new.matches,
        action: new.action,
        enabled: new.enabled,
        position: new.position,
        created_at: api.engine().store().now().await?,
        created_by: caller.signs(new.by.as_deref()),
    };
    api.engine().rules().add(&rule).await?;
    Ok((StatusCode::CREATED, Json(rule)))
}

/// Tries a rule on past failures before it is switched on; nothing changes.
#[utoipa::path(post, path = "/api/v1/rules/test", tag = "rules", request_body = RuleTest,
    responses((status = 200, body = RuleRehearsal),
        (status = 404, description = "No such rule.", body = ErrorBody)))]
async fn test(
    State(api): State<Api>,
    JsonBody(test): JsonBody<RuleTest>,
) -> Result<Json<RuleRehearsal>, ApiError> {
    let most = test.most.unwrap_or(LOOK_BACK);
    if !(1..=LOOK_BACK_MOST).contains(&most) {
        return Err(wrong_field("most", &format!("{most} is not between 1 and {LOOK_BACK_MOST}")));
    }
    let rule = match (test.id, test.matches) {
        (Some(id), None) => {
            let rules = api.engine().rules().list().await?;
            rules.into_iter().find(|rule| rule.id == id).ok_or(RuleProblem::Unknown(id))?
        }
        (None, Some(matches)) => Rule {
            id: "test".parse().map_err(|problem| crate::error::internal(&problem))?,
            note: String::new(),
            matches,
            action: RuleAction::Permanent,
            enabled: true,
            position: 0,
            created_at: api.engine().store().now().await?,
            created_by: String::new(),
        },
        _ => {
            return Err(ApiError::invalid(
                "say either the name of a rule as `id`, or conditions as `matches`",
            ));
        }
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    Ok(Json(api.engine().rules().rehearse(&rule, JobFilter::default(), most).await?.into()))
}

/// Switches a rule on.
#[utoipa::path(post, path = "/api/v1/rules/{id}/enable", tag = "rules",
    params(("id" = RuleId, Path, description = "The rule.")),
    responses((status = 200, body = Rule), (status = 409, description = "Somebody changed it.", body = ErrorBody)))]
async fn enable(State(api): State<Api>, PathParams(id): PathParams<String>) -> Result<Json<Rule>, ApiError> {
    Ok(Json(api.engine().rules().enable(&known(&id)?, true).await?))
}

/// Switches a rule off and keeps it.
#[utoipa::path(post, path = "/api/v1/rules/{id}/disable", tag = "rules",
    params(("id" = RuleId, Path, description = "The rule.")),
    responses((status = 200, body = Rule), (status = 409, description = "Somebody changed it.", body = ErrorBody)))]
async fn disable(State(api): State<Api>, PathParams(id): PathParams<String>) -> Result<Json<Rule>, ApiError> {
    Ok(Json(api.engine().rules().enable(&known(&id)?, false).await?))
}

/// Removes a rule, and answers it once more.
#[utoipa::path(delete, path = "/api/v1/rules/{id}", tag = "rules",
    params(("id" = RuleId, Path, description = "The rule.")),
    responses((status = 200, body = Rule), (status = 409, description = "Somebody changed it.", body = ErrorBody)))]
async fn remove(State(api): State<Api>, PathParams(id): PathParams<String>) -> Result<Json<Rule>, ApiError> {
    Ok(Json(api.engine().rules().remove(&known(&id)?).await?))
}

/// The name of a rule; a text that is none names no rule.
fn known(id: &str) -> Result<RuleId, ApiError> {
    id.parse().map_err(|problem| ApiError::not_found("no_such_rule", format!("{problem}")))
}

impl From<RuleProblem> for ApiError {
    fn from(problem: RuleProblem) -> Self {
        let (status, code) = match problem {
            RuleProblem::Store(error) => return error.into(),
            RuleProblem::Invalid(_) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_rule"),
            RuleProblem::Unknown(_) => (StatusCode::NOT_FOUND, "no_such_rule"),
            RuleProblem::Exists(_) => (StatusCode::CONFLICT, "rule_exists"),
            RuleProblem::Changed(_) => (StatusCode::CONFLICT, "rule_changed"),
            RuleProblem::TooMany => (StatusCode::CONFLICT, "too_many_rules"),
        };
        Self::new(status, code, problem.to_string())
    }
}
