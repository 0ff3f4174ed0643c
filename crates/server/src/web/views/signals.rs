//! Signals: what jobs wait for, what was sent before anybody waited, and giving one.

use axum::body::Bytes;
use axum::http::Method;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::json;

use crate::shape::{Items, ResumeTokenJson, SignalJson};
use crate::web::act::check;
use crate::web::actions::{PageFields, SIGNAL_SEND};
use crate::web::call::PageProblem;
use crate::web::form;
use crate::web::frame::{PagePlace, heading, no_rows};
use crate::web::visit::{PageVisit, part};
use crate::web::words::{counted, none, short, short_id, when, when_if};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit, None).await;
    visit.show(PagePlace::Signals, "Signals", body)
}

/// Makes a link that lets one job go on, and shows it, once.
pub(in crate::web) async fn make_link(visit: PageVisit, body_bytes: Bytes) -> Response {
    let form = PageFields::read(&body_bytes);
    let made = async {
        check(&visit, &form)?;
        let path = format!("/api/v1/jobs/{}/resume-token", part(form.get("job").unwrap_or_default()));
        let wanted = json!({ "signal": form.get("signal").unwrap_or_default() });
        let answer = visit.calls.change(Method::POST, &path, Some(&wanted)).await?;
        let made: ResumeTokenJson =
            serde_json::from_value(answer).map_err(|problem| crate::error::internal(&problem))?;
        body(&visit, Some(&made)).await
    };
    let body = made.await;
    visit.show(PagePlace::Signals, "Signals", body)
}

async fn body(visit: &PageVisit, link: Option<&ResumeTokenJson>) -> Result<Markup, PageProblem> {
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
        @if let Some(link) = link {
            p.done role="status" {
                "Whoever opens this link can let the job go on, once, until " (when(visit.now, link.expires_at))
                ". It is shown now and never again: " code data-copy=(link.page) { (link.page) }
            }
        }
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
                    td.acts {
                        (give(visit, one, waiting.items.iter().filter(|other| other.key == one.key).count()))
                        (hand_out(visit, one))
                    }
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

/// The form that makes a link for somebody who has no token: it lets one job go on.
fn hand_out(visit: &PageVisit, one: &SignalJson) -> Markup {
    let Some(job) = one.job.filter(|_| visit.allows("POST /api/v1/jobs/{id}/resume-token")) else {
        return html! {};
    };
    html! {
        details.confirm {
            summary { "Link…" }
            form.act action="/signals" method="post" {
                input type="hidden" name="proof" value=(visit.proof());
                input type="hidden" name="job" value=(job);
                input type="hidden" name="signal" value=(one.key);
                p { "Whoever has the link can let this job go on, once, within seven days and without a token." }
                button.sure { "Make a link" }
            }
        }
    }
}
