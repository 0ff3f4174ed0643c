//! Queues: what waits where, how fast it comes and goes, what room there is for it, and holding it back.

use axum::response::Response;
use backstop::limits::CountBy;
use backstop_store::QueueView;
use maud::{Markup, html};

use super::overview::recent;
use super::workers;
use crate::shape::{Items, LimitJson, Worker};
use crate::web::actions::{QUEUE_PAUSE, QUEUE_RESUME};
use crate::web::call::PageProblem;
use crate::web::chart::spark;
use crate::web::form;
use crate::web::frame::{PagePlace, heading, no_rows, pages};
use crate::web::history::Line;
use crate::web::visit::PageVisit;
use crate::web::words::{counted, mark, none, number, rate, short, span};

pub(in crate::web) async fn list(visit: PageVisit) -> Response {
    let body = body(&visit).await;
    visit.show(PagePlace::Queues, "Queues", body)
}

async fn body(visit: &PageVisit) -> Result<Markup, PageProblem> {
    let found: Items<QueueView> =
        visit.calls.get(&visit.path("/api/v1/queues", &["cursor"], &[("limit", "100")])).await?;
    let room = QueueRoom::read(visit).await?;
    Ok(html! {
        (heading(
            "Queues",
            &html! { "Counts are kept, not counted: this view costs the store the same whatever it holds." },
            &html! {},
        ))
        @if found.items.is_empty() { (no_rows("queues", "No queues yet. A queue appears with its first job.")) }
        @else {
            div.wide tabindex="0" { table {
                thead {
                    tr {
                        th { "Queue" } th { "State" } th.n { "Waiting" } th { "Trend" } th.n { "Oldest wait" }
                        th.n { "Running" } th { "Coming" } th { "Ending" } th { "Limits" } th.n { "Parked" }
                        th.n { "Dead" } th.n { "Workers" } th { "Change" }
                    }
                }
                tbody data-rows="queues" { @for queue in &found.items { (row(visit, queue, &room)) } }
            } }
        }
        (pages(visit, "/queues", &[], found.next_cursor.as_deref()))
    })
}

/// What bounds the runs of queues: the slots of live workers, and limits. Empty for somebody who may see neither.
struct QueueRoom {
    workers: Vec<Worker>,
    limits: Vec<LimitJson>,
}

impl QueueRoom {
    async fn read(visit: &PageVisit) -> Result<Self, PageProblem> {
        let workers = workers::known(visit).await?;
        let limits: Option<Items<LimitJson>> = visit.calls.get_if_allowed("/api/v1/limits?limit=200").await?;
        Ok(Self {
            workers: workers.into_iter().flat_map(|found| found.items).filter(|one| one.live).collect(),
            limits: limits.map(|found| found.items).unwrap_or_default(),
        })
    }

    /// Runs that live workers have room for at once; none where one of them does not say.
    fn slots(&self, queue: &str) -> Option<u64> {
        let mut serve =
            self.workers.iter().filter(|one| one.queues.iter().any(|served| served == queue)).peekable();
        serve.peek()?;
        serve.map(|one| one.slots.get(queue).copied()).sum()
    }

    /// The limits that name it, each with how much of it is used.
    fn limits<'a>(&'a self, queue: &'a str) -> impl Iterator<Item = &'a LimitJson> {
        self.limits.iter().filter(move |one| one.queue.as_deref() == Some(queue))
    }
}

/// How much of a limit is used, as far as it counts that.
fn used(limit: &LimitJson) -> String {
    let most = limit.permits.map(u64::from).or(limit.concurrency);
    match (most, &limit.rate) {
        (Some(most), _) if limit.by == CountBy::All => {
            format!("{} of {}", number(limit.in_use), number(most))
        }
        (Some(most), _) => format!("{} for each key", number(most)),
        (None, Some(rate)) => format!("{} in {}", number(rate.count), span(rate.per)),
        (None, None) => number(limit.in_use),
    }
}

/// A rate with its line over the last hour.
pub(super) fn speed(line: &Line, class: &str, label: &str) -> Markup {
    html! {
        @if let Some(speed) = recent(line) { (rate(speed)) } @else { (none()) }
        " " (spark(line, class, label))
    }
}

fn row(visit: &PageVisit, queue: &QueueView, room: &QueueRoom) -> Markup {
    let history = visit.history();
    let stored = visit.caller.queue(&queue.name).unwrap_or_else(|_| queue.name.clone());
    let waiting = history.level(visit.now, |name| name == stored, |counts| counts.pending);
    let came = history.came(visit.now, |name| name == stored);
    let ended = history.ended(visit.now, |name| name == stored);
    let jobs = |status: &str| visit.path("/jobs", &[], &[("queue", &queue.name), ("status", status)]);
    html! {
        tr data-key=(queue.name) {
            td { a href=(visit.path("/jobs", &[], &[("queue", &queue.name)])) { b { (short(&queue.name, 80)) } } }
            td {
                @if queue.paused {
                    (mark("paused", "paused"))
                    @if let Some(note) = &queue.pause_note { " " span.dim { (short(note, 60)) } }
                } @else {
                    (mark("open", "quiet"))
                }
            }
            td.n { (number(queue.pending)) }
            td { (spark(&waiting, "first", "Waiting, the last hour")) }
            td.n { @if let Some(due) = queue.oldest_due { (span(visit.now.since(due))) } @else { (none()) } }
            td.n {
                (number(queue.running))
                @if let Some(slots) = room.slots(&queue.name) { " of " (number(slots)) }
            }
            td.rate { (speed(&came, "second", "Coming, the last hour")) }
            td.rate { (speed(&ended, "first", "Ending, the last hour")) }
            td {
                @for limit in room.limits(&queue.name) {
                    div { a href="/limits" { (short(&limit.name, 40)) } " " (used(limit)) }
                }
            }
            td.n { (number(queue.waiting)) }
            td.n.bad[queue.failed > 0] {
                @if queue.failed > 0 { a href=(jobs("failed")) { (number(queue.failed)) } } @else { "0" }
            }
            td.n.bad[queue.workers == 0 && queue.pending > 0] { (number(queue.workers)) }
            td { (change(visit, queue)) }
        }
    }
}

fn change(visit: &PageVisit, queue: &QueueView) -> Markup {
    let at = [("name", queue.name.as_str())];
    if queue.paused {
        let happens = format!("{} that wait are claimed from now on.", counted(queue.pending, "job"));
        return visit.confirmed(&QUEUE_RESUME, &at, "Resume", &happens, &html! {});
    }
    let happens = format!(
        "Nothing is claimed from it until it is resumed: {} wait. What runs goes on.",
        counted(queue.pending, "job")
    );
    visit.confirmed(
        &QUEUE_PAUSE,
        &at,
        "Pause",
        &happens,
        &form::text("note", "Why", "", "shown on the queue while it is paused"),
    )
}
