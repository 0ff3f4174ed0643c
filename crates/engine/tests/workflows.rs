//! Workflows and batches through the library, on every store (W1-W6).
#![allow(missing_docs, reason = "a test")]

#[path = "workflows/batches.rs"]
mod batches;
#[path = "workflows/driven.rs"]
mod driven;
#[path = "workflows/followed.rs"]
mod followed;
#[path = "workflows/gathered.rs"]
mod gathered;
#[path = "workflows/missing.rs"]
mod missing;
#[path = "workflows/raced.rs"]
mod raced;
#[path = "workflows/renewed.rs"]
mod renewed;
#[path = "workflows/sealed.rs"]
mod sealed;
mod stores;
#[path = "workflows/wide.rs"]
mod wide;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use backstop::prelude::*;
use backstop::workflows::{
    Condition, NodeEnd, NodeState, ResultTest, SubmittedWorkflow, WorkflowFilter, WorkflowProblem,
    WorkflowStatus, WorkflowView,
};
use backstop::{Config, Event, EventKind, Events, InlineWorker, State};
use backstop_core::WorkerId;
use backstop_store::{Amend, Drawer, Edit, Expect, PageRequest, Store};
use serde_json::Value;

/// Who leads maintenance here, and for how long.
const NODE: WorkerId = WorkerId::from_u128(9);
const TERM: Duration = Duration::from_secs(60);

/// What handlers share.
#[derive(Default)]
struct Site {
    broken: AtomicBool,
    ended_well: AtomicU32,
    ended_badly: AtomicU32,
}

#[job]
async fn add(a: u32, b: u32) -> JobResult<u32> {
    Ok(a + b)
}

/// Takes what the step before returned, and adds to it.
#[job]
async fn add_to(cx: JobContext<Site>, step: String, more: u32) -> JobResult<u32> {
    Ok(cx.input::<u32>(&step)? + more)
}

/// Its payload is a number: what the step before returned.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Double(u32);

impl Job for Double {
    const KIND: &'static str = "double";
    type Context = ();
    type Output = JobResult<u32>;

    async fn run(self, _: JobContext<()>) -> JobResult<u32> {
        Ok(self.0 * 2)
    }
}

#[job(max_retries = 0)]
async fn frail(cx: JobContext<Site>) -> JobResult<u32> {
    if cx.app().broken.load(Ordering::SeqCst) { Err("broken".into()) } else { Ok(1) }
}

#[job]
async fn sum_up(cx: JobContext<Site>) -> JobResult<u64> {
    let all = cx.inputs().values().map(|value| value.as_u64().unwrap_or_default());
    Ok(all.sum())
}

#[job]
async fn well(cx: JobContext<Site>) {
    cx.app().ended_well.fetch_add(1, Ordering::SeqCst);
}

#[job]
async fn badly(cx: JobContext<Site>) {
    cx.app().ended_badly.fetch_add(1, Ordering::SeqCst);
}

struct Stage {
    engine: Backstop,
    site: Arc<Site>,
    worker: InlineWorker,
}

impl Stage {
    fn on(store: &Arc<dyn Store>) -> Self {
        Self::with(store, Config::default())
    }

    fn with(store: &Arc<dyn Store>, config: Config) -> Self {
        let engine = Backstop::on(store.clone(), config);
        let site = Arc::new(Site::default());
        let worker = engine.worker_sharing(site.clone()).register_all().register_without_context::<Double>();
        let worker = worker.predicate("odd", |number: u32| async move { Ok(number % 2 == 1) });
        let worker = worker.queue("default", 4).inline().expect("it has kinds");
        Self { engine, site, worker }
    }

    /// Runs all that is due; answers how many runs that was.
    async fn drain(&self) -> usize {
        // What people and others have ended is looked after by whoever leads.
        self.engine.maintain(NODE, TERM).await.expect("the store is there");
        self.worker.drain(50_000).await.expect("the store is there").len()
    }

