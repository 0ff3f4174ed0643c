//! `/api/v1/incidents`: failures with one fingerprint, and what people say of them (D2).
//!
//! The incident of a tenant's job has a kind that begins with the tenant's name: the tenant sees it without that name,
//! and nobody else's.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use backstop::{State as JobState, Timestamp};
use backstop_core::failure::Fingerprint;
use backstop_core::incident::{Incident, IncidentState, IncidentVerb};
use backstop_store::{IncidentFilter, JobFilter, Page, PageRequest};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use crate::access::{Caller, Scope};
use crate::api::Api;
use crate::body::{JsonBody, PageLimit, PathParams, QueryParams, wrong_field};
use crate::error::ApiError;
use crate::page::PageSteps;
use crate::resources::routes::Routes;
use crate::route::RouteNeeds;
use crate::shape::{IncidentFix, IncidentNote, IncidentSample, IncidentShown, Items};

/// Dead letters that one incident is shown with.
const SAMPLES: usize = 5;

pub(crate) fn routes(routes: Routes) -> Routes {
    // One that is for some queues cannot be told what is in an incident.
    let why = "incidents gather failures of all queues";
    let look = RouteNeeds::RightOverQueues(Scope::Read, why);
    let change = RouteNeeds::RightOverQueues(Scope::Operate, why);
    routes
        .add(look, routes!(list))
        .add(look, routes!(show))
        .add(change, routes!(ack))
        .add(change, routes!(fixed))
        .add(change, routes!(mute))
        .add(change, routes!(reopen))
}

/// Which incidents are listed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Only those in this state.
    state: Option<IncidentState>,
    /// Only those that have dead letters now.
    open: Option<bool>,
    /// At most this many.
    #[param(value_type = Option<PageLimit>)]
    limit: PageLimit,
    /// Go on after this one: `next_cursor` of the page before.
    #[param(max_length = 300)]
    cursor: Option<String>,
}

/// Incidents, latest seen first.
#[utoipa::path(get, path = "/api/v1/incidents", tag = "incidents", params(Which),
    responses((status = 200, body = Items<Incident>)))]
async fn list(
    State(api): State<Api>,
    caller: Caller,
    QueryParams(which): QueryParams<Which>,
) -> Result<Response, ApiError> {
    let filter = IncidentFilter {
        state: which.state,
        open: which.open.unwrap_or(false),
        tenant: caller.tenant().map(ToString::to_string),
        after: which.cursor.as_deref().map(place).transpose()?,
        ..IncidentFilter::default()
    };
    let mut page = PageSteps::new(Some(which.limit), None);
    while let Some(step) = page.next() {
        let after = step.after.as_ref().map(|Place(at, print)| (*at, print.clone())).or(filter.after.clone());
        let filter = IncidentFilter { after, ..filter.clone() };
        let found = api.engine().incidents().matching(filter, step.limit).await?;
        let next = found.last().filter(|_| found.len() == step.limit).map(Place::of);
        page.take(Page { items: found, next }, |incident| {
            let bytes = 1_024 + incident.message.len();
            (Place::of(&incident), bytes, seen(&caller, incident))
        })?;
    }
    page.finish()
}

/// The place of an incident among all: when it was last seen, and which it is.
#[derive(Debug, Clone)]
struct Place(Timestamp, Fingerprint);

impl Place {
    fn of(incident: &Incident) -> Self {
        Self(incident.last_seen, incident.fingerprint.clone())
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0.as_micros(), self.1)
    }
}

fn place(cursor: &str) -> Result<(Timestamp, Fingerprint), ApiError> {
    let read = || {
        let (micros, fingerprint) = cursor.split_once('.')?;
        Some((Timestamp::from_micros(micros.parse().ok()?), fingerprint.parse().ok()?))
    };
    read().ok_or_else(|| wrong_field("cursor", "it is not a cursor of this list"))
}

/// One incident, with some of its dead letters.
#[utoipa::path(get, path = "/api/v1/incidents/{fingerprint}", tag = "incidents",
    params(("fingerprint" = Fingerprint, Path, description = "The incident.")),
    responses((status = 200, body = IncidentShown)))]
