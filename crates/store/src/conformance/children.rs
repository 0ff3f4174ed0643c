//! Cases about children: jobs that a handler submits together with the completion of its run.

use backstop_core::failure::Cause;
use backstop_core::job::{Ending, NewJob, Start, State};

use super::build::{JobDraft, ends_by, id, job, success};
use super::fixture::{Fixture, numbers, secs};
use crate::{ClaimedJob, Finish};

fn with_children(ending: Ending, children: impl IntoIterator<Item = JobDraft>) -> Ending {
    let children: Vec<NewJob> = children.into_iter().map(|JobDraft(child)| child).collect();
    Ending { children, ..ending }
}

/// L23: children are there when the completion is, each in its own queue and due by the store's clock.
pub async fn children_are_stored_with_the_completion(w: Fixture) {
    let taken = w.running(job(1).callbacks()).await;
    w.pass(secs(3));
    let later = job(3).queue("mail").kind("remind", 2).with(|new| {
        new.start = Start::After(secs(60));
        new.spec.tags = vec!["child".into()];
    });
    let ending = with_children(success(&taken), [job(2), later]);
    assert_eq!(w.finish(&taken, ending).await, State::Succeeded);
    let (first, second) = (w.detail(id(2)).await.view, w.detail(id(3)).await.view);
    assert_eq!((first.record.state, first.record.run_at), (State::Pending, w.now()));
    assert_eq!((&*second.job.spec.queue, &*second.job.spec.kind), ("mail", "remind"));
    assert_eq!(second.record.run_at, w.now().after(secs(60)));
    assert_eq!(second.job.spec.tags, ["child"]);
    assert!(w.exists(id(1).callback("on_success", 0)).await, "the callback comes beside them");
    assert_eq!(numbers(&w.claim(taken.lease.worker, 5).await), [2], "it is claimed like any other job");
    assert_eq!(w.queue("mail").await.pending, 1);
}

/// L23: a run that lost its job to others, or to a cancel, submits nothing.
pub async fn a_stale_completion_stores_no_children(w: Fixture) {
    let taken = w.running(job(1)).await;
    w.cancel(id(1)).await;
    let ending = with_children(success(&taken), [job(2)]);
    w.try_finish(taken.lease, ending).await.expect_err("stale");
    assert!(!w.exists(id(2)).await);
}

/// L23, L5: a completion whose answer was lost and that is sent again does not double its children.
pub async fn a_repeated_completion_stores_its_children_once(w: Fixture) {
    let taken = w.running(job(1)).await;
    let ending = with_children(success(&taken), [job(2)]);
    w.finish(&taken, ending.clone()).await;
    w.cancel(id(2)).await;
    assert_eq!(w.try_finish(taken.lease, ending).await, Ok(State::Succeeded), "answered as the first time");
    assert_eq!(w.state(id(2)).await, State::Canceled, "and left as it was");
    assert_eq!(w.queue("default").await.pending, 0);
}

/// L23: every ending of a batch brings its own children, and one that is stale brings none.
pub async fn children_of_many_runs_are_stored_together(w: Fixture) {
    let worker = w.worker(1).await;
    for number in 1..=3 {
        w.submit(job(number)).await;
    }
    let taken = w.claim(worker, 3).await;
    assert_eq!(numbers(&taken), [1, 2, 3]);
    w.cancel(id(2)).await;
    let finish = |claimed: &ClaimedJob, child: u64| Finish {
        lease: claimed.lease,
        ending: with_children(success(claimed), [job(child), job(child + 1).queue("other")]),
    };
    let mut endings: Vec<Finish> = taken.iter().zip([10, 20, 30]).map(|(one, n)| finish(one, n)).collect();
    endings[2].ending = Ending { children: Vec::new(), ..ends_by(&taken[2], Cause::Error) };
    let answers = w.store.finish(endings).await.expect("finish");
    assert!(answers[0].is_ok() && answers[1].is_err() && answers[2].is_ok());
    let mut there = Vec::new();
    for child in [10, 11, 20, 21, 30, 31] {
        if w.exists(id(child)).await {
            there.push(child);
        }
    }
    assert_eq!(there, [10, 11]);
}
