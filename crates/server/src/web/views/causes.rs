//! What fails, for the overview: the causes seen last, those that have dead letters, and the chart of both.

use std::time::Duration;

use backstop_core::incident::Incident;
use backstop_store::QueueView;
use maud::{Markup, html};

use super::incidents::needs_somebody;
use super::needs::Need;
use crate::shape::Items;
use crate::web::call::PageProblem;
use crate::web::chart::{ChartLine, stacked};
use crate::web::history::{Line, added};
use crate::web::visit::{PageVisit, part};
use crate::web::words::{counted, number, short, when};

/// Causes of one sort that are listed; the others are behind the link.
const EACH: usize = 5;

/// Causes that have a line of their own; the others are in one.
const DRAWN: usize = 3;

/// The colours of lines, by their place.
const CLASSES: [&str; DRAWN + 1] = ["first", "second", "third", "fourth"];

/// How long ago a cause that kills nothing failed last, to be told of.
const JUST_NOW: Duration = Duration::from_secs(300);

/// The causes of failures that somebody may see.
pub(super) struct Causes {
    /// Those seen last, with or without dead letters.
    latest: Vec<Incident>,
    /// Those that have dead letters now.
    pub(super) open: Vec<Incident>,
    /// False when there are more of those.
    has_all_open: bool,
}

impl Causes {
    /// None for somebody who may not see incidents.
    pub(super) async fn read(visit: &PageVisit) -> Result<Option<Self>, PageProblem> {
        let latest: Option<Items<Incident>> =
            visit.calls.get_if_allowed("/api/v1/incidents?limit=50").await?;
        let open: Option<Items<Incident>> =
            visit.calls.get_if_allowed("/api/v1/incidents?open=true&limit=200").await?;
        Ok(latest.zip(open).map(|(latest, open)| Self {
            latest: latest.items,
            has_all_open: open.next_cursor.is_none(),
            open: open.items,
        }))
    }

    /// Those that nobody has looked at: the ones that kill jobs, then the ones whose jobs are tried again.
    pub(super) fn needs(&self, visit: &PageVisit) -> Vec<Need> {
        let kills = self.open.iter().filter(|one| needs_somebody(one)).take(EACH);
        let kills = kills.map(|one| need(visit, one, true));
        // Where every failed run was the last of its job, none of them is tried again.
        let fails = |one: &&Incident| {
            let is_now = visit.now.since(one.last_seen) < JUST_NOW;
            one.open == 0 && one.failures > one.dead && is_now && needs_somebody(one)
        };
        kills.chain(self.latest.iter().filter(fails).take(EACH).map(|one| need(visit, one, false))).collect()
    }

    /// Failures by cause: those that failed most have lines of their own, and all others are one.
    pub(super) fn chart(&self, visit: &PageVisit) -> Markup {
        let history = visit.history();
        let sum = |line: &Line| line.iter().flatten().sum::<f64>();
        let mut lines: Vec<(String, Line)> = self
            .latest
            .iter()
            .map(|one| (short(&one.message, 40), history.failures(visit.now, one.fingerprint.as_str())))
            .collect();
        lines.sort_by(|one, other| sum(&other.1).total_cmp(&sum(&one.1)));
        let others = lines.split_off(lines.len().min(DRAWN));
        if !others.is_empty() {
            let name = format!("{} more", number(others.len() as u64));
            let all = others.into_iter().map(|(_, line)| line).reduce(|one, other| added(&one, &other));
            lines.extend(all.map(|line| (name, line)));
        }
        if lines.is_empty() {
            // Nothing has ever failed, for as long as anything is known.
            lines.push(("failures".to_owned(), history.level(visit.now, |_| true, |_| 0)));
        }
        let drawn = lines.iter().zip(CLASSES).map(|((name, line), class)| ChartLine {
            name,
            class,
            points: line.iter().map(|point| point.map(|rate| rate * 60.0)).collect(),
        });
        stacked(("chart-causes", "Failures by cause"), history.window(visit.now), drawn.collect(), per_minute)
    }
}

fn need(visit: &PageVisit, one: &Incident, kills: bool) -> Need {
    let again = if one.standing.regressions > 0 { "came back: " } else { "" };
    Need {
        is_bad: kills,
        path: format!("/incidents/{}", part(one.fingerprint.as_str())),
        what: format!("{again}{}", short(&one.message, 140)),
        detail: html! {
            @if kills { (counted(one.open, "dead letter")) } @else { (counted(one.failures, "failed run")) }
            " of " code { (short(&one.kind, 60)) } ", last " (when(visit.now, one.last_seen))
            @if !kills { "; none of its jobs is dead" }
        },
        then: "Look",
    }
}

/// Dead letters that no incident tells of: those that no run killed, such as expired ones; and all of them for somebody
/// who may not see incidents.
pub(super) fn untold(causes: Option<&Causes>, queues: &[QueueView]) -> Option<Need> {
    let dead: u64 = queues.iter().map(|queue| queue.failed).sum();
    let told = causes.map_or(0, |causes| causes.open.iter().map(|one| one.open).sum());
    let has_all = causes.is_none_or(|causes| causes.has_all_open);
    let left = dead.checked_sub(told).filter(|left| *left > 0 && has_all)?;
    let detail = match causes {
        Some(_) => {
            html! { "They expired, were put off for too long, or told of a failure as their result" }
        }
        None => html! { "Their causes are for tokens without a list of queues" },
    };
    Some(Need {
        is_bad: false,
        path: "/jobs?status=failed".to_owned(),
        what: match causes {
            Some(_) => format!("{} without an incident", counted(left, "dead letter")),
            None => counted(left, "dead letter"),
        },
        detail,
        then: "Look",
    })
}

fn per_minute(value: f64) -> String {
    if value > 0.0 && value < 10.0 { format!("{value:.1} a minute") } else { format!("{value:.0} a minute") }
}
