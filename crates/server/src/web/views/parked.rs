//! Jobs that wait for something other than a worker, and ordering keys that are blocked.

use std::collections::BTreeMap;

use axum::response::Response;
use backstop_core::job::{JobJson, WaitDetail};
use maud::{Markup, html};
use serde_json::Value;

use super::jobs;
use crate::shape::{Items, OrderingKeyJson};
use crate::web::actions::KEY_SKIP;
use crate::web::call::PageProblem;
use crate::web::frame::{PagePlace, empty, heading};
use crate::web::visit::PageVisit;
use crate::web::words::{counted, number, short, state, when, when_if};

pub(in crate::web) async fn show(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Parked, "Parked", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let keys: Option<Items<OrderingKeyJson>> =
        visit.calls.get_if_allowed("/api/v1/ordering-keys?blocked=true&limit=50").await?;
    let waiting: Items<JobJson> = visit.calls.get("/api/v1/jobs?status=waiting&limit=100").await?;
    Ok(html! {
        (heading(
            "Parked",
            &html! {
                "What is ready is claimed; what is not waits here, with its reason, and goes on by itself when "
                "the reason goes."
            },
            &html! {},
        ))
        @if let Some(keys) = keys { (blocked(visit, &keys.items)) }
        (reasons(visit, &waiting.items))
        @if waiting.items.is_empty() { (empty("Nothing is parked.")) }
        @else { h2 { "The newest of them" } (jobs::table(visit, &waiting.items)) }
    })
}

fn blocked(visit: &PageVisit, keys: &[OrderingKeyJson]) -> Markup {
    html! {
        @if !keys.is_empty() {
            section {
                h2 { "Blocked ordering keys" }
                div.wide tabindex="0" { table {
                    thead {
                        tr { th { "Key" } th { "Blocked by" } th { "State" } th.n { "Behind it" } th { "Change" } }
                    }
                    tbody data-rows="keys" { @for key in keys {
                        @let happens =
                            format!("The blocking job is canceled, and {} go on.", counted(key.waiting, "job"));
                        tr data-key=(key.key) {
                            td { code { (short(&key.key, 80)) } }
                            td { a href={ "/jobs/" (key.head) } { code { (short(&key.kind, 60)) } } }
                            td { (state(key.status)) }
                            td.n { (number(key.waiting)) }
                            td { (visit.confirmed(&KEY_SKIP, &[("key", &key.key)], "Skip", &happens, &html! {})) }
                        }
                    } }
                } }
            }
        }
    }
}

/// Of those that are shown, how many wait for what.
fn reasons(visit: &PageVisit, waiting: &[JobJson]) -> Markup {
    let mut reasons: BTreeMap<(String, String), Vec<&JobJson>> = BTreeMap::new();
    for job in waiting {
        let (reason, key) = match &job.waiting_for {
            Some(detail) => (reason(detail), detail.key.clone()),
            None if job.waits_for_code => ("code".to_owned(), job.kind.to_string()),
            None => ("something else".to_owned(), String::new()),
        };
        reasons.entry((reason, key)).or_default().push(job);
    }
    html! {
        @if !reasons.is_empty() {
            section data-live="reasons" {
                h2 { "By reason" }
                div.wide tabindex="0" { table {
                    thead {
                        tr {
                            th { "Waits for" } th { "Which" } th.n { "Jobs" } th { "The oldest" } th { "Goes on" }
                        }
                    }
                    tbody { @for ((reason, key), jobs) in &reasons {
                        tr {
                            td { (reason) } td { code { (short(key, 80)) } } td.n { (number(jobs.len() as u64)) }
                            td {
                                @if let Some(oldest) = jobs.iter().map(|job| job.created_at).min() {
                                    (when(visit.now, oldest))
                                }
                            }
                            td {
                                (when_if(
                                    visit.now,
                                    jobs.iter().filter_map(|job| job.waiting_for.as_ref()?.until).min(),
                                ))
                            }
                        }
                    } }
                } }
            }
        }
    }
}

fn reason(detail: &WaitDetail) -> String {
    let word = serde_json::to_value(detail.reason).ok();
    word.as_ref().and_then(Value::as_str).unwrap_or("something else").replace('_', " ")
}
