//! A plan under construction: who, how, and what a dry run counts. Nothing is driven from here.

use axum::body::Bytes;
use axum::http::Method;
use axum::response::Response;
use backstop::TerminalReason;
use backstop_core::incident::Incident;
use backstop_core::redrive::{PlanSettings, PlanSurvey};
use maud::{Markup, html};
use serde_json::Value;

use crate::shape::{IncidentShown, PlanMade};
use crate::web::act::check;
use crate::web::actions::{PageFields, REDRIVE_MAKE, body as request};
use crate::web::call::PageProblem;
use crate::web::form;
use crate::web::frame::{PagePlace, heading};
use crate::web::visit::{PageVisit, part};
use crate::web::words::{counted, number, short};

/// What says which dead letters.
const SELECTS: [&str; 8] =
    ["incident", "kind", "queue", "tag", "reason", "finished_after", "finished_before", "all"];

pub(in crate::web) async fn show(visit: PageVisit) -> Response {
    let query = visit.uri.query().unwrap_or_default().to_owned();
    let body = page(&visit, &PageFields::read(query.as_bytes()), None).await;
    visit.show(PagePlace::Redrives, "New plan", body)
}

/// Counts what a plan would drive, and shows the same page with it.
pub(in crate::web) async fn count(visit: PageVisit, body: Bytes) -> Response {
    let form = PageFields::read(&body);
    let counted = async {
        check(&visit, &form)?;
        let mut wanted =
            request(&REDRIVE_MAKE, &form)?.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        wanted["dry_run"] = Value::from(true);
        let answer = visit.calls.change(Method::POST, "/api/v1/redrives", Some(&wanted)).await?;
        let made: PlanMade =
            serde_json::from_value(answer).map_err(|problem| crate::error::internal(&problem))?;
        page(&visit, &form, made.survey.as_ref()).await
    };
    let body = counted.await;
    visit.show(PagePlace::Redrives, "New plan", body)
}

async fn page(
    visit: &PageVisit,
    form: &PageFields,
    survey: Option<&PlanSurvey>,
) -> Result<Markup, PageProblem> {
    let incident = match form.get("incident") {
        Some(fingerprint) => {
            let path = format!("/api/v1/incidents/{}", part(fingerprint));
            Some(visit.calls.get::<IncidentShown>(&path).await?.incident)
        }
        None => None,
    };
    let lead = match &incident {
        Some(one) => html! { "Those that died of “" (short(&one.message, 160)) "”." },
        None => html! { "Dead letters that match what you say here." },
    };
    Ok(html! {
        (heading("Drive again", &lead, &html! {}))
        form.plan action="/redrives/new" method="post" {
            input type="hidden" name="proof" value=(visit.proof());
            (who(form, incident.as_ref()))
            (how(form))
            div.step {
                h2 { "3. Dry run" }
                p { "Counts what would be driven, and drives nothing." }
                button { "Count" }
                @if let Some(survey) = survey { (found(survey)) }
            }
        }
        @if let Some(survey) = survey { (make(visit, form, survey)) }
    })
}

fn who(form: &PageFields, incident: Option<&Incident>) -> Markup {
    let said = |name: &str| form.get(name).unwrap_or_default().to_owned();
    html! {
        div.step {
            h2 { "1. Which" }
            @if let Some(one) = incident {
                input type="hidden" name="incident" value=(one.fingerprint);
                p { b.figure { (number(one.open)) } " dead now, of " code { (short(&one.kind, 80)) } }
            } @else {
                p { "Of these, all that is said has to fit." }
            }
            (form::text("kind", "Kind", &said("kind"), "any"))
            (form::text("queue", "Queue", &said("queue"), "any"))
            (form::text("tag", "Tag", &said("tag"), "any"))
            (form::choice("reason", "Dead because", form.get("reason"), &reasons()))
            (form::text("finished_after", "Died at or after", &said("finished_after"), "such as 2026-01-31T08:00:00Z"))
            (form::text("finished_before", "Died before", &said("finished_before"), "any time"))
            @if incident.is_none() {
                label.check {
                    input type="checkbox" name="all" value="true" checked[form.get("all").is_some()];
                    " Every dead letter there is"
                }
            }
        }
    }
}

