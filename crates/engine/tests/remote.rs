//! Workers outside of the process on every store (E7): what they take, keep, lose and end.

use std::time::Duration;

use backstop::circuits::{CircuitSettings, CircuitState};
use backstop::limits::RunLimit;
use backstop::{
    Backoff, Backstop, Cause, Config, CrashEvidence, Ended, Failure, Finished, Handed, LostReason,
    RemoteWorker, WorkRequest,
};
use backstop_core::health::WorkerReport;
use backstop_core::job::{State, WaitReason};
use backstop_store::{DocumentRange, Drawer, KnownKind, PageRequest};

const QUEUE: &str = "remote";

fn worker() -> RemoteWorker {
    RemoteWorker { realm: String::new(), name: "far-away".into(), instance: None }
}

fn request(limit: usize) -> WorkRequest {
    WorkRequest {
        worker: worker(),
        queues: vec![QUEUE.into()],
        kinds: [KnownKind { kind: "mail".into(), version: 1 }].into(),
        limit,
        wait: Duration::from_secs(20),
        lease: Duration::from_secs(600),
        code_version: Some("1.0".into()),
    }
}

fn end(handed: &Handed, ended: Ended) -> Finished {
    Finished { grant: handed.grant.clone(), ended, step: None, logs: vec!["a line".into()] }
}

/// Rows of workers: those of names, and those of batches.
async fn rows(engine: &Backstop) -> (usize, usize) {
    let rows = engine.workers().await.expect("the store is there");
    let names = rows.iter().filter(|row| !row.queues.is_empty()).count();
    (names, rows.len() - names)
}

async fn serves_remote_workers(engine: Backstop) {
    let remote = engine.remote();
    for _ in 0..3 {
        engine.enqueue_raw("mail", "{}").queue(QUEUE).submit().await.expect("stored");
    }
    let taken = remote.claim(request(10)).await.expect("the store is there");
    assert_eq!(taken.len(), 3);
    let now = engine.store().now().await.expect("the store is there");
    assert_eq!(remote.waits(now)[QUEUE].count(), 3, "how long each had waited is counted");
    assert!(remote.waits(now.after(Duration::from_secs(61))).is_empty(), "for a minute");
    assert_eq!(rows(&engine).await, (1, 1));
    let job = |number: usize| taken[number].grant.lease.job;

    let grants = || taken.iter().map(|handed| handed.grant.clone()).collect::<Vec<_>>();
    let answer = remote.heartbeat(&worker(), grants()).await.expect("the store is there");
    assert_eq!((answer.held.len(), answer.lost.len()), (3, 0));
    engine.cancel(job(0), "not needed").await.expect("it runs");
    let answer = remote.heartbeat(&worker(), grants()).await.expect("the store is there");
    let lost: Vec<_> = answer.lost.iter().map(|lost| (lost.lease.job, lost.reason)).collect();
    assert_eq!((answer.held.len(), lost), (2, vec![(job(0), LostReason::Canceled)]));

    let noted = remote.progress(&taken[1].grant, 40, "on the way").await.expect("the store is there");
    assert_eq!(noted, Ok(()));
    let done = Ended::Succeeded { result: Some(serde_json::json!(7)) };
    let ends = || {
        let snooze = Ended::Snoozed { delay: Duration::from_secs(60) };
        vec![end(&taken[0], done.clone()), end(&taken[1], done.clone()), end(&taken[2], snooze)]
    };
    for _ in 0..2 {
        let answers = remote.finish(ends()).await.expect("the store is there");
        let states: Vec<_> = answers.into_iter().map(Result::ok).collect();
        assert_eq!(
            states,
            [None, Some(State::Succeeded), Some(State::Pending)],
            "also when it is told again"
        );
    }
    assert_eq!(rows(&engine).await, (1, 0), "the batch went with its last job");
    let detail = engine.job(job(1)).await.expect("the store is there").expect("the job is there");
    assert_eq!(detail.view.result.as_deref(), Some("7"));
    let waited = WorkRequest { wait: Duration::ZERO, ..request(1) };
    assert!(remote.claim(waited).await.expect("the store is there").is_empty());
}

