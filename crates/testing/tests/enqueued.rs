//! What the assertions on enqueued jobs see, and what they say when they fail.

use std::time::Duration;

use backstop::prelude::*;
use backstop_testing::{TestEngine, all_enqueued, assert_enqueued, refute_enqueued};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Mail {
    to: String,
}

impl Job for Mail {
    const KIND: &'static str = "mail";
    type Context = ();
    type Output = JobResult;

    async fn run(self, _: JobContext<()>) -> JobResult {
        Ok(())
    }
}

async fn mailed(names: &[&str]) -> TestEngine {
    let test = TestEngine::new();
    for (position, name) in names.iter().enumerate() {
        let delay = Duration::from_secs(30) * u32::try_from(position).expect("few names");
        let mail = test.engine().enqueue(Mail { to: (*name).to_owned() });
        mail.delay(delay).submit().await.expect("admitted");
    }
    test
}

#[tokio::test]
async fn a_job_is_found_with_all_that_surrounds_it() {
    let test = mailed(&["ada", "bob", "bob"]).await;
    let found = assert_enqueued::<Mail>(test.engine(), |mail| mail.to == "bob").await;
    let first = test.engine().job(found.job.spec.id).await.expect("the model is there").expect("stored");
    assert_eq!(first.view.record.run_at.since(first.view.job.created_at), Duration::from_secs(30));
    refute_enqueued::<Mail>(test.engine(), |mail| mail.to == "eve").await;
    let all: Vec<_> = all_enqueued::<Mail>(test.engine()).await.into_iter().map(|mail| mail.to).collect();
    assert_eq!(all, ["ada", "bob", "bob"]);
}

#[tokio::test]
async fn what_has_ended_is_not_enqueued_and_what_is_held_back_is() {
    // L1
    let test = mailed(&["ada", "bob", "cyd"]).await;
    test.drain((), |worker| worker.register::<Mail>()).await;
    let bob = assert_enqueued::<Mail>(test.engine(), |mail| mail.to == "bob").await;
    test.engine().pause(bob.job.spec.id).await.expect("a pending job can be paused");
    let cyd = assert_enqueued::<Mail>(test.engine(), |mail| mail.to == "cyd").await;
    test.engine().cancel(cyd.job.spec.id, "no longer needed").await.expect("it is there");
    assert_eq!(all_enqueued::<Mail>(test.engine()).await, [Mail { to: "bob".to_owned() }]);
}

#[tokio::test]
async fn many_pages_are_read_to_their_end() {
    let test = TestEngine::new();
    for number in 0..2_500 {
        test.engine().enqueue(Mail { to: number.to_string() }).submit().await.expect("admitted");
    }
    assert_eq!(all_enqueued::<Mail>(test.engine()).await.len(), 2_500);
    assert_enqueued::<Mail>(test.engine(), |mail| mail.to == "0").await;
}

#[tokio::test]
#[should_panic(expected = "no `mail` job that fits is enqueued; these are waiting:\
    \n  mail {\"to\":\"ada\"} on `default`, pending, due\
    \n  mail {\"to\":\"bob\"} on `default`, pending, due in 30s")]
async fn a_missing_job_is_reported_with_those_that_are_there() {
    let test = mailed(&["ada", "bob"]).await;
    assert_enqueued::<Mail>(test.engine(), |mail| mail.to == "eve").await;
}

#[tokio::test]
#[should_panic(expected = "enqueued.rs:")]
async fn a_failure_names_the_line_of_the_test() {
    assert_enqueued::<Mail>(TestEngine::new().engine(), |_| true).await;
}

#[tokio::test]
#[should_panic(expected = "should not be enqueued; this one is waiting:\n  mail {\"to\":\"ada\"}")]
async fn an_unwanted_job_is_shown() {
    refute_enqueued::<Mail>(mailed(&["ada"]).await.engine(), |_| true).await;
}

#[tokio::test]
#[should_panic(expected = "is not a `mail`: missing field `to`")]
async fn a_payload_of_another_shape_is_shown() {
    let test = TestEngine::new();
    test.engine().enqueue_raw("mail", "{}").submit().await.expect("admitted");
    all_enqueued::<Mail>(test.engine()).await;
}
