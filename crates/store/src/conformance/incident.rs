//! Cases about incidents: what they count, what people say of them, when they come back, and what is told.

use std::sync::Arc;

use backstop_core::alert::Notice;
use backstop_core::event::EventKind;
use backstop_core::failure::{Cause, Failure};
use backstop_core::incident::{Incident, IncidentState, IncidentUpdate, IncidentVerb};
use backstop_core::job::{Ending, Operation, PlanId, Retention, State};

use super::build::{WorkerDraft, ending, fingerprint, id, job, success};
use super::fixture::{Fixture, secs};
use super::told::ObservedEvents;
use crate::{ClaimedJob, DocumentRange, Drawer, Duty};

const TEXT: &str = "it broke";

/// A run that ends for good by `text` in code of `version`.
fn broken(taken: &ClaimedJob, text: &str, version: Option<&str>) -> Ending {
    let failed = Failure::new(Cause::Permanent, "Boom", text);
    Ending { code_version: version.map(Into::into), ..ending(taken, &failed) }
}

async fn dies(w: &Fixture, number: u64, text: &str, version: Option<&str>) {
    let taken = w.running(job(number)).await;
    assert_eq!(w.finish(&taken, broken(&taken, text, version)).await, State::Failed);
}

async fn incident(w: &Fixture, text: &str) -> Incident {
    let mut found = w.store.incidents_of(vec![fingerprint(text)]).await.expect("incidents_of");
    found.remove(0).expect("it was counted")
}

async fn say(w: &Fixture, verb: IncidentVerb) -> Incident {
    let statement = IncidentUpdate { verb, by: "ann".into(), note: Some("at it".into()) };
    let mut said = w.store.say(vec![fingerprint(TEXT)], statement).await.expect("say");
    said.remove(0).expect("it is known")
}

fn fix(version: &str) -> IncidentVerb {
    IncidentVerb::Fix { version: Some(version.into()) }
}

/// The names of the events that are about no job.
fn told_of_incidents(w: &Fixture) -> Vec<&'static str> {
    let events = w.told.take();
    events.iter().filter(|event| event.job.is_none()).map(|event| event.what.name()).collect()
}

/// D2: an incident counts the dead letters that are here now: up with a death, down when one is driven again, archived
/// or purged; not by a pause, which leaves it a dead letter.
pub async fn open_follows_the_dead_letters(w: Fixture) {
    for number in 1..=4 {
        dies(&w, number, TEXT, None).await;
    }
    let open = async || incident(&w, TEXT).await.open;
    assert_eq!(open().await, 4);
    w.operate(id(1), Operation::Retry).await.expect("failed");
    assert_eq!(open().await, 3);
    w.operate(id(2), Operation::Pause).await.expect("failed");
    assert_eq!(open().await, 3);
    w.operate(id(2), Operation::Resume).await.expect("paused");
    w.store.purge(vec![id(2)], None).await.expect("purge").remove(0).expect("failed");
    assert_eq!(open().await, 2);
    let term = w.leader(Duty::Archive).await;
    let at_once = Retention::default().failed(Some(secs(0)));
    assert_eq!(w.store.archive(term, at_once, 10).await.expect("archive"), 2);
    assert_eq!(open().await, 0);
    let worker = w.worker(1).await;
    let taken = w.take(worker).await;
    w.finish(&taken, broken(&taken, TEXT, None)).await;
    let found = incident(&w, TEXT).await;
    assert_eq!((found.open, found.dead, found.failures), (1, 5, 5));
}

/// D2: a job that dies of something else the next time moves to that incident.
pub async fn a_dead_letter_is_open_in_one_incident(w: Fixture) {
    dies(&w, 1, "first", None).await;
    w.operate(id(1), Operation::Retry).await.expect("failed");
    let worker = w.worker(1).await;
    let taken = w.take(worker).await;
    w.finish(&taken, broken(&taken, "second", None)).await;
    assert_eq!((incident(&w, "first").await.open, incident(&w, "second").await.open), (0, 1));
    w.operate(id(1), Operation::Retry).await.expect("failed");
    let taken = w.take(worker).await;
    w.finish(&taken, success(&taken)).await;
    assert_eq!((incident(&w, "first").await.open, incident(&w, "second").await.open), (0, 0));
}

/// D2: the versions of the first and of the latest failure are kept; an unknown one hides nothing.
pub async fn versions_are_kept(w: Fixture) {
    for (number, version) in [(1, Some("1.1")), (2, Some("1.3")), (3, None)] {
        dies(&w, number, TEXT, version).await;
    }
    let found = incident(&w, TEXT).await;
    assert_eq!((found.first_version.as_deref(), found.last_version.as_deref()), (Some("1.1"), Some("1.3")));
    dies(&w, 4, "another", None).await;
    dies(&w, 5, "another", Some("2")).await;
    let found = incident(&w, "another").await;
    assert_eq!((found.first_version.as_deref(), found.last_version.as_deref()), (None, Some("2")));
}

