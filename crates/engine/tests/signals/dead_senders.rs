//! Senders and servers that die on the way: what they left goes on from there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Config, Ended, Finished, JobId, RemoteWorker, State, WorkRequest};
use backstop_store::{
    Amend, Amended, Answer, DocumentRange, Drawer, Edit, Error as StoreError, Expect, KnownKind, Layer, Store,
};

use super::{HOUR, Publish, Stage};

/// Jobs that were canceled while they waited, more than a signal tries for, and those that wait still, more than one
/// transaction holds the payloads of.
const CANCELED: usize = 250;
const LEFT: usize = 150;

/// The way to the store of a process that dies when it has written something to jobs.
struct DiesAfterOne {
    below: Arc<dyn Store>,
    is_dead: AtomicBool,
}

impl Layer for DiesAfterOne {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn amend(&self, amend: Amend) -> Answer<'_, Amended> {
        Box::pin(async move {
            if self.is_dead.load(Ordering::SeqCst) {
                let (location, problem) = ("here".to_owned(), "the process is dead".to_owned());
                return Err(StoreError::Unavailable { location, problem, source: None });
            }
            let has_jobs = !amend.operations.is_empty();
            let amended = self.below.amend(amend).await?;
            if has_jobs && matches!(amended, Amended::Done { .. }) {
                self.is_dead.store(true, Ordering::SeqCst);
            }
            Ok(amended)
        })
    }
}

/// W10: a signal is for all that wait, however many were canceled meanwhile; and it goes on where a sender left it that
/// died between two transactions.
pub(super) async fn all_that_wait_go_on(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    let jobs = || stage.engine.enqueue(Publish { key: "open".into(), wait_ms: HOUR }).untyped();
    let stored = stage.engine.submit_all((0..CANCELED + LEFT).map(|_| jobs()).collect(), true).await;
    let stored = stored.expect("the store is there").into_iter();
    let ids: Vec<JobId> = stored.map(|answer| answer.expect("admitted").id).collect();
    stage.drain().await;
    // More of them than a signal tries for, and their waits are found to be old.
    for id in &ids[..CANCELED] {
        stage.engine.cancel(*id, "not needed").await.expect("it waits");
    }
    let listed = stage.engine.signals().waiting(None, CANCELED + LEFT).await.expect("a page").items;
    assert_eq!(listed.len(), LEFT, "those that were canceled wait no more");
    // So much for each of them that one transaction does not hold it.
    let payload = "é".repeat(30_000);
    let send = async |engine: &Backstop| engine.signals().send("open", &payload).id("opening").await;
    let doomed = Arc::new(DiesAfterOne { below: store.clone(), is_dead: AtomicBool::default() });
    send(&Backstop::on(doomed, Config::default())).await.expect_err("it dies on the way");
    let left = stage.count(Drawer::SignalWaits).await;
    assert!((1..LEFT).contains(&left), "{left} of {LEFT} wait still");
    stage.maintain().await;
    let again = send(&stage.engine).await.expect("sent");
    assert_eq!((again.delivered, again.kept, again.repeated), (LEFT as u64, false, true));
    assert_eq!(stage.drain().await, LEFT);
    assert_eq!(stage.count(Drawer::SignalWaits).await, 0);
}