/// Nobody but the server keeps the time of a worker that is not kind: over its limit the run ends by a timeout.
async fn keeps_the_time_of_runs(engine: &Backstop) {
    let limit = Duration::from_millis(1);
    let job = engine.enqueue_raw("mail", "{}").queue(QUEUE).timeout(limit).max_retries(0);
    let id = job.submit().await.expect("stored").id;
    let taken = take(engine, "slow").await;
    assert_eq!(taken.len(), 1);
    let node = backstop::worker_id();
    let detail = async || engine.job(id).await.expect("the store is there").expect("the job is there");
    while detail().await.view.state() == State::Running {
        engine.maintain(node, Duration::from_millis(10)).await.expect("the store is there");
    }
    let record = detail().await.view.record;
    assert_eq!((record.state, record.attempt, record.runs), (State::Failed, 1, 1));
    let run = engine.attempts(id, PageRequest::first(5)).await.expect("the store is there").items.remove(0);
    assert_eq!(run.cause, Cause::Timeout);
    assert_eq!(run.failure.expect("evidence").message, "the run took longer than 1ms");
    let grants = vec![taken[0].grant.clone()];
    let kept = engine.remote().heartbeat(&named("slow"), grants).await.expect("the store is there");
    assert_eq!((kept.held.len(), kept.lost.len()), (0, 1), "the lease is over");
    let late = vec![end(&taken[0], Ended::Succeeded { result: None })];
    assert!(engine.remote().finish(late).await.expect("the store is there")[0].is_err());
}

/// What limits leave no room for is not handed out, to whichever worker; what ends makes room at once.
async fn keeps_to_limits(engine: &Backstop) {
    let limit = RunLimit { concurrency: Some(2), ..RunLimit::of_queue(QUEUE) };
    engine.limits().set(limit).await.expect("a limit");
    for _ in 0..4 {
        engine.enqueue_raw("mail", "{}").queue(QUEUE).submit().await.expect("stored");
    }
    let first = take(engine, "one").await;
    assert_eq!(first.len(), 2);
    assert!(take(engine, "two").await.is_empty());
    succeed(engine, &first[0]).await;
    let second = take(engine, "two").await;
    assert_eq!(second.len(), 1);
    let (remote, waits) = (engine.remote(), WorkRequest { worker: named("three"), ..request(10) });
    let waiting = tokio::spawn(async move { remote.claim(waits).await });
    succeed(engine, &first[1]).await;
    let third = waiting.await.expect("no panic").expect("the store is there");
    assert_eq!(third.len(), 1, "who waits for room is woken");
    for handed in second.iter().chain(&third) {
        succeed(engine, handed).await;
    }
    assert!(engine.limits().delete(&format!("queue:{QUEUE}")).await.expect("the store is there"));
}

