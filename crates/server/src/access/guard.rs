//! The two checks of every request: who is it, and may they.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Caller;
use crate::api::Api;
use crate::error::ApiError;
use crate::routes::Needs;

/// Finds out who calls. A caller that is known already (the program itself) stays who it is.
pub(crate) async fn identify(State(_api): State<Api>, mut request: Request, next: Next) -> Response {
    if request.extensions().get::<Caller>().is_none() {
        request.extensions_mut().insert(Caller::local("local"));
    }
    next.run(request).await
}

/// Lets a request through to its handler when its caller has what the route needs.
pub(crate) async fn admit(needs: Needs, request: Request, next: Next) -> Response {
    let caller = request.extensions().get::<Caller>().cloned().unwrap_or_else(Caller::nobody);
    match check(needs, &caller) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

fn check(needs: Needs, caller: &Caller) -> Result<(), ApiError> {
    let (scope, everything) = match needs {
        Needs::Nothing => return Ok(()),
        Needs::Right(scope) => (scope, false),
        Needs::RightOverAll(scope) => (scope, true),
    };
    if !caller.is_known() {
        return Err(ApiError::unauthorized());
    }
    if !caller.may(scope) {
        return Err(ApiError::forbidden(format!("this token has no scope `{scope}`"))
            .hint("ask for a token that has it: `backstop token new --scope ...`"));
    }
    if everything && !caller.sees_all() {
        let message = "this concerns all tenants and queues, and this token is for some of them";
        return Err(
            ApiError::forbidden(message).hint("use a token without a tenant and without a list of queues")
        );
    }
    Ok(())
}
