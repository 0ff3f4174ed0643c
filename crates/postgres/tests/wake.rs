//! Wake-ups between processes (L13): here between two stores, which know as little of each other.

mod place;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use backstop_core::event::Event;
use backstop_core::job::{NewJob, Spec};
use backstop_core::{JobId, WorkerId};
use backstop_postgres::tokio_postgres::{AsyncMessage, NoTls};
use backstop_postgres::{Options, PostgresStore};
use backstop_store::conformance::StorePlace;
use backstop_store::{NewWorker, Observer, Submit, WorkStore};
use backstop_testbed::shared;
use place::InSchema;
use tokio::sync::Notify;

/// Counts the hints it gets.
#[derive(Default)]
struct Ear {
    hints: AtomicUsize,
    bell: Notify,
}

impl Observer for Ear {
    fn wants_events(&self) -> bool {
        false
    }

    fn committed(&self, _: Vec<Event>) {}

    fn work_arrived(&self) {
        self.hints.fetch_add(1, Ordering::SeqCst);
        self.bell.notify_one();
    }
}

impl Ear {
    /// Waits until it has got more than `hints`.
    async fn more_than(&self, hints: usize) {
        let heard = async {
            while self.hints.load(Ordering::SeqCst) <= hints {
                self.bell.notified().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), heard).await.expect("a hint comes");
    }
}

async fn open(server: &str, place: &InSchema) -> PostgresStore {
    let url = format!("{server}?schema={}", place.name());
    PostgresStore::open(&url, Options::default()).await.expect("opened")
}

async fn submit(store: &PostgresStore, queue: &str, number: u128) {
    let mut spec = Spec::new(JobId::from_u128(number), "work", "{}");
    spec.queue = queue.into();
    let answers = store.submit(Submit { jobs: vec![NewJob::new(spec)], atomic: true }).await.expect("stored");
    assert!(answers[0].is_ok());
}

/// A store whose worker serves `mail`, and whose ear hears of other processes.
async fn listener(server: &str, place: &InSchema) -> (PostgresStore, Arc<Ear>) {
    let store = open(server, place).await;
    let ear = Arc::new(Ear::default());
    store.observe(ear.clone());
    let worker = NewWorker {
        id: WorkerId::from_u128(1),
        name: "one".into(),
        code_version: None,
        queues: vec!["mail".into()],
        kinds: [].into(),
        lease: Duration::from_secs(600),
    };
    store.enlist(worker).await.expect("enlisted");
    (store, ear)
}

#[test]
fn a_submit_wakes_the_workers_of_other_processes() {
    // L13
    let place = InSchema::fresh();
    InSchema::block_on(async {
        let (there, ear) = listener(shared::postgres(), &place).await;
        // One hint from enlisting; the second one says that it listens from now on.
        ear.more_than(1).await;
        assert!(there.is_listening());
        let here = open(shared::postgres(), &place).await;
        for number in 1..=3 {
            let before = ear.hints.load(Ordering::SeqCst);
            submit(&here, "mail", number).await;
            ear.more_than(before).await;
        }
        // A queue that nobody there serves wakes nobody; the next one shows that the notice has passed.
        let before = ear.hints.load(Ordering::SeqCst);
        submit(&here, "other", 4).await;
        submit(&here, "mail", 5).await;
        ear.more_than(before).await;
    });
}

#[test]
fn notices_are_few_however_many_jobs_come() {
    // L13: they make commits wait for each other, so a crowd of submits shares them.
    const JOBS: u128 = 300;
    let place = InSchema::fresh();
    InSchema::block_on(async {
        let here = Arc::new(open(shared::postgres(), &place).await);
        let (client, mut connection) = backstop_postgres::tokio_postgres::connect(shared::postgres(), NoTls)
            .await
            .expect("the server is there");
        let (sender, mut notices) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) =
                std::future::poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notification(notice) = message {
                    let _ = sender.send(notice.payload().to_owned());
                }
            }
        });
        client.batch_execute(&format!("LISTEN backstop_{}", place.name())).await.expect("listens");
        let tasks: Vec<_> = (0..JOBS)
            .map(|number| {
                let here = here.clone();
                tokio::spawn(async move { submit(&here, "mail", number + 1).await })
            })
            .collect();
        for task in tasks {
            task.await.expect("stored");
        }
        submit(&here, "last", 1_000).await;
        let mut mail = 0;
        loop {
            let notice =
                tokio::time::timeout(Duration::from_secs(30), notices.recv()).await.expect("one comes");
            match notice
                .expect("the connection holds")
                .rsplit_once(' ')
                .map(|(_, queue)| queue.to_owned())
                .as_deref()
            {
                Some("mail") => mail += 1,
                Some("last") => break,
                other => panic!("a notice about {other:?}"),
            }
        }
        println!("{JOBS} submits, {mail} notices");
        assert!((1..JOBS / 2).contains(&mail), "{mail} notices for {JOBS} submits");
    });
}

#[test]
fn behind_a_pooler_the_listener_knows_that_it_is_deaf() {
    // L13: notices do not come through; with a URL of its own for listening they do.
    let place = InSchema::fresh();
    InSchema::block_on(async {
        let own = shared::postgres().replace(':', "%3A").replace('/', "%2F");
        let url = format!("{}?schema={}&listen={own}", shared::pgbouncer(), place.name());
        let there = PostgresStore::open(&url, Options::default()).await.expect("opened");
        let ear = Arc::new(Ear::default());
        there.observe(ear.clone());
        ear.more_than(0).await;
        assert!(there.is_listening(), "past the pooler");
        let url = format!("{}?schema={}", shared::pgbouncer(), place.name());
        let deaf = PostgresStore::open(&url, Options::default()).await.expect("opened");
        let ear = Arc::new(Ear::default());
        deaf.observe(ear.clone());
        // One that believes to hear says so by a hint; this is longer than it waits for its own notice.
        let believes = tokio::time::timeout(Duration::from_secs(7), ear.bell.notified()).await;
        assert!(believes.is_err() && !deaf.is_listening(), "a notice to itself came through the pooler");
    });
}
