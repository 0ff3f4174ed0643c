//! One job: where it is and why, what happens next, and every run it had.

use axum::body::Bytes;
use axum::extract::Path;
use axum::response::Response;
use backstop::State;
use backstop_core::job::{AttemptJson, JobJson};
use backstop_core::reject::RejectView;
use maud::{Markup, html};
use serde_json::Value;

use super::job_events::events;
use crate::shape::{ExplainedJob, Items};
use crate::web::act::check;
use crate::web::actions::{JOB_CANCEL, JOB_PAUSE, JOB_RESUME, JOB_RETRY, PageFields};
use crate::web::call::PageProblem;
use crate::web::form;
use crate::web::frame::{PagePlace, no_rows, sentence};
use crate::web::timeline::{sort, timeline};
use crate::web::visit::{PageVisit, go_to, part};
use crate::web::words::{counted, none, number, short, short_id, span_ms, state, when, when_if};

/// Runs that are shown; older ones are counted.
const RUNS: &str = "100";

/// Characters of a text that is shown whole.
const LONG: usize = 20_000;

pub(in crate::web) async fn show(visit: PageVisit, Path(id): Path<String>) -> Response {
    let body = body(&visit, &id, false).await;
    match body.as_ref().err().and_then(PageProblem::archived_at) {
        Some(archived) => go_to(&archived),
        None => visit.show(PagePlace::Jobs, "Job", body),
    }
}

/// The same with payload, parameters and result in the clear, which is written into the audit log.
pub(in crate::web) async fn reveal(visit: PageVisit, Path(id): Path<String>, form: Bytes) -> Response {
    if let Err(problem) = check(&visit, &PageFields::read(&form)) {
        return visit.refuse(PagePlace::Jobs, &problem);
    }
    let body = body(&visit, &id, true).await;
    visit.show(PagePlace::Jobs, "Job", body)
}

async fn body(visit: &PageVisit, id: &str, reveal: bool) -> Result<Markup, PageProblem> {
    let path = format!("/api/v1/jobs/{}", part(id));
    let job: JobJson = match reveal {
        true => visit.calls.get_afresh(&format!("{path}?reveal=true")).await?,
        false => visit.calls.get(&path).await?,
    };
    let told: ExplainedJob = visit.calls.get(&format!("{path}/explain")).await?;
    let runs: Items<AttemptJson> = visit.calls.get(&format!("{path}/attempts?limit={RUNS}")).await?;
    Ok(html! {
        header.heading data-live="job" {
            div {
                h1 { code { (short(&job.kind, 80)) } " " (state(job.status)) }
                p.lead { (sentence(&told.explanation.because)) " " b { "Next: " } (sentence(&told.explanation.next))
                    @if let Some(at) = told.explanation.next_at { " " (when(visit.now, at)) } }
                p.id { code data-copy=(job.id) data-copy-main="" { (job.id) } }
            }
        }
        div data-live="job-actions" { (actions(visit, &job)) }
        section data-live="job-timeline" { (timeline(visit.now, &job, &runs.items)) }
        div.two {
            (facts(visit, &job))
            (links(visit, &job))
        }
        (attempts(visit, &runs))
        (data(visit, &job, reveal))
        (steps(&job))
        (rejected(visit, &job).await?)
        (events(visit, &job, &runs.items))
        (checks(&told))
        div data-live="job-raw" {
            details {
                summary { "Raw" }
                pre { (short(&serde_json::to_string_pretty(&job).unwrap_or_default(), LONG)) }
            }
        }
    })
}

fn actions(visit: &PageVisit, job: &JobJson) -> Markup {
    let id = job.id.to_string();
    let at = [("id", id.as_str())];
    let reason = form::text("reason", "Reason", "", "why, kept with the job");
    html! {
        div.actions {
            @if job.status == State::Failed {
                (visit.confirmed(
                    &JOB_RETRY,
                    &at,
                    "Drive again",
                    "This job goes back to its queue with all its attempts.",
                    &html! {},
                ))
            }
            @if job.status == State::Paused { (visit.form(&JOB_RESUME, &at, &html! {}, "Resume")) }
            @if matches!(job.status, State::Pending | State::Waiting | State::Failed) {
                (visit.form(&JOB_PAUSE, &at, &html! {}, "Pause"))
            }
            @if !job.status.is_terminal() {
                (visit.confirmed(&JOB_CANCEL, &at, "Cancel", canceling(job), &reason))
            }
        }
    }
}

