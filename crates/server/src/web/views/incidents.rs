//! Incidents: failures by their cause, never one by one.

use axum::response::Response;
use backstop_core::incident::{Incident, IncidentState};
use maud::{Markup, html};

use crate::shape::Items;
use crate::web::call::PageProblem;
use crate::web::chart::spark;
use crate::web::form;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::{PageVisit, part};
use crate::web::words::{counted, mark, none, number, short, span, when};

/// Parameters of the address that the list follows.
const KEPT: [&str; 2] = ["state", "open"];

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Incidents, "Incidents", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let path = visit.path("/api/v1/incidents", &["state", "open", "cursor"], &[("limit", "50")]);
    let found: Items<Incident> = visit.calls.get(&path).await?;
    let dead = counted(found.items.iter().map(|one| one.open).sum(), "dead letter");
    let lead = html! { "Every failed run belongs to one. " (dead) " in those below; jobs that died without a run are "
    a href="/jobs?status=failed" { "among the dead letters" } "." };
    Ok(html! {
        (heading("Incidents", &lead, &html! {}))
        (filters(visit))
        @if found.items.is_empty() {
            (no_rows("incidents",
                match visit.uri.query() {
                    Some(_) => "No incident is like that.",
                    None => "Nothing has failed. When a job does, its cause appears here, once.",
                },
            ))
        } @else {
            div.wide tabindex="0" {
                table {
                    thead {
                        tr {
                            th { "What" } th { "Kind" } th.n { "Dead now" } th.n { "Failures" } th { "Trend" }
                            th { "First seen" } th { "Last seen" } th { "Version" } th { "State" }
                        }
                    }
                    tbody data-rows="incidents" { @for one in &found.items { (row(visit, one)) } }
                }
            }
        }
        (pages(visit, "/incidents", &KEPT, found.next_cursor.as_deref()))
    })
}

fn filters(visit: &PageVisit) -> Markup {
    let mut states = vec![("", "any")];
    states.extend(IncidentState::ALL.iter().map(|state| (state.as_str(), state.as_str())));
    html! {
        form.filters action="/incidents" method="get" {
            (form::choice("state", "State", visit.asked("state").as_deref(), &states))
            (form::choice(
                "open",
                "Dead letters",
                visit.asked("open").as_deref(),
                &[("", "with or without"), ("true", "with some now")],
            ))
            button { "Filter" }
            @if visit.uri.query().is_some() { a href="/incidents" { "Clear" } }
        }
    }
}

fn row(visit: &PageVisit, one: &Incident) -> Markup {
    let fingerprint = one.fingerprint.to_string();
    let (window, failures) = visit.history().trend(visit.now, &fingerprint);
    let label = format!("Failures, the last {}", span(window));
    html! {
        tr data-key=(fingerprint) {
            td.what { a href={ "/incidents/" (part(&fingerprint)) } { (message(&one.message, 160)) } }
            td { code { (short(&one.kind, 60)) } }
            td.n.bad[one.open > 0 && needs_somebody(one)] { (number(one.open)) }
            td.n { (number(one.failures)) }
            td { (spark(&failures, "first", &label)) }
            td { (when(visit.now, one.first_seen)) }
            td { (when(visit.now, one.last_seen)) }
            td { @if let Some(version) = &one.last_version { (short(version, 24)) } @else { (none()) } }
            td { (state(one)) }
        }
    }
}

/// True for one that nobody has looked at.
pub(super) fn needs_somebody(one: &Incident) -> bool {
    matches!(one.standing.state, IncidentState::New | IncidentState::Regressed)
}

/// The state of an incident.
pub(super) fn state(one: &Incident) -> Markup {
    let sort = if needs_somebody(one) && one.open > 0 { "failed" } else { "quiet" };
    mark(one.standing.state.as_str(), sort)
}

/// An error in words, with what differs from one failure to the next dimmed.
pub(super) fn message(text: &str, most: usize) -> Markup {
    let text = short(text, most);
    html! {
        @for (place, word) in text.split(' ').enumerate() {
            @if place > 0 { " " }
            @if differs(word) { span.dim { (word) } } @else { (word) }
        }
    }
}

/// True for a word that is a number or an id, or stands for one.
fn differs(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    word.starts_with('<') && word.ends_with('>') || digits > 0 && digits * 2 >= word.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_dimmed_and_everything_is_escaped() {
        let shown = message("order 4711 of <script>alert(1)</script> failed", 100).0;
        assert!(shown.contains("<span class=\"dim\">4711</span>"), "{shown}");
        assert!(!shown.contains("<script>") && shown.contains("&lt;script&gt;"), "{shown}");
    }
}
