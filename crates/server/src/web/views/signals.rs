//! Signals: what jobs wait for, what was sent before anybody waited, and giving one.

use axum::response::Response;
use maud::{Markup, html};

use crate::shape::{Items, SignalJson};
use crate::web::actions::SIGNAL_SEND;
use crate::web::call::PageProblem;
use crate::web::form;
use crate::web::frame::{PagePlace, heading, no_rows};
use crate::web::visit::PageVisit;
use crate::web::words::{counted, none, short, short_id, when, when_if};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Signals, "Signals", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let waiting: Items<SignalJson> = visit.calls.get("/api/v1/signals?state=waiting&limit=100").await?;
    let kept: Items<SignalJson> = visit.calls.get("/api/v1/signals?state=kept&limit=100").await?;
    let fields = html! {
        (form::text("key", "Signal", "", "the name that jobs wait for"))
        input type="hidden" name="id" value={ "page " (backstop::job_id()) };
        (form::json("payload", "Payload, as JSON", "null"))
    };
    let send = visit.confirmed(
        &SIGNAL_SEND,
        &[],
        "Send a signal",
        "Every job that waits for it goes on with this payload; when none waits, it is kept for the next.",
        &fields,
    );
    Ok(html! {
        (heading(
            "Signals",
            &html! { "Jobs that wait for a word from outside: an approval, a payment, an answer." },
            &send,
        ))
        h2 { "Awaited" }
        @if waiting.items.is_empty() { (no_rows("awaited", "No job waits for a signal.")) }
        @else { div.wide tabindex="0" { table {
            thead { tr { th { "Signal" } th { "Job" } th { "Waits until" } th { "Give it" } } }
            tbody data-rows="awaited" { @for one in &waiting.items {
                @let job = one.job.map(|job| job.to_string()).unwrap_or_default();
                tr data-key={ (one.key) " " (job) } {
                    td { code { (short(&one.key, 100)) } }
                    td { a href={ "/jobs/" (job) } { code { (short_id(&job)) } } }
                    td { (when(visit.now, one.until)) }
                    td { (give(visit, one, waiting.items.iter().filter(|other| other.key == one.key).count())) }
                }
            } }
        } } }
        h2 { "Arrived early" }
        @if kept.items.is_empty() { (no_rows("kept", "No signals arrived early.")) }
        @else { div.wide tabindex="0" { table {
            thead { tr { th { "Signal" } th { "Id" } th { "Sent" } th { "Kept until" } } }
            tbody data-rows="kept" { @for one in &kept.items {
                tr data-key={ (one.key) " " (one.id.as_deref().unwrap_or_default()) } {
                    td { code { (short(&one.key, 100)) } }
                    td { @if let Some(id) = &one.id { code { (short(id, 60)) } } @else { (none()) } }
                    td { (when_if(visit.now, one.sent_at)) } td { (when(visit.now, one.until)) }
                }
            } }
        } } }
    })
}

/// The form that gives one signal. Its id is that of this wait: whoever presses twice has sent it once, and the next
/// that waits for the same key is not let go by the second press.
fn give(visit: &PageVisit, one: &SignalJson, waiting: usize) -> Markup {
    let job = one.job.map(|job| job.to_string()).unwrap_or_default();
    let fields = html! {
        input type="hidden" name="key" value=(one.key);
        input type="hidden" name="id" value={ "page " (job) " " (one.until.as_micros()) };
        (form::json("payload", "Payload, as JSON", "null"))
    };
    visit.confirmed(
        &SIGNAL_SEND,
        &[],
        "Give",
        &format!(
            "Every job that waits for it goes on with this payload: {} here.",
            counted(waiting as u64, "job")
        ),
        &fields,
    )
}
