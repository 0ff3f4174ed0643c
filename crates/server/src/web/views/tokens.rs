//! Tokens: who may call, and what each may do.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use maud::{Markup, html};
use serde_json::json;

use crate::access::Scope;
use crate::shape::{Items, MadeToken, TokenView};
use crate::web::act::check;
use crate::web::actions::{PageFields, TOKEN_REVOKE};
use crate::web::call::PageProblem;
use crate::web::form;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::PageVisit;
use crate::web::words::{mark, none, short, when, when_if};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit, None).await;
    visit.show(PagePlace::Tokens, "Tokens", body)
}

/// Makes a token and shows it, once.
pub(in crate::web) async fn make(visit: PageVisit, body_bytes: Bytes) -> Response {
    let form = PageFields::read(&body_bytes);
    let made = async {
        check(&visit, &form)?;
        let wanted = |scope: &&Scope| form.get(&format!("scope.{scope}")).is_some();
        let scopes: Vec<&str> = Scope::ALL.iter().filter(wanted).map(|scope| scope.as_str()).collect();
        let mut new = json!({ "name": form.get("name").unwrap_or_default().trim(), "scopes": scopes });
        if let Some(tenant) = form.get("tenant") {
            new["tenant"] = tenant.trim().into();
        }
        if let Some(queues) = form.get("queues") {
            let queues = queues.split(',').map(str::trim).filter(|queue| !queue.is_empty());
            new["queues"] = queues.collect::<Vec<_>>().into();
        }
        if let Some(days) = form.get("days") {
            let days: u32 = days.trim().parse().map_err(|_| {
                let status = StatusCode::UNPROCESSABLE_ENTITY;
                PageProblem::new(status, "the days are not a whole number", "go back and correct it")
            })?;
            new["expires_at"] = json!(visit.now.after(DAY * days));
        }
        let answer = visit.calls.change(Method::POST, "/api/v1/tokens", Some(&new)).await?;
        let made: MadeToken =
            serde_json::from_value(answer).map_err(|problem| crate::error::internal(&problem))?;
        body(&visit, Some(&made.token)).await
    };
    let body = made.await;
    visit.show(PagePlace::Tokens, "Tokens", body)
}

async fn body(visit: &PageVisit, made: Option<&str>) -> Result<Markup, PageProblem> {
    let found: Items<TokenView> =
        visit.calls.get(&visit.path("/api/v1/tokens", &["cursor"], &[("limit", "100")])).await?;
    Ok(html! {
        (heading(
            "Tokens",
            &html! { "A token says all it may do. Revoking one ends its sessions on this page at once." },
            &html! {},
        ))
        @if let Some(token) = made {
            p.done role="status" {
                "This is the token. It is shown now and never again: " code data-copy=(token) { (token) }
            }
        }
        (new(visit))
        @if found.items.is_empty() { (no_rows("tokens", "No tokens yet: anyone on this machine can do everything.")) }
        @else { div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "Token" } th { "Scopes" } th { "Tenant" } th { "Queues" } th { "Made" } th { "Expires" }
                    th { "State" } th { "Change" }
                }
            }
            tbody data-rows="tokens" { @for one in &found.items { (row(visit, one)) } }
        } } }
        (pages(visit, "/tokens", &[], found.next_cursor.as_deref()))
    })
}

fn row(visit: &PageVisit, one: &TokenView) -> Markup {
    let scopes: Vec<&str> = one.scopes.iter().map(|scope| scope.as_str()).collect();
    html! {
        tr data-key=(one.name) {
            td { b { (short(&one.name, 80)) } } td { (scopes.join(", ")) }
            td { @if let Some(tenant) = &one.tenant { (short(tenant, 40)) } @else { "all" } }
            td.what { @if let Some(queues) = &one.queues { (short(&queues.join(", "), 100)) } @else { "all" } }
            td { (when_if(visit.now, one.created_at)) @if let Some(by) = &one.created_by { " by " (short(by, 40)) } }
            td { (when_if(visit.now, one.expires_at)) }
            td {
                @if let Some(at) = one.revoked_at {
                    (mark("revoked", "quiet")) " " (when(visit.now, at))
                } @else {
                    (mark("valid", "quiet"))
                }
            }
            td { @if one.revoked_at.is_none() && one.kept_in != "configuration" {
                (visit.confirmed(
                    &TOKEN_REVOKE,
                    &[("name", &one.name)],
                    "Revoke",
                    "It stops working for good, and anyone logged in with it is logged out.",
                    &html! {},
                ))
            } @else { (none()) } }
        }
    }
}

fn new(visit: &PageVisit) -> Markup {
    html! {
        @if visit.allows("POST /api/v1/tokens") {
            details.confirm {
                summary { "New token…" }
                form.act action="/tokens" method="post" {
                    input type="hidden" name="proof" value=(visit.proof());
                    (form::text("name", "Name", "", "who will hold it"))
                    (form::text("tenant", "Tenant", "", "all"))
                    (form::text("queues", "Queues, between commas", "", "all"))
                    label.field {
                        span { "Expires after days" }
                        input type="number" name="days" min="1" max="36500" placeholder="never";
                    }
                    fieldset { legend { "May" }
                        @for scope in Scope::ALL {
                            label.check {
                                input type="checkbox" name={ "scope." (scope) } value="true"; " " (scope)
                            }
                        } }
                    @if visit.is_open() {
                        p.warn { "From then on everybody needs a token, on this machine too. Keep an `admin` one." }
                    }
                    button.sure { "Make it" }
                }
            }
        }
    }
}
