//! `backstop up`: the engine with a worker and the HTTP API, until it is told to stop; `--demo` shows every way a job
//! can end.

mod api;
mod bridges;
mod handoffs;
mod publishers;

use std::net::SocketAddr;
use std::pin::Pin;

use backstop::signals::stop_asked;
use backstop::{Backstop, WorkerHandle};
use backstop_server::Api;
use clap::Args;

use super::unserved;
use crate::app::App;
use crate::config::schedules;
use crate::config::server::address;
use crate::demo;
use crate::demo::DemoViewer;
use crate::otlp::Exporter;
use crate::output::clean;
use crate::output::figures::counted;
use crate::output::span::length;
use crate::problem::{Exit, Problem};
use api::ListeningApi;
use handoffs::RunningHandOffs;

/// Runs at once on the demo's queue: fewer than its jobs, so that some wait.
const DEMO_CONCURRENCY: usize = 8;

/// Options of `up`.
#[derive(Debug, Args)]
pub(crate) struct UpOptions {
    /// Run one job for each way a job can end, and show how each ends.
    #[arg(long)]
    pub(crate) demo: bool,
    /// Stop when the demo has ended; exit 1 if a job did not end as it should.
    #[arg(long, requires = "demo")]
    once: bool,
    /// Serve the HTTP API only, without a worker.
    #[arg(long, conflicts_with = "demo")]
    no_worker: bool,
    /// Start a worker only, without the HTTP API.
    #[arg(long, conflicts_with_all = ["demo", "no_worker", "listen"])]
    no_api: bool,
    /// The address of the HTTP API [default: server.listen, or 127.0.0.1:7700].
    #[arg(long, value_name = "ADDR", value_parser = address)]
    listen: Option<SocketAddr>,
}

pub(crate) async fn run(args: UpOptions, app: &App) -> Result<Exit, Problem> {
    let asked = stop_asked();
    let engine = app.open().await?;
    if backstop::is_isolated_child() {
        // Nothing here but the worker: it runs the jobs that its parent hands to it, and ends with it.
        start_worker(&engine, args.demo, None, app).await?;
        return Ok(Exit::Done);
    }
    schedules::declare(&engine, &app.settings.schedules).await?;
    let info = engine.store().info();
    app.out.note(&format!("store: {} ({})", clean(&info.location), info.backend));
    let loops = engine.loops();
    let start = |endpoint: &str| Exporter::start(endpoint, &loops);
    let exporter = app.settings.otlp.as_deref().map(start).transpose()?;
    // Before the first run: what it says is for the sinks too.
    let bridges = bridges::start(&engine, app);
    let handoffs = RunningHandOffs::start(&engine, app);
    let worked = serve_and_work(&args, &engine, asked, exporter.as_ref(), app).await;
    handoffs.stop().await;
    bridges.stop().await;
    if let Some(exporter) = exporter
        && exporter.stop().await > 0
    {
        app.out.warn("not every span reached the trace collector");
    }
    worked
}

/// Lets the API listen beside the work.
async fn serve_and_work(
    args: &UpOptions,
    engine: &Backstop,
    asked: impl Future<Output = ()> + Send + 'static,
    exporter: Option<&Exporter>,
    app: &App,
) -> Result<Exit, Problem> {
    // A demo that ends by itself serves nobody, unless it is told to.
    if args.no_api || (args.once && args.listen.is_none()) {
        return work(args, engine, Box::pin(asked), Surroundings { exporter, api: None }, app).await;
    }
    let (listening, open) = ListeningApi::start(engine, args.listen, exporter, app).await?;
    let asked = Box::pin(async move {
        asked.await;
        // From now on nobody new gets in, while the worker stops.
        drop(open);
    });
    let api = Some(listening.api());
    let worked = work(args, engine, asked, Surroundings { exporter, api }, app).await;
    listening.end().await?;
    worked
}

/// Who wants to know of the worker.
struct Surroundings<'a> {
    exporter: Option<&'a Exporter>,
    api: Option<&'a Api>,
}

/// Does what was asked for until it is done or told to stop.
async fn work(
    args: &UpOptions,
    engine: &Backstop,
    mut asked: Stop,
    around: Surroundings<'_>,
    app: &App,
) -> Result<Exit, Problem> {
    if args.no_worker {
        app.out.note(
            "no worker here: jobs wait for one elsewhere; maintenance runs\nserving: press Ctrl-C to stop",
        );
        asked.await;
        return Ok(Exit::Done);
    }
    let worker = start_worker(engine, args.demo, around.exporter, app).await?;
    if let Some(api) = around.api {
        let watch = worker.watch();
        api.watch("worker", move || watch.health());
    }
    let mut exit = Exit::Done;
    if args.demo {
        let Some(as_expected) = show_demo(engine, &mut asked, app).await? else {
            app.out.note("stopped before the end of the demo");
            // Its jobs are toys: nobody should have to wait for them.
            worker.hurry().cancel();
            stop(worker, app).await;
            return Ok(Exit::Failed);
        };
        exit = if as_expected { Exit::Done } else { Exit::Failed };
        if args.once {
            worker.hurry().cancel();
            stop(worker, app).await;
            return Ok(exit);
        }
        demo::fill(engine).await?;
        app.out.note("the page shows it all: open the address above in a browser");
        app.out.note("try: backstop enqueue demo.send_receipt '{\"to\": \"you@example.com\"}' --queue demo");
    }
    if serve(worker, asked, app).await { Ok(exit) } else { Ok(Exit::Failed) }
}