/// D2: what people say is kept, by whom and when, and is there after a restart; unknown incidents answer none.
pub async fn what_people_say_is_kept(w: Fixture) {
    dies(&w, 1, TEXT, None).await;
    assert_eq!(incident(&w, TEXT).await.standing.state, IncidentState::New);
    w.pass(secs(5));
    let said = say(&w, IncidentVerb::Acknowledge).await;
    assert_eq!((said.standing.state, said.failures), (IncidentState::Acknowledged, 1));
    assert_eq!((said.standing.changed_by.as_deref(), said.standing.changed_at), (Some("ann"), Some(w.now())));
    assert_eq!(said.standing.note.as_deref(), Some("at it"));
    say(&w, fix("1.4")).await;
    let w = w.reopen().await;
    let found = incident(&w, TEXT).await;
    assert_eq!(
        (found.standing.state, found.standing.fixed_in.as_deref()),
        (IncidentState::Fixed, Some("1.4"))
    );
    assert_eq!(w.store.incidents(10).await.expect("incidents"), [found]);
    let both = vec![fingerprint("never seen"), fingerprint(TEXT)];
    let statement = IncidentUpdate { verb: IncidentVerb::Mute, by: "bob".into(), note: None };
    let said = w.store.say(both.clone(), statement).await.expect("say");
    assert!(
        said[0].is_none() && said[1].as_ref().is_some_and(|it| it.standing.state == IncidentState::Muted)
    );
    assert_eq!(w.store.incidents_of(both).await.expect("incidents_of"), said);
}

/// D7: a failure in code that should have the fix is a regression; one in older or unknown code is not.
pub async fn only_fixed_code_regresses(w: Fixture) {
    dies(&w, 1, TEXT, Some("1.0")).await;
    say(&w, fix("1.4")).await;
    w.told.take();
    for (number, version) in [(2, Some("1.3.9")), (3, None)] {
        dies(&w, number, TEXT, version).await;
        assert_eq!(incident(&w, TEXT).await.standing.state, IncidentState::Fixed, "{version:?}");
    }
    assert_eq!(told_of_incidents(&w), Vec::<&str>::new());
    dies(&w, 4, TEXT, Some("1.10")).await;
    let found = incident(&w, TEXT).await;
    assert_eq!((found.standing.state, found.standing.regressions), (IncidentState::Regressed, 1));
    assert_eq!(told_of_incidents(&w), ["incident_regressed"]);
    dies(&w, 5, TEXT, Some("1.10")).await;
    assert_eq!(incident(&w, TEXT).await.standing.regressions, 1, "it is known by now");
    assert_eq!(told_of_incidents(&w), Vec::<&str>::new());
}

/// D7: in one call the latest version counts, wherever it stands.
pub async fn a_batch_regresses_by_its_latest_version(w: Fixture) {
    dies(&w, 1, TEXT, None).await;
    say(&w, fix("2.0")).await;
    let worker = w.worker(1).await;
    for number in 2..=4 {
        w.submit(job(number)).await;
    }
    let taken = w.claim(worker, 3).await;
    let versions = [Some("1.9"), Some("2.1"), None];
    let endings = taken
        .iter()
        .zip(versions)
        .map(|(taken, version)| crate::Finish { lease: taken.lease, ending: broken(taken, TEXT, version) });
    w.store.finish(endings.collect()).await.expect("finish");
    let found = incident(&w, TEXT).await;
    assert_eq!((found.standing.state, found.standing.regressions), (IncidentState::Regressed, 1));
    assert_eq!((found.failures, found.last_version.as_deref()), (4, Some("2.1")));
}

/// V1, D2: an incident is told when it is seen for the first time, after everything else of its commit.
pub async fn a_new_incident_is_told(w: Fixture) {
    dies(&w, 1, TEXT, None).await;
    let events = w.told.take();
    let last = events.last().expect("it was told");
    assert_eq!(
        (&last.what, last.job.is_none()),
        (&EventKind::IncidentOpened { fingerprint: fingerprint(TEXT), kind: "work".into() }, true)
    );
    dies(&w, 2, TEXT, None).await;
    assert_eq!(told_of_incidents(&w), Vec::<&str>::new());
}

async fn notices(w: &Fixture) -> Vec<Notice> {
    let found = w.store.documents(DocumentRange::first(Drawer::Alerts, 100)).await.expect("documents");
    let read = |document: &crate::Document| serde_json::from_str(&document.body).expect("a notice");
    let notices: Vec<Notice> = found.items.iter().map(read).collect();
    for (notice, document) in notices.iter().zip(&found.items) {
        assert_eq!((notice.key(), 1), (document.key.clone(), document.revision));
    }
    notices
}

