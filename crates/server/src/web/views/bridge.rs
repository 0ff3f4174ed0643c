//! One bridge: what it does in each process, and the messages that could not become jobs.

use axum::body::Bytes;
use axum::extract::Path;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::bridges::{actions, consumers, shown_state};
use crate::shape::{BridgeJson, BridgeSinkJson, BridgeSourceJson, InvalidJson, Items};
use crate::web::act::check;
use crate::web::actions::{INVALID_PURGE, PageFields};
use crate::web::call::PageProblem;
use crate::web::chart::{ChartLine, chart};
use crate::web::frame::{PagePlace, heading, no_rows, pages, sentence};
use crate::web::visit::{PageVisit, as_file, part};
use crate::web::words::{counted, none, number, rate, short, span_ms, when};

pub(in crate::web) async fn show(visit: PageVisit, Path(name): Path<String>) -> Response {
    let body = body(&visit, &name).await;
    visit.show(PagePlace::Bridges, "Bridge", body)
}

async fn body(visit: &PageVisit, name: &str) -> Result<Markup, PageProblem> {
    let path = format!("/api/v1/bridges/{}", part(name));
    let one: BridgeJson = visit.calls.get(&path).await?;
    let invalid = visit.path(&format!("{path}/invalid"), &["cursor"], &[("limit", "50")]);
    let invalid: Items<InvalidJson> = visit.calls.get(&invalid).await?;
    let lead = html! {
        (shown_state(one.state)) " at " (short(&one.broker, 120)) "; " (number(one.r#in)) " in, "
        (number(one.out)) " out, " (number(one.duplicates)) " were jobs already, "
        (counted(one.backlog, "message")) " waiting"
        @if one.lag_ms > 0 { ", the oldest for " (span_ms(one.lag_ms)) }
        @if let Some(error) = &one.last_error { ". " (sentence(&short(error, 400))) }
    };
    Ok(html! {
        (heading(&short(&one.name, 120), &lead, &html! { a href="/bridges" { "All bridges" } }))
        div.actions data-live="bridge-actions" { (actions(visit, &one)) }
        (passed(visit, &one))
        div.two {
            @if let Some(source) = &one.source { (taken(&one, source)) }
            @if let Some(sink) = &one.sink { (sent(visit, sink)) }
        }
        (processes(visit, &one))
        (refused(visit, &one, &invalid))
        (pages(visit, &format!("/bridges/{}", part(name)), &[], invalid.next_cursor.as_deref()))
    })
}

/// How fast messages come in and go out.
fn passed(visit: &PageVisit, one: &BridgeJson) -> Markup {
    let history = visit.history();
    let [came, went] = history.passed(visit.now, &one.name);
    let ways = [("in", "second", came, one.source.is_some()), ("out", "first", went, one.sink.is_some())];
    let lines: Vec<ChartLine<'_>> = ways
        .into_iter()
        .filter(|(.., there)| *there)
        .map(|(name, class, points, _)| ChartLine { name, class, points })
        .collect();
    html! {
        @if !lines.is_empty() {
            section.charts aria-label="The last hour" {
                (chart(("chart-passed", "Messages"), history.window(visit.now), &lines, rate))
            }
        }
    }
}

fn taken(one: &BridgeJson, source: &BridgeSourceJson) -> Markup {
    html! {
        dl.facts data-live="bridge-source" {
            dt { "Takes from" } dd { code { (short(&source.queue, 120)) } " " (shown_state(source.state)) }
            dt { "Makes" } dd { code { (short(&source.kind, 80)) } " on " (short(&source.to_queue, 80)) }
            dt { "Consumers" } dd { (consumers(one)) }
            dt { "At the broker" }
            dd { @if let Some(waiting) = source.backlog { (number(waiting)) } @else { (none()) } }
            dt { "Received" } dd { (number(source.received)) }
            dt { "Given back" } dd { (number(source.given_back)) }
            dt { "Too large" } dd { (number(source.abandoned)) }
            dt { "Wrong signature" } dd { (number(source.rejected)) }
            dt { "Passed on" } dd { (number(source.passed_on)) }
            dt { "Discarded" } dd { (number(source.discarded)) }
        }
    }
}

fn sent(visit: &PageVisit, sink: &BridgeSinkJson) -> Markup {
    let topics = serde_json::to_value(&sink.of).unwrap_or_default();
    let topics = topics.as_array().into_iter().flatten().filter_map(Value::as_str);
    let topics = topics.map(|topic| topic.replace('_', " ")).collect::<Vec<_>>().join(", ");
    html! {
        dl.facts data-live="bridge-sink" {
            dt { "Sends to" } dd { code { (short(&sink.queue, 120)) } " " (shown_state(sink.state)) }
            dt { "What" } dd { (topics) }
            dt { "In the outbox" }
            dd { (counted(sink.backlog, "message")) ", " (counted(sink.backlog_bytes, "byte")) }
            dt { "Sent again" } dd { (number(sink.repeated)) }
            dt { "Refused" }
            dd {
                (number(sink.refused))
                @if let Some(since) = sink.full_since { ", full since " (when(visit.now, since)) }
            }
            dt { "Sent by" } dd { @if let Some(by) = &sink.publisher { (short(by, 80)) } @else { (none()) } }
        }
    }
}

fn processes(visit: &PageVisit, one: &BridgeJson) -> Markup {
    html! {
        h2 { "Processes" }
        @if one.processes.is_empty() { (no_rows("processes", "No process runs it.")) }
        @else { div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "Process" } th { "State" } th.n { "Consumers" } th { "Since" } th { "Last heard of" }
                    th { "What is wrong" }
                }
            }
            tbody data-rows="processes" { @for process in &one.processes {
                tr data-key=(process.node) {
                    td { (short(&process.node, 80)) } td { (shown_state(process.state)) }
                    td.n { (number(process.consuming.into())) }
                    td { (when(visit.now, process.since)) } td { (when(visit.now, process.seen_at)) }
                    td.what { @if let Some(error) = &process.last_error { (short(error, 300)) } @else { (none()) } }
                }
            } }
        } } }
    }
}