/// A circuit that a remote worker's failures open closes its kind to all of them, on every node, until it closes.
async fn keeps_to_circuits(engine: &Backstop) {
    let mut settings = CircuitSettings::default();
    (settings.min_calls, settings.open) = (2, Duration::from_secs(3_600));
    let config =
        || Config::default().kind_dependency("call", "partner").circuit_settings("partner", settings);
    let nodes = [(); 2].map(|()| Backstop::on(engine.store().clone(), config()));
    let of = |name: &str, wait: u64| WorkRequest {
        worker: named(name),
        kinds: [KnownKind { kind: "call".into(), version: 1 }].into(),
        wait: Duration::from_secs(wait),
        ..request(1)
    };
    for _ in 0..40 {
        engine.enqueue_raw("call", "{}").queue(QUEUE).submit().await.expect("stored");
    }
    // A node may go by what it read a second ago. Then both leave the rest alone.
    let (mut calls, mut left_alone) = (0, 0);
    while left_alone < 2 {
        left_alone = 0;
        for node in &nodes {
            let taken = node.remote().claim(of("caller", 0)).await.expect("the store is there");
            left_alone += usize::from(taken.is_empty());
            for handed in taken {
                assert_eq!(handed.grant.circuit.map(|pass| pass.probe), Some(false));
                let failed =
                    Failure::new(Cause::Error, "Away", "no answer").retry_in(Duration::from_secs(3_600));
                node.remote().finish(vec![end(&handed, Ended::Failed(failed))]).await.expect("it is there");
                calls += 1;
            }
        }
    }
    assert!((2..40).contains(&calls), "{calls} calls");
    let seen = nodes[0].circuits().get("partner").await.expect("the store is there").expect("known");
    assert_eq!((seen.circuit.state, seen.circuit.generation), (CircuitState::Open, 1));
    let seen = nodes[1].circuits().close("partner", "ann").await.expect("the store is there");
    assert_eq!(seen.circuit.state, CircuitState::Closed);
    let job = nodes[1].enqueue_raw("call", "{}").queue(QUEUE).submit().await.expect("stored").id;
    let mut done = Vec::new();
    while !done.contains(&job) {
        for handed in nodes[0].remote().claim(of("other", 20)).await.expect("the store is there") {
            succeed(&nodes[0], &handed).await;
            done.push(handed.grant.lease.job);
        }
    }
}

/// Of a run that tries a dependency nobody hears any more: when its job is taken back, another run tries (H3).
async fn hands_on_the_tries_of_the_dead(engine: &Backstop) {
    let mut settings = CircuitSettings::default();
    (settings.min_calls, settings.open, settings.probes) = (1, Duration::from_millis(10), 1);
    let config = Config::default().kind_dependency("dial", "line").circuit_settings("line", settings);
    let node = Backstop::on(engine.store().clone(), config);
    let take = async |lease: u64| {
        let kinds = [KnownKind { kind: "dial".into(), version: 1 }].into();
        let (wait, lease) = (Duration::from_millis(500), Duration::from_secs(lease));
        let request = WorkRequest { worker: named("dialer"), kinds, wait, lease, ..request(1) };
        node.remote().claim(request).await.expect("the store is there").pop()
    };
    let mut jobs = Vec::new();
    for _ in 0..3 {
        jobs.push(engine.enqueue_raw("dial", "{}").queue(QUEUE).submit().await.expect("stored").id);
    }
    let first = take(600).await.expect("handed out");
    let failed = Failure::new(Cause::Error, "Away", "no answer").retry_in(Duration::from_secs(3_600));
    node.remote().finish(vec![end(&first, Ended::Failed(failed))]).await.expect("it is there");
    let mut tried = Vec::new();
    // One node with a term that a busy server does not outlast.
    let leader = backstop::worker_id();
    for _ in 0..60 {
        // The first one is not heard of again.
        if let Some(handed) = take(if tried.is_empty() { 1 } else { 600 }).await {
            assert_eq!(handed.grant.circuit.map(|pass| pass.probe), Some(true));
            tried.push(handed);
        }
        if tried.len() == 2 {
            break;
        }
        engine.maintain(leader, Duration::from_secs(2)).await.expect("the store is there");
    }
    let [dead, other] = &tried[..] else { panic!("{} of two tried it", tried.len()) };
    assert!(dead.grant.lease != other.grant.lease);
    let seen = node.circuits().get("line").await.expect("the store is there").expect("known");
    assert_eq!(seen.circuit.state, CircuitState::HalfOpen, "one try is out, and one may be");
    succeed(&node, other).await;
    let seen = node.circuits().get("line").await.expect("the store is there").expect("known");
    assert_eq!(seen.circuit.state, CircuitState::Closed);
    for job in jobs {
        engine.cancel(job, "the test is over").await.expect("the store is there");
    }
}

