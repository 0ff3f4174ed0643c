//! What needs a person now, in the order of how much.

use backstop::circuits::CircuitState;
use backstop_core::incident::{Incident, IncidentState};
use backstop_core::redrive::PlanPhase;
use backstop_store::QueueView;
use maud::{Markup, html};

use crate::shape::{CircuitJson, HandOffJson, Items, OrderingKeyJson, PlanShown, Worker};
use crate::web::call::PageProblem;
use crate::web::visit::{PageVisit, part};
use crate::web::words::{counted, short, span, when};

/// Things of one sort that are listed; the others are behind the link.
const EACH: usize = 5;

/// One thing.
pub(super) struct Need {
    /// False for what mends itself and is only to be known.
    pub(super) is_bad: bool,
    path: String,
    what: String,
    detail: Markup,
    then: &'static str,
}

/// All of them.
pub(super) async fn all(
    visit: &PageVisit,
    queues: &[QueueView],
    incidents: &[Incident],
) -> Result<Vec<Need>, PageProblem> {
    let plans: Option<Items<PlanShown>> = visit.calls.get_if_allowed("/api/v1/redrives?limit=50").await?;
    let circuits: Option<Items<CircuitJson>> =
        visit.calls.get_if_allowed("/api/v1/circuits?limit=100").await?;
    let keys: Option<Items<OrderingKeyJson>> =
        visit.calls.get_if_allowed("/api/v1/ordering-keys?blocked=true&limit=10").await?;
    let workers: Option<Items<Worker>> = visit.calls.get_if_allowed("/api/v1/workers?limit=100").await?;
    let handoffs: Option<Items<HandOffJson>> =
        visit.calls.get_if_allowed("/api/v1/handoffs?limit=100").await?;
    let mut needs: Vec<Need> = halted(visit, &items(plans)).collect();
    needs.extend(stopped(visit, &items(handoffs)));
    needs.extend(failing(visit, incidents));
    needs.extend(blocked(&items(keys)));
    needs.extend(silent(visit, &items(workers)));
    needs.extend(unserved(visit, queues));
    needs.extend(open(visit, &items(circuits)));
    needs.extend(paused(queues));
    needs.sort_by_key(|need| !need.is_bad);
    Ok(needs)
}

fn items<T>(found: Option<Items<T>>) -> Vec<T> {
    found.map(|found| found.items).unwrap_or_default()
}

fn halted(visit: &PageVisit, plans: &[PlanShown]) -> impl Iterator<Item = Need> {
    plans.iter().filter(|one| one.plan.phase == PlanPhase::Halted).take(EACH).map(|one| {
        let why = one.plan.halted.as_ref().map_or_else(String::new, |halt| short(&halt.why, 160));
        let at = one.plan.halted.as_ref().map(|halt| halt.at);
        Need {
            is_bad: true,
            path: format!("/redrives/{}", part(one.plan.id.as_str())),
            what: "A plan to drive again has halted".to_owned(),
            detail: html! { (why) @if let Some(at) = at { ", " (when(visit.now, at)) } },
            then: "See why",
        }
    })
}

/// Hand-offs that stand still until a person lets them go on (B7).
fn stopped(visit: &PageVisit, handoffs: &[HandOffJson]) -> impl Iterator<Item = Need> {
    handoffs.iter().filter_map(|one| Some((one, one.stopped.as_ref()?))).take(EACH).map(|(one, stop)| Need {
        is_bad: true,
        path: "/handoffs".to_owned(),
        what: format!("The hand-off {} has stopped: its receiver refused", short(&one.name, 60)),
        detail: html! { (short(&stop.message, 160)) ", " (when(visit.now, stop.at)) },
        then: "See what to do",
    })
}

