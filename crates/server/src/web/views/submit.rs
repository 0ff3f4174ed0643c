//! A form for one job.

use axum::response::Response;
use maud::html;

use crate::web::actions::JOB_SUBMIT;
use crate::web::form;
use crate::web::frame::{PagePlace, empty, heading};
use crate::web::visit::PageVisit;

pub(in crate::web) async fn show(visit: PageVisit) -> Response {
    let fields = html! {
        (form::text("kind", "Kind", "", "which code runs it"))
        (form::text("queue", "Queue", "", "default"))
        (form::json("payload", "Payload, as JSON", "{}"))
        (form::text("priority", "Priority, 0 to 4", "", "as usual"))
        (form::text("delay_ms", "Delay in milliseconds", "", "none"))
        (form::text("max_retries", "Retries", "", "as usual"))
        (form::text("idempotency_key", "Idempotency key", "", "none"))
        (form::text("business_key", "Business key", "", "none"))
        (form::text("ordering_key", "Ordering key", "", "none"))
        (form::text("tags", "Tags, between commas", "", "none"))
        details {
            summary { "More" }
            (form::json("params", "Parameters, as JSON", ""))
            (form::text("run_at", "No earlier than", "", "such as 2026-01-31T08:00:00Z"))
            (form::text("expires_at", "No later than", "", "any time"))
            (form::whole_if("timeout_ms", "One run takes at most, in milliseconds", 1, 31_622_400_000))
            (form::text("limit_key", "Limit key", "", "none"))
            (form::text("single_instance", "One at a time by the name", "", "none"))
            (form::text("correlation_id", "Correlation id", "", "none"))
        }
    };
    let form = visit.form(&JOB_SUBMIT, &[], &fields, "Submit");
    let body = html! {
        (heading("Submit a job", &html! { "One job is stored, and runs as soon as a worker is free." }, &html! {}))
        @if form.0.is_empty() { (empty("This token may not submit jobs.")) } @else { div.single { (form) } }
    };
    visit.show(PagePlace::Jobs, "Submit a job", Ok(body))
}