/// A try whose end nobody tells of is another run's at once, whatever took it away, and one that takes too long has
/// failed (H3).
async fn hands_on_tries_that_end_otherwise(engine: &Backstop) {
    let mut settings = CircuitSettings::default();
    (settings.min_calls, settings.open, settings.probes) = (1, Duration::from_millis(10), 1);
    let config = Config::default().kind_dependency("ring", "bell").circuit_settings("bell", settings);
    let node = Backstop::on(engine.store().clone(), config);
    let (remote, worker) = (node.remote(), RemoteWorker { instance: Some("1".into()), ..named("ringer") });
    let mut jobs = Vec::new();
    for _ in 0..6 {
        let job = engine.enqueue_raw("ring", "{}").queue(QUEUE).timeout(Duration::from_millis(1));
        jobs.push(job.submit().await.expect("stored").id);
    }
    let next_try = async || {
        for _ in 0..20 {
            let kinds = [KnownKind { kind: "ring".into(), version: 1 }].into();
            let wait = Duration::from_millis(500);
            let request = WorkRequest { worker: worker.clone(), kinds, wait, ..request(1) };
            if let Some(handed) = remote.claim(request).await.expect("the store is there").pop() {
                return handed;
            }
        }
        panic!("nothing is handed out: a try that is over counts as under way");
    };
    let first = next_try().await;
    let failed = Failure::new(Cause::Error, "Away", "no answer").retry_in(Duration::from_secs(3_600));
    remote.finish(vec![end(&first, Ended::Failed(failed))]).await.expect("it is there");

    // Canceled, which the worker hears by its heartbeat.
    let canceled = next_try().await;
    assert_eq!(canceled.grant.circuit.map(|pass| pass.probe), Some(true));
    engine.cancel(canceled.grant.lease.job, "not needed").await.expect("it runs");
    let kept = remote.heartbeat(&worker, vec![canceled.grant]).await.expect("the store is there");
    assert_eq!(kept.lost.len(), 1);
    // Canceled, and the worker has not heard of it.
    let unheard = next_try().await;
    engine.cancel(unheard.grant.lease.job, "not needed").await.expect("it runs");
    let late = vec![end(&unheard, Ended::Succeeded { result: None })];
    assert!(remote.finish(late).await.expect("the store is there")[0].is_err());
    // Its process was seen to die.
    let dead = next_try().await;
    assert_eq!(remote.died(&worker, &CrashEvidence::default()).await.expect("the store is there"), 1);
    // It takes too long.
    let slow = next_try().await;
    assert!(slow.grant.lease != dead.grant.lease);
    let seen = node.circuits().get("bell").await.expect("the store is there").expect("known").circuit;
    assert_eq!((seen.state, seen.generation), (CircuitState::HalfOpen, 2));
    let leader = backstop::worker_id();
    let state = async || {
        let slow = engine.job(slow.grant.lease.job).await.expect("the store is there");
        slow.expect("the job is there").view.state()
    };
    while state().await == State::Running {
        node.maintain(leader, Duration::from_millis(10)).await.expect("the store is there");
    }
    let seen = node.circuits().get("bell").await.expect("the store is there").expect("known").circuit;
    assert_eq!((seen.state, seen.generation), (CircuitState::Open, 3), "the dependency is not back");
    let kept = remote.heartbeat(&worker, vec![slow.grant]).await.expect("the store is there");
    assert_eq!(kept.lost.len(), 1);
    for job in jobs {
        let _ = engine.cancel(job, "the test is over").await;
    }
}

