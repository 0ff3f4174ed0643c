//! 5,000 jobs died of one bug and 40 of another: the plan for the first halts at its canary while the bug is there,
//! drives all 5,000 after the fix, and never touches the 40 (D4).
//!
//! Written for any store, with a real worker whose maintenance steps the plan; how time passes is the caller's matter.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Config, State, WorkerBuilder};
use backstop_core::failure::Fingerprint;
use backstop_core::job::{JobView, PlanId};
use backstop_core::redrive::{Plan, PlanJob, PlanJobOutcome, PlanPart, PlanPhase, PlanSelector};
use backstop_store::{JobFilter, PageRequest, Store};

/// A shop whose faults can be mended.
#[derive(Debug, Default)]
pub(crate) struct Shop {
    broken: Mutex<HashSet<String>>,
}

impl Shop {
    /// A shop with these faults.
    pub(crate) fn with(faults: &[&str]) -> Arc<Self> {
        Arc::new(Self { broken: Mutex::new(faults.iter().map(ToString::to_string).collect()) })
    }

    /// Mends a fault.
    pub(crate) fn mend(&self, fault: &str) {
        self.broken.lock().expect("plain").remove(fault);
    }

    fn is_broken(&self, fault: &str) -> bool {
        self.broken.lock().expect("plain").contains(fault)
    }
}

/// A job that fails while the fault of its name is there.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Render {
    /// The fault that can hit it.
    pub(crate) fault: String,
}

impl Job for Render {
    const KIND: &'static str = "invoice.render";
    type Context = Arc<Shop>;
    type Output = JobResult;

    async fn run(self, cx: JobContext<Arc<Shop>>) -> JobResult {
        if cx.app().is_broken(&self.fault) { Err(self.fault.into()) } else { Ok(()) }
    }
}

/// A worker for these jobs.
pub(crate) fn worker(engine: &Backstop, shop: &Arc<Shop>) -> WorkerBuilder<Arc<Shop>> {
    engine.worker(shop.clone()).register::<Render>().queue("default", 50)
}

/// Submits `count` jobs that the fault will kill with their first run.
pub(crate) async fn submit(engine: &Backstop, fault: &str, count: usize) {
    let job = || engine.enqueue(Render { fault: fault.to_owned() }).max_retries(0);
    let answers =
        engine.submit_all((0..count).map(|_| job()).collect(), true).await.expect("the store is there");
    assert!(answers.iter().all(Result::is_ok), "all are admitted");
}

/// The incident of a fault.
pub(crate) async fn incident(engine: &Backstop, fault: &str) -> Fingerprint {
    let incidents = engine.incidents().list(100).await.expect("the store is there");
    let found = incidents.into_iter().find(|incident| incident.message.contains(fault));
    found.expect("it was counted").fingerprint
}

/// Every job of this fault.
pub(crate) async fn jobs(engine: &Backstop, fault: &str) -> Vec<JobView> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = engine.jobs(JobFilter::default(), PageRequest { limit: 1_000, after }).await;
        let page = page.expect("the store is there");
        found.extend(page.items.into_iter().filter(|view| view.job.spec.payload.contains(fault)));
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
}

/// Every line of a plan's report.
pub(crate) async fn report(engine: &Backstop, id: &PlanId) -> Vec<PlanJob> {
    let (mut items, mut after) = (Vec::new(), None);
    loop {
        let page = engine.redrives().items(id, PageRequest { limit: 1_000, after }).await;
        let page = page.expect("the store is there");
        items.extend(page.items);
        after = page.next;
        if after.is_none() {
            return items;
        }
    }
}

/// Lets time pass until the plan is in `phase` with nothing in flight.
async fn reach(engine: &Backstop, id: &PlanId, phase: PlanPhase, pass: &impl AsyncFn()) -> Plan {
    for _ in 0..20_000 {
        let plan = engine.redrives().get(id).await.expect("the plan is there");
        if plan.phase == phase && plan.open == 0 {
            return plan;
        }
        assert!(!plan.phase.is_final(), "{}", plan.describe());
        pass().await;
    }
    let plan = engine.redrives().get(id).await.expect("the plan is there");
    panic!("the plan never became {phase}: {}", plan.describe());
}

