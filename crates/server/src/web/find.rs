//! Search by id, key, tag or the text of an error.

use axum::response::Response;
use backstop_core::incident::Incident;
use backstop_core::job::JobJson;
use maud::{Markup, html};

use super::call::PageProblem;
use super::frame::{PagePlace, empty, heading};
use super::views::jobs;
use super::visit::{PageVisit, go_to, part};
use super::words::{counted, short};
use crate::shape::Items;

/// Letters and signs of an id; the API takes its first six, too.
fn is_id(text: &str) -> bool {
    text.len() >= 6 && text.len() <= 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

pub(super) async fn show(visit: PageVisit) -> Response {
    let wanted = visit.asked("q").unwrap_or_default().trim().to_owned();
    if is_id(&wanted)
        && let Ok(job) = visit.calls.get::<JobJson>(&format!("/api/v1/jobs/{}", part(&wanted))).await
    {
        return go_to(&format!("/jobs/{}", job.id));
    }
    let body = body(&visit, &wanted).await;
    visit.show(PagePlace::None, "Find", body)
}

async fn body(visit: &PageVisit, wanted: &str) -> Result<Markup, PageProblem> {
    if wanted.is_empty() {
        return Ok(html! {
            (heading(
                "Find",
                &html! { "A job by its id or the beginning of it, a business key, a tag, or words of an error." },
                &html! {},
            ))
        });
    }
    let by = |name: &str| visit.path("/api/v1/jobs", &[], &[(name, wanted), ("limit", "20")]);
    let keyed: Option<Items<JobJson>> = visit.calls.get(&by("business_key")).await.ok();
    let tagged: Option<Items<JobJson>> = visit.calls.get(&by("tag")).await.ok();
    let incidents: Option<Items<Incident>> =
        visit.calls.get_if_allowed("/api/v1/incidents?limit=500").await?;
    let found = |jobs: Option<Items<JobJson>>| jobs.map(|jobs| jobs.items).unwrap_or_default();
    let (keyed, tagged) = (found(keyed), found(tagged));
    let lower = wanted.to_lowercase();
    let says = |one: &Incident| {
        [&one.message, &one.kind, &one.error_type].iter().any(|text| text.to_lowercase().contains(&lower))
            || one.fingerprint.as_str().starts_with(&lower)
    };
    let incidents: Vec<Incident> =
        incidents.map(|found| found.items).unwrap_or_default().into_iter().filter(says).collect();
    Ok(html! {
        (heading(
            &format!("Find “{}”", short(wanted, 80)),
            &html! { "Among jobs by business key and tag, and among the latest 500 incidents." },
            &html! {},
        ))
        @if keyed.is_empty() && tagged.is_empty() && incidents.is_empty() { (empty("Nothing was found.")) }
        @if !incidents.is_empty() {
            h2 { "Incidents" }
            ul.plain { @for one in incidents.iter().take(20) {
                li {
                    a href={ "/incidents/" (part(one.fingerprint.as_str())) } { (short(&one.message, 160)) }
                    " " span.dim { (counted(one.open, "dead letter")) " of " (short(&one.kind, 60)) }
                }
            } }
        }
        @if !keyed.is_empty() { h2 { "Jobs with this business key" } (jobs::table(visit, &keyed)) }
        @if !tagged.is_empty() { h2 { "Jobs with this tag" } (jobs::table(visit, &tagged)) }
    })
}
