//! The OpenAPI document, made from the routes and the shapes.
//!
//! Owns what all operations have in common and no handler says: who may call, how calls are refused, and what they are
//! called. What one operation takes and answers is said beside its handler.

use utoipa::PartialSchema;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::info::InfoBuilder;
use utoipa::openapi::path::{Operation, Paths};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::{Tag, TagBuilder};
use utoipa::openapi::{Components, OneOf, OpenApi, OpenApiVersion, Ref, RefOr, Schema};

use crate::body::PageLimit;
use crate::route::RouteNeeds;
use crate::shape::{ErrorBody, ErrorDetail};

/// The name of the one way to say who calls.
const BEARER: &str = "bearer";

/// What each tag is about. A tag that is not here is refused by a test.
const TAGS: [(&str, &str); 34] = [
    ("alerts", "What each channel was told of each incident."),
    ("archive", "Jobs that ended long ago."),
    ("audit", "Who changed what over HTTP."),
    ("dead-letters", "Jobs that failed for good, as other systems read them."),
    ("doctor", "What is wrong with the store, if anything is."),
    ("events", "What happens, as it happens."),
    ("handoffs", "Finished jobs that another Backstop goes on with."),
    ("health", "Whether the process is alive and can work, and what time it is."),
    ("incidents", "Failures that belong together, and what people say of them."),
    ("jobs", "Submit, list, explain, pause and cancel jobs."),
    ("kinds", "Kinds that run without code of your own."),
    ("logs", "What runs have logged or printed."),
    ("metrics", "Metrics for monitoring."),
    ("openapi", "This document."),
    ("batches", "Jobs without an order, and what follows when all have ended."),
    ("bridges", "Brokers whose messages become jobs, and that are told what became of jobs."),
    ("circuits", "Dependencies that are left alone for a while because they fail."),
    ("limits", "How many jobs may run at once and start in a time, over all workers."),
    ("ordering-keys", "Whose turn it is among jobs with one ordering key, and letting a line go on."),
    ("queues", "List, pause and resume queues."),
    ("redrives", "Plans that drive dead letters again, carefully."),
    ("rejects", "Items that runs could not handle, and that did not stop them."),
    ("retention", "How long what is over is kept."),
    ("retry-budgets", "How many retries each kind may have."),
    ("rules", "What becomes of failures, without a deploy."),
    ("scale", "The backlog and the number of worker processes it needs, for autoscalers."),
    ("schedules", "Jobs that are submitted again and again."),
    ("signals", "Letting jobs go on that wait for a signal."),
    ("submit", "Storing jobs."),
    ("tokens", "Who may call, and what they may do."),
    ("webhooks", "Subscriptions that are told what happens."),
    ("work", "Remote workers: take jobs, and report how they ended."),
    ("workers", "Workers that run jobs."),
    ("workflows", "Jobs that wait for each other."),
];

/// The document's head: what this is, how to say who calls, and the one shape of refusals.
pub(crate) fn head() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Backstop")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("A durable job engine: submit, work, and look after what fails."))
        .build();
    let mut document = OpenApi::default();
    document.openapi = OpenApiVersion::Version31;
    document.info = info;
    let mut components = Components::new();
    // A query's own types are not gathered from the handlers, unlike those of bodies.
    let shared = [
        ("Failed", ErrorBody::schema()),
        ("FailedWhy", ErrorDetail::schema()),
        ("Limit", PageLimit::schema()),
    ];
    for (name, schema) in shared {
        components.schemas.insert(name.to_owned(), schema);
    }
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "A token that `backstop token new` printed. Each operation names the scope that the token needs. A server \
             without tokens serves its own machine alone, and asks for none.",
        ))
        .build();
    components.add_security_scheme(BEARER, SecurityScheme::Http(bearer));
    document.components = Some(components);
    document
}

