//! Rules: what people have decided about failures, and what each would have changed.

use axum::body::Bytes;
use axum::http::Method;
use axum::response::Response;
use backstop_core::failure::{Rule, RuleMatch};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::shape::{Items, RuleRehearsal};
use crate::web::act::check;
use crate::web::actions::{PageFields, RULE_DELETE, RULE_DISABLE, RULE_ENABLE, RULE_MAKE};
use crate::web::call::PageProblem;
use crate::web::form;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::PageVisit;
use crate::web::words::{counted, mark, short, short_id, when};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit, None).await;
    visit.show(PagePlace::Rules, "Rules", body)
}

/// Tries a rule on past failures; nothing changes.
pub(in crate::web) async fn rehearse(visit: PageVisit, form: Bytes) -> Response {
    let form = PageFields::read(&form);
    let tried = async {
        check(&visit, &form)?;
        let id = form.get("id").unwrap_or_default();
        let answer =
            visit.calls.change(Method::POST, "/api/v1/rules/test", Some(&json!({ "id": id }))).await?;
        let told: RuleRehearsal =
            serde_json::from_value(answer).map_err(|problem| crate::error::internal(&problem))?;
        body(&visit, Some((id, &told))).await
    };
    let body = tried.await;
    visit.show(PagePlace::Rules, "Rules", body)
}

async fn body(visit: &PageVisit, tried: Option<(&str, &RuleRehearsal)>) -> Result<Markup, PageProblem> {
    let found: Items<Rule> =
        visit.calls.get(&visit.path("/api/v1/rules", &["cursor"], &[("limit", "100")])).await?;
    Ok(html! {
        (heading(
            "Rules",
            &html! {
                "What people have decided about failures; a rule goes before what code says. How many retries a kind "
                "may have is up to its " a href="/retry-budgets" { "retry budget" } "."
            },
            &html! {},
        ))
        @if let Some((id, told)) = tried { (rehearsal(visit, id, told)) }
        (new(visit))
        @if found.items.is_empty() { (no_rows("rules", "No rules yet.")) }
        @else { div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "Rule" } th { "Matches" } th { "Then" } th { "Why" } th { "State" } th { "Made" }
                    th { "Change" }
                }
            }
            tbody data-rows="rules" { @for one in &found.items { (row(visit, one)) } }
        } } }
        (pages(visit, "/rules", &[], found.next_cursor.as_deref()))
    })
}

fn row(visit: &PageVisit, one: &Rule) -> Markup {
    let id = one.id.to_string();
    let at = [("id", id.as_str())];
    html! {
        tr data-key=(id) {
            td { code { (short(&id, 60)) } }
            td.what { (conditions(&one.matches)) }
            td { (short(&serde_json::to_string(&one.action).unwrap_or_default(), 120)) }
            td.what { (short(&one.note, 120)) }
            td { @if one.enabled { (mark("in force", "running")) } @else { (mark("off", "quiet")) } }
            td { (when(visit.now, one.created_at)) " by " (short(&one.created_by, 40)) }
            td.acts {
                @if visit.allows("POST /api/v1/rules/test") {
                    form.act action="/rules" method="post" {
                        input type="hidden" name="proof" value=(visit.proof());
                        input type="hidden" name="id" value=(id);
                        button { "Rehearse" }
                    }
                }
                @if one.enabled {
                    (visit.confirmed(
                        &RULE_DISABLE,
                        &at,
                        "Switch off",
                        "Failures are decided without it from then on.",
                        &html! {},
                    ))
                }
                @else {
                    (visit.confirmed(
                        &RULE_ENABLE,
                        &at,
                        "Switch on",
                        "Every failure that it matches is decided by it from then on. Rehearse it first.",
                        &html! {},
                    ))
                }
                (visit.confirmed(&RULE_DELETE, &at, "Remove", "The rule is gone for good.", &html! {}))
            }
        }
    }
}

/// A form for a rule; an incident that leads here has filled in what its failures have in common.
fn new(visit: &PageVisit) -> Markup {
    let asked = |name: &str| visit.asked(name).unwrap_or_default();
    let actions = [
        ("\"permanent\"", "dead letter at once"),
        ("{\"retry\":{}}", "retry, by the policy of the job"),
        ("{\"transient\":{}}", "go back and try again, charged nothing"),
        ("\"pause_queue\"", "go back, and pause the queue"),
    ];
    let enabled = [("false", "off, to be rehearsed first"), ("true", "in force at once")];
    let fields = html! {
        (form::text("id", "Name", "", "such as partner-is-down"))
        (form::text("matches.kind", "Kind", &asked("kind"), "any; * stands for anything"))
        (form::text("matches.queue", "Queue", &asked("queue"), "any"))
        (form::text("matches.error_type", "Type of error", &asked("error_type"), "any"))
        (form::text("matches.text", "Message matches", &asked("text"), "a regular expression"))
        (form::choice("action", "Then", None, &actions))
        (form::text("note", "Why", "", "for the next person"))
        (form::choice("enabled", "State", None, &enabled))
    };
    let happens = "Failures that meet every condition are decided by it, from when it is in force. What has failed \
                   before stays as it is.";
    visit.confirmed(&RULE_MAKE, &[], "Make a rule", happens, &fields)
}

fn conditions(matches: &RuleMatch) -> Markup {
    let told = serde_json::to_value(matches).unwrap_or_default();
    let said: Vec<(String, String)> = told
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| {
            (name.replace('_', " "), value.as_str().map_or_else(|| Value::to_string(value), str::to_owned))
        })
        .collect();
    html! {
        @if said.is_empty() { "every failure" }
        @for (place, (name, value)) in said.iter().enumerate() {
            @if place > 0 { ", " } (name) " " code { (short(value, 80)) }
        }
    }
}

fn rehearsal(visit: &PageVisit, id: &str, told: &RuleRehearsal) -> Markup {
    html! {
        section.found role="status" {
            h2 { "Rehearsal of " code { (short(id, 60)) } }
            p {
                "Of " (counted(told.looked_at, "past failure")) " it matches " (told.matched.len())
                ". Nothing was changed."
            }
            ul.plain { @for one in told.matched.iter().take(20) {
                li {
                    a href={ "/jobs/" (one.job) } { code { (short_id(&one.job.to_string())) } }
                    " run " (one.run) ", " (when(visit.now, one.at)) ": " (short(&one.error, 120)) ". Was: "
                    (short(&one.decided, 80))
                }
            } }
        }
    }
}
