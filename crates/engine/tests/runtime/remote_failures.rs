//! Remote workers that fail far more often than others, behind more than one server (H8, E7).

use std::time::Duration;

use backstop::{
    Backstop, Cause, Config, Ended, Failure, Finished, Handed, KnownKind, RemoteWorker, WorkRequest,
};

use crate::fixture::model;

/// What a worker gets of its own queue, at once.
async fn take(server: &Backstop, name: &str) -> Vec<Handed> {
    let request = WorkRequest {
        worker: RemoteWorker { realm: String::new(), name: name.into(), instance: None },
        queues: vec![name.into()],
        kinds: [KnownKind { kind: "mail".into(), version: 1 }].into(),
        limit: 50,
        wait: Duration::ZERO,
        lease: Duration::from_secs(600),
        code_version: None,
    };
    server.remote().claim(request).await.expect("the model is there")
}

async fn submit(server: &Backstop, name: &str, jobs: usize) {
    for _ in 0..jobs {
        let job = server.enqueue_raw("mail", "{}").queue(name).max_retries(0);
        job.submit().await.expect("admitted");
    }
}

async fn finish(server: &Backstop, handed: &Handed, ended: Ended) {
    let end = Finished { grant: handed.grant.clone(), ended, step: None, logs: Vec::new() };
    let answers = server.remote().finish(vec![end]).await.expect("the model is there");
    assert!(answers[0].is_ok());
}

fn succeeded() -> Ended {
    Ended::Succeeded { result: None }
}

fn failed() -> Ended {
    Ended::Failed(Failure::new(Cause::Error, "Disk", "no space left on device"))
}

async fn pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

/// Lets a worker run so many jobs, whose ends are told to both servers in turn.
async fn run(servers: &[Backstop; 2], name: &str, jobs: usize, ended: fn() -> Ended) {
    submit(&servers[0], name, jobs).await;
    for (place, job) in take(&servers[0], name).await.iter().enumerate() {
        finish(&servers[place % 2], job, ended()).await;
    }
}

async fn paused(server: &Backstop) -> usize {
    let workers = server.workers().await.expect("the model is there");
    let reports = server.worker_reports(&workers).await.expect("the model is there");
    reports.values().filter(|report| report.paused.is_some()).count()
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_judged_by_what_all_servers_heard_and_paused_by_all_of_them() {
    // H8, E7
    let store = model();
    let servers = [(); 2].map(|()| Backstop::on(store.clone(), Config::default()));
    run(&servers, "one", 25, succeeded).await;
    run(&servers, "three", 25, succeeded).await;
    // Fewer at each than a worker is judged by.
    run(&servers, "two", 30, failed).await;
    pass(11).await;
    for server in &servers {
        for name in ["one", "three"] {
            assert!(take(server, name).await.is_empty());
        }
    }
    submit(&servers[0], "two", 20).await;
    assert_eq!(take(&servers[0], "two").await.len(), 20, "what the other one heard is not told yet");
    assert!(take(&servers[1], "two").await.is_empty(), "fifteen runs here and fifteen there are thirty");
    assert!(take(&servers[0], "two").await.is_empty());
    // Each has figures of its own of that time, and neither takes the pause back that the other one wrote.
    submit(&servers[0], "two", 20).await;
    for _ in 0..5 {
        pass(11).await;
        for server in &servers {
            assert!(take(server, "two").await.is_empty(), "it is handed nothing by any server");
            assert_eq!(paused(server).await, 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_servers_together_let_a_worker_try_and_find_it_well() {
    // H8, E7
    let store = model();
    let servers = [(); 2].map(|()| Backstop::on(store.clone(), Config::default()));
    run(&servers, "one", 25, succeeded).await;
    run(&servers, "two", 30, failed).await;
    pass(11).await;
    for server in &servers {
        assert!(take(server, "one").await.is_empty());
        assert!(take(server, "two").await.is_empty());
    }
    assert_eq!(paused(&servers[0]).await, 1);
    submit(&servers[0], "two", 20).await;
    pass(61).await;
    let mut trial = take(&servers[1], "two").await;
    trial.extend(take(&servers[0], "two").await);
    assert_eq!(trial.len(), 5, "a few runs, to be judged by them");
    for (place, job) in trial.iter().enumerate() {
        finish(&servers[place % 2], job, succeeded()).await;
    }
    pass(11).await;
    let mut rest = Vec::new();
    for server in servers.iter().chain(&servers) {
        rest.extend(take(server, "two").await);
        pass(2).await;
    }
    assert_eq!((rest.len(), paused(&servers[1]).await), (15, 0), "it is well again, for all of them");
}