/// What canceling a job brings about. A step takes with it what can only follow it (W4).
fn canceling(job: &JobJson) -> &'static str {
    match job.workflow.as_ref().map(|part| part.node.is_some()) {
        Some(true) => {
            "This step is canceled for good, also while it runs, and with it every step of its workflow that can \
             only run after it."
        }
        Some(false) => "This job is canceled for good, also while it runs. Its batch counts it as canceled.",
        None => "This job is canceled for good, also while it runs.",
    }
}

fn facts(visit: &PageVisit, job: &JobJson) -> Markup {
    let now = visit.now;
    html! {
        dl.facts data-live="job-facts" {
            dt { "Queue" }
            dd {
                a href=(visit.path("/jobs", &[], &[("queue", &job.queue)])) { (short(&job.queue, 80)) }
                ", priority " (job.priority)
            }
            dt { "Created" } dd { (when(now, job.created_at)) }
            dt { "Due" } dd { (when(now, job.run_at)) }
            dt { "Started" } dd { (when_if(now, job.started_at)) }
            dt { "Ended" } dd { (when_if(now, job.finished_at)) }
            dt { "Attempts" }
            dd {
                (number(u64::from(job.attempt))) " of " (number(u64::from(job.max_retries) + 1)) " charged, "
                (counted(u64::from(job.runs), "run")) " ever"
            }
            @if job.crashes > 0 { dt { "Crashes" } dd { (number(u64::from(job.crashes))) } }
            @if job.redrives > 0 { dt { "Driven again" } dd { (counted(u64::from(job.redrives), "time")) } }
            @if let Some(progress) = &job.progress {
                dt { "Progress" } dd { (progress.percent) " % " (short(&progress.note, 120)) }
            }
            @if let Some(reason) = job.terminal_reason {
                dt { "Dead because" } dd { (reason.to_string().replace('_', " ")) } }
            @if let Some(reason) = &job.cancel_reason { dt { "Canceled because" } dd { (short(reason, 200)) } }
            @if let Some(warning) = &job.warning { dt { "Warning" } dd { (short(warning, 300)) } }
            @if let Some(counts) = &job.rejects { dt { "Rejected items" } dd { (number(counts.rejected)) } }
        }
    }
}

fn links(visit: &PageVisit, job: &JobJson) -> Markup {
    let texts = [
        ("Business key", job.business_key.as_deref()),
        ("Idempotency key", job.idempotency_key.as_deref()),
        ("Ordering key", job.ordering_key.as_deref()),
        ("Limit key", job.limit_key.as_deref()),
        ("Single instance", job.single_instance.as_deref()),
        ("Dependency", job.dependency.as_deref()),
        ("Correlation", job.correlation_id.as_deref()),
        ("Signed by", job.signed_by.as_deref()),
    ];
    html! {
        dl.facts data-live="job-links" {
            dt { "Tags" }
            dd {
                @if job.tags.is_empty() { (none()) }
                @for tag in &job.tags { a.tag href={ "/jobs?" (query("tag", tag)) } { (short(tag, 60)) } " " }
            }
            @for (name, text) in texts {
                @if let Some(text) = text { dt { (name) } dd { code data-copy=(text) { (short(text, 120)) } } }
            }
            @if let Some(part) = &job.workflow {
                @let (name, under) = match part.node {
                    Some(_) => ("Workflow", "/workflows/"),
                    None => ("Batch", "/batches/"),
                };
                dt { (name) }
                dd {
                    a href={ (under) (part.id) } { code { (short_id(&part.id.to_string())) } }
                    @if let Some(node) = &part.node { " step " (short(node, 80)) }
                }
            }
            @if let Some(by) = &job.schedule {
                dt { "Schedule" }
                dd {
                    a href={ "/schedules/" (part(&by.name)) } { (short(&by.name, 80)) }
                    ", fired for " (when(visit.now, by.fire_time))
                }
            }
            @for (pool, permits) in &job.permits {
                dt { "Permits" } dd { (number(u64::from(*permits))) " of " a href="/limits" { (short(pool, 80)) } }
            }
            @if let Some(by) = &job.superseded_by {
                dt { "Superseded by" } dd { a href={ "/jobs/" (by) } { (short_id(&by.to_string())) } }
            }
            @if let Some(of) = &job.callback_of {
                dt { "Callback of" } dd { a href={ "/jobs/" (of) } { (short_id(&of.to_string())) } }
            }
            @if let Some(fingerprint) = &job.fingerprint {
                dt { "Incident" } dd { a href={ "/incidents/" (fingerprint) } { code { (fingerprint) } } }
            }
        }
    }
}

fn query(name: &str, value: &str) -> String {
    form_urlencoded::Serializer::new(String::new()).append_pair(name, value).finish()
}

