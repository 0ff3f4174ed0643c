//! A worker that fails far more often than the others stops claiming, and comes back (H8).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use backstop::prelude::*;
use backstop::{Config, EventKind, WorkerHandle};
use backstop_store::Store;

use crate::fixture::*;

/// The machine that a worker runs on.
#[derive(Default)]
struct Machine {
    broken: AtomicBool,
    runs: AtomicU32,
}

/// Fails where the machine is broken.
#[derive(Serialize, Deserialize)]
struct Render {}

impl Job for Render {
    const KIND: &'static str = "render";
    type Context = Machine;
    type Output = JobResult;

    async fn run(self, cx: JobContext<Machine>) -> JobResult {
        cx.app().runs.fetch_add(1, Ordering::SeqCst);
        if cx.app().broken.load(Ordering::SeqCst) { Err("no space left on device".into()) } else { Ok(()) }
    }
}

struct Node {
    engine: Backstop,
    machine: Arc<Machine>,
    worker: WorkerHandle,
}

impl Node {
    async fn start(store: &Arc<dyn Store>, name: &str) -> Self {
        let engine = Backstop::on(store.clone(), Config::default());
        let machine = Arc::new(Machine::default());
        let worker = engine.worker_sharing(machine.clone()).register::<Render>().queue("default", 2);
        let worker = worker.name(name).start().await.expect("started");
        Self { engine, machine, worker }
    }

    fn is_paused(&self) -> bool {
        self.worker.health().paused.is_some()
    }

    fn runs(&self) -> u32 {
        self.machine.runs.load(Ordering::SeqCst)
    }
}

/// Lets every node have work for so many seconds.
async fn work(nodes: &[Node], seconds: u64) {
    for _ in 0..seconds {
        for _ in 0..3 * nodes.len() {
            let render = nodes[0].engine.enqueue(Render {}).policy(quick().retries(1));
            render.submit().await.expect("admitted");
        }
        pass(1).await;
    }
}

async fn fleet(names: &[&str]) -> Vec<Node> {
    let store = model();
    let mut nodes = Vec::new();
    for name in names {
        nodes.push(Node::start(&store, name).await);
    }
    nodes
}

async fn stop(nodes: Vec<Node>) {
    for node in nodes {
        node.worker.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn of_three_workers_only_the_sick_one_stops_and_it_comes_back() {
    // H8
    let nodes = fleet(&["well", "sick", "fine"]).await;
    let mut events = nodes[1].engine.events();
    nodes[1].machine.broken.store(true, Ordering::SeqCst);
    for _ in 0..30 {
        work(&nodes, 1).await;
        if nodes[1].is_paused() {
            break;
        }
    }
    let paused: Vec<bool> = nodes.iter().map(Node::is_paused).collect();
    assert_eq!(paused, [false, true, false]);
    assert!(!nodes[1].worker.health().ready);
    let why = nodes[1].worker.health().paused.expect("paused").why;
    assert!(why.contains("runs failed here, 0 % of such runs elsewhere"), "{why}");
    // It takes nothing any more, and the others do all the work.
    let before = nodes[1].runs();
    work(&nodes, 20).await;
    assert_eq!(nodes[1].runs(), before, "it claims nothing");
    let workers = nodes[0].engine.workers().await.expect("the model is there");
    let told = nodes[0].engine.worker_reports(&workers).await.expect("the model is there");
    assert!(told[&nodes[1].worker.id()].paused.is_some() && told[&nodes[0].worker.id()].paused.is_none());
    // It tries again with a few runs, still fails, and rests for longer.
    work(&nodes, 60).await;
    let tried = nodes[1].runs() - before;
    assert!((1..=8).contains(&tried) && nodes[1].is_paused(), "{tried} runs on trial");
    // Mended, it proves so and works like the others.
    nodes[1].machine.broken.store(false, Ordering::SeqCst);
    work(&nodes, 150).await;
    assert!(!nodes[1].is_paused() && nodes[1].worker.health().ready);
    assert!(nodes[1].runs() - before > 50, "{} runs", nodes[1].runs() - before);
    let mut told = Vec::new();
    while let Some(event) = events.try_next() {
        if let EventKind::WorkerHealth { worker, dependency: None, ok, .. } = &event.what {
            assert_eq!(worker, "sick");
            told.push(*ok);
        }
    }
    assert_eq!(told, [false, true, false, true], "stopped, tried, stopped, tried");
    stop(nodes).await;
}

#[tokio::test(start_paused = true)]
async fn nobody_stops_when_all_fail_alike() {
    // H8
    let nodes = fleet(&["one", "two", "three"]).await;
    for node in &nodes {
        node.machine.broken.store(true, Ordering::SeqCst);
    }
    for _ in 0..60 {
        work(&nodes, 1).await;
        assert!(!nodes.iter().any(Node::is_paused), "they fail alike");
    }
    assert!(nodes.iter().all(|node| node.runs() > 40));
    stop(nodes).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_alone_never_stops() {
    // H8
    let nodes = fleet(&["alone"]).await;
    nodes[0].machine.broken.store(true, Ordering::SeqCst);
    for _ in 0..60 {
        work(&nodes, 1).await;
        assert!(!nodes[0].is_paused(), "it has nobody to compare with");
    }
    stop(nodes).await;
}