/// Messages that could not become jobs, with what can be done about them.
fn refused(visit: &PageVisit, one: &BridgeJson, invalid: &Items<InvalidJson>) -> Markup {
    html! {
        h2 { "Invalid messages" }
        @if invalid.items.is_empty() { (no_rows("invalid", "Every message could become a job.")) }
        @else {
            p.lead { (counted(one.invalid, "message")) " could not become jobs. They are kept here; nothing is lost." }
            div.actions data-live="invalid-actions" { (take_along(visit, one)) (purge(visit, one, &invalid.items)) }
            div.wide tabindex="0" { table {
                thead { tr { th { "When" } th { "Message" } th { "Why" } th.n { "Bytes" } } }
                tbody data-rows="invalid" { @for message in &invalid.items {
                    tr data-key=(message.key) {
                        td { (when(visit.now, message.at)) } td { code { (short(&message.id, 80)) } }
                        td.what { (short(&message.reason, 300)) }
                        td.n { (number(message.bytes)) @if message.abandoned { ", at the broker" } }
                    }
                } }
            } }
        }
    }
}

fn take_along(visit: &PageVisit, one: &BridgeJson) -> Markup {
    html! {
        @if visit.allows("GET /api/v1/bridges/{name}/invalid/export") {
            details.confirm {
                summary { "Export…" }
                form.act action={ "/bridges/" (part(&one.name)) "/invalid" } method="post" {
                    input type="hidden" name="proof" value=(visit.proof());
                    p {
                        (counted(one.invalid, "message")) ", one JSON document a line, with their bytes in the clear. "
                        "The audit log says who took them."
                    }
                    button.sure { "Export" }
                }
            }
        }
    }
}

/// Removes those that are shown, and no others: what has come since stays.
fn purge(visit: &PageVisit, one: &BridgeJson, shown: &[InvalidJson]) -> Markup {
    let keys = json!(shown.iter().map(|message| &message.key).collect::<Vec<_>>()).to_string();
    let count = counted(shown.len() as u64, "message");
    visit.confirmed(
        &INVALID_PURGE,
        &[("name", &one.name)],
        &format!("Remove {count}"),
        &format!("The {count} of this page are gone for good, here and for everybody. Export them first."),
        &html! { input type="hidden" name="keys" value=(keys); },
    )
}

/// The messages that could not become jobs as a file, in the clear, which is written into the audit log.
pub(in crate::web) async fn export(visit: PageVisit, Path(name): Path<String>, form: Bytes) -> Response {
    let file = async {
        check(&visit, &PageFields::read(&form))?;
        visit.calls.file(&format!("/api/v1/bridges/{}/invalid/export", part(&name))).await
    };
    match file.await {
        Ok(file) => as_file(file, "attachment; filename=\"invalid.ndjson\""),
        Err(problem) => visit.refuse(PagePlace::Bridges, &problem),
    }
}