    /// Runs all that is due, and much of it at once, which is at least so many jobs: for thousands of them.
    async fn drain_together(&self, jobs: u64) {
        let succeeded = async || {
            let queues = self.engine.queues().list().await.expect("the store is there");
            queues.iter().map(|queue| queue.succeeded).sum::<u64>()
        };
        let before = succeeded().await;
        let worker = self.engine.worker_sharing(self.site.clone()).register_all().queue("default", 200);
        let worker = worker.start().await.expect("it has kinds");
        let worked = async {
            let mut looks = tokio::time::interval(Duration::from_millis(20));
            // A look that takes longer than that must leave room for the work, too.
            looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            while succeeded().await < before + jobs {
                looks.tick().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(120), worked).await.expect("in time");
        worker.stop().await;
        // What followed from the last end.
        self.drain().await;
    }

    async fn view(&self, submitted: &SubmittedWorkflow) -> WorkflowView {
        self.engine.workflows().get(submitted.id).await.expect("the store is there").expect("it is stored")
    }

    async fn result(&self, submitted: &SubmittedWorkflow, node: &str) -> Value {
        let job = job_of(submitted, node);
        let view = self.engine.job(job).await.expect("the store is there").expect("it is stored").view;
        serde_json::from_str(view.result.as_deref().unwrap_or("null")).expect("JSON")
    }

    /// What `explain` says of a step.
    async fn because(&self, submitted: &SubmittedWorkflow, node: &str) -> String {
        let told = self.engine.explain(job_of(submitted, node)).await.expect("the store is there");
        told.expect("it is stored").1.because
    }

    async fn state(&self, submitted: &SubmittedWorkflow, node: &str) -> (State, Option<String>) {
        let job = job_of(submitted, node);
        let view = self.engine.job(job).await.expect("the store is there").expect("it is stored").view;
        (view.state(), view.record.cancel_reason)
    }
}

fn job_of(submitted: &SubmittedWorkflow, node: &str) -> backstop::JobId {
    submitted.nodes.iter().find(|(name, _)| **name == *node).expect("a node of this name").1
}

fn ends(view: &WorkflowView) -> Vec<(&str, NodeState)> {
    view.nodes.iter().map(|node| (&*node.name, node.state)).collect()
}

/// W1: steps run one after another, and each is given what the one before returned.
async fn a_chain_hands_results_on(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    let chain = engine
        .chain("sum", engine.enqueue(Add { a: 1, b: 2 }))
        .then(engine.enqueue(AddTo { step: "add".into(), more: 10 }))
        .then_with_result(engine.enqueue(Double(0)))
        .then_on_failure(engine.enqueue(Badly {}))
        .key("sum of today");
    let submitted = chain.submit().await.expect("a chain that can be");
    assert_eq!(stage.state(&submitted, "double").await.0, State::Waiting, "all are stored at once");
    let waiting =
        engine.job(job_of(&submitted, "double")).await.expect("the store is there").expect("stored");
    let waits_for = waiting.waiting_for().expect("it waits");
    assert_eq!(
        (waits_for.reason, waits_for.key),
        (backstop_core::job::WaitReason::Workflow, submitted.id.to_string())
    );
    let because = stage.because(&submitted, "double").await;
    assert!(because.contains("it is the step `double` of workflow"), "{because}");
    assert!(because.ends_with("and waits for `add_to`"), "{because}");
    assert_eq!(stage.drain().await, 3);
    assert_eq!(
        (stage.result(&submitted, "add_to").await, stage.result(&submitted, "double").await),
        (13.into(), 26.into())
    );
    assert_eq!(stage.state(&submitted, "badly").await, (State::Canceled, Some("not_taken".into())));
    let view = stage.view(&submitted).await;
    assert_eq!((view.status, view.counts.succeeded, view.counts.canceled), (WorkflowStatus::Succeeded, 3, 1));
    let again = engine.chain("sum", engine.enqueue(Add { a: 1, b: 2 })).key("sum of today").submit().await;
    let again = again.expect("it is known");
    assert!(again.deduplicated && again.id == submitted.id && again.nodes == submitted.nodes);
    assert_eq!(stage.drain().await, 0);
}

/// W2: branches by result, by predicate, all or the first.
async fn branches_are_taken_as_results_say(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    let mut events = engine.events();
    for (b, expected) in [(2, "three"), (4, "odd"), (5, "rest")] {
        let mut flow = engine.workflow("branches");
        let first = flow.step("add", engine.enqueue(Add { a: 1, b })).add();
        flow.first_match(&first);
        flow.step("three", engine.enqueue(Well {})).after(&first).when_result("", 3).add();
        flow.step("odd", engine.enqueue(Well {})).after(&first).when_predicate("odd").add();
        flow.step("rest", engine.enqueue(Well {})).after(&first).add();
        let submitted = flow.submit().await.expect("a shape that can be");
        stage.drain().await;
        let view = stage.view(&submitted).await;
        assert_eq!(view.status, WorkflowStatus::Succeeded, "{expected}");
        for branch in ["three", "odd", "rest"] {
            let state = if branch == expected { State::Succeeded } else { State::Canceled };
            assert_eq!(
                stage.state(&submitted, branch).await.0,
                state,
                "{branch} when it should be {expected}"
            );
        }
        let taken = told(&mut events, |event| match &event.what {
            EventKind::BranchTaken { workflow, step, after, when } => {
                assert_eq!((workflow.id, &after[..]), (submitted.id, &["add".into()][..]));
                Some((step.to_string(), when.clone()))
            }
            _ => None,
        });
        let when = match expected {
            "three" => Condition::Result(ResultTest { pointer: String::new(), equals: 3.into() }),
            "odd" => Condition::Predicate("odd".to_owned()),
            _ => Condition::Success,
        };
        assert_eq!(taken, [(expected.to_owned(), when)], "V1: the branch that was taken is told");
    }
    assert_eq!(stage.site.ended_well.load(Ordering::SeqCst), 3, "one branch each");
}

/// W2, H10: a predicate that nobody knows waits visibly, and holds up its branch only.
async fn a_predicate_without_code_waits(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    let mut flow = engine.workflow("nobody knows");
    let first = flow.step("add", engine.enqueue(Add { a: 1, b: 1 })).add();
    flow.step("maybe", engine.enqueue(Well {})).after(&first).when_predicate("unheard of").add();
    flow.step("sure", engine.enqueue(Well {})).after(&first).add();
    let submitted = flow.submit().await.expect("a shape that can be");
    let because = stage.because(&submitted, "maybe").await;
    assert!(because.ends_with("and waits for `add`"), "the predicate's turn has not come: {because}");
    assert_eq!(stage.drain().await, 2);
    let view = stage.view(&submitted).await;
    let asks = view.nodes.iter().find(|node| node.predicate.is_some()).expect("it is shown");
    let job = engine.job(asks.job).await.expect("the store is there").expect("it is stored");
    assert_eq!((&*job.view.job.spec.kind, job.view.record.runs), ("predicate:unheard of", 0));
    let because = stage.because(&submitted, "maybe").await;
    assert!(because.ends_with("waits for the answer of the predicate `unheard of`"), "{because}");
    assert_eq!(view.status, WorkflowStatus::Running);
}

/// W2: a predicate that panics fails its branch and says why; other branches go on.
async fn a_predicate_that_panics_fails_its_branch(store: Arc<dyn Store>) {
    let config = Config::default().kind("predicate:stumbles", Policy::default().retries(0));
    let engine = Backstop::on(store, config);
    let worker = engine.worker_sharing(Arc::new(Site::default())).register_all();
    let worker = worker.predicate("stumbles", |number: u32| async move {
        assert!(number > 9, "it stumbles");
        Ok(true)
    });
    let mut flow = engine.workflow("stumbling");
    let first = flow.step("add", engine.enqueue(Add { a: 1, b: 1 })).add();
    flow.step("maybe", engine.enqueue(Well {})).after(&first).when_predicate("stumbles").add();
    flow.step("sure", engine.enqueue(Well {})).after(&first).add();
    let submitted = flow.submit().await.expect("a shape that can be");
    worker.queue("default", 4).inline().expect("it has kinds").drain(10).await.expect("the store is there");
    let view = engine.workflows().get(submitted.id).await.expect("the store is there").expect("stored");
    let states: Vec<_> = view.nodes.iter().map(|node| (&*node.name, node.state)).collect();
    assert_eq!(
        states[1..3],
        [
            ("maybe", NodeState::Ended(NodeEnd::DependencyFailed)),
            ("sure", NodeState::Ended(NodeEnd::Succeeded))
        ]
    );
    assert_eq!(view.status, WorkflowStatus::Failed);
    let asked = view.nodes.iter().find(|node| node.predicate.is_some()).expect("it is shown").job;
    let failure = engine.job(asked).await.expect("the store is there").expect("stored").view.last_failure;
    let failure = failure.expect("it has failed");
    assert!(failure.message.contains("it stumbles"), "{}", failure.message);
}

/// W4: a dead step fires its failure branch, calls off the rest, and goes on from there when it is driven again.
async fn a_dead_step_goes_on_when_it_is_driven_again(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    stage.site.broken.store(true, Ordering::SeqCst);
    let mut flow = engine.workflow("frail").on_success(&Well {}).on_failure(&Badly {});
    let first = flow.step("first", engine.enqueue(Add { a: 1, b: 1 })).add();
    let frail = flow.step("frail", engine.enqueue(Frail {})).after(&first).add();
    flow.step("mend", engine.enqueue(Add { a: 0, b: 0 })).after(&frail).on_failure().add();
    let next = flow.step("next", engine.enqueue(AddTo { step: "frail".into(), more: 1 })).after(&frail).add();
    flow.step("last", engine.enqueue(AddTo { step: "next".into(), more: 1 })).after(&next).add();
    let submitted = flow.submit().await.expect("a shape that can be");
    assert_eq!(stage.drain().await, 4, "first, frail, mend, and the callback");
    for node in ["next", "last"] {
        assert_eq!(stage.state(&submitted, node).await, (State::Canceled, Some("dependency_failed".into())));
    }
    let view = stage.view(&submitted).await;
    assert_eq!((view.status, stage.site.ended_badly.load(Ordering::SeqCst)), (WorkflowStatus::Failed, 1));
    stage.site.broken.store(false, Ordering::SeqCst);
    engine.retry(job_of(&submitted, "frail")).await.expect("a dead letter");
    assert_eq!(stage.drain().await, 4, "frail, next, last, and the callback");
    let view = stage.view(&submitted).await;
    assert_eq!((view.status, stage.site.ended_well.load(Ordering::SeqCst)), (WorkflowStatus::Succeeded, 1));
    let last = view.nodes.iter().find(|node| &*node.name == "last").expect("it is there");
    assert_ne!(last.job, job_of(&submitted, "last"), "another job stands for it");
    let result = engine.job(last.job).await.expect("the store is there").expect("it is stored").view.result;
    assert_eq!(result.as_deref(), Some("3"));
}

/// W4: cancel reaches everything downstream; pause and resume reach what has not started.
async fn people_hold_back_and_call_off_all_of_it(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    let chain = || {
        let first = engine.chain("held", engine.enqueue(Add { a: 1, b: 1 }));
        first.then(engine.enqueue(Double(1))).then_always(engine.enqueue(Well {}))
    };
    let held = chain().submit().await.expect("a chain that can be");
    assert_eq!(engine.workflows().pause(held.id).await.expect("it is stored"), 3);
    assert_eq!((stage.drain().await, stage.view(&held).await.status), (0, WorkflowStatus::Paused));
    assert_eq!(engine.workflows().resume(held.id).await.expect("it is stored"), 3);
    assert_eq!(stage.state(&held, "double").await.0, State::Waiting, "it waits for the same as before");
    assert_eq!((stage.drain().await, stage.view(&held).await.status), (3, WorkflowStatus::Succeeded));

    let off = chain().submit().await.expect("a chain that can be");
    engine.cancel(job_of(&off, "add"), "not needed").await.expect("pending");
    assert_eq!(stage.drain().await, 0);
    let view = stage.view(&off).await;
    assert_eq!(view.status, WorkflowStatus::Canceled);
    assert!(ends(&view).iter().all(|(_, state)| *state == NodeState::Ended(NodeEnd::Canceled)), "{view:?}");
    assert_eq!(
        stage.state(&off, "well").await,
        (State::Canceled, Some("an earlier step was canceled".into()))
    );

    let all = chain().submit().await.expect("a chain that can be");
    assert_eq!(engine.workflows().cancel(all.id, "not needed").await.expect("it is stored"), 3);
    stage.drain().await;
    assert_eq!(stage.view(&all).await.status, WorkflowStatus::Canceled);
}

/// W6: what cannot be is refused by name, and nothing is stored.
async fn a_shape_that_cannot_be_stores_nothing(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    let mut flow = engine.workflow("circle");
    let a = flow.step("a", engine.enqueue(Well {})).add();
    flow.step("a", engine.enqueue(Well {})).after(&a).add();
    assert!(matches!(flow.submit().await, Err(WorkflowProblem::Invalid(_))));
    let mut flow = engine.workflow("keys");
    flow.step("a", engine.enqueue(Well {}).idempotency_key("k")).add();
    let refused = flow.submit().await.expect_err("keys are for the whole");
    assert!(refused.to_string().starts_with("a: idempotency_key"), "{refused}");
    let mut flow = engine.workflow("large");
    flow.step("small", engine.enqueue(Well {})).add();
    flow.step("large", engine.enqueue_raw("well", format!("\"{}\"", "x".repeat(2 << 20)))).add();
    let refused = flow.submit().await.expect_err("over the limit");
    assert!(refused.to_string().starts_with("large: payload has"), "{refused}");
    assert_eq!(stage.drain().await, 0);
    let listed = engine.workflows().list(&WorkflowFilter::default(), PageRequest::first(10)).await;
    assert!(listed.expect("the store is there").items.is_empty());
}

/// W3, W5: a batch is judged once, when all of its jobs have ended.
async fn a_batch_is_judged_once(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    let batch = engine.batch("adds").then_on_success(Well {}).then_on_failure(Badly {});
    let batch = batch.for_each(0..60, |a| engine.enqueue(Add { a, b: 1 })).await.expect("stored");
    assert_eq!(batch.view().await.expect("it is there").counts.total, 60);
    let mut events = engine.events();
    assert_eq!(stage.drain().await, 61);
    let steps = told(&mut events, |event| match &event.what {
        EventKind::Workflow { status, counts, .. } => Some((*status, counts.succeeded)),
        _ => None,
    });
    assert!(steps.is_sorted_by_key(|(_, succeeded)| *succeeded), "it gets further: {steps:?}");
    assert_eq!(steps.last(), Some(&(WorkflowStatus::Succeeded, 60)), "V1: its end is told");
    let ended = steps.iter().filter(|(status, _)| status.is_over()).count();
    assert_eq!(ended, 1, "once: {steps:?}");
    let view = batch.view().await.expect("it is there");
    assert_eq!((view.status, view.counts.succeeded), (WorkflowStatus::Succeeded, 60));
    assert_eq!(stage.site.ended_well.load(Ordering::SeqCst), 1);
    let more = batch.add(vec![engine.enqueue(Well {})]).await;
    assert!(matches!(more, Err(WorkflowProblem::Sealed(_))), "{more:?}");

    stage.site.broken.store(true, Ordering::SeqCst);
    let rule = |name: &str| engine.batch(name).then_on_success(Well {}).then_on_failure(Badly {});
    let strict = rule("strict").open().await.expect("stored");
    let lax = rule("lax").failures_at_most(2).open().await.expect("stored");
    for batch in [&strict, &lax] {
        batch
            .add(vec![engine.enqueue(Frail {}).untyped(), engine.enqueue(Add { a: 1, b: 1 }).untyped()])
            .await
            .expect("open");
        let off = engine.enqueue(Add { a: 2, b: 2 });
        batch.add(vec![off]).await.expect("open");
        let jobs = engine.jobs(
            backstop_store::JobFilter { tag: Some(format!("batch:{}", batch.id)), ..Default::default() },
            backstop_store::PageRequest::first(10),
        );
        let newest = jobs.await.expect("the store is there").items[0].job.spec.id;
        engine.cancel(newest, "W5").await.expect("pending");
        assert_eq!(stage.drain().await, 2);
        assert_eq!(batch.view().await.expect("it is there").status, WorkflowStatus::Running, "more may come");
        batch.seal().await.expect("open");
        batch.seal().await.expect("again is fine");
        assert_eq!(stage.drain().await, 1, "its callback");
    }
    let statuses = [strict.view().await, lax.view().await].map(|view| view.expect("it is there").status);
    assert_eq!(statuses, [WorkflowStatus::Failed, WorkflowStatus::Succeeded]);
    let told = [&stage.site.ended_well, &stage.site.ended_badly].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(told, [2, 1]);
    let many = rule("many").for_each(0..1_050, |a| engine.enqueue(Add { a, b: 1 })).await.expect("stored");
    assert_eq!(many.cancel("too many").await.expect("it is there"), 1_050);
    assert_eq!(stage.drain().await, 1, "its callback");
    let view = many.view().await.expect("it is there");
    assert_eq!(
        (view.status, view.counts.total, view.counts.canceled),
        (WorkflowStatus::Failed, 1_050, 1_050)
    );
    let empty = rule("empty").for_each(0..0, |a| engine.enqueue(Add { a, b: 1 })).await.expect("stored");
    assert_eq!(empty.view().await.expect("it is there").status, WorkflowStatus::Succeeded, "nothing failed");
    assert_eq!(stage.drain().await, 1, "its callback");
}

/// W1, W3: workers do all of it by themselves, with nobody to push them.
async fn workers_go_on_by_themselves(store: Arc<dyn Store>) {
    let Stage { engine, site, .. } = Stage::on(&store);
    site.ended_well.store(0, Ordering::SeqCst);
    let worker = engine.worker_sharing(site.clone()).register_all().queue("default", 16);
    let worker = worker.start().await.expect("it has kinds");
    let batch = engine.batch("by themselves").then_on_success(Well {});
    let batch = batch.for_each(0..200, |a| engine.enqueue(Add { a, b: 1 })).await.expect("stored");
    let mut chains = Vec::new();
    for a in 0..20 {
        let chain = engine.chain("by itself", engine.enqueue(Add { a, b: 1 }));
        let chain = chain.then(engine.enqueue(AddTo { step: "add".into(), more: 1 })).submit().await;
        chains.push(chain.expect("a chain that can be"));
    }
    let patience = Duration::from_secs(120);
    for (a, chain) in chains.iter().enumerate() {
        let last = job_of(chain, "add_to");
        let ended = tokio::time::timeout(patience, engine.wait(last)).await.expect("in time");
        let view = ended.expect("the store is there").expect("it is stored").view;
        assert_eq!(view.result.as_deref(), Some(&*(a + 2).to_string()));
    }
    let mut seen = Vec::new();
    let judged = batch.wait(|view| seen.push(view.counts.succeeded));
    let judged = tokio::time::timeout(patience, judged).await.expect("in time").expect("it is there");
    assert_eq!((judged.counts.succeeded, judged.status), (200, WorkflowStatus::Succeeded));
    assert!(seen.is_sorted() && seen.last() == Some(&200), "progress is told: {seen:?}");
    let called_back = async {
        while site.ended_well.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(patience, called_back).await.expect("in time");
    worker.stop().await;
    assert_eq!(site.ended_well.load(Ordering::SeqCst), 1, "once");
}

/// W1: workflows that ended long ago are removed, with their keys; what has not ended stays.
async fn what_ended_long_ago_is_removed(store: Arc<dyn Store>) {
    let engine = Backstop::on(store.clone(), Config::default());
    let chain = |key: &str| engine.chain("old", engine.enqueue(Add { a: 1, b: 1 })).key(key).submit();
    let (over, open) = (chain("over").await.expect("stored"), chain("open").await.expect("stored"));
    engine.workflows().cancel(over.id, "not needed").await.expect("it is stored");
    engine.maintain(NODE, TERM).await.expect("the store is there");
    assert!(engine.workflows().get(over.id).await.expect("the store is there").is_some(), "not long ago");
    let none = Some(Duration::ZERO);
    let hasty = Config::default().retirement(backstop::Retirement::default().workflows(none));
    let hasty = Backstop::on(store, hasty);
    hasty.maintain(NODE, TERM).await.expect("the store is there");
    assert!(hasty.workflows().get(over.id).await.expect("the store is there").is_none());
    assert!(hasty.workflows().get(open.id).await.expect("the store is there").is_some(), "it has not ended");
    assert!(!chain("over").await.expect("stored").deduplicated, "its key went with it");
    assert!(chain("open").await.expect("stored").deduplicated);
}

/// C7: a workflow that cannot be read keeps its notes and holds up no others; when it can be read again, it goes on.
async fn one_that_cannot_be_read_holds_up_no_others(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    let chain = || {
        engine.chain("spoilt", engine.enqueue(Add { a: 1, b: 1 })).then(engine.enqueue(Double(1))).submit()
    };
    let spoilt = chain().await.expect("stored");
    let name = (Drawer::Workflows, spoilt.id.to_string());
    let found = store.named_documents(vec![name.clone()]).await.expect("documents").pop().flatten();
    let body = found.expect("it is stored").body;
    let write = |body: Arc<str>| {
        let edit = Edit { drawer: name.0, key: name.1.clone(), expect: Expect::Any, body: Some(body) };
        store.amend(Amend { edits: vec![edit], ..Amend::default() })
    };
    write("from a later program".into()).await.expect("written");
    let sound = chain().await.expect("stored");
    assert_eq!(stage.drain().await, 3, "the first step of one, both of the other");
    assert_eq!(stage.view(&sound).await.status, WorkflowStatus::Succeeded);
    write(body).await.expect("written");
    assert_eq!(stage.drain().await, 1, "its note was kept");
    assert_eq!(stage.view(&spoilt).await.status, WorkflowStatus::Succeeded);
}

/// W4: a step that is driven again after its workflow was removed fails for good, and does not go round in circles.
async fn a_step_without_its_workflow_fails_for_good(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let engine = &stage.engine;
    stage.site.broken.store(true, Ordering::SeqCst);
    let chain = engine.chain("gone", engine.enqueue(Add { a: 1, b: 1 })).then(engine.enqueue(Frail {}));
    let gone = chain.submit().await.expect("stored");
    assert_eq!(stage.drain().await, 2);
    engine.workflows().forget(gone.id).await.expect("it has ended");
    engine.retry(job_of(&gone, "frail")).await.expect("a dead letter");
    assert_eq!(stage.drain().await, 1);
    let job = engine.job(job_of(&gone, "frail")).await.expect("the store is there").expect("it is stored");
    let error = job.view.last_failure.expect("it failed").message;
    assert_eq!((job.view.record.state, error.as_str()), (State::Failed, "its workflow was removed"));
}

/// What of the events that were told is asked for.
fn told<T>(events: &mut Events, asked: impl Fn(&Event) -> Option<T>) -> Vec<T> {
    std::iter::from_fn(|| events.try_next()).filter_map(|event| asked(&event)).collect()
}

/// Every case, on one store.
async fn everything(store: Arc<dyn Store>) {
    a_shape_that_cannot_be_stores_nothing(store.clone()).await;
    a_chain_hands_results_on(store.clone()).await;
    branches_are_taken_as_results_say(store.clone()).await;
    a_predicate_without_code_waits(store.clone()).await;
    a_predicate_that_panics_fails_its_branch(store.clone()).await;
    a_dead_step_goes_on_when_it_is_driven_again(store.clone()).await;
    people_hold_back_and_call_off_all_of_it(store.clone()).await;
    a_batch_is_judged_once(store.clone()).await;
    wide::many_to_one_and_one_to_many(store.clone()).await;
    wide::how_far_a_large_graph_is_is_read_without_its_nodes(store.clone()).await;
    wide::one_stored_by_an_earlier_version_goes_on(store.clone()).await;
    one_that_cannot_be_read_holds_up_no_others(store.clone()).await;
    a_step_without_its_workflow_fails_for_good(store.clone()).await;
    renewed::a_step_decided_behind_a_dead_one_is_decided_anew(store.clone()).await;
    renewed::a_dead_step_goes_on_from_the_archive(store.clone()).await;
    renewed::a_step_of_which_nothing_is_left_fails(store.clone()).await;
    renewed::a_step_whose_key_is_held_fails(store.clone()).await;
    batches::a_stream_that_was_stopped_is_repeated(store.clone()).await;
    batches::the_first_jobs_of_a_stream_run_while_others_come(store.clone()).await;
    batches::an_open_batch_that_is_called_off_is_over(store.clone()).await;
    batches::what_is_added_to_a_paused_batch_waits_with_it(store.clone()).await;
    batches::a_part_that_may_be_skipped_is_refused(store.clone()).await;
    batches::children_are_retried_and_judged_by_their_share(store.clone()).await;
    followed::what_follows_is_told_what_failed(store.clone()).await;
    followed::what_follows_is_given_what_it_came_to(store.clone()).await;
    driven::a_plan_continues_every_workflow_from_its_dead_step(store.clone()).await;
    driven::a_dead_step_that_is_driven_again_is_part_of_its_workflow(store.clone()).await;
    driven::what_runs_after_all_is_paused_with_its_workflow(store.clone()).await;
    driven::one_that_had_ended_is_paused_while_a_dead_step_is_driven_again(store.clone()).await;
    driven::who_waits_sees_what_a_dead_step_comes_to(store.clone()).await;
    driven::a_dead_step_that_is_put_aside_stays_as_it_was(store.clone()).await;
    driven::a_pause_holds_although_a_death_is_looked_at_late(store.clone()).await;
    sealed::a_sealed_result_decides_where_the_key_is(store.clone()).await;
    sealed::a_step_is_not_given_what_stays_sealed(store.clone()).await;
    missing::a_step_after_a_purged_one_fails(store.clone()).await;
    missing::a_step_after_a_result_that_was_not_kept_fails(store.clone()).await;
    gathered::steps_that_start_together_read_together(store.clone()).await;
    raced::ends_count_once(store.clone()).await;
    raced::a_child_that_is_called_off_while_it_runs_has_failed(store.clone()).await;
    workers_go_on_by_themselves(store.clone()).await;
    what_ended_long_ago_is_removed(store).await;
}

#[tokio::test]
async fn in_memory() {
    // W1, W2, W3, W4, W5, W6
    stores::in_memory(everything).await;
}

#[tokio::test]
async fn on_sqlite() {
    // W1, W2, W3, W4, W5, W6
    stores::on_sqlite("workflows", everything).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn on_postgres() {
    // W1, W2, W3, W4, W5, W6
    stores::on_postgres("workflows", everything).await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn on_mysql() {
    // W1, W2, W3, W4, W5, W6
    stores::on_mysql("workflows", everything).await;
}
