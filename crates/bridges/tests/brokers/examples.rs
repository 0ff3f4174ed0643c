//! The example programs, run as they are against real brokers.

#[allow(dead_code, reason = "its `main` runs for ever")]
#[path = "../../examples/caf.rs"]
mod caf;
#[allow(dead_code, reason = "its `main` runs for ever")]
#[path = "../../examples/daycry.rs"]
mod daycry;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use backstop::Backstop;
use backstop_core::job::State;
use backstop_store::{JobFilter, PageRequest};
use backstop_testbed::{Beanstalkd, Folder};

use crate::caf::wire::{CafWire, task};
use crate::cases::b6::envelope;
use crate::stage::soon;

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_caf_answers_tasks() {
    // B3
    let (wire, folder) = (CafWire::start().await, Folder::new("example-caf").expect("a folder"));
    for queue in ["langdetect-in", "langdetect-out"] {
        wire.queue(queue, &[]).await;
    }
    wire.produce("langdetect-in", &task("1", "bonjour", "langdetect-in"), &[], 0).await;
    wire.produce("langdetect-in", &task("2", "", "langdetect-in"), &[], 0).await;
    let store = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let answered = async {
        let mut heard = wire.consume("langdetect-out", 2).await;
        heard.sort_by_key(|one| one.task["taskId"].to_string());
        let told = heard.iter().map(|one| (one.task["taskStatus"].clone(), one.task["taskData"].clone()));
        let told: Vec<_> = told.collect();
        assert_eq!(told[0], ("RESULT_SUCCESS".into(), r#"{"lang":"fr"}"#.into()));
        assert_eq!(told[1], ("INVALID_TASK".into(), "the text is empty".into()));
    };
    caf::serve(&wire.server.url(), &store, answered).await.expect("it serves");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_daycry_runs_signed_envelopes() {
    // B6, E9
    let folder = Folder::new("example-daycry").expect("a folder");
    let server = Beanstalkd::start(folder.join("beanstalkd")).expect("a server");
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server is there");
    for body in [envelope("hunter2", "a"), envelope("guessed", "b")] {
        write!(stream, "put 0 0 60 {}\r\n{body}\r\n", body.len()).expect("it takes jobs");
    }
    write!(stream, "quit\r\n").expect("it takes orders");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("it answers");
    assert_eq!(said.matches("INSERTED").count(), 2, "{said}");
    let store = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let watch = Backstop::open(&store).await.expect("a store");
    let done = soon("a job that has succeeded", async {
        loop {
            let request = PageRequest { limit: 10, after: None };
            let jobs = watch.jobs(JobFilter::default(), request).await.expect("there").items;
            if jobs.iter().any(|job| job.record.state == State::Succeeded) {
                assert_eq!(jobs.len(), 1, "the forged one is none");
                return;
            }
            tokio::task::yield_now().await;
        }
    });
    let keys = vec!["hunter2".to_owned()];
    daycry::serve(&server.url(), &store, keys, done).await.expect("it serves");
}