/// W10: a sender that died between keeping a signal and looking for somebody who waits: whoever leads looks.
pub(super) async fn what_a_dead_sender_left_is_delivered(store: Arc<dyn Store>) {
    let stage = Stage::on(&store);
    stage.send("post/6", "ann").await;
    // As it was before the sender had looked: nobody has looked since, and a job waits.
    let page = store.documents(DocumentRange::first(Drawer::Signals, 10)).await.expect("documents");
    let kept = page.items.into_iter().find(|one| one.body.contains("post/6")).expect("it is kept");
    let mut body: serde_json::Value = serde_json::from_str(&kept.body).expect("JSON");
    let times = store.documents(DocumentRange::first(Drawer::SignalTimes, 100)).await.expect("documents");
    let look = times.items.into_iter().find(|one| one.body.contains(&kept.key)).expect("a look");
    let edit = |drawer, key: String, body: Option<String>| Edit {
        drawer,
        key,
        expect: Expect::Any,
        body: body.map(Into::into),
    };
    let away = vec![
        edit(Drawer::Signals, kept.key.clone(), None),
        edit(Drawer::SignalTimes, look.key.clone(), None),
    ];
    store.amend(Amend { edits: away, ..Amend::default() }).await.expect("amend");
    let one = Publish { key: "post/6".into(), wait_ms: HOUR };
    let job = stage.engine.enqueue(one).submit().await.expect("stored");
    stage.drain().await;
    assert_eq!(stage.state(job.id).await, State::Waiting);
    let sent_at: backstop::Timestamp = serde_json::from_value(body["sent_at"].clone()).expect("a moment");
    body["look_at"] = body["sent_at"].clone();
    let (_, rest) = look.key.split_once('/').expect("a place");
    let place = format!("{:019}/{rest}", sent_at.as_micros());
    let again = vec![
        edit(Drawer::Signals, kept.key, Some(body.to_string())),
        edit(Drawer::SignalTimes, place, Some(look.body.to_string())),
    ];
    store.amend(Amend { edits: again, ..Amend::default() }).await.expect("amend");
    stage.maintain().await;
    stage.drain().await;
    assert_eq!(job.result().await.expect("it succeeded"), "draft 1, approved by ann");
}

/// Polls a future so many times and drops it then, as a process that is killed would: none when it was not done.
async fn cut_off<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let (mut future, mut left) = (std::pin::pin!(future), polls);
    std::future::poll_fn(|cx| {
        let Some(one_less) = left.checked_sub(1) else { return Poll::Ready(None) };
        left = one_less;
        future.as_mut().poll(cx).map(Some)
    })
    .await
}

/// A server that dies while a remote worker tells it what its run waits for leaves nothing half done, wherever it
/// dies: the same words to another server end the run, and one signal is enough for one wait.
pub(super) async fn a_wait_may_be_told_again(store: Arc<dyn Store>) {
    let (dying, next) = (Backstop::on(store.clone(), Config::default()), Stage::on(&store));
    let request = || WorkRequest {
        worker: RemoteWorker { realm: String::new(), name: "far-away".into(), instance: None },
        queues: vec!["remote".into()],
        kinds: [KnownKind { kind: "remote".into(), version: 1 }].into(),
        limit: 1,
        wait: Duration::from_secs(20),
        lease: Duration::from_secs(600),
        code_version: None,
    };
    for polls in 0.. {
        let key = format!("told again after {polls}");
        next.send(&key, "ann").await;
        let job = next.engine.enqueue_raw("remote", "{}").queue("remote").submit().await.expect("stored");
        let remote = next.engine.remote();
        let mut handed = remote.claim(request()).await.expect("the store is there");
        let grant = handed.pop().expect("there is a job").grant;
        let end = |ended| vec![Finished { grant: grant.clone(), ended, step: None, logs: Vec::new() }];
        let waits = || end(Ended::Waiting { signal: key.clone(), timeout: None, index: None });
        let was_done = cut_off(dying.remote().finish(waits()), polls).await.is_some();
        let answer = remote.finish(waits()).await.expect("the store is there");
        assert_eq!(answer.len(), 1);
        assert!(answer[0].is_ok(), "cut off after {polls} polls: {answer:?}");
        assert_eq!(
            next.state(job.id).await,
            State::Pending,
            "cut off after {polls} polls: it has its signal"
        );
        let handed = remote.claim(request()).await.expect("the store is there");
        assert_eq!(handed[0].grant.lease.job, job.id);
        assert_eq!(handed[0].signals.get(&key), Some(&"ann".into()), "cut off after {polls} polls");
        let grant = handed[0].grant.clone();
        let done = Finished { grant, ended: Ended::Succeeded { result: None }, step: None, logs: Vec::new() };
        assert!(remote.finish(vec![done]).await.expect("the store is there")[0].is_ok());
        if was_done {
            return;
        }
    }
}