/// D3, F12: each death leaves a notice, by the same transaction; the same death of the same job within the hour is
/// counted and leaves none, but is told as an event.
pub async fn a_death_is_noticed_once_an_hour(w: Fixture) {
    dies(&w, 1, TEXT, Some("1.2")).await;
    let noticed = notices(&w).await;
    assert_eq!(noticed.len(), 1);
    assert_eq!((noticed[0].job, &*noticed[0].about), (id(1), fingerprint(TEXT).as_str()));
    assert_eq!(
        (noticed[0].error.as_deref(), &noticed[0].envelope["codeVersion"]),
        (Some(TEXT), &"1.2".into())
    );
    let again = async |text: &str| {
        w.operate(id(1), Operation::Retry).await.expect("failed");
        let worker = w.worker(1).await;
        let taken = w.take(worker).await;
        w.finish(&taken, broken(&taken, text, None)).await;
        w.told.names(id(1))
    };
    w.pass(secs(60));
    assert!(again(TEXT).await.contains(&"alert"), "the event is still published");
    assert_eq!(notices(&w).await.len(), 1);
    assert_eq!(w.record(id(1)).await.alert().map(|alert| alert.suppressed), Some(1));
    again("something else").await;
    assert_eq!(notices(&w).await.len(), 2);
    w.pass(secs(3_600));
    again("something else").await;
    assert_eq!(notices(&w).await.len(), 3);
    let w = w.reopen().await;
    assert_eq!(w.record(id(1)).await.alert().map(|alert| alert.at), Some(w.now()), "the mark is stored");
}

/// D3, L19: a job that expired is noticed too, although no run killed it.
pub async fn an_expired_job_is_noticed(w: Fixture) {
    w.submit(job(1).expires(w.now())).await;
    w.pass(secs(1));
    let term = w.leader(Duty::Expire).await;
    w.expire(term, 10).await.expect("the term runs");
    let noticed = notices(&w).await;
    assert_eq!(noticed.iter().map(|notice| &*notice.about).collect::<Vec<_>>(), ["expired"]);
}

/// D3: nothing is put into the drawer when nobody delivers it; the mark is set all the same.
pub async fn without_listeners_nothing_is_noticed(w: Fixture) {
    w.store.observe(Arc::new(ObservedEvents::deaf()));
    dies(&w, 1, TEXT, None).await;
    assert!(notices(&w).await.is_empty());
    assert!(w.record(id(1)).await.alert().is_some());
}

/// D4, D7: a plan's drive leaves its marks, once, and only on the job as the plan saw it.
pub async fn a_plan_drives_a_job_once(w: Fixture) {
    dies(&w, 1, TEXT, None).await;
    let redrive =
        |redrives| Operation::Redrive { plan: PlanId::from_number(7), needs: Some("1.4".into()), redrives };
    assert!(w.operate(id(1), redrive(0)).await.expect("as the plan saw it").changed);
    let record = w.record(id(1)).await;
    assert_eq!((record.state, record.redrives), (State::Pending, 1));
    assert_eq!((record.plan(), record.needs()), (Some(&PlanId::from_number(7)), Some("1.4")));
    assert_eq!(w.operate(id(1), redrive(0)).await.expect_err("it had its turn").code(), "moved_on");
    let w = w.reopen().await;
    assert_eq!(w.record(id(1)).await.needs(), Some("1.4"), "marks are stored");
    let worker = w.worker(1).await;
    let taken = w.take(worker).await;
    assert_eq!(taken.record.needs(), Some("1.4"), "the worker that claims it sees what it needs");
    w.finish(&taken, success(&taken)).await;
    assert_eq!(w.record(id(1)).await.plan(), Some(&PlanId::from_number(7)), "also when it is done");
}

/// F20, D7: surroundings count the workers whose code is new enough.
pub async fn surroundings_know_the_code_it_needs(w: Fixture) {
    dies(&w, 1, TEXT, None).await;
    let versions = [(2, Some("1.3")), (3, Some("1.4")), (4, None)];
    for (number, version) in versions {
        let mut crew = WorkerDraft::new(number);
        crew.0.code_version = version.map(ToOwned::to_owned);
        w.enlist(crew).await;
    }
    let with_code = async || {
        let (_, around) = w.store.surroundings(id(1)).await.expect("surroundings").expect("it is there");
        (around.workers_for_kind, around.workers_with_code)
    };
    assert_eq!(with_code().await, (4, 4));
    let operation =
        Operation::Redrive { plan: PlanId::from_number(7), needs: Some("1.4".into()), redrives: 0 };
    w.operate(id(1), operation).await.expect("failed");
    assert_eq!(with_code().await, (4, 1));
}
