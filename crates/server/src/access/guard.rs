//! The two checks of every request: who is it, and may they.

use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};

use super::tokens::TokenLookup;
use super::{Caller, Peer, Scope, peer, throttle};
use crate::api::Api;
use crate::error::ApiError;
use crate::figures;
use crate::route::RouteNeeds;

/// Longest text that is looked at as a token.
const TOKEN_CHARS: usize = 256;

/// The sender of a request, and why it is not known if it is not. Routes that need nothing do not care.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) caller: Caller,
    unknown: Option<ApiError>,
}

impl Identity {
    /// Somebody who is known.
    pub(crate) fn known(caller: Caller) -> Self {
        Self { caller, unknown: None }
    }

    /// Somebody who was not asked.
    pub(crate) fn nobody() -> Self {
        Self { caller: Caller::nobody(), unknown: None }
    }
}

/// Finds out who calls. A caller that is known already (the program itself) stays who it is.
pub(crate) async fn identify(api: &Api, parts: &Parts) -> Identity {
    let who = match parts.extensions.get::<Caller>() {
        Some(known) => Identity { caller: known.clone(), unknown: None },
        None => match who(api, parts.extensions.get::<Peer>().copied(), &parts.headers).await {
            Ok(caller) => Identity { caller, unknown: None },
            Err(refusal) => Identity { caller: Caller::nobody(), unknown: Some(refusal) },
        },
    };
    // When figures are open to everybody, whoever asks for them has the right to read, and nothing else.
    if !who.caller.is_known() && api.settings().reporting.open_metrics && parts.uri.path() == figures::PATH {
        let caller = Caller::holder("metrics", [Scope::Read].into(), None, None);
        return Identity { caller, unknown: None };
    }
    who
}

async fn who(api: &Api, peer: Option<Peer>, headers: &HeaderMap) -> Result<Caller, ApiError> {
    let (door, token) = (api.door(), bearer(headers)?);
    match door.tokens.find(token).await? {
        TokenLookup::Holder(caller) => admit_rate(api, caller),
        TokenLookup::Open if is_of_this_machine(peer, headers) => Ok(Caller::of_this_machine()),
        TokenLookup::Open => Err(ApiError::unauthorized()),
        TokenLookup::Nobody => {
            // Whoever shows nothing has guessed nothing.
            if token.is_some() {
                count_wrong(api, peer, headers)?;
            }
            Err(ApiError::unauthorized())
        }
    }
}

/// Counts a request of a token.
pub(crate) fn admit_rate(api: &Api, caller: Caller) -> Result<Caller, ApiError> {
    let rates = api.door().rates.as_ref();
    let admitted = rates.map_or(Ok(()), |rates| rates.admit(caller.name().to_owned()));
    admitted.map_err(|wait| too_many(wait, "this token has made too many requests"))?;
    Ok(caller)
}

/// Counts a token that was wrong, whatever it was for: an address that guesses is left alone for a while.
pub(crate) fn count_wrong(api: &Api, peer: Option<Peer>, headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(peer) = peer else { return Ok(()) };
    let address = peer::client(headers, peer, &api.settings().access.trusted_proxies);
    let counted = api.door().failed_logins.admit(throttle::counted_as(address));
    counted.map_err(|wait| too_many(wait, "too many wrong tokens came from this address"))
}

/// True for a request that was sent on this machine and not passed on by a proxy for somebody else.
fn is_of_this_machine(peer: Option<Peer>, headers: &HeaderMap) -> bool {
    !peer::is_forwarded(headers) && peer.is_none_or(|peer| peer.remote.ip().to_canonical().is_loopback())
}

/// The token of a request, if it shows one.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut shown = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = shown.next() else { return Ok(None) };
    let token = value.to_str().ok().and_then(|text| {
        let (scheme, token) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    let usable = token.filter(|token| !token.is_empty() && token.len() <= TOKEN_CHARS);
    match (usable, shown.next()) {
        (Some(token), None) => Ok(Some(token)),
        _ => Err(ApiError::unauthorized()),
    }
}

fn too_many(wait: std::time::Duration, message: &str) -> ApiError {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message)
        .hint("wait as long as Retry-After says; batches count as one request")
        .retry_after(seconds.max(1))
}