/// Why jobs are dead, as choices. What a retry cannot fix is driven only when it is named.
fn reasons() -> Vec<(&'static str, &'static str)> {
    let each = TerminalReason::ALL.iter().map(|reason| (reason.as_str(), reason.meaning()));
    std::iter::once(("", "any reason that a retry may fix")).chain(each).collect()
}

fn how(form: &PageFields) -> Markup {
    let usual = PlanSettings::default();
    let said = |name: &str, usual: u32| {
        form.get(&format!("settings.{name}")).and_then(|text| text.parse().ok()).unwrap_or(u64::from(usual))
    };
    html! {
        div.step {
            h2 { "2. How carefully" }
            (form::whole("settings.canary", "Go first, as a canary", said("canary", usual.canary), 1, 10_000))
            (form::whole(
                "settings.per_second",
                "Then at most, each second",
                said("per_second", usual.per_second),
                1,
                1_000_000,
            ))
            (form::whole("settings.batch", "In batches of", said("batch", usual.batch), 1, 1_000))
            (form::whole("settings.in_flight", "Under way at most", said("in_flight", usual.in_flight), 1, 10_000))
            (form::whole(
                "settings.ceiling",
                "Leave out what was driven so often",
                said("ceiling", usual.ceiling),
                1,
                1_000_000,
            ))
            (form::whole(
                "settings.max_failures",
                "Halt after other failures",
                said("max_failures", usual.max_failures),
                0,
                1_000_000,
            ))
            (form::text("needs", "Only by code of this version or later", form.get("needs").unwrap_or_default(), "any"))
            (form::text("note", "Note", form.get("note").unwrap_or_default(), "the reason, for the record"))
        }
    }
}

/// A word of the API as people write it.
fn word(word: &Value) -> String {
    word.as_str().unwrap_or_default().replace('_', " ")
}

fn found(survey: &PlanSurvey) -> Markup {
    let at_least = if survey.complete { "" } else { "at least " };
    html! {
        div.found role="status" {
            p { b.figure { (at_least) (number(survey.jobs)) } " would go" }
            ul.plain { @for group in survey.groups.iter().take(8) {
                li {
                    (number(group.jobs)) " to " code { (short(&group.queue, 60)) } ", "
                    code { (short(&group.kind, 60)) }
                    @if let Some(reason) = group.reason { ", " (reason.to_string().replace('_', " ")) } } } }
            @for (why, count) in &survey.left_out {
                p {
                    (counted(*count, "job")) " left out: "
                    (word(&serde_json::to_value(why).unwrap_or_default()))
                }
            }
            @if !survey.unknown_effects.is_empty() {
                p.warn {
                    (counted(survey.unknown_effects.len() as u64, "effect"))
                    " of these jobs may have happened already, and would be called again with the same key."
                }
            }
        }
    }
}

/// What will happen, and the button that makes the plan.
fn make(visit: &PageVisit, form: &PageFields, survey: &PlanSurvey) -> Markup {
    let canary = form.get("settings.canary").unwrap_or("1");
    let rate = form.get("settings.per_second").unwrap_or("50");
    let fields = html! {
        @for name in SELECTS.into_iter().chain(["needs", "note"]) {
            @if let Some(value) = form.get(name) { input type="hidden" name=(name) value=(value); }
        }
        @for name in ["canary", "batch", "per_second", "in_flight", "ceiling", "max_failures"] {
            @let name = format!("settings.{name}");
            @if let Some(value) = form.get(&name) { input type="hidden" name=(name) value=(value); }
        }
    };
    html! {
        @if survey.jobs > 0 {
            section.will {
                h2 { "What will happen" }
                p.lead {
                    (number(survey.jobs)) " jobs go back to their queues: " (canary) " first, the rest after "
                    @if canary == "1" { "it succeeds" } @else { "they succeed" }
                    ", " (rate) " a second. The plan halts if the same error returns."
                }
                (visit.form(&REDRIVE_MAKE, &[], &fields, "Make the plan"))
            }
        } @else { section.will { p.lead { "There is nothing to drive." } } }
    }
}
