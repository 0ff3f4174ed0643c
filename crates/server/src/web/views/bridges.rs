//! Bridges: which brokers jobs come from, which are told what became of jobs, and what is wrong with them.

use axum::body::Bytes;
use axum::http::Method;
use axum::response::Response;
use backstop::bridges::BridgeState;
use maud::{Markup, html};

use super::queues::speed;
use crate::shape::{BridgeCheckJson, BridgeJson, BridgeTestJson, Items};
use crate::web::act::check;
use crate::web::actions::{BRIDGE_DELETE, BRIDGE_PAUSE, BRIDGE_RESUME, PageFields};
use crate::web::call::PageProblem;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::visit::{PageVisit, part};
use crate::web::words::{counted, mark, none, number, short, span_ms, when};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit, None).await;
    visit.show(PagePlace::Bridges, "Bridges", body)
}

/// Tests a bridge: no message is taken or sent.
pub(in crate::web) async fn test(visit: PageVisit, form: Bytes) -> Response {
    let form = PageFields::read(&form);
    let tried = async {
        check(&visit, &form)?;
        let name = form.get("name").unwrap_or_default();
        let path = format!("/api/v1/bridges/{}/test", part(name));
        let answer = visit.calls.change(Method::POST, &path, None).await?;
        let told: BridgeTestJson =
            serde_json::from_value(answer).map_err(|problem| crate::error::internal(&problem))?;
        body(&visit, Some((name, &told))).await
    };
    let body = tried.await;
    visit.show(PagePlace::Bridges, "Bridges", body)
}

async fn body(visit: &PageVisit, tested: Option<(&str, &BridgeTestJson)>) -> Result<Markup, PageProblem> {
    let found: Items<BridgeJson> =
        visit.calls.get(&visit.path("/api/v1/bridges", &["cursor"], &[("limit", "100")])).await?;
    Ok(html! {
        (heading(
            "Bridges",
            &html! { "Messages of brokers become jobs, and brokers are told what became of jobs." },
            &html! {},
        ))
        @if let Some((name, told)) = tested { (result(name, told)) }
        @if found.items.is_empty() { (no_rows("bridges", "No bridges yet. [bridges.NAME] in backstop.toml adds one.")) }
        @else { div.wide tabindex="0" { table {
            thead {
                tr {
                    th { "Bridge" } th { "State" } th { "Broker" } th.n { "Consumers" } th { "In" } th { "Out" }
                    th.n { "Backlog" } th.n { "Lag" } th.n { "Duplicates" } th.n { "Invalid" } th { "Last error" }
                    th { "Change" }
                }
            }
            tbody data-rows="bridges" { @for one in &found.items { (row(visit, one)) } }
        } } }
        (pages(visit, "/bridges", &[], found.next_cursor.as_deref()))
    })
}

/// What a test found.
fn result(name: &str, told: &BridgeTestJson) -> Markup {
    let line = |what: &str, check: &Option<BridgeCheckJson>| {
        html! {
            @if let Some(check) = check {
                li {
                    (what) ": "
                    @if let Some(error) = &check.error { (short(error, 400)) }
                    @else { "ok, " (check.took_ms) " ms" }
                }
            }
        }
    };
    html! {
        section.found role="status" {
            h2 { "Test of " (short(name, 80)) }
            p { (short(&told.node, 80)) ": " @if told.ok { "all is well." } @else { "something is wrong." } }
            ul.plain {
                (line("source", &told.source))
                (line("sink", &told.sink))
                @if let Some(error) = &told.error { li { (short(error, 400)) } }
            }
        }
    }
}

const fn sort(state: BridgeState) -> &'static str {
    match state {
        BridgeState::Running => "running",
        BridgeState::Paused | BridgeState::Starting | BridgeState::Held => "paused",
        _ => "failed",
    }
}

fn row(visit: &PageVisit, one: &BridgeJson) -> Markup {
    let path = format!("/bridges/{}", part(&one.name));
    let [came, went] = visit.history().passed(visit.now, &one.name);
    html! {
        tr data-key=(one.name) {
            td {
                a href=(path) { b { (short(&one.name, 80)) } }
                @if let Some(by) = &one.paused_by { " " span.dim { "by " (short(by, 40)) } }
            }
            td { (shown_state(one.state)) }
            td { (short(&one.broker, 80)) }
            td.n { (consumers(one)) }
            td.rate {
                @if one.source.is_some() { (speed(&came, "second", "Messages in, the last hour")) } @else { (none()) }
            }
            td.rate {
                @if one.sink.is_some() { (speed(&went, "first", "Messages out, the last hour")) } @else { (none()) }
            }
            td.n { (number(one.backlog)) }
            td.n { @if one.lag_ms > 0 { (span_ms(one.lag_ms)) } @else { (none()) } }
            td.n { (number(one.duplicates)) }
            td.n { @if one.invalid > 0 { a href=(path) { (number(one.invalid)) } } @else { "0" } }
            td.what {
                @if one.state == BridgeState::NotRunning { "not running since " (when(visit.now, one.seen_at)) }
                @else if let Some(error) = &one.last_error { (short(error, 200)) }
            }
            td.acts { (actions(visit, one)) }
        }
    }
}

/// How many connections take messages, of those that are to.
pub(super) fn consumers(one: &BridgeJson) -> Markup {
    html! {
        @if let Some((taking, of)) = one.consumers() { (number(taking)) " of " (number(of)) } @else { (none()) }
    }
}

/// How a bridge is, as a mark.
pub(super) fn shown_state(state: BridgeState) -> Markup {
    mark(&state.as_str().replace('_', " "), sort(state))
}

/// What can be done with a bridge.
pub(super) fn actions(visit: &PageVisit, one: &BridgeJson) -> Markup {
    let at = [("name", one.name.as_str())];
    let waiting = counted(one.backlog, "message");
    let paused = format!(
        "It takes no messages and publishes none; they wait at the broker and in the outbox, where there are \
         {waiting} now."
    );
    html! {
        @if visit.allows("POST /api/v1/bridges/{name}/test") {
            form.act action="/bridges" method="post" {
                input type="hidden" name="proof" value=(visit.proof());
                input type="hidden" name="name" value=(one.name);
                button { "Test" }
            }
        }
        @if one.paused_by.is_none() {
            (visit.confirmed(&BRIDGE_PAUSE, &at, "Pause", &paused, &html! {}))
        } @else {
            (visit.confirmed(&BRIDGE_RESUME, &at, "Resume", &format!("{waiting} that wait go on."), &html! {}))
        }
        // One that runs somewhere, or keeps messages that could not become jobs, is refused.
        @if one.state == BridgeState::NotRunning && one.invalid == 0 {
            (visit.confirmed(
                &BRIDGE_DELETE,
                &at,
                "Remove",
                &format!("It is forgotten, and {waiting} that wait for it are never sent."),
                &html! {},
            ))
        }
    }
}
