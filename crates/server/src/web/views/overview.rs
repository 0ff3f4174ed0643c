//! The overview: one sentence that says whether anything is wrong, and the evidence for it.

use std::time::Duration;

use axum::response::Response;
use backstop_core::reject::RejectGroup;
use backstop_store::QueueView;
use maud::{Markup, html};

use super::causes::Causes;
use super::needs;
use super::workers::{known, slots};
use crate::shape::{HandOffJson, Items, Readiness, Worker};
use crate::web::call::PageProblem;
use crate::web::chart::{ChartLine, chart, spark, stacked};
use crate::web::frame::PagePlace;
use crate::web::history::{CountHistory, Line, POINTS};
use crate::web::visit::PageVisit;
use crate::web::words::{counted, number, rate, short, span, when};

/// Queues that have a line of their own; the others are in the sum.
const DRAWN: usize = 4;

/// Workers that the strip shows.
const WORKERS: usize = 12;

pub(in crate::web) async fn show(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Overview, "Overview", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let queues: Items<QueueView> = visit.calls.get("/api/v1/queues?limit=200").await?;
    let causes = Causes::read(visit).await?;
    let workers = known(visit).await?;
    let rejects: Option<Items<RejectGroup>> =
        visit.calls.get_if_allowed("/api/v1/reject-groups?limit=200").await?;
    let handoffs: Option<Items<HandOffJson>> =
        visit.calls.get_if_allowed("/api/v1/handoffs?limit=100").await?;
    let ready = readiness(visit).await;
    let needs = needs::all(visit, &queues.items, causes.as_ref(), ready.as_ref(), workers.as_ref()).await?;
    let history = visit.history();
    Ok(html! {
        (sentence(visit, &needs, &queues.items, history))
        (needs::list(&needs))
        (charts(visit, history, &queues.items, causes.as_ref()))
        (channels(
            visit,
            &queues.items,
            causes.as_ref(),
            rejects.as_ref(),
            handoffs.map(|found| found.items).as_deref(),
        ))
        (machine(visit, workers.as_ref(), ready.as_ref()))
    })
}

/// The checks of this server, also when it is not ready: then the API refuses, and tells them with its refusal.
async fn readiness(visit: &PageVisit) -> Option<Readiness> {
    match visit.calls.get("/health/ready").await {
        Ok(ready) => Some(ready),
        Err(refused) => serde_json::from_value(refused.details).ok(),
    }
}

/// The answer, before everything else.
fn sentence(
    visit: &PageVisit,
    needs: &[needs::Need],
    queues: &[QueueView],
    history: &CountHistory,
) -> Markup {
    let oldest = queues.iter().filter_map(|queue| queue.oldest_due).min();
    let wait = oldest.map_or(Duration::ZERO, |due| visit.now.since(due));
    let sees = |name: &str| visit.caller.sees(name).is_some();
    let ended = history.ended(visit.now, sees);
    let speed = match recent(&ended) {
        Some(now) if now > 0.0 => format!("{} ended", rate(now)),
        Some(_) => "nothing ended just now".to_owned(),
        None => counted(queues.iter().map(|queue| queue.running).sum(), "job") + " running",
    };
    let persons = needs.iter().filter(|need| need.is_bad).count();
    html! {
        header.answer data-live="answer" {
            h1 {
                @if needs.is_empty() { "All is well" }
                @else if persons == 0 { (counted(needs.len() as u64, "thing")) " to know of" }
                @else if persons == 1 { "1 thing needs you" }
                @else { (number(persons as u64)) " things need you" }
                @if persons > 0 && needs.len() > persons {
                    ", " (number((needs.len() - persons) as u64)) " to know of"
                }
            }
            p.lead {
                (speed) ", oldest wait " (span(wait)) ", "
                (number(queues.iter().map(|queue| queue.pending).sum())) " waiting, "
                (number(queues.iter().map(|queue| queue.failed).sum())) " dead"
            }
        }
    }
}

/// The latest value of a line that is not older than a minute.
pub(super) fn recent(line: &Line) -> Option<f64> {
    line[POINTS.saturating_sub(2)..].iter().rev().find_map(|point| *point)
}

