//! Cases about looking at jobs for what became of them: whatever the look leaves out, it never says anything else than
//! the job itself.

use backstop_core::JobId;
use backstop_core::failure::Cause;
use backstop_core::job::{JobSummary, Operation, PlanId, Retention, State};

use super::build::{ends_by, id, job, success};
use super::fixture::{Fixture, ids, secs};
use crate::Duty;

/// The jobs of the crowd below.
const JOBS: u64 = 12;

fn driven() -> Operation {
    Operation::Redrive { plan: PlanId::from_number(7), needs: None, redrives: 0 }
}

/// Jobs in every state, with a past and without, driven again by a plan and not.
async fn crowd(w: &Fixture) {
    let taken = w.running(job(1)).await;
    w.finish(&taken, success(&taken)).await;
    for number in 2..=8 {
        let taken = w.running(job(number)).await;
        w.finish(&taken, ends_by(&taken, Cause::Permanent)).await;
    }
    w.operate(id(3), Operation::Pause).await.expect("failed");
    w.running(job(9)).await;
    // What a plan drives: one is done, one dies again, one runs, one fails and is tried again, one is canceled.
    for number in [4, 5, 7, 6] {
        w.operate(id(number), driven()).await.expect("failed");
        let worker = w.worker(1).await;
        let taken = w.take(worker).await;
        match number {
            4 => w.finish(&taken, success(&taken)).await,
            5 => w.finish(&taken, ends_by(&taken, Cause::Invalid)).await,
            6 => w.finish(&taken, ends_by(&taken, Cause::Error)).await,
            _ => State::Running,
        };
    }
    w.operate(id(8), driven()).await.expect("failed");
    w.cancel(id(8)).await;
    w.offer_all(false, (10..=JOBS).map(job)).await;
    w.operate(id(10), Operation::Pause).await.expect("pending");
    w.cancel(id(11)).await;
}

async fn summary(w: &Fixture, jobs: Vec<JobId>) -> Vec<Option<JobSummary>> {
    w.store.job_summaries(jobs).await.expect("a look")
}

/// D4: in every state a summary is a part of what the job itself tells.
pub async fn a_summary_agrees_with_the_job_in_every_state(w: Fixture) {
    crowd(&w).await;
    let everyone: Vec<JobId> = (1..=JOBS).map(id).collect();
    let details = w.store.jobs(everyone.clone()).await.expect("jobs");
    let expected: Vec<_> =
        details.iter().flatten().map(|detail| Some(JobSummary::from(&detail.view))).collect();
    assert_eq!(expected.len(), everyone.len());
    assert_eq!(summary(&w, everyone.clone()).await, expected);
    let rests: Vec<_> = expected.iter().flatten().map(|summary| summary.rests).collect();
    for state in [State::Succeeded, State::Failed, State::Paused, State::Canceled] {
        assert!(rests.contains(&Some(state)), "one is {state}");
    }
    assert_eq!(rests.iter().filter(|rest| rest.is_none()).count(), 4, "two wait and two run: {rests:?}");
    let told = |number: usize| expected[number - 1].clone().expect("it is there");
    assert_eq!(told(4).plan, Some(PlanId::from_number(7)), "also when it is done");
    assert!(told(6).rests.is_none() && told(6).died_of.is_some(), "it failed and is tried again");
    assert!(told(7).died_of.is_none(), "nothing is left of the failure before the drive");
    let w = w.reopen().await;
    assert_eq!(summary(&w, everyone).await, expected);
}

/// D4, L16: one answer per id, in order; what was archived is unknown here.
pub async fn a_summary_tells_nothing_of_who_is_gone(w: Fixture) {
    let none = Some(secs(0));
    let at_once = Retention::default().canceled(none);
    w.offer_all(false, (1..=3).map(job)).await;
    w.cancel(id(2)).await;
    let term = w.leader(Duty::Archive).await;
    assert_eq!(w.store.archive(term, at_once, 10).await.expect("the term runs"), 1);
    let answers = summary(&w, ids(&[3, 2, 99, 1, 3])).await;
    let known: Vec<bool> = answers.iter().map(Option::is_some).collect();
    assert_eq!(known, [true, false, false, true, true]);
    assert!(summary(&w, Vec::new()).await.is_empty());
}
