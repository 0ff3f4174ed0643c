//! What needs a person now, in the order of how much.

use backstop::bridges::BridgeState;
use backstop::circuits::CircuitState;
use backstop_core::redrive::PlanPhase;
use backstop_store::QueueView;
use maud::{Markup, html};

use super::causes::{Causes, untold};
use crate::shape::{
    BridgeJson, CircuitJson, HandOffJson, Items, OrderingKeyJson, PlanShown, Readiness, ReadyCheck,
    ScheduleJson, Worker,
};
use crate::web::call::PageProblem;
use crate::web::visit::{PageVisit, part};
use crate::web::words::{counted, short, span, when};

/// Things of one sort that are listed; the others are behind the link.
const EACH: usize = 5;

/// One thing.
pub(super) struct Need {
    /// False for what mends itself and is only to be known.
    pub(super) is_bad: bool,
    pub(super) path: String,
    pub(super) what: String,
    pub(super) detail: Markup,
    pub(super) then: &'static str,
}

/// All of them.
pub(super) async fn all(
    visit: &PageVisit,
    queues: &[QueueView],
    causes: Option<&Causes>,
    ready: Option<&Readiness>,
    workers: Option<&Items<Worker>>,
) -> Result<Vec<Need>, PageProblem> {
    let plans: Option<Items<PlanShown>> = visit.calls.get_if_allowed("/api/v1/redrives?limit=50").await?;
    let circuits: Option<Items<CircuitJson>> =
        visit.calls.get_if_allowed("/api/v1/circuits?limit=100").await?;
    let keys: Option<Items<OrderingKeyJson>> =
        visit.calls.get_if_allowed("/api/v1/ordering-keys?blocked=true&limit=10").await?;
    // Those that are silent stand behind the live ones.
    let gone: Option<Items<Worker>> = match workers.is_some_and(|known| known.next_cursor.is_some()) {
        true => visit.calls.get_if_allowed("/api/v1/workers?live=false&limit=100").await?,
        false => None,
    };
    let handoffs: Option<Items<HandOffJson>> =
        visit.calls.get_if_allowed("/api/v1/handoffs?limit=100").await?;
    let bridges: Option<Items<BridgeJson>> = visit.calls.get_if_allowed("/api/v1/bridges?limit=100").await?;
    let schedules: Option<Items<ScheduleJson>> =
        visit.calls.get_if_allowed("/api/v1/schedules?limit=100").await?;
    let mut needs: Vec<Need> = ill(ready).collect();
    needs.extend(halted(visit, &items(plans)));
    needs.extend(stopped(visit, &items(handoffs)));
    needs.extend(causes.map(|causes| causes.needs(visit)).unwrap_or_default());
    needs.extend(untold(causes, queues));
    needs.extend(blocked(&items(keys)));
    let gone = gone.as_ref().or(workers).map_or(&[][..], |known| known.items.as_slice());
    needs.extend(silent(visit, gone));
    needs.extend(unserved(visit, queues));
    needs.extend(broken(visit, &items(bridges)));
    needs.extend(stuck(&items(schedules)));
    needs.extend(open(visit, &items(circuits)));
    needs.extend(paused(queues));
    needs.sort_by_key(|need| !need.is_bad);
    Ok(needs)
}

fn items<T>(found: Option<Items<T>>) -> Vec<T> {
    found.map(|found| found.items).unwrap_or_default()
}

/// Checks of this server that are not well. Bridges are told of with what they say, and so are hand-offs that stopped.
fn ill(ready: Option<&Readiness>) -> impl Iterator<Item = Need> {
    let checks = ready.into_iter().flat_map(|ready| &ready.checks).filter(|check| !check.ok);
    let (duties, others): (Vec<&ReadyCheck>, Vec<_>) = checks
        .filter(|check| !check.name.starts_with("bridge/") && check.problem.as_deref() != Some("stopped"))
        .partition(|check| check.name.starts_with("duty/"));
    unled(&duties).into_iter().chain(others.into_iter().take(EACH).map(|check| Need {
        is_bad: check.required,
        path: "/#machine".to_owned(),
        what: ill_what(&check.name),
        detail: html! { (why(check)) },
        then: "Look",
    }))
}

/// Duties of maintenance that nobody leads, as one: they go together.
fn unled(duties: &[&ReadyCheck]) -> Option<Need> {
    let names: Vec<&str> = duties.iter().filter_map(|check| check.name.strip_prefix("duty/")).collect();
    (!names.is_empty()).then(|| Need {
        is_bad: true,
        path: "/#machine".to_owned(),
        what: format!("Nobody does the maintenance: {}", short(&names.join(", "), 120)),
        detail: html! { "no process leads it, here or elsewhere" },
        then: "Look",
    })
}

/// The name of a check in words.
fn ill_what(name: &str) -> String {
    match name.split_once('/') {
        None => format!("This server is not ready: {}", short(name, 80)),
        Some(("handoff", name)) => format!("The hand-off {} does not go on", short(name, 80)),
        Some((worker, part)) => match part.strip_prefix("dependency/") {
            Some(needed) => format!("{} cannot reach {}", short(worker, 60), short(needed, 60)),
            None if part == "failures" => format!("{} fails far more than others", short(worker, 80)),
            None => format!("The loop {} of {} has stopped", short(part, 60), short(worker, 60)),
        },
    }
}

/// What is wrong with a check, in words.
pub(super) fn why(check: &ReadyCheck) -> String {
    let words = match check.problem.as_deref() {
        Some("slow") => "no answer within 2 seconds",
        Some("unchecked") => "not checked yet",
        Some("failed") => "its check failed",
        Some("timed_out") => "its check gave no answer in time",
        Some("run_failed") => "a run found it unavailable",
        Some("far_above_others") => "it claims nothing until that changes",
        Some("busy") => "another transaction holds what it needs",
        Some("nobody_leads") => "no process leads it, here or elsewhere",
        None | Some("silent") => "not heard of in time",
        Some(code) => return code.replace('_', " "),
    };
    words.to_owned()
}

/// Bridges that do not run. One that has lost its broker tries again by itself.
fn broken(visit: &PageVisit, bridges: &[BridgeJson]) -> impl Iterator<Item = Need> {
    let shown = |one: &&BridgeJson| {
        matches!(one.state, BridgeState::Failed | BridgeState::NotRunning | BridgeState::Disconnected)
    };
    bridges.iter().filter(shown).take(EACH).map(|one| Need {
        is_bad: one.state != BridgeState::Disconnected,
        path: format!("/bridges/{}", part(&one.name)),
        what: format!("The bridge {} is {}", short(&one.name, 60), one.state.as_str().replace('_', " ")),
        detail: html! {
            @if let Some(error) = &one.last_error { (short(error, 160)) ", " }
            "last heard of " (when(visit.now, one.seen_at))
        },
        then: "See why",
    })
}

fn stuck(schedules: &[ScheduleJson]) -> impl Iterator<Item = Need> {
    let stuck = schedules.iter().filter_map(|one| Some((one, one.problem.as_deref()?)));
    stuck.take(EACH).map(|(one, problem)| Need {
        is_bad: true,
        path: format!("/schedules/{}", part(&one.name)),
        what: format!("The schedule {} could not submit its job", short(&one.name, 80)),
        detail: html! { (short(problem, 160)) },
        then: "Look",
    })
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
