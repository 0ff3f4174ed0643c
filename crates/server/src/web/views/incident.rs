//! One incident: what broke, since when, what the broken have in common, and what to do.

use std::collections::BTreeMap;

use axum::extract::Path;
use axum::response::Response;
use backstop_core::failure::{Cause, Rule, RuleInput, RuleSet};
use backstop_core::incident::{Incident, IncidentState};
use backstop_core::job::JobJson;
use maud::{Markup, html};
use serde_json::Value;

use super::incidents::{message, state};
use crate::shape::{IncidentShown, Items};
use crate::web::actions::{INCIDENT_ACK, INCIDENT_FIXED, INCIDENT_MUTE, INCIDENT_REOPEN, RULE_MAKE};
use crate::web::call::PageProblem;
use crate::web::chart::{ChartLine, chart};
use crate::web::form;
use crate::web::frame::PagePlace;
use crate::web::visit::{PageVisit, part};
use crate::web::words::{counted, number, short, when};

/// Dead letters that are compared.
const COMPARED: usize = 50;

/// Bytes of a payload that are read to compare it. One that is larger is told by its size.
const COMPARED_BYTES: &str = "8192";

/// Fields of payloads that are compared, and how deep they may lie.
const MOST_FIELDS: usize = 200;
const DEPTH: usize = 3;

/// Fields that are shown on each side.
const SHOWN: usize = 8;

pub(in crate::web) async fn show(visit: PageVisit, Path(fingerprint): Path<String>) -> Response {
    let body = body(&visit, &fingerprint).await;
    visit.show(PagePlace::Incidents, "Incident", body)
}

async fn body(visit: &PageVisit, fingerprint: &str) -> Result<Markup, PageProblem> {
    let shown: IncidentShown = visit.calls.get(&format!("/api/v1/incidents/{}", part(fingerprint))).await?;
    let path = visit.path(
        "/api/v1/dead-letters",
        &[],
        &[
            ("fingerprint", shown.incident.fingerprint.as_str()),
            ("limit", &COMPARED.to_string()),
            ("data_limit", COMPARED_BYTES),
        ],
    );
    let dead: Items<JobJson> = visit.calls.get(&path).await?;
    let rules: Option<Items<Rule>> = visit.calls.get_if_allowed("/api/v1/rules?limit=100").await?;
    let one = &shown.incident;
    let history = visit.history();
    let failures = history.failures(visit.now, one.fingerprint.as_str());
    let failures = failures.into_iter().map(|point| point.map(|rate| rate * 60.0)).collect();
    Ok(html! {
        header.heading data-live="incident" {
            div {
                h1.error { (message(&one.message, 400)) }
                p.lead { (story(visit, one)) }
            }
        }
        (actions(visit, one))
        div.two {
            (chart(
                ("chart-failures", "Failures"),
                history.window(visit.now),
                &[ChartLine { name: "failures", class: "first", points: failures }],
                |value| format!("{value:.0} a minute"),
            ))
            (facts(visit, one))
        }
        (in_common(&dead.items))
        (samples(visit, one, &dead.items))
        (related(visit, one, dead.items.first(), &rules.map(|found| found.items).unwrap_or_default()))
    })
}

/// Where its dead letters are listed.
fn dead_path(visit: &PageVisit, one: &Incident) -> String {
    visit.path("/jobs", &[], &[("status", "failed"), ("fingerprint", one.fingerprint.as_str())])
}

/// How many, of what, since when, in which version.
fn story(visit: &PageVisit, one: &Incident) -> Markup {
    html! {
        (counted(one.open, "job")) " of " code { (short(&one.kind, 80)) }
        @if one.open == 1 { " is" } @else { " are" } " dead of this now; "
        (counted(one.failures, "run")) " failed so since " (when(visit.now, one.first_seen)) ", last "
        (when(visit.now, one.last_seen))
        @match (&one.first_version, &one.last_version) {
            (Some(first), Some(last)) if first == last => { ", all in version " (short(last, 40)) },
            (Some(first), Some(last)) => { ", first in version " (short(first, 40)) ", last in " (short(last, 40)) },
            _ => {},
        }
        ". " (state(one))
        @if let Some(by) = &one.standing.changed_by { " by " (short(by, 60)) }
        @if let Some(version) = &one.standing.fixed_in { " in " (short(version, 40)) }
        @if let Some(note) = &one.standing.note { ": " (short(note, 200)) }
    }
}