fn charts(
    visit: &PageVisit,
    history: &CountHistory,
    queues: &[QueueView],
    causes: Option<&Causes>,
) -> Markup {
    let (now, window) = (visit.now, history.window(visit.now));
    let sees = |name: &str| visit.caller.sees(name).is_some();
    let throughput =
        [("came", CLASSES[1], history.came(now, sees)), ("ended", CLASSES[0], history.ended(now, sees))];
    let throughput = throughput.map(|(name, class, points)| ChartLine { name, class, points });
    let mut fullest: Vec<&QueueView> = queues.iter().collect();
    fullest.sort_by_key(|queue| std::cmp::Reverse(queue.pending + queue.running));
    let stored = |name: &str| visit.caller.queue(name).unwrap_or_else(|_| name.to_owned());
    let backlog: Vec<ChartLine<'_>> = fullest
        .iter()
        .take(DRAWN)
        .zip(CLASSES)
        .map(|(queue, class)| {
            let wanted = stored(&queue.name);
            let points = history.level(now, |name| name == wanted, |counts| counts.pending);
            ChartLine { name: &queue.name, class, points }
        })
        .collect();
    html! {
        section.charts aria-label="The last hour" {
            (chart(("chart-ended", "Jobs"), window, &throughput, rate))
            (chart(("chart-wait", "Wait for a worker"), window, &waits(visit, history), seconds))
            @if let Some(causes) = causes { (causes.chart(visit)) }
            (stacked(("chart-backlog", "Waiting by queue"), window, backlog, whole))
            @if let Some(since) = history.since() {
                p.since data-live="since" {
                    "Charts are known since " (when(now, since))
                    ", from this server; what was not seen is left out."
                }
            }
        }
    }
}

/// How long jobs waited that were taken, and how long the oldest waits that was not. Where no job is taken, nothing is
/// known of the former.
fn waits(visit: &PageVisit, history: &CountHistory) -> [ChartLine<'static>; 3] {
    let sees = |name: &str| visit.caller.sees(name).is_some();
    let oldest = history.highest(visit.now, sees, |counts| counts.oldest_wait_ms);
    let oldest = oldest.into_iter().map(|point| point.map(|value| value / 1_000.0)).collect();
    [
        ChartLine { name: "half within", class: CLASSES[0], points: history.waited(visit.now, sees, 50) },
        ChartLine { name: "99 % within", class: CLASSES[1], points: history.waited(visit.now, sees, 99) },
        ChartLine { name: "oldest now", class: CLASSES[2], points: oldest },
    ]
}

/// The colours of lines, by their place.
const CLASSES: [&str; DRAWN] = ["first", "second", "third", "fourth"];

fn seconds(value: f64) -> String {
    span(Duration::from_secs_f64(value.max(0.0)))
}

fn whole(value: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is a count, and for people"
    )]
    number(value.max(0.0).round() as u64)
}

/// Where work that did not go well is, side by side: dead letters, rejected items, what waits to be handed off (B8).
fn channels(
    visit: &PageVisit,
    queues: &[QueueView],
    causes: Option<&Causes>,
    rejects: Option<&Items<RejectGroup>>,
    handoffs: Option<&[HandOffJson]>,
) -> Markup {
    let sees = |name: &str| visit.caller.sees(name).is_some();
    let history = visit.history();
    let dead = history.level(visit.now, sees, |counts| counts.failed);
    let failed = queues.iter().map(|one| one.failed).sum();
    html! {
        section.channels aria-label="Channels of trouble" data-live="channels" {
            div {
                h2 {
                    a href=(if causes.is_some() { "/incidents" } else { "/jobs?status=failed" }) { "Dead letters" }
                }
                p.figure { (number(failed)) (spark(&dead, "first", "Dead letters, the last hour")) }
                @if let Some(causes) = causes {
                    p { (counted(causes.open.len() as u64, "incident"))
                        @if let Some(first) = causes.open.iter().map(|one| one.first_seen).min() {
                            ", the oldest first seen " (when(visit.now, first))
                        } }
                }
            }
            @if let Some(rejects) = rejects { (rejected(visit, rejects)) }
            @if let Some(handoffs) = handoffs {
                div {
                    h2 { a href="/handoffs" { "Hand-off backlog" } }
                    p.figure {
                        (number(handoffs.iter().map(|one| one.backlog).sum()))
                        @if !handoffs.is_empty() {
                            (spark(&history.to_hand_off(visit.now), "first", "Hand-off backlog, the last hour"))
                        }
                    }
                    p {
                        @if handoffs.is_empty() { "nothing is handed off to another Backstop" }
                        @else { "in " (counted(handoffs.len() as u64, "hand-off")) }
                        @if let Some(lag) = handoffs.iter().map(|one| one.lag_ms).max().filter(|lag| *lag > 0) {
                            ", the oldest waits for " (span(Duration::from_millis(lag)))
                        } }
                }
            }
        }
    }
}