async fn until_idle(engine: &Backstop, dead: u64, pass: &impl AsyncFn()) {
    for _ in 0..20_000 {
        let queues = engine.queues().list().await.expect("the store is there");
        // A plan is about what ended before it was made, so time passes once more after the last death.
        pass().await;
        if queues.iter().map(|queue| queue.failed).sum::<u64>() == dead {
            return;
        }
    }
    panic!("the jobs never died");
}

/// The whole scenario on one store.
pub(crate) async fn five_thousand_and_forty(store: Arc<dyn Store>, pass: impl AsyncFn()) {
    const MANY: usize = 5_000;
    const FEW: usize = 40;
    let engine = Backstop::on(store, Config::default());
    let shop = Shop::with(&["no customer", "disk full"]);
    for _ in 0..4 {
        submit(&engine, "no customer", MANY / 4).await;
        submit(&engine, "disk full", FEW / 4).await;
    }
    let running = worker(&engine, &shop).poll(Duration::from_millis(100)).start().await.expect("started");
    until_idle(&engine, (MANY + FEW) as u64, &pass).await;

    let selector = PlanSelector::incident(incident(&engine, "no customer").await);
    let plan =
        engine.redrives().plan(selector).batch(250).per_second(1_000).by("ann").create().await.expect("made");
    assert_eq!((plan.expected, plan.phase), (MANY as u64, PlanPhase::Planned));

    // While the bug is there: one job is touched.
    engine.redrives().start(&plan.id, "ann").await.expect("planned");
    let halted = reach(&engine, &plan.id, PlanPhase::Halted, &pass).await;
    assert_eq!((halted.counts.driven, halted.counts.failed_same), (1, 1), "{}", halted.describe());
    let touched = jobs(&engine, "no customer").await.iter().filter(|view| view.record.redrives > 0).count();
    assert_eq!(touched, 1);

    // After the fix: all 5,000.
    shop.mend("no customer");
    engine.redrives().resume(&plan.id, "ann").await.expect("halted");
    let done = reach(&engine, &plan.id, PlanPhase::Done, &pass).await;
    running.stop().await;
    assert_eq!(done.counts.succeeded, MANY as u64, "{}", done.describe());
    check_jobs(&engine, MANY, FEW, halted.halted.expect("it says why").job).await;
    check_report(&report(&engine, &plan.id).await, MANY);
}

async fn check_jobs(engine: &Backstop, many: usize, few: usize, canary: backstop::JobId) {
    let driven = jobs(engine, "no customer").await;
    assert_eq!(driven.len(), many);
    for view in &driven {
        let times = if view.job.spec.id == canary { 2 } else { 1 };
        assert_eq!(
            (view.record.state, view.record.redrives),
            (State::Succeeded, times),
            "{}",
            view.job.spec.id
        );
    }
    let others = jobs(engine, "disk full").await;
    assert_eq!(others.len(), few);
    for view in &others {
        let (state, redrives, runs) = (view.record.state, view.record.redrives, view.record.runs);
        assert_eq!((state, redrives, runs), (State::Failed, 0, 1), "{} was touched", view.job.spec.id);
    }
}

fn check_report(items: &[PlanJob], many: usize) {
    assert_eq!(items.len(), many, "one line for each job");
    assert!(items.iter().all(|item| item.outcome == Some(PlanJobOutcome::Succeeded)));
    let mut batches = BTreeMap::<u32, usize>::new();
    for item in items {
        if let PlanPart::Batch(number) = item.part {
            *batches.entry(number).or_default() += 1;
        }
    }
    assert!(batches.values().all(|size| *size <= 250), "{batches:?}");
}
