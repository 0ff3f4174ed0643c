//! What an application has submitted, as its tests ask for it.

use std::fmt::Write as _;
use std::future::Future;
use std::panic::Location;

use backstop::{Backstop, Job, State, Timestamp};
use backstop_core::job::JobView;
use backstop_store::{JobFilter, PageRequest};

/// Jobs that a failure message lists at most: more than a person reads.
const LISTED: usize = 50;

/// Fails the test unless a job of kind `J` waits to run that `wanted` is true of. Answers with the oldest such job, so
/// that its queue, tags or time can be looked at too.
///
/// ```
/// # use backstop::prelude::*;
/// use backstop_testing::{TestEngine, assert_enqueued};
///
/// #[job(queue = "mail")]
/// async fn send_email(to: String) {}
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let test = TestEngine::new();
/// test.engine().enqueue(SendEmail { to: "ada@example.org".into() }).submit().await.unwrap();
///
/// let found = assert_enqueued::<SendEmail>(test.engine(), |mail| mail.to.starts_with("ada")).await;
/// assert_eq!(&*found.job.spec.queue, "mail");
/// # }
/// ```
///
/// # Panics
/// When there is none, with a list of what is enqueued instead.
#[track_caller]
pub fn assert_enqueued<J: Job>(
    engine: &Backstop,
    wanted: impl Fn(&J) -> bool,
) -> impl Future<Output = JobView> {
    let place = Location::caller();
    async move {
        let waiting = waiting(engine).await;
        match find(&waiting, wanted, place) {
            Some(found) => found.clone(),
            None => {
                let list = list(&waiting, now(engine).await);
                panic!("{place}: no `{}` job that fits is enqueued; {list}", J::KIND)
            }
        }
    }
}

/// Fails the test when a job of kind `J` waits to run that `unwanted` is true of.
///
/// ```
/// # use backstop::prelude::*;
/// use backstop_testing::{TestEngine, refute_enqueued};
///
/// #[job]
/// async fn send_email(to: String) {}
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let test = TestEngine::new();
/// refute_enqueued::<SendEmail>(test.engine(), |_| true).await;
/// # }
/// ```
///
/// # Panics
/// When there is one, with a list of all that is enqueued.
#[track_caller]
pub fn refute_enqueued<J: Job>(engine: &Backstop, unwanted: impl Fn(&J) -> bool) -> impl Future<Output = ()> {
    let place = Location::caller();
    async move {
        let waiting = waiting(engine).await;
        if let Some(found) = find(&waiting, unwanted, place) {
            let (id, list) = (found.job.spec.id, list(&waiting, now(engine).await));
            panic!("{place}: `{}` job {id} should not be enqueued; {list}", J::KIND)
        }
    }
}

/// Every job of kind `J` that waits to run, decoded, oldest first.
///
/// ```
/// # use backstop::prelude::*;
/// use backstop_testing::{TestEngine, all_enqueued};
///
/// #[job]
/// async fn count(number: u32) {}
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let test = TestEngine::new();
/// for number in 1..=3 {
///     test.engine().enqueue(Count { number }).submit().await.unwrap();
/// }
/// let numbers: Vec<_> = all_enqueued::<Count>(test.engine()).await.iter().map(|job| job.number).collect();
/// assert_eq!(numbers, [1, 2, 3]);
/// # }
/// ```
///
/// # Panics
/// When the payload of one is not a `J`.
#[track_caller]
pub fn all_enqueued<J: Job>(engine: &Backstop) -> impl Future<Output = Vec<J>> {
    let place = Location::caller();
    async move {
        let waiting = waiting(engine).await;
        waiting.iter().filter(|view| is::<J>(view)).map(|view| decode(view, place)).collect()
    }
}

fn find<'a, J: Job>(
    waiting: &'a [JobView],
    wanted: impl Fn(&J) -> bool,
    place: &Location<'_>,
) -> Option<&'a JobView> {
    waiting.iter().filter(|view| is::<J>(view)).find(|view| wanted(&decode(view, place)))
}

fn is<J: Job>(view: &JobView) -> bool {
    &*view.job.spec.kind == J::KIND
}

fn decode<J: Job>(view: &JobView, place: &Location<'_>) -> J {
    let spec = &view.job.spec;
    match serde_json::from_str(&spec.payload) {
        Ok(job) => job,
        Err(problem) => {
            panic!(
                "{place}: the payload of job {} is not a `{}`: {problem}: {}",
                spec.id,
                J::KIND,
                spec.payload
            )
        }
    }
}

/// Jobs that a worker, a moment or a person still has to come for, oldest first.
async fn waiting(engine: &Backstop) -> Vec<JobView> {
    let mut jobs = every_job(engine).await;
    jobs.retain(|view| matches!(view.state(), State::Pending | State::Waiting | State::Paused));
    jobs.reverse();
    jobs
}

/// Every job of the store, newest first.
pub(crate) async fn every_job(engine: &Backstop) -> Vec<JobView> {
    let mut jobs = Vec::new();
    let mut page = PageRequest::first(engine.config().limits.page);
    loop {
        let read = match engine.jobs(JobFilter::default(), page).await {
            Ok(read) => read,
            Err(problem) => panic!("the jobs of the test's store cannot be listed: {problem}"),
        };
        jobs.extend(read.items);
        match read.next {
            Some(after) => page.after = Some(after),
            None => return jobs,
        }
    }
}

async fn now(engine: &Backstop) -> Timestamp {
    match engine.store().now().await {
        Ok(now) => now,
        Err(problem) => panic!("the clock of the test's store cannot be read: {problem}"),
    }
}

/// What is enqueued, one line a job.
fn list(waiting: &[JobView], now: Timestamp) -> String {
    if waiting.is_empty() {
        return "nothing is".to_owned();
    }
    let mut text = format!("{} waiting:", if waiting.len() == 1 { "this one is" } else { "these are" });
    for view in waiting.iter().take(LISTED) {
        let (spec, due) = (&view.job.spec, view.record.run_at);
        let when = if due <= now { "due".to_owned() } else { format!("due in {:?}", now.until(due)) };
        let line =
            format!("\n  {} {} on `{}`, {}, {when}", spec.kind, spec.payload, spec.queue, view.state());
        text.push_str(&line);
    }
    if let Some(more @ 1..) = waiting.len().checked_sub(LISTED) {
        let _ = write!(text, "\n  … and {more} more");
    }
    text
}
