//! Graphs of steps that succeed, fail, snooze, wait for signals, do something outside and are handled together.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use backstop::workflows::{NodeEnd, NodeState, Step, SubmittedWorkflow, WorkflowStatus};
use backstop_chaos::errand::{REJECTS, SignalJob};
use backstop_chaos::group::PATIENCE;
use backstop_chaos::node::NodeStart;
use backstop_chaos::outside::EffectStepsJob;
use backstop_chaos::rounds;
use backstop_chaos::shape::CampaignShape::Workers;
use backstop_chaos::together::BulkCampaignJob;
use backstop_chaos::work::policy;
use serde_json::Value;

use super::{CampaignStage, Family, callback, job};

/// Numbers of the jobs that wait for signals.
const ERRAND: u64 = 700_000_000;

/// Processes that die while they send signals, each time that some are sent.
const KILLED_SENDERS: usize = 2;

/// What a step follows, and how its job ends: the number of a job decides it.
type Plan = [(&'static str, &'static [&'static str], u64)];

/// The steps of a graph; `cured` runs after a failure, all others after a success.
const STEPS: &Plan = &[
    ("a", &[], 0),
    ("b", &["a"], 1),
    ("c", &["a"], 3),
    ("d", &["b", "c"], 4),
    ("first", &["b", "c"], 5),
    ("never", &["a"], 6),
];

/// What odd graphs have beside them: a step that never works.
const DEAD: &Plan = &[("dead", &["d"], 2), ("cured", &["dead"], 7), ("lost", &["dead"], 8)];

/// How many graphs there are.
pub(super) fn count() -> u64 {
    u64::try_from(rounds(16, 600)).unwrap_or(16)
}

/// How many of their jobs succeed, at least.
pub(super) fn successes() -> u64 {
    5 * count()
}

pub(super) async fn submit_all(stage: &CampaignStage) -> Vec<SubmittedWorkflow> {
    let mut submitted = Vec::new();
    for number in 0..count() {
        submitted.push(submit(stage, number).await);
    }
    submitted
}

async fn submit(stage: &CampaignStage, number: u64) -> SubmittedWorkflow {
    let engine = &stage.submitter;
    let mut flow = engine.workflow(format!("graph {number}")).key(format!("graph {number}"));
    let dead = number % 2 == 1;
    let steps = STEPS.iter().chain(DEAD.iter().filter(|_| dead));
    let mut made: BTreeMap<&str, Step<Value>> = BTreeMap::new();
    for (name, after, ends) in steps {
        let mut step = flow.step(*name, job(engine, number * 100 + ends));
        for before in *after {
            step = step.after(&made[before]);
        }
        step = match *name {
            "never" | "cured" => step.on_failure(),
            "first" => step.join_any(),
            _ => step,
        };
        made.insert(name, step.add());
    }
    let errand = engine.enqueue(SignalJob { number: ERRAND + number }).policy(policy());
    flow.step("errand", errand).after(&made["a"]).add();
    let outside = EffectStepsJob::outside_in(&stage.folder);
    let effect = engine.enqueue(EffectStepsJob { number, outside }).policy(policy());
    flow.step("outside", effect).after(&made["a"]).add();
    if stage.shape == Workers {
        let together = engine.enqueue(BulkCampaignJob { number: number * 10 + 4 }).policy(policy());
        flow.step("together", together).after(&made["c"]).add();
    }
    let callback = callback(Family::Graphs, number);
    flow.on_success(&callback).on_failure(&callback).submit().await.expect("stored")
}

/// Has a process send what the errands of some graphs wait for. A few are killed on the way, and each begins with the
/// first signal again.
pub(super) async fn send(start: NodeStart<'_>, graphs: impl Iterator<Item = u64>, dice: &mut fastrand::Rng) {
    let numbers: Vec<String> = graphs.map(|number| (ERRAND + number).to_string()).collect();
    let list = numbers.join(",");
    let sender = || NodeStart { mode: "send", ..start }.go_with(&[("CHAOS_SIGNALS", &list)]);
    for _ in 0..KILLED_SENDERS {
        let mut sender = sender();
        let mut sent = BufReader::new(sender.child.stdout.take().expect("piped")).lines();
        // So many are sent, and perhaps the next one, or half of it.
        let last = sent.by_ref().take(dice.usize(1..=numbers.len())).last();
        assert!(matches!(last, Some(Ok(_))), "it sends");
        tokio::time::sleep(Duration::from_millis(dice.u64(..8))).await;
        sender.kill();
    }
    let (began, mut sender) = (Instant::now(), sender());
    while sender.is_alive() {
        assert!(began.elapsed() < PATIENCE, "it never ends");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(sender.child.wait().expect("it has ended").success(), "all are sent");
}

pub(super) async fn check_all(stage: &CampaignStage, submitted: &[SubmittedWorkflow]) {
    for (number, workflow) in (0..).zip(submitted) {
        check(stage, number, workflow).await;
        check_errand(stage, number, workflow).await;
    }
}

/// Every step ended as it should; that none began too early is the checker's to see.
async fn check(stage: &CampaignStage, number: u64, submitted: &SubmittedWorkflow) {
    let dead = number % 2 == 1;
    let view = stage.workflow(submitted.id).await;
    let status = if dead { WorkflowStatus::Failed } else { WorkflowStatus::Succeeded };
    assert_eq!(view.status, status, "graph {number}: {view:?}");
    for node in &view.nodes {
        let expected = match &*node.name {
            "dead" => NodeEnd::Failed,
            "never" => NodeEnd::NotTaken,
            "lost" => NodeEnd::DependencyFailed,
            _ => NodeEnd::Succeeded,
        };
        assert_eq!(node.state, NodeState::Ended(expected), "step {} of graph {number}", node.name);
    }
}

/// What was sent has arrived, once, and what was rejected is kept, once (W9, W10).
async fn check_errand(stage: &CampaignStage, number: u64, submitted: &SubmittedWorkflow) {
    let (_, id) = submitted.nodes.iter().find(|(name, _)| &**name == "errand").expect("every graph has one");
    let (job, sent) = (stage.job(*id).await, (ERRAND + number).to_string());
    assert_eq!(job.result.as_deref(), Some(&*sent), "what came with the signal");
    let rejects = stage.engine.rejects().of_job(*id, 100).await.expect("readable");
    assert_eq!(rejects.len() as u64, REJECTS, "items that graph {number} rejects");
}