fn attempts(visit: &PageVisit, runs: &Items<AttemptJson>) -> Markup {
    html! {
        section {
            h2 { "Runs" }
            @if runs.items.is_empty() { (no_rows("runs", "No run has ended yet.")) }
            @else { div.runs data-rows="runs" { @for run in &runs.items {
                article.run data-key=(run.number) {
                    h3 {
                        "Run " (run.number) " " span.state.(sort(run)) { (run.cause.as_str().replace('_', " ")) }
                        span.dim { " took " (span_ms(run.duration_ms)) " after waiting " (span_ms(run.wait_ms)) ", "
                            @if run.charged { "charged" } @else { "not charged" }
                            ", ended " (when(visit.now, run.finished_at)) }
                    }
                    @if let Some(error) = &run.error { pre.error { (short(error, LONG)) } }
                    @if let Some(decision) = &run.decision {
                        @if !decision.trace.is_empty() {
                            details {
                                summary { "What was decided, and why" }
                                ol.trace {
                                    @for check in &decision.trace {
                                        li { b { (check.check.replace('_', " ")) } ": " (check.answer) }
                                    }
                                }
                            }
                        }
                    }
                    @if let Some(output) = run.output.as_deref().filter(|output| !output.is_empty()) {
                        details { summary { "Log" } pre { (short(output, LONG)) } }
                    }
                    p.dim {
                        "worker " code { (short_id(&run.worker.to_string())) }
                        @if let Some(version) = &run.code_version { ", version " (short(version, 40)) }
                        @if let Some(kind) = &run.error_type { ", " code { (short(kind, 120)) } } }
                }
            } } }
            @if runs.next_cursor.is_some() { p { "Older runs are not shown here; the API has them all." } }
        }
    }
}

fn data(visit: &PageVisit, job: &JobJson, revealed: bool) -> Markup {
    let pretty = |value: &Value| short(&serde_json::to_string_pretty(value).unwrap_or_default(), LONG);
    html! {
        section data-live="job-data" {
            h2 { "Payload" @if revealed { " " span.state.paused { "in the clear" } } }
            pre { (pretty(&job.payload)) }
            @if !job.params.is_null() && job.params.as_object().is_none_or(|params| !params.is_empty()) {
                h2 { "Parameters" } pre { (pretty(&job.params)) }
            }
            @if let Some(result) = &job.result { h2 { "Result" } pre { (pretty(result)) } }
            @if !revealed && visit.caller.may(crate::access::Scope::Logs) {
                form.act action={ "/jobs/" (job.id) "/reveal" } method="post" {
                    input type="hidden" name="proof" value=(visit.proof());
                    p { "Secrets are masked. Showing them is written into the audit log, with your name." }
                    button { "Show masked fields" }
                }
            }
        }
    }
}

fn steps(job: &JobJson) -> Markup {
    html! {
        section data-live="job-steps" {
            @if !job.steps.is_empty() {
                h2 { "Steps and effects" }
                ol.plain { @for step in &job.steps {
                    li {
                        b { (short(&step.name, 80)) } " " (step.state.as_str()) ", run " (step.run)
                        @if let Some(key) = &step.key { ", key " code { (short(key, 80)) } }
                    }
                } }
            }
        }
    }
}

/// Items that its runs left out, the latest of them.
async fn rejected(visit: &PageVisit, job: &JobJson) -> Result<Markup, PageProblem> {
    let mut found = Vec::new();
    if job.rejects.is_some() {
        let id = job.id.to_string();
        let path = visit.path("/api/v1/rejects", &[], &[("job", &id), ("limit", "20")]);
        found = visit.calls.get::<Items<RejectView>>(&path).await?.items;
    }
    Ok(html! {
        section data-live="job-rejects" {
            @if !found.is_empty() {
                h2 { "Rejected items" }
                ul.plain { @for one in &found {
                    li {
                        "run " (one.run) ", " (when(visit.now, one.at)) ": "
                        a href={ "/rejects/" (part(one.fingerprint.as_str())) } { (short(&one.error, 160)) }
                        @if let Some(item) = &one.item { " " code { (short(&item.to_string(), 160)) } }
                    }
                } }
            }
        }
    })
}

fn checks(told: &ExplainedJob) -> Markup {
    html! {
        div data-live="job-checks" {
            @if !told.explanation.checks.is_empty() {
                details {
                    summary { "Every check" }
                    ol.trace {
                        @for check in &told.explanation.checks {
                            li { b { (check.check.replace('_', " ")) } ": " (check.answer) }
                        }
                    }
                }
            }
        }
    }
}
