//! `/api/v1/tokens`: who may call. A token itself is answered once, by the call that makes it.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use backstop_core::Tenant;
use utoipa_axum::routes;

use crate::access::{Caller, Scope, TokenError, TokenRequest};
use crate::api::Api;
use crate::body::{JsonBody, PathParams, QueryParams, wrong_field};
use crate::error::ApiError;
use crate::page::{behind, page};
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{Changed, Items, MadeToken, NewToken, PageQuery, TokenView};

pub(crate) fn routes(routes: Routes) -> Routes {
    // Over all: a token of one tenant must not make one of another.
    let needs = RouteNeeds::RightOverAll(Scope::Admin);
    routes.add(needs, routes!(list, make)).add(needs, routes!(revoke))
}

/// Every token, without its secret.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "tokens", params(PageQuery),
    responses((status = 200, body = Items<TokenView>), (status = 422, body = crate::shape::ErrorBody)))]
async fn list(
    State(api): State<Api>,
    QueryParams(PageQuery { limit, cursor }): QueryParams<PageQuery>,
) -> Result<Response, ApiError> {
    let rows = api.tokens().list().await?.into_iter().map(TokenView::of).collect();
    page(behind(rows, cursor.as_deref(), |last| last.name.clone())?, limit.unwrap_or_default(), |last| {
        last.name.clone()
    })
}

/// Makes a token and answers it, this once.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "tokens", request_body = NewToken,
    responses((status = 201, body = MadeToken), (status = 409, body = crate::shape::ErrorBody),
        (status = 422, body = crate::shape::ErrorBody)))]
async fn make(
    State(api): State<Api>,
    caller: Caller,
    JsonBody(new): JsonBody<NewToken>,
) -> Result<(StatusCode, Json<MadeToken>), ApiError> {
    let NewToken { name, scopes, tenant, queues, expires_at } = new;
    let tenant = tenant.map(|tenant| tenant.parse::<Tenant>()).transpose();
    let tenant = tenant.map_err(|error| wrong_field("tenant", &error.to_string()))?;
    let wish = TokenRequest { name, scopes, tenant, queues, expires: expires_at };
    let (token, info) = api.tokens().create(wish, caller.name()).await?;
    let made = MadeToken { token: token.reveal().to_owned(), made: TokenView::of(info) };
    Ok((StatusCode::CREATED, Json(made)))
}

/// Makes a token worthless: here at once, on every other node within two seconds.
#[utoipa::path(delete, path = "/api/v1/tokens/{name}", tag = "tokens",
    params(("name" = String, Path, description = "The token's name.")),
    responses((status = 200, body = Changed), (status = 404, body = crate::shape::ErrorBody),
        (status = 409, body = crate::shape::ErrorBody)))]
async fn revoke(
    State(api): State<Api>,
    caller: Caller,
    PathParams(name): PathParams<String>,
) -> Result<Json<Changed>, ApiError> {
    let changed = api.tokens().revoke(&name, caller.name()).await?;
    Ok(Json(Changed { changed, status: "revoked".to_owned() }))
}

impl From<TokenError> for ApiError {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Store(error) => error.into(),
            TokenError::Invalid(problem) => wrong_field(problem.field(), &problem.to_string()),
            TokenError::Unknown(_) => Self::not_found("no_such_token", "there is no such token")
                .hint("GET /api/v1/tokens lists those that exist"),
            error @ TokenError::Exists(_) => {
                Self::new(StatusCode::CONFLICT, "token_exists", error.to_string())
            }
            error @ TokenError::Configured(_) => {
                Self::new(StatusCode::CONFLICT, "token_configured", error.to_string())
            }
            error @ TokenError::TooMany => {
                Self::new(StatusCode::CONFLICT, "too_many_tokens", error.to_string())
            }
            error @ TokenError::NoRandomness(_) => {
                tracing::error!(%error, "no token could be made");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "no token could be made")
                    .hint("see the server's log")
            }
        }
    }
}