/// Whether a caller has what the route needs.
pub(crate) fn admit(needs: RouteNeeds, who: &Identity) -> Result<(), ApiError> {
    check(needs, &who.caller).map_err(|refusal| match &who.unknown {
        // Who is unknown because the store is unavailable, or came too often, is told that.
        Some(why) if refusal.status() == StatusCode::UNAUTHORIZED => why.clone(),
        _ => refusal,
    })
}

pub(crate) fn check(needs: RouteNeeds, caller: &Caller) -> Result<(), ApiError> {
    let scope = match needs {
        RouteNeeds::Nothing => return Ok(()),
        RouteNeeds::Right(scope)
        | RouteNeeds::RightOverQueues(scope, _)
        | RouteNeeds::RightOverAll(scope) => scope,
    };
    if !caller.is_known() {
        return Err(ApiError::unauthorized());
    }
    if !caller.may(scope) {
        return Err(ApiError::forbidden(format!("this token has no scope `{scope}`"))
            .hint("ask for a token that has it: `backstop token new --scope ...`"));
    }
    if let RouteNeeds::RightOverQueues(_, why) = needs
        && caller.is_bound_to_queues()
    {
        return Err(ApiError::forbidden(format!("{why}, and this token is for some of them"))
            .hint("use a token without a list of queues"));
    }
    if matches!(needs, RouteNeeds::RightOverAll(_)) && !caller.sees_all() {
        let message = "this concerns all tenants and queues, and this token is for some of them";
        return Err(
            ApiError::forbidden(message).hint("use a token without a tenant and without a list of queues")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Scope;

    #[test]
    fn every_need_is_met_by_exactly_the_callers_that_have_it() {
        let holder = |scope: Scope, tenant: Option<&str>, queues: Option<&str>| {
            let (tenant, queues) = (tenant.map(str::to_owned), queues.map(|queue| vec![queue.to_owned()]));
            Caller::holder("x", [scope].into(), tenant, queues)
        };
        let status =
            |needs, caller: &Caller| check(needs, caller).map_or_else(|e| e.status().as_u16(), |()| 200);
        assert_eq!(status(RouteNeeds::Nothing, &Caller::nobody()), 200);
        for needed in Scope::ALL {
            let (some, all) = (RouteNeeds::Right(needed), RouteNeeds::RightOverAll(needed));
            let queues = RouteNeeds::RightOverQueues(needed, "it reaches all queues");
            assert_eq!(status(queues, &Caller::nobody()), 401);
            assert_eq!((status(some, &Caller::nobody()), status(all, &Caller::nobody())), (401, 401));
            assert_eq!((status(some, &Caller::local("x")), status(all, &Caller::local("x"))), (200, 200));
            for has in Scope::ALL {
                let right = if has == needed { 200 } else { 403 };
                assert_eq!(status(some, &holder(has, None, None)), right, "{needed} {has}");
                assert_eq!(status(all, &holder(has, None, None)), right, "{needed} {has}");
                assert_eq!(status(queues, &holder(has, Some("acme"), None)), right, "{needed} {has}");
                assert_eq!(status(queues, &holder(has, None, Some("mail"))), 403, "{needed} {has}");
                for bound in [holder(has, Some("acme"), None), holder(has, None, Some("mail"))] {
                    assert_eq!((status(some, &bound), status(all, &bound)), (right, 403), "{needed} {has}");
                }
            }
        }
    }

    #[test]
    fn only_one_well_formed_token_is_looked_at() {
        let read = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, axum::http::HeaderValue::from_static(value));
            }
            bearer(&headers).map(|token| token.map(str::to_owned)).map_err(|error| error.status().as_u16())
        };
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["Bearer abc"]), Ok(Some("abc".to_owned())));
        assert_eq!(read(&["bearer  abc "]), Ok(Some("abc".to_owned())));
        for wrong in
            [&["Basic YTpi"][..], &["Bearer"], &["Bearer "], &["abc"], &[""], &["Bearer a", "Bearer b"]]
        {
            assert_eq!(read(wrong), Err(401), "{wrong:?}");
        }
    }
}