/// The whole document, as `/api/v1/openapi.json` serves it.
#[must_use]
pub fn document() -> OpenApi {
    let mut document = crate::routes::described();
    let operations =
        document.paths.paths.values().flat_map(|item| [&item.get, &item.post, &item.put, &item.delete]);
    let used: Vec<String> =
        operations.flatten().filter_map(|operation| operation.tags.clone()).flatten().collect();
    let described = TAGS.iter().filter(|(name, _)| used.iter().any(|tag| tag == name));
    document.tags = Some(described.map(|(name, about)| tag(name, about)).collect());
    document
}

fn tag(name: &str, about: &str) -> Tag {
    TagBuilder::new().name(name).description(Some(about)).build()
}

/// Completes the operations of a path by what they need of their caller.
pub(crate) fn complete(needs: RouteNeeds, paths: &mut Paths) {
    for (path, item) in &mut paths.paths {
        let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            name(operation);
            leave_out(operation);
            secure(needs, operation);
            refuse(needs, path.contains('{'), operation);
        }
    }
}

/// `incidents_ack`: the tag and the handler, which together name one operation.
fn name(operation: &mut Operation) {
    let tag = operation.tags.iter().flatten().next().map_or("api", String::as_str).replace('-', "_");
    let handler = operation.operation_id.take().unwrap_or_default();
    operation.operation_id = Some(format!("{tag}_{handler}"));
}

/// A body that is optional may be left out; it may not be `null`.
fn leave_out(operation: &mut Operation) {
    let Some(RefOr::T(body)) = &mut operation.request_body else { return };
    let contents = body.content.values_mut().filter_map(|content| match content {
        RefOr::T(content) => content.schema.as_mut(),
        RefOr::Ref(_) => None,
    });
    for schema in contents {
        let RefOr::T(Schema::OneOf(OneOf { items, .. })) = schema else { continue };
        if body.required.is_none() && items.len() == 2 {
            *schema = items.remove(0);
        }
    }
}

/// Says which scope a token needs.
fn secure(needs: RouteNeeds, operation: &mut Operation) {
    let (scope, bounds) = match needs {
        RouteNeeds::Nothing => {
            operation.security = Some(Vec::new());
            return;
        }
        RouteNeeds::Right(scope) => (scope, ""),
        RouteNeeds::RightOverQueues(scope, _) => (scope, ", without a list of queues"),
        RouteNeeds::RightOverAll(scope) => (scope, ", of no tenant and without a list of queues"),
    };
    operation.security = Some(vec![SecurityRequirement::new(BEARER, [scope.as_str()])]);
    let sentence = format!("Needs a token with the scope `{scope}`{bounds}.");
    operation.description = Some(match operation.description.take().filter(|said| !said.is_empty()) {
        Some(said) => format!("{said}\n\n{sentence}"),
        None => sentence,
    });
}

/// Adds the refusals that every operation of its sort can meet; what a handler says of one itself stays.
fn refuse(needs: RouteNeeds, has_parameters: bool, operation: &mut Operation) {
    let secured = needs != RouteNeeds::Nothing;
    let has_body = operation.request_body.is_some();
    let has_input =
        has_body || has_parameters || operation.parameters.as_ref().is_some_and(|all| !all.is_empty());
    let refusals = [
        (has_input, "400", "It cannot be parsed."),
        (secured, "401", "No valid token was sent."),
        (secured, "403", "The token may not do this."),
        (has_parameters, "404", "Not found, or not visible to this caller."),
        (has_body, "413", "The body is too large."),
        (has_body, "415", "The body is not declared as JSON."),
        (has_input, "422", "It is well-formed, but something in it is not valid."),
        (true, "429", "Too many requests; `Retry-After` says when to try again."),
        (
            true,
            "503",
            "The store is unavailable or the server is full; `Retry-After` says when to try again.",
        ),
    ];
    for (applies, status, meaning) in refusals {
        if applies {
            let refusal = || refusal(meaning).into();
            operation.responses.responses.entry(status.to_owned()).or_insert_with(refusal);
        }
    }
}

fn refusal(meaning: &str) -> Response {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Failed"))).build();
    ResponseBuilder::new().description(meaning).content("application/json", content).build()
}