/// Items that jobs have left out: how many, how that went, and since when.
fn rejected(visit: &PageVisit, found: &Items<RejectGroup>) -> Markup {
    let groups = &found.items;
    let sees = |name: &str| visit.caller.sees(name).is_some();
    let line = visit.history().rejected(visit.now, sees);
    html! {
        div {
            h2 { a href="/rejects" { "Rejected items" } }
            p.figure {
                (number(groups.iter().map(|group| group.items).sum()))
                @if !groups.is_empty() { (spark(&line, "first", "Rejected items, the last hour")) }
            }
            p {
                @if groups.is_empty() { "no job has left an item out" }
                @else { "of " (counted(groups.len() as u64, "cause")) }
                @if found.next_cursor.is_some() { "; there are more causes than these" }
                @if let Some(first) = groups.iter().map(|group| group.first_seen).min() {
                    ", the oldest first seen " (when(visit.now, first))
                }
                @if let Some(last) = groups.iter().map(|group| group.last_seen).max() {
                    ", last seen " (when(visit.now, last))
                } }
        }
    }
}

fn machine(visit: &PageVisit, workers: Option<&Items<Worker>>, ready: Option<&Readiness>) -> Markup {
    html! {
        section.machine id="machine" aria-label="Workers and loops" data-live="machine" {
            @if let Some(workers) = workers { (shown_workers(visit, workers)) }
            @if let Some(ready) = ready { (loops(ready)) }
        }
    }
}

fn shown_workers(visit: &PageVisit, known: &Items<Worker>) -> Markup {
    let workers = &known.items;
    let live = workers.iter().filter(|one| one.live).count() as u64;
    html! {
        h2 {
            a href="/workers" { (counted(live, "live worker")) @if known.next_cursor.is_some() { " and more" } }
        }
        @if workers.is_empty() { p.lead { "No worker has made itself known. Jobs wait until one does." } }
        ul.strip {
            @for worker in workers.iter().take(WORKERS) {
                li.bad[!worker.live && worker.running.unwrap_or(0) > 0] {
                    b { (short(&worker.name, 40)) }
                    @if let Some(version) = &worker.code_version { " " (short(version, 20)) }
                    " · "
                    @if worker.live {
                        (number(worker.running.unwrap_or(0)))
                        @if let Some(slots) = slots(worker) { " of " (number(slots)) }
                        " running"
                    }
                    @else { "silent since " (when(visit.now, worker.expires_at)) }
                }
            }
            @if workers.len() > WORKERS { li { a href="/workers" { "and " (workers.len() - WORKERS) " more" } } }
        }
    }
}

/// What keeps this server going: only what is not well is named, the rest is counted.
fn loops(ready: &Readiness) -> Markup {
    let ill: Vec<_> = ready.checks.iter().filter(|check| !check.ok).collect();
    html! {
        h2 { "This server" }
        p.lead {
            (counted(ready.checks.len() as u64, "check"))
            @if ill.is_empty() { ", all fine: the store answers, and every loop has been heard of in time." }
            @else { ", " (ill.len()) " not well:" }
        }
        @if !ill.is_empty() {
            ul.strip {
                @for check in ill {
                    li.bad[check.required] { b { (short(&check.name, 80)) } " · " (needs::why(check)) }
                }
            }
        }
    }
}
