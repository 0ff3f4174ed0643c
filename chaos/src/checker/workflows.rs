//! Workflows, batches and schedules: what is kept of them agrees with their jobs.

use std::collections::BTreeMap;

use backstop::prelude::*;
use backstop::schedules::ScheduleView;
use backstop::workflows::{Join, NodeEnd, NodeState, NodeView, WorkflowFilter, WorkflowView};
use backstop::{JobId, State, Timestamp};
use backstop_store::PageRequest;

use super::fires::{self, FiredJob};
use super::kept::Kept;

/// Adds what is wrong with workflows and batches: all have ended as their jobs have, and no step began before what it
/// waits for had ended (W1-W6).
pub(super) async fn check(
    engine: &Backstop,
    jobs: &BTreeMap<JobId, Kept>,
    violations: &mut Vec<String>,
) -> JobResult {
    let mut page = PageRequest::first(500);
    loop {
        let found = engine.workflows().list(&WorkflowFilter::default(), page).await?;
        for listed in found.items {
            let Some(view) = engine.workflows().get(listed.id).await? else { continue };
            let mut problems = Vec::new();
            if !view.status.is_over() {
                problems.push(format!("it is {} when all is over", view.status));
            }
            match &view.batch {
                Some(_) => check_batch(&view, jobs, &mut problems),
                None => check_graph(&view, jobs, &mut problems),
            }
            violations.extend(
                problems.into_iter().map(|what| format!("workflow {} `{}`: {what}", view.id, view.name)),
            );
        }
        match found.next {
            Some(next) => page.after = Some(next),
            None => return Ok(()),
        }
    }
}

/// The counts of a batch are those of its jobs.
fn check_batch(view: &WorkflowView, jobs: &BTreeMap<JobId, Kept>, problems: &mut Vec<String>) {
    let of_it = |kept: &&Kept| kept.view.job.spec.part_of().is_some_and(|part| part.id == view.id);
    let mut ended = [0_u64; 4];
    for kept in jobs.values().filter(of_it) {
        ended[0] += 1;
        match kept.view.record.state {
            State::Succeeded => ended[1] += 1,
            State::Failed => ended[2] += 1,
            State::Canceled => ended[3] += 1,
            state => problems.push(format!("its job {} is {state}", kept.view.job.spec.id)),
        }
    }
    let counts = view.counts;
    let kept = [counts.total, counts.succeeded, counts.failed, counts.canceled];
    if kept != ended {
        problems.push(format!("it counts {kept:?}, and its jobs are {ended:?}"));
    }
}

fn check_graph(view: &WorkflowView, jobs: &BTreeMap<JobId, Kept>, problems: &mut Vec<String>) {
    let ends: BTreeMap<&str, &Kept> =
        view.nodes.iter().filter_map(|node| Some((&*node.name, jobs.get(&node.job)?))).collect();
    for node in &view.nodes {
        let Some(kept) = jobs.get(&node.job) else {
            problems.push(format!("the job of its step `{}` is not stored", node.name));
            continue;
        };
        check_node(node, kept, &ends, problems);
    }
}

/// A step is where its job is, and began when what it waits for had ended.
fn check_node(node: &NodeView, kept: &Kept, ends: &BTreeMap<&str, &Kept>, problems: &mut Vec<String>) {
    let (name, state) = (&node.name, kept.view.record.state);
    let agrees = match node.state {
        NodeState::Ended(NodeEnd::Succeeded) => state == State::Succeeded,
        NodeState::Ended(NodeEnd::Failed) => state == State::Failed,
        NodeState::Ended(_) => state == State::Canceled,
        NodeState::Waiting | NodeState::Released => false,
    };
    if !agrees {
        problems.push(format!("step `{name}` is {:?}, and its job is {state}", node.state));
    }
    let Some(began) = kept.rows.first().map(|row| row.started_at) else { return };
    if let NodeState::Ended(NodeEnd::NotTaken | NodeEnd::DependencyFailed) = node.state {
        problems.push(format!("step `{name}` is {:?}, and its job has run", node.state));
    }
    // A dead step that was driven again has ended twice: its failure branch follows the first time.
    let end = |before: &&Kept| match node.when.needs_success() {
        true => before.view.record.finished_at,
        false => before.first_end(),
    };
    let before: Vec<Option<Timestamp>> =
        node.after.iter().map(|name| ends.get(&**name).and_then(end)).collect();
    let waited_for = match node.join {
        Join::All => before.iter().copied().max().flatten().filter(|_| !before.contains(&None)),
        Join::Any => before.iter().flatten().min().copied(),
    };
    if !node.after.is_empty() && waited_for.is_none_or(|end| end > began) {
        problems.push(format!("step `{name}` began at {began}, before what it follows had ended"));
    }
}

/// Adds what is wrong with schedules: every fire that was decided has one job, unless the schedule says why it has
/// none, and one that waits for another came after that (W11).
pub(super) fn check_fires(
    schedules: &[ScheduleView],
    jobs: &BTreeMap<JobId, Kept>,
    violations: &mut Vec<String>,
) {
    let mut by_schedule: BTreeMap<&str, BTreeMap<Timestamp, FiredJob>> = BTreeMap::new();
    for kept in jobs.values() {
        let Some(fired) = kept.view.job.spec.schedule() else { continue };
        let job = FiredJob { created: kept.view.job.created_at, ended: kept.first_end() };
        if by_schedule.entry(&fired.name).or_default().insert(fired.fire_time, job).is_some() {
            violations.push(format!("schedule {}: {} was submitted twice", fired.name, fired.fire_time));
        }
    }
    for view in schedules {
        let mut problems = Vec::new();
        fires::check(view, &by_schedule.remove(&*view.name).unwrap_or_default(), &mut problems);
        violations.extend(problems.into_iter().map(|what| format!("schedule {}: {what}", view.name)));
    }
}