fn failing(visit: &PageVisit, incidents: &[Incident]) -> impl Iterator<Item = Need> {
    let fresh = |one: &&Incident| matches!(one.standing.state, IncidentState::New | IncidentState::Regressed);
    incidents.iter().filter(fresh).filter(|one| one.open > 0).take(EACH).map(|one| {
        let again = if one.standing.state == IncidentState::Regressed { "came back: " } else { "" };
        Need {
            is_bad: true,
            path: format!("/incidents/{}", part(one.fingerprint.as_str())),
            what: format!("{again}{}", short(&one.message, 140)),
            detail: html! {
                (counted(one.open, "dead letter")) " of " code { (short(&one.kind, 60)) } ", last "
                (when(visit.now, one.last_seen))
            },
            then: "Look",
        }
    })
}

fn blocked(keys: &[OrderingKeyJson]) -> impl Iterator<Item = Need> {
    keys.iter().take(EACH).map(|key| Need {
        is_bad: true,
        path: "/parked".to_owned(),
        what: format!("The ordering key {} is blocked", short(&key.key, 80)),
        detail: html! { (counted(key.waiting, "job")) " behind a " (key.status) " " code { (short(&key.kind, 60)) } },
        then: "Unblock",
    })
}

fn silent(visit: &PageVisit, workers: &[Worker]) -> impl Iterator<Item = Need> {
    let silent = |one: &&Worker| !one.live && one.running.unwrap_or(0) > 0;
    workers.iter().filter(silent).take(EACH).map(|one| Need {
        is_bad: true,
        path: "/workers".to_owned(),
        what: format!("The worker {} is silent", short(&one.name, 80)),
        detail: html! {
            "it holds " (counted(one.running.unwrap_or(0), "job")) ", which others take back; silent since "
            (when(visit.now, one.expires_at))
        },
        then: "Look",
    })
}

fn unserved(visit: &PageVisit, queues: &[QueueView]) -> impl Iterator<Item = Need> {
    let alone = |one: &&QueueView| one.workers == 0 && one.oldest_due.is_some() && !one.paused;
    queues.iter().filter(alone).take(EACH).map(|one| {
        let wait = one.oldest_due.map(|due| span(visit.now.since(due))).unwrap_or_default();
        Need {
            is_bad: true,
            path: "/queues".to_owned(),
            what: format!("No worker serves the queue {}", short(&one.name, 80)),
            detail: html! { (counted(one.pending, "job")) " waiting, the oldest for " (wait) },
            then: "Look",
        }
    })
}

fn open(visit: &PageVisit, circuits: &[CircuitJson]) -> impl Iterator<Item = Need> {
    circuits.iter().filter(|one| one.state != CircuitState::Closed).take(EACH).map(|one| Need {
        is_bad: false,
        path: "/circuits".to_owned(),
        what: format!("The circuit of {} is not closed", short(&one.key, 80)),
        detail: html! {
            (counted(one.parked, "job")) " wait for it"
            @if let Some(until) = one.until { "; it is tried again " (when(visit.now, until)) }
        },
        then: "Look",
    })
}

fn paused(queues: &[QueueView]) -> impl Iterator<Item = Need> {
    queues.iter().filter(|one| one.paused).take(EACH).map(|one| Need {
        is_bad: false,
        path: "/queues".to_owned(),
        what: format!("The queue {} is paused", short(&one.name, 80)),
        detail: html! {
            (counted(one.pending, "job")) " waiting"
            @if let Some(note) = &one.pause_note { "; " (short(note, 80)) }
        },
        then: "Look",
    })
}

/// The list, or nothing when all is well.
pub(super) fn list(needs: &[Need]) -> Markup {
    html! {
        section.needs aria-label="What needs you" data-live="needs" {
            @if !needs.is_empty() {
                ul {
                    @for need in needs {
                        li.(if need.is_bad { "bad" } else { "mild" }) {
                            a href=(need.path) {
                                b { (need.what) } span.detail { (need.detail) } span.then { (need.then) }
                            }
                        }
                    }
                }
            }
        }
    }
}