/// Resolves when the process is asked to stop.
type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Plays the demo, and answers whether every job ended as it should; none when it was told to stop.
async fn show_demo(engine: &Backstop, stop: &mut Stop, app: &App) -> Result<Option<bool>, Problem> {
    demo::hush_planned_panics();
    let run_tag = format!("demo-{}", engine.store().now().await?.as_micros() / 1_000);
    let mut audience = DemoViewer::new(app.out.json, app.out.live && !app.verbose);
    let played = tokio::select! {
        played = demo::play(engine, &run_tag, &mut audience) => Some(played?),
        () = stop => None,
    };
    if played.is_some() {
        audience.close()
    } else {
        audience.leave()
    }
    played.map(|played| demo::tell(app, &run_tag, &played)).transpose()
}

/// Works until it is told to stop; answers whether everything was stored in the end.
async fn serve(worker: WorkerHandle, asked: Stop, app: &App) -> bool {
    app.out.note("serving: press Ctrl-C to stop");
    asked.await;
    app.out.note(&match running(&worker) {
        0 => "stopping".to_owned(),
        runs => format!(
            "stopping: {} may go on for {}; a second Ctrl-C ends at once",
            counted(runs, "run"),
            length(app.settings.grace)
        ),
    });
    stop(worker, app).await
}

fn running(worker: &WorkerHandle) -> u64 {
    u64::try_from(worker.running()).unwrap_or(u64::MAX)
}

/// Starts a worker for the configured queues, and for the demo's own.
async fn start_worker(
    engine: &Backstop,
    with_demo: bool,
    exporter: Option<&Exporter>,
    app: &App,
) -> Result<WorkerHandle, Problem> {
    let settings = &app.settings;
    let mut worker = backstop_kinds::register(engine.worker(publishers::kinds(app, &engine.config().node)))
        .code_version(env!("CARGO_PKG_VERSION"))
        .lease(settings.lease)
        .stuck_after(settings.stuck_after)
        .grace(settings.grace)
        .poll(settings.poll);
    if let Some(exporter) = exporter {
        worker = worker.hook(exporter.runs());
    }
    let mut served = Vec::new();
    for (queue, concurrency) in settings.queues.iter().filter(|(_, concurrency)| **concurrency > 0) {
        let prefetch = settings.prefetch.get(queue).copied().unwrap_or_default();
        worker = worker.queue(queue.as_str(), *concurrency).prefetch(prefetch);
        served.push(format!("{} ({concurrency})", clean(queue)));
    }
    if with_demo {
        worker = demo::register(worker);
        if !settings.queues.contains_key(demo::QUEUE) {
            worker = worker.queue(demo::QUEUE, DEMO_CONCURRENCY);
            served.push(format!("{} ({DEMO_CONCURRENCY})", demo::QUEUE));
        }
    }
    if served.is_empty() {
        return Err(Problem::usage(
            "no_queue",
            "every queue has concurrency 0: the worker has nothing to serve",
        )
        .hint("raise the concurrency of one, or run `backstop up --no-worker`"));
    }
    let worker = worker.start().await?;
    app.out.note(&format!("worker: {} serves {}", worker.id(), served.join(", ")));
    unserved::by_settings(settings).iter().for_each(|warning| app.out.warn(warning));
    let is_served = |queue: &str| settings.queues.get(queue).is_some_and(|concurrency| *concurrency > 0);
    let queues = engine.store().queues().await?;
    let is_demo = |queue: &str| with_demo && queue == demo::QUEUE;
    let alone = unserved::of(&queues, |queue| is_served(queue) || is_demo(queue));
    alone.iter().for_each(|warning| app.out.warn(warning));
    if !with_demo {
        app.out.note(
            "it runs maintenance and the built-in kinds command, http, event and publish, as far as [handlers] \
             allows them\n\
             jobs of other kinds wait for a worker of your own program",
        );
    }
    Ok(worker)
}

/// Stops a worker within its grace period, at once when it is asked a second time.
async fn stop(worker: WorkerHandle, app: &App) -> bool {
    let hurry = worker.hurry();
    let asked = stop_asked();
    let again = tokio::spawn(async move {
        asked.await;
        hurry.cancel();
    });
    let stopped = worker.stop().await;
    again.abort();
    if stopped.interrupted > 0 {
        let interrupted = u64::try_from(stopped.interrupted).unwrap_or(u64::MAX);
        app.out.note(&format!("{} handed back as interrupted, uncharged", counted(interrupted, "run")));
    }
    if !stopped.clean {
        app.out
            .warn("not every ending could be stored: what is missing is found when the worker's lease ends");
    }
    stopped.clean
}