async fn show(
    State(api): State<Api>,
    caller: Caller,
    PathParams(fingerprint): PathParams<String>,
) -> Result<Json<IncidentShown>, ApiError> {
    let incident = known(&api, &caller, &fingerprint).await?;
    let filter = JobFilter {
        state: Some(JobState::Failed),
        fingerprint: Some(incident.fingerprint.to_string()),
        ..JobFilter::default()
    };
    let found = api.engine().jobs(filter, PageRequest::first(SAMPLES)).await?.items;
    let sample = |view: &backstop_core::job::JobView| IncidentSample {
        id: view.job.spec.id,
        finished_at: view.record.finished_at,
    };
    let samples: Vec<IncidentSample> = found.iter().map(sample).collect();
    let sample_jobs = samples.iter().map(|sample| sample.id).collect();
    Ok(Json(IncidentShown { incident, sample_jobs, samples }))
}

/// A route by which people say one word of an incident.
macro_rules! says {
    ($(#[$about:meta])* $handler:ident, $path:literal, $verb:expr) => {
        $(#[$about])*
        #[utoipa::path(post, path = $path, tag = "incidents",
            params(("fingerprint" = Fingerprint, Path, description = "The incident.")),
            request_body = Option<IncidentNote>, responses((status = 200, body = Incident)))]
        async fn $handler(
            api: State<Api>,
            caller: Caller,
            fingerprint: PathParams<String>,
            saying: Option<JsonBody<IncidentNote>>,
        ) -> Result<Json<Incident>, ApiError> {
            say(&api, &caller, &fingerprint.0, $verb, saying).await
        }
    };
}

says! {
    /// Says that somebody looks after an incident.
    ack, "/api/v1/incidents/{fingerprint}/ack", IncidentVerb::Acknowledge
}
says! {
    /// Lets alerts be silent about an incident.
    mute, "/api/v1/incidents/{fingerprint}/mute", IncidentVerb::Mute
}
says! {
    /// Treats an incident as if nobody had said anything.
    reopen, "/api/v1/incidents/{fingerprint}/reopen", IncidentVerb::Reopen
}

/// Says that an incident is fixed; a failure in that version or a later one makes it a regression.
#[utoipa::path(post, path = "/api/v1/incidents/{fingerprint}/fixed", tag = "incidents",
    params(("fingerprint" = Fingerprint, Path, description = "The incident.")),
    request_body = Option<IncidentFix>, responses((status = 200, body = Incident)))]
async fn fixed(
    api: State<Api>,
    caller: Caller,
    fingerprint: PathParams<String>,
    saying: Option<JsonBody<IncidentFix>>,
) -> Result<Json<Incident>, ApiError> {
    let IncidentFix { version, note, by } = saying.map(|JsonBody(saying)| saying).unwrap_or_default();
    if version.as_deref().is_some_and(|version| version.trim().is_empty()) {
        return Err(crate::body::wrong_field("version", "it is empty")
            .hint("name the first version without the bug, or leave it out"));
    }
    let saying = Some(JsonBody(IncidentNote { note, by }));
    say(&api, &caller, &fingerprint.0, IncidentVerb::Fix { version }, saying).await
}

async fn say(
    api: &Api,
    caller: &Caller,
    fingerprint: &str,
    verb: IncidentVerb,
    saying: Option<JsonBody<IncidentNote>>,
) -> Result<Json<Incident>, ApiError> {
    let IncidentNote { note, by } = saying.map(|JsonBody(saying)| saying).unwrap_or_default();
    // Somebody else's incident is looked up first: saying something of it would change it.
    let incident = known(api, caller, fingerprint).await?;
    let by = caller.signs(by.as_deref());
    let said = api.engine().incidents().say(&incident.fingerprint, verb, &by, note.as_deref()).await?;
    let said = said.and_then(|incident| seen(caller, incident));
    said.map(Json).ok_or_else(|| unknown(fingerprint))
}

/// An incident that the caller may see.
async fn known(api: &Api, caller: &Caller, fingerprint: &str) -> Result<Incident, ApiError> {
    let print: Fingerprint = fingerprint.parse().map_err(|_| unknown(fingerprint))?;
    let found = api.engine().incidents().get(&print).await?;
    found.and_then(|incident| seen(caller, incident)).ok_or_else(|| unknown(fingerprint))
}

/// An incident as the caller knows it; none when it is another tenant's.
fn seen(caller: &Caller, mut incident: Incident) -> Option<Incident> {
    if !caller.sees_reserved(&incident.kind) {
        return None;
    }
    if let Some(tenant) = caller.tenant() {
        incident.kind = incident.kind.strip_prefix(tenant)?.strip_prefix('/')?.to_owned();
    }
    Some(incident)
}

fn unknown(fingerprint: &str) -> ApiError {
    let shown: String = fingerprint.chars().take(40).collect();
    ApiError::not_found("no_such_incident", format!("there is no incident {shown}"))
        .hint("`backstop incident list` shows those that were seen")
}