fn actions(visit: &PageVisit, one: &Incident) -> Markup {
    let fingerprint = one.fingerprint.to_string();
    let at = [("fingerprint", fingerprint.as_str())];
    let note = form::text("note", "Note", "", "the reason, for the record");
    let version = html! { (form::text("version", "First version without the bug", "", "1.4.2")) (note) };
    html! {
        div.actions data-live="incident-actions" {
            @if visit.allows("POST /api/v1/redrives") && one.open > 0 {
                a.button.main href=(visit.path("/redrives/new", &[], &[("incident", &fingerprint)])) {
                    "Drive " (counted(one.open, "job")) " again"
                }
            }
            @if one.standing.state != IncidentState::Acknowledged {
                (visit.form(&INCIDENT_ACK, &at, &html! {}, "Acknowledge"))
            }
            (visit.confirmed(
                &INCIDENT_FIXED,
                &at,
                "Fixed in",
                "Says that it is fixed. A failure in that version or a later one makes it a regression and calls \
                 for you again.",
                &version,
            ))
            @if one.standing.state != IncidentState::Muted {
                (visit.confirmed(
                    &INCIDENT_MUTE,
                    &at,
                    "Mute",
                    "No alert will tell of this incident any more. Its failures are still counted.",
                    &note,
                ))
            }
            @if one.standing.state != IncidentState::New { (visit.form(&INCIDENT_REOPEN, &at, &html! {}, "Reopen")) }
        }
    }
}

fn facts(visit: &PageVisit, one: &Incident) -> Markup {
    html! {
        dl.facts data-live="facts" {
            dt { "Kind" } dd { code { (short(&one.kind, 80)) } }
            dt { "Type of error" } dd { code { (short(&one.error_type, 120)) } }
            dt { "Dead now" }
            dd {
                a
                    href=(dead_path(visit, one)) {
                    (number(one.open))
                }
            }
            dt { "Died of it, ever" } dd { (number(one.dead)) }
            dt { "Failed runs" } dd { (number(one.failures)) }
            dt { "Came back" }
            dd {
                @if one.standing.regressions == 0 {
                    "never"
                } @else {
                    (counted(u64::from(one.standing.regressions), "time"))
                }
            }
            dt { "Fingerprint" } dd { code data-copy=(one.fingerprint) { (one.fingerprint) } }
        }
    }
}

/// A field of payloads: how often each value was there.
type FieldValues = BTreeMap<String, usize>;

/// What the failed payloads share, and what varies.
fn in_common(dead: &[JobJson]) -> Markup {
    let payloads: Vec<&Value> =
        dead.iter().map(|job| &job.payload).filter(|payload| payload.is_object()).collect();
    let large = dead.iter().filter(|job| job.left_out.contains_key("payload")).count();
    html! {
        section.common data-live="common" {
            @if payloads.len() >= 2 { (shares(&payloads)) }
            @if large > 0 {
                p.since { (counted(large as u64, "payload")) " over " (COMPARED_BYTES) " bytes is not compared." }
            }
        }
    }
}

fn shares(payloads: &[&Value]) -> Markup {
    let mut fields: BTreeMap<String, FieldValues> = BTreeMap::new();
    for payload in payloads {
        gather(payload, "", 0, &mut fields);
    }
    let (mut shared, mut varied) = (Vec::new(), Vec::new());
    for (field, values) in &fields {
        let Some((value, count)) = values.iter().max_by_key(|(_, count)| **count) else { continue };
        let share = count * 100 / payloads.len();
        if share >= 60 { shared.push((share, field, value)) } else { varied.push((field, values.len())) }
    }
    shared.sort_by_key(|(share, _, _)| std::cmp::Reverse(*share));
    html! {
        h2 { "What the failed payloads share" }
        @if shared.is_empty() { p { "No field has the same value in most of " (payloads.len()) " of them." } }
        @else { ul.shares { @for (share, field, value) in shared.iter().take(SHOWN) {
            li { code { (short(field, 60)) " = " (short(value, 80)) } " " b { (share) " %" } } } } }
        @if !varied.is_empty() {
            p.lead { "What varies: " @for (place, (field, count)) in varied.iter().take(SHOWN).enumerate() {
                @if place > 0 { ", " } code { (short(field, 60)) } " (" (count) " values)" } "." }
        }
        p.since { "Of the latest " (payloads.len()) " dead letters; secrets are masked." }
    }
}

fn gather(value: &Value, under: &str, depth: usize, fields: &mut BTreeMap<String, FieldValues>) {
    let Some(object) = value.as_object() else { return };
    for (name, value) in object {
        let path = if under.is_empty() { name.clone() } else { format!("{under}.{name}") };
        match value {
            Value::Object(_) if depth + 1 < DEPTH => gather(value, &path, depth + 1, fields),
            Value::Object(_) | Value::Array(_) => {}
            plain if fields.len() < MOST_FIELDS || fields.contains_key(&path) => {
                let text = plain.as_str().map_or_else(|| plain.to_string(), str::to_owned);
                *fields.entry(path).or_default().entry(short(&text, 80)).or_default() += 1;
            }
            _ => {}
        }
    }
}