/// Jobs that name what they need, by themselves or by their payload, are put off one by one, on every node (H1, H3).
async fn keeps_to_what_jobs_name(engine: &Backstop) {
    let mut settings = CircuitSettings::default();
    (settings.min_calls, settings.open) = (2, Duration::from_secs(3_600));
    let config = || {
        let config =
            Config::default().kind_dependency("fetch", "site").kind_dependency_from("fetch", "/host");
        config.circuit_settings("site", settings)
    };
    let nodes = [(); 2].map(|()| Backstop::on(engine.store().clone(), config()));
    let take = async |node: &Backstop| {
        let kinds = [KnownKind { kind: "fetch".into(), version: 1 }].into();
        let request = WorkRequest { worker: named("fetcher"), kinds, wait: Duration::ZERO, ..request(1) };
        node.remote().claim(request).await.expect("the store is there")
    };
    let submit = async |payload: &str, own: Option<&str>| {
        let job = engine.enqueue_raw("fetch", payload).queue(QUEUE);
        let job = if let Some(own) = own { job.dependency(own) } else { job };
        job.submit().await.expect("stored").id
    };
    let mut far = Vec::new();
    for _ in 0..20 {
        far.push(submit(r#"{"host":"eu"}"#, None).await);
    }
    // Each look takes one of them: it is handed out, or put off, whichever node is asked.
    let mut calls = 0;
    for look in 0..far.len() {
        let node = &nodes[look % 2];
        for handed in take(node).await {
            let failed = Failure::new(Cause::Error, "Away", "no answer").retry_in(Duration::from_secs(3_600));
            node.remote().finish(vec![end(&handed, Ended::Failed(failed))]).await.expect("it is there");
            calls += 1;
        }
    }
    assert!((2..20).contains(&calls), "{calls} calls");
    let seen = nodes[0].circuits().get("site:eu").await.expect("the store is there").expect("known");
    assert_eq!(seen.circuit.state, CircuitState::Open);
    for job in &far {
        let detail = nodes[1].job(*job).await.expect("the store is there").expect("it is there");
        let charged = u64::from(detail.view.record.attempt);
        assert_eq!(detail.counters.values().sum::<u64>(), 1, "no job goes round: {:?}", detail.counters);
        if charged == 0 {
            let waiting = detail.waiting_for().expect("it waits");
            assert_eq!((waiting.reason, &*waiting.key), (WaitReason::Circuit, "site:eu"));
        }
    }
    // Others of the kind are handed out, also when the kind's own circuit is open.
    let near = submit(r#"{"host":"us"}"#, None).await;
    let handed = take(&nodes[0]).await.pop().expect("handed out");
    assert_eq!(handed.grant.lease.job, near);
    succeed(&nodes[1], &handed).await;
    nodes[0].circuits().open("site", "ann", None).await.expect("opened");
    let own = submit("{}", Some("elsewhere")).await;
    let handed = take(&nodes[1]).await.pop().expect("handed out");
    assert_eq!(
        (handed.grant.lease.job, handed.view.job.spec.dependency.as_deref()),
        (own, Some("elsewhere"))
    );
    // What this one finds away is red for it, for jobs that name it.
    let away = Failure::new(Cause::Rejected, "Away", "no answer").retry_in(Duration::from_secs(3_600));
    nodes[1].remote().finish(vec![end(&handed, Ended::Failed(away))]).await.expect("it is there");
    let again = submit("{}", Some("elsewhere")).await;
    assert!(take(&nodes[1]).await.is_empty(), "put off");
    let put_off = nodes[0].job(again).await.expect("the store is there").expect("it is there");
    assert_eq!((put_off.counters.get(&Cause::Rejected), put_off.view.record.attempt), (Some(&1), 0));
    for job in far.into_iter().chain([own, again]) {
        engine.cancel(job, "the test is over").await.expect("the store is there");
    }
}

fn named(name: &str) -> RemoteWorker {
    RemoteWorker { name: name.into(), ..worker() }
}

/// What a worker gets at once.
async fn take(engine: &Backstop, name: &str) -> Vec<Handed> {
    let request = WorkRequest { wait: Duration::ZERO, worker: named(name), ..request(10) };
    engine.remote().claim(request).await.expect("the store is there")
}

async fn succeed(engine: &Backstop, handed: &Handed) {
    let done = vec![end(handed, Ended::Succeeded { result: None })];
    let answers = engine.remote().finish(done).await.expect("the store is there");
    assert_eq!(answers, [Ok(State::Succeeded)]);
}

async fn runs_suspects_alone(engine: Backstop) {
    let submit = async || {
        let job = engine.enqueue_raw("mail", "{}").queue(QUEUE).backoff(Backoff::none());
        job.submit().await.expect("stored").id
    };
    let node = backstop::worker_id();
    let ids = [submit().await, submit().await, submit().await];
    let died = take(&engine, "doomed").await;
    assert_eq!(died.len(), 3);
    // As if its process had died and its lease had run out.
    engine.store().retire(died[0].grant.lease.worker).await.expect("the store is there");
    // Until then whoever kept house before may still lead.
    while !engine.store().orphans(1).await.expect("the store is there").is_empty() {
        engine.maintain(node, Duration::from_secs(60)).await.expect("the store is there");
    }

    let alone = take(&engine, "far-away").await;
    assert_eq!(alone.len(), 1, "one suspect and nothing else");
    assert_eq!((alone[0].view.record.crashes, alone[0].view.record.runs), (1, 2));
    let fresh = submit().await;
    assert!(take(&engine, "far-away").await.is_empty(), "nothing beside a suspect");
    let beside = take(&engine, "other").await;
    assert_eq!(beside.iter().map(|handed| handed.grant.lease.job).collect::<Vec<_>>(), [fresh]);
    assert!(take(&engine, "other").await.is_empty(), "a suspect waits for it to be done");
    let grants = vec![beside[0].grant.clone()];
    let kept = engine.remote().heartbeat(&named("other"), grants).await.expect("the store is there");
    assert_eq!(kept.held.len(), 1);

    succeed(&engine, &alone[0]).await;
    let released = take(&engine, "far-away").await;
    assert_eq!(released.len(), 1, "cleared by the success of one that died beside it");
    assert!(take(&engine, "other").await.is_empty());
    succeed(&engine, &beside[0]).await;
    let waited = take(&engine, "other").await;
    assert_eq!(waited.len(), 1, "now it is alone");
    let noted = engine.remote().progress(&waited[0].grant, 50, "on the way").await;
    assert_eq!(noted.expect("the store is there"), Ok(()), "its start is counted");
    succeed(&engine, &waited[0]).await;
    succeed(&engine, &released[0]).await;
    for id in ids {
        let record = engine.job(id).await.expect("the store is there").expect("the job is there").view.record;
        assert_eq!((record.state, record.runs, record.attempt), (State::Succeeded, 2, 0));
    }
    assert_eq!(rows(&engine).await.1, 0, "every batch went with its last job");
    engine.maintain(node, Duration::from_secs(60)).await.expect("the store is there");
    let range = DocumentRange::first(Drawer::Suspects, 5);
    let kept = engine.store().documents(range).await.expect("the store is there");
    assert_eq!(kept.items, [], "nothing is left of who ran alone");
}

/// Whoever has seen the process of a worker die tells it: what that one held ends at once, with what killed it.
async fn ends_what_a_dead_process_held(engine: &Backstop) {
    let as_process = |instance: &str| RemoteWorker { instance: Some(instance.into()), ..named("doomed") };
    let take = async |instance: &str| {
        let job = engine.enqueue_raw("mail", "{}").queue(QUEUE).submit().await.expect("stored").id;
        let request = WorkRequest { wait: Duration::ZERO, worker: as_process(instance), ..request(1) };
        let handed = engine.remote().claim(request).await.expect("the store is there");
        assert_eq!(handed[0].grant.lease.job, job);
        handed.into_iter().next().expect("one")
    };
    let (held, others) = (take("first").await, take("second").await);
    let mut evidence = CrashEvidence::default();
    (evidence.signal, evidence.last_line) = (Some(11), Some("page 3".to_owned()));
    let tell = async |worker: RemoteWorker| {
        engine.remote().died(&worker, &evidence).await.expect("the store is there")
    };
    // Nobody tells of whom it does not name: not by the name alone, nor in another realm.
    assert_eq!(tell(named("doomed")).await, 0);
    assert_eq!(tell(RemoteWorker { realm: "acme".into(), ..as_process("first") }).await, 0);
    assert_eq!(tell(as_process("first")).await, 1);
    assert_eq!(tell(as_process("first")).await, 0, "it has nothing more");

    let job = held.grant.lease.job;
    let view = engine.job(job).await.expect("the store is there").expect("the job is there").view;
    assert_eq!((view.record.state, view.record.crashes, view.record.attempt), (State::Pending, 1, 0));
    let runs = engine.attempts(job, PageRequest::first(5)).await.expect("the store is there").items;
    let failure = runs[0].failure.as_ref().expect("evidence");
    assert_eq!(&*failure.error_type, "Crash::SIGSEGV");
    let words = "its process was killed by SIGSEGV (signal 11); its last line: page 3";
    assert_eq!(&*failure.message, words);
    let late = vec![end(&held, Ended::Succeeded { result: None })];
    assert!(engine.remote().finish(late).await.expect("the store is there")[0].is_err(), "it is stale");

    let kept = engine.remote().heartbeat(&as_process("second"), vec![others.grant.clone()]).await;
    assert_eq!(kept.expect("the store is there").held.len(), 1, "the other process of that name goes on");
    succeed(engine, &others).await;
    engine.cancel(job, "the test is over").await.expect("the store is there");
}

/// What one of them finds away is red for that one, for a while, whichever node it asks next.
async fn heeds_what_a_worker_finds_away(engine: &Backstop) {
    let config = || Config::default().kind_dependency("mail", "smtp");
    let nodes = [(); 2].map(|()| Backstop::on(engine.store().clone(), config()).remote());
    let other = RemoteWorker { realm: String::new(), name: "near-by".into(), instance: None };
    let submit =
        || async { engine.enqueue_raw("mail", "{}").queue(QUEUE).submit().await.expect("stored").id };
    let first = submit().await;
    let taken = nodes[0].claim(request(1)).await.expect("the store is there");
    let mut away =
        Failure::new(Cause::Rejected, "Transient", "connection refused").retry_in(Duration::from_secs(3_600));
    away.dependency = Some("smtp".into());
    let answers = nodes[0].finish(vec![end(&taken[0], Ended::Failed(away.clone()))]).await;
    assert_eq!(answers.expect("the store is there"), [Ok(State::Pending)]);
    let job = engine.job(first).await.expect("the store is there").expect("it is there");
    assert_eq!((job.view.record.attempt, job.view.record.deferrals), (0, 1), "uncharged");
    let report = report_of(engine, "far-away").await;
    let red = &report.dependencies[0];
    assert_eq!(
        (&*red.dependency, red.ok, red.failed_tries, &*red.kinds),
        ("smtp", false, 1, &["mail".to_owned()][..])
    );

    let second = submit().await;
    let theirs = WorkRequest { worker: other, wait: Duration::ZERO, ..request(1) };
    let taken = nodes[0].claim(theirs).await.expect("the store is there");
    assert_eq!(taken.len(), 1, "another worker may well reach it");
    assert_eq!(taken[0].grant.lease.job, second);
    nodes[0]
        .finish(vec![end(&taken[0], Ended::Succeeded { result: None })])
        .await
        .expect("the store is there");

    let third = submit().await;
    let taken = nodes[1].claim(request(1)).await.expect("the store is there");
    let job = taken.first().expect("it tries again after a while");
    assert_eq!(job.grant.lease.job, third);
    let waited = red.next_at.map(|at| job.grant.claimed_at >= at);
    assert_eq!(waited, Some(true), "no sooner than it was told, on another node too");
    nodes[1].finish(vec![end(job, Ended::Succeeded { result: None })]).await.expect("the store is there");
    let report = report_of(engine, "far-away").await;
    assert_eq!((report.dependencies[0].ok, report.dependencies[0].failed_tries), (true, 0), "it went well");
}

async fn report_of(engine: &Backstop, name: &str) -> WorkerReport {
    let workers = engine.workers().await.expect("the store is there");
    let worker = workers.iter().find(|row| row.name == name && !row.queues.is_empty()).expect("it is known");
    let mut reports = engine.worker_reports(&workers).await.expect("the store is there");
    reports.remove(&worker.id).expect("something is known of it")
}

#[tokio::test]
async fn suspects_and_times_in_memory() {
    // C3, E7, F10, H1
    let engine = Backstop::open("memory:").await.expect("memory");
    heeds_what_a_worker_finds_away(&engine).await;
    ends_what_a_dead_process_held(&engine).await;
    keeps_the_time_of_runs(&engine).await;
    keeps_to_limits(&engine).await;
    keeps_to_circuits(&engine).await;
    hands_on_the_tries_of_the_dead(&engine).await;
    hands_on_tries_that_end_otherwise(&engine).await;
    keeps_to_what_jobs_name(&engine).await;
    runs_suspects_alone(engine).await;
}

#[tokio::test]
async fn in_memory() {
    // E7
    serves_remote_workers(Backstop::open("memory:").await.expect("memory")).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn on_sqlite() {
    // E7, C3, F10, H1, H3, H5
    let name = format!("remote-{}.db", std::process::id());
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let engine = Backstop::open(&format!("sqlite:{}", file.display())).await.expect("a file");
    serves_remote_workers(engine.clone()).await;
    heeds_what_a_worker_finds_away(&engine).await;
    ends_what_a_dead_process_held(&engine).await;
    keeps_the_time_of_runs(&engine).await;
    keeps_to_limits(&engine).await;
    keeps_to_circuits(&engine).await;
    hands_on_the_tries_of_the_dead(&engine).await;
    hands_on_tries_that_end_otherwise(&engine).await;
    keeps_to_what_jobs_name(&engine).await;
    runs_suspects_alone(engine).await;
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", file.display()));
    }
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn on_postgres() {
    // E7, C3, F10, H1, H3, H5
    let schema = format!("remote_{}", std::process::id());
    let url = format!("{}?schema={schema}", backstop_testbed::shared::postgres());
    let engine = Backstop::open(&url).await.expect("a server");
    serves_remote_workers(engine.clone()).await;
    heeds_what_a_worker_finds_away(&engine).await;
    ends_what_a_dead_process_held(&engine).await;
    keeps_the_time_of_runs(&engine).await;
    keeps_to_limits(&engine).await;
    keeps_to_circuits(&engine).await;
    hands_on_the_tries_of_the_dead(&engine).await;
    hands_on_tries_that_end_otherwise(&engine).await;
    keeps_to_what_jobs_name(&engine).await;
    runs_suspects_alone(engine).await;
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn on_mysql() {
    // E7, C3, F10, H1, H3, H5
    use backstop::mysql::mysql_async::prelude::Queryable as _;
    use backstop::mysql::mysql_async::{Conn, Opts};

    let server = backstop_testbed::shared::mariadb();
    let mut conn = Conn::new(Opts::from_url(server).expect("a good URL")).await.expect("a server");
    let name = format!("remote_{}", std::process::id());
    conn.query_drop(format!("CREATE DATABASE {name}")).await.expect("a new name");
    let (place, _) = server.rsplit_once('/').expect("a URL with a database");
    let engine = Backstop::open(&format!("{place}/{name}")).await.expect("a server");
    serves_remote_workers(engine.clone()).await;
    heeds_what_a_worker_finds_away(&engine).await;
    ends_what_a_dead_process_held(&engine).await;
    keeps_the_time_of_runs(&engine).await;
    keeps_to_limits(&engine).await;
    keeps_to_circuits(&engine).await;
    hands_on_the_tries_of_the_dead(&engine).await;
    hands_on_tries_that_end_otherwise(&engine).await;
    keeps_to_what_jobs_name(&engine).await;
    runs_suspects_alone(engine).await;
    conn.query_drop(format!("DROP DATABASE {name}")).await.expect("it is there");
    conn.disconnect().await.expect("the connection ends");
}
