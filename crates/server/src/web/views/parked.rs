//! Jobs that wait for something other than a worker, and ordering keys that are blocked.

use std::collections::BTreeMap;

use axum::response::Response;
use backstop_core::job::{JobJson, WaitDetail};
use backstop_store::QueueView;
use maud::{Markup, html};
use serde_json::Value;

use super::jobs;
use crate::shape::{CircuitJson, Items, LimitJson, OrderingKeyJson};
use crate::web::actions::KEY_SKIP;
use crate::web::call::PageProblem;
use crate::web::frame::{PagePlace, heading, no_rows};
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
    let queues: Items<QueueView> = visit.calls.get("/api/v1/queues?limit=1000").await?;
    let parked: u64 = queues.items.iter().map(|queue| queue.waiting).sum();
    Ok(html! {
        (heading(
            "Parked",
            &html! {
                @if queues.next_cursor.is_some() { "At least " } (counted(parked, "job"))
                ". What is ready is claimed; what is not waits here, with its reason, and goes on by itself when "
                "the reason goes."
            },
            &html! {},
        ))
        section data-live="holders" { (holders(visit).await?) }
        section data-live="blocked" { @if let Some(keys) = keys { (blocked(visit, &keys)) } }
        section data-live="reasons" { (reasons(visit, &waiting)) }
        @if waiting.items.is_empty() { (no_rows("jobs", "Nothing is parked.")) }
        @else {
            h2 { "The newest of them" }
            (jobs::table(visit, &waiting.items))
            p { a href="/jobs?status=waiting" { "All jobs that wait" } }
        }
    })
}

/// What holds many at once and counts them: circuits and limits.
async fn holders(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let circuits: Option<Items<CircuitJson>> =
        visit.calls.get_if_allowed("/api/v1/circuits?limit=100").await?;
    let limits: Option<Items<LimitJson>> = visit.calls.get_if_allowed("/api/v1/limits?limit=100").await?;
    let circuits = circuits.map(|found| found.items).unwrap_or_default();
    let limits = limits.map(|found| found.items).unwrap_or_default();
    let of_circuits = circuits.iter().map(|one| ("/circuits", "circuit", &one.key, one.parked, one.until));
    let of_limits =
        limits.iter().map(|one| ("/limits", "limit", &one.name, one.parked.unwrap_or(0), one.next_start));
    let held: Vec<_> = of_circuits.chain(of_limits).filter(|(.., parked, _)| *parked > 0).collect();
    Ok(html! {
        @if !held.is_empty() {
            h2 { "Held back by" }
            div.wide tabindex="0" { table {
                thead { tr { th { "What" } th { "Which" } th.n { "Jobs" } th { "Goes on" } } }
                tbody { @for (path, what, name, parked, until) in held {
                    tr {
                        td { (what) } td { a href=(path) { (short(name, 80)) } } td.n { (number(parked)) }
                        td { (when_if(visit.now, until)) }
                    }
                } }
            } }
        }
    })
}

fn blocked(visit: &PageVisit, keys: &Items<OrderingKeyJson>) -> Markup {
    html! {
        @if !keys.items.is_empty() {
                h2 { "Blocked ordering keys" }
                @if keys.next_cursor.is_some() {
                    p.lead { "The first " (keys.items.len()) "; the API has all of them." }
                }
                div.wide tabindex="0" { table {
                    thead {
                        tr { th { "Key" } th { "Blocked by" } th { "State" } th.n { "Behind it" } th { "Change" } }
                    }
                    tbody { @for key in &keys.items {
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

/// Of those that are shown, how many wait for what: where more wait than are shown, each number is the least.
fn reasons(visit: &PageVisit, waiting: &Items<JobJson>) -> Markup {
    let mut reasons: BTreeMap<(String, String), Vec<&JobJson>> = BTreeMap::new();
    for job in &waiting.items {
        let (reason, key) = match &job.waiting_for {
            Some(detail) => (reason(detail), detail.key.clone()),
            None if job.waits_for_code => ("code".to_owned(), job.kind.to_string()),
            None => ("something else".to_owned(), String::new()),
        };
        reasons.entry((reason, key)).or_default().push(job);
    }
    html! {
        @if !reasons.is_empty() {
                h2 { "By reason" }
                @if waiting.next_cursor.is_some() {
                    p.lead {
                        "Of the newest " (waiting.items.len()) " alone: more wait, so each number is the least."
                    }
                }
                div.wide tabindex="0" { table {
                    thead {
                        tr {
                            th { "Waits for" } th { "Which" } th.n { "Jobs" } th { "The oldest" } th { "Goes on" }
                        }
                    }
                    tbody { @for ((reason, key), jobs) in &reasons {
                        tr {
                            td { (reason) } td { code { (short(key, 80)) } }
                            td.n {
                                @if waiting.next_cursor.is_some() { "at least " }
                                (number(jobs.len() as u64))
                            }
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

fn reason(detail: &WaitDetail) -> String {
    let word = serde_json::to_value(detail.reason).ok();
    word.as_ref().and_then(Value::as_str).unwrap_or("something else").replace('_', " ")
}