fn samples(visit: &PageVisit, one: &Incident, dead: &[JobJson]) -> Markup {
    html! {
        section data-live="samples" {
            h2 { "Samples" }
            @if dead.is_empty() { p.empty { "No dead letter of this incident is here now." } }
            @for job in dead.iter().take(3) {
                article.sample {
                    h3 {
                        a href={ "/jobs/" (job.id) } { code { (job.id) } }
                        " "
                        span.dim { @if let Some(at) = job.finished_at { "died " (when(visit.now, at)) } }
                    }
                    @if let Some(error) = &job.last_error { pre.error { (short(error, 2_000)) } }
                    pre { (sample(&job.payload)) }
                    @if let Some(bytes) = job.left_out.get("payload") {
                        p.since { "The beginning of " (number(*bytes)) " bytes; the job has all of it." }
                    }
                }
            }
            @if one.open > 3 {
                p {
                    a
                        href=(dead_path(visit, one)) {
                        "All " (counted(one.open, "dead letter"))
                    }
                }
            }
        }
    }
}

/// A payload as a sample shows it. One that was cut is a text, and no JSON any more.
fn sample(payload: &Value) -> String {
    match payload {
        Value::String(text) => short(text, 1_000),
        whole => short(&serde_json::to_string_pretty(whole).unwrap_or_default(), 1_000),
    }
}

/// Whether a rule would decide a failure like these: the engine's own answer. What nobody knows of an incident, its
/// queue while none of its jobs is here, and its cause, is left open.
fn may_decide(rule: &Rule, one: &Incident, latest: Option<&JobJson>) -> bool {
    let mut asked = Rule { enabled: true, ..rule.clone() };
    asked.matches.cause = None;
    if latest.is_none() {
        asked.matches.queue = None;
    }
    let input = RuleInput {
        kind: &one.kind,
        queue: latest.map_or("", |job| &job.queue),
        cause: Cause::Error,
        error_type: &one.error_type,
        message: latest.and_then(|job| job.last_error.as_deref()).unwrap_or(&one.message),
    };
    RuleSet::compile(vec![asked]).0.judge(&input).is_some()
}

/// Rules that decide failures like these.
fn related(visit: &PageVisit, one: &Incident, latest: Option<&JobJson>, rules: &[Rule]) -> Markup {
    let about: Vec<&Rule> = rules.iter().filter(|rule| may_decide(rule, one, latest)).collect();
    let mut common = form_urlencoded::Serializer::new(String::new());
    common.append_pair("kind", &one.kind).append_pair("error_type", &one.error_type);
    html! {
        @if visit.allows(RULE_MAKE.route) {
            p { a href={ "/rules?" (common.finish()) } { "Make a rule for failures like these" } }
        }
        section data-live="related" {
            @if !about.is_empty() {
                h2 { "Rules that may be about it" }
                ul.plain { @for rule in about {
                    li {
                        a href="/rules" { code { (rule.id) } } " " (short(&rule.note, 120))
                        @if !rule.enabled { " (not in force)" }
                    }
                } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_rule_is_about_an_incident_when_the_engine_would_ask_it() {
        let one = Incident {
            fingerprint: "0011223344556677".parse().unwrap(),
            kind: "shop.charge".into(),
            error_type: "Declined".into(),
            message: "the card <n> was declined".into(),
            failures: 1,
            dead: 1,
            open: 1,
            first_seen: backstop::Timestamp::EPOCH,
            last_seen: backstop::Timestamp::EPOCH,
            first_version: None,
            last_version: None,
            sample_job: backstop::JobId::from_u128(1),
            standing: backstop_core::incident::Standing::default(),
        };
        let rule = |matches: Value| -> Rule {
            let rule = json!({ "id": "r", "note": "", "matches": matches, "action": "permanent", "enabled": false,
                "position": 1, "created_at": "2026-01-01T00:00:00Z", "created_by": "ann" });
            serde_json::from_value(rule).unwrap()
        };
        for (matches, is_about) in [
            (json!({ "kind": "shop.*" }), true),
            (json!({ "kind": "mail.*" }), false),
            (json!({ "text": "was declined" }), true),
            (json!({ "text": "timed out" }), false),
            (json!({ "error_type": "Declined", "queue": "vip" }), true),
            (json!({ "error_type": "Timeout" }), false),
        ] {
            assert_eq!(may_decide(&rule(matches.clone()), &one, None), is_about, "{matches}");
        }
    }

    #[test]
    fn what_payloads_share_is_counted_by_field() {
        let mut fields = BTreeMap::new();
        for number in 0..10 {
            gather(
                &json!({ "region": "eu", "order": number, "card": { "brand": "visa" }, "tags": [1] }),
                "",
                0,
                &mut fields,
            );
        }
        assert_eq!(fields["region"]["eu"], 10);
        assert_eq!(fields["card.brand"]["visa"], 10);
        assert_eq!(fields["order"].len(), 10);
        assert!(!fields.contains_key("tags"), "lists are not compared");
    }
}
