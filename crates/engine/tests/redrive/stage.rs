//! A stage for plans: a model store, a clock, a shop, and a node that does its duties when told to.

use std::sync::Arc;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Config, Timestamp, WorkerId, worker_id};
use backstop_core::job::PlanId;
use backstop_core::redrive::{Plan, PlanPhase};
use backstop_store::{Clock, ManualClock, ModelStore, Store};

use crate::scenario::{Shop, jobs, submit, worker};

/// How long a node leads without asking again.
pub(crate) const TERM: Duration = Duration::from_secs(30);

struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_767_225_600_000_000).after(self.0.elapsed())
    }
}

/// A model store whose clock is tokio's own, so that paused time moves both.
pub(crate) fn in_tokio_time() -> Arc<dyn Store> {
    Arc::new(ModelStore::new(Arc::new(TokioClock(tokio::time::Instant::now()))))
}

/// Everything that a test of plans needs, with a clock that stands until it is moved.
pub(crate) struct Stage {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: ManualClock,
    pub(crate) engine: Backstop,
    pub(crate) shop: Arc<Shop>,
    pub(crate) node: WorkerId,
}

impl Stage {
    /// With jobs that are dead of these faults, so many of each.
    pub(crate) async fn dead(faults: &[(&str, usize)]) -> Self {
        let clock = ManualClock::default();
        let store: Arc<dyn Store> = Arc::new(ModelStore::new(Arc::new(clock.clone())));
        let names: Vec<&str> = faults.iter().map(|(name, _)| *name).collect();
        let engine = Backstop::on(store.clone(), Config::default());
        let stage = Self { store, clock, engine, shop: Shop::with(&names), node: worker_id() };
        for (fault, count) in faults {
            submit(&stage.engine, fault, *count).await;
        }
        stage.work().await;
        stage.pass(Duration::from_secs(1));
        stage
    }

    /// Runs everything that is due.
    pub(crate) async fn work(&self) {
        let inline = worker(&self.engine, &self.shop).inline().expect("it has a queue and a kind");
        inline.drain(usize::MAX).await.expect("the model is there");
    }

    pub(crate) fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    pub(crate) async fn clock_now(&self) -> Timestamp {
        self.store.now().await.expect("the model is there")
    }

    /// One round of maintenance.
    pub(crate) async fn maintain(&self) {
        self.engine.maintain(self.node, TERM).await.expect("the model is there");
    }

    /// Maintenance, work and time in turns, until the plan is in `phase` with nothing in flight.
    pub(crate) async fn reach(&self, id: &PlanId, phase: PlanPhase) -> Plan {
        for _ in 0..200 {
            let plan = self.engine.redrives().get(id).await.expect("the plan is there");
            if plan.phase == phase && plan.open == 0 {
                return plan;
            }
            self.maintain().await;
            self.work().await;
            self.pass(Duration::from_millis(700));
        }
        let plan = self.engine.redrives().get(id).await.expect("the plan is there");
        panic!("the plan never became {phase}: {}", plan.describe());
    }

    /// How often each job of a fault was driven again.
    pub(crate) async fn redrives(&self, fault: &str) -> Vec<u32> {
        jobs(&self.engine, fault).await.iter().map(|view| view.record.redrives).collect()
    }
}
