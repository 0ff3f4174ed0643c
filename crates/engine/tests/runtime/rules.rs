//! Failure rules at run time: added while workers run, followed by the next failure, named by the ledger.

use std::time::Duration;

use backstop::prelude::*;
use backstop::rule::RuleProblem;
use backstop::{Cause, TerminalReason, Timestamp};
use backstop_core::failure::{Rule, RuleAction, RuleMatch};
use backstop_core::job::State;
use backstop_store::{Amend, Drawer, Edit, Expect, JobFilter};

use crate::fixture::*;

fn rule(id: &str, matches: RuleMatch, action: RuleAction) -> Rule {
    Rule {
        id: id.parse().expect("a slug"),
        note: String::new(),
        matches,
        action,
        enabled: true,
        position: 0,
        created_at: Timestamp::EPOCH,
        created_by: "ann".to_owned(),
    }
}

fn about(text: &str) -> RuleMatch {
    RuleMatch { text: Some(text.to_owned()), ..RuleMatch::default() }
}

async fn decided_by(engine: &Backstop, job: backstop::JobId, run: usize) -> Option<String> {
    let row = ledger(engine, job).await.remove(run);
    row.decision.expect("a failure is decided").rule_id().map(ToOwned::to_owned)
}

#[tokio::test(start_paused = true)]
async fn a_permanent_rule_ends_the_job_at_once_and_is_named() {
    // F18, F20
    let engine = engine();
    engine
        .rules()
        .add(&rule("no-cheese", about("plain trouble"), RuleAction::Permanent))
        .await
        .expect("valid");
    let id = play(&engine, &["error"], quick(), State::Failed).await;
    let view = detail(&engine, id).await.view;
    assert_eq!((view.record.reason, view.record.attempt), (Some(TerminalReason::NonRetryable), 1));
    assert_eq!(decided_by(&engine, id, 0).await.as_deref(), Some("no-cheese"));
    let (_, explanation) = engine.explain(id).await.expect("the model is there").expect("the job is there");
    assert!(explanation.because.contains("Failure rule `no-cheese`"), "{}", explanation.because);
}

#[tokio::test(start_paused = true)]
async fn a_retry_rule_overrules_what_code_says() {
    // F18
    let engine = engine();
    let delay = Some(Duration::from_secs(7));
    let action = RuleAction::Retry { max_retries: Some(2), backoff: None, delay };
    engine.rules().add(&rule("again", about("it cannot work"), action)).await.expect("valid");
    let id = play(&engine, &["permanent"], quick(), State::Failed).await;
    let rows = ledger(&engine, id).await;
    assert_eq!(rows.len(), 3, "two retries although the code says permanent");
    assert!(rows[1].due_at.since(rows[0].finished_at) >= Duration::from_secs(7));
    assert_eq!(decided_by(&engine, id, 0).await.as_deref(), Some("again"));
}

#[tokio::test(start_paused = true)]
async fn a_transient_rule_charges_nothing() {
    // F18, F3
    let engine = engine();
    let action = RuleAction::Transient { delay: Some(Duration::from_secs(3)) };
    engine.rules().add(&rule("down", about("plain"), action)).await.expect("valid");
    let id = play(&engine, &["error", "error", "ok"], quick().retries(0), State::Succeeded).await;
    let rows = ledger(&engine, id).await;
    assert_eq!(
        rows.iter().map(|row| row.cause).collect::<Vec<_>>(),
        [Cause::Rejected, Cause::Rejected, Cause::Succeeded]
    );
    assert_eq!(detail(&engine, id).await.view.record.attempt, 0);
}

#[tokio::test(start_paused = true)]
async fn a_pausing_rule_stops_the_queue_and_loses_nothing() {
    // F18, F20
    let engine = engine();
    engine.rules().add(&rule("stop", about("plain"), RuleAction::PauseQueue)).await.expect("valid");
    let id = engine.enqueue(act(&["error", "ok"])).policy(quick()).submit().await.expect("admitted").id;
    let running = worker(&engine).start().await.expect("the model is there");
    pass(60).await;
    assert_eq!(ledger(&engine, id).await.len(), 1, "nothing runs on a paused queue");
    let (_, explanation) = engine.explain(id).await.expect("the model is there").expect("the job is there");
    assert!(explanation.because.contains("is paused by failure rule `stop`"), "{}", explanation.because);
    engine.queues().resume("default").await.expect("the model is there");
    reach(&engine, id, State::Succeeded).await;
    assert_eq!(detail(&engine, id).await.view.record.attempt, 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rule_added_meanwhile_decides_the_next_failure() {
    // F18: no restart, and a second process learns of it within a second.
    let engine = engine();
    let other = Backstop::on(engine.store().clone(), backstop::Config::default());
    let id = engine.enqueue(act(&["error"])).policy(quick()).submit().await.expect("admitted").id;
    let running = worker(&engine).start().await.expect("the model is there");
    pass(2).await;
    assert_eq!(state(&engine, id).await, State::Pending);
    other.rules().add(&rule("now", about("plain"), RuleAction::Permanent)).await.expect("valid");
    reach(&engine, id, State::Failed).await;
    let rows = ledger(&engine, id).await;
    assert!(rows.len() < 6, "before its retries were used up");
    assert_eq!(decided_by(&engine, id, rows.len() - 1).await.as_deref(), Some("now"));
    assert_eq!(decided_by(&engine, id, 0).await, None);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn rules_are_asked_in_order_and_disabled_ones_are_not() {
    // F18
    let engine = engine();
    let second = Rule { position: 2, ..rule("a-second", about("plain"), RuleAction::Permanent) };
    let first =
        Rule { position: 1, ..rule("b-first", about("plain"), RuleAction::Transient { delay: None }) };
    for rule in [&second, &first] {
        engine.rules().add(rule).await.expect("valid");
    }
    let ids: Vec<_> =
        engine.rules().list().await.expect("listed").iter().map(|rule| rule.id.to_string()).collect();
    assert_eq!(ids, ["b-first", "a-second"]);
    assert!(!engine.rules().enable(&first.id, false).await.expect("it exists").enabled);
    let id = play(&engine, &["error"], quick(), State::Failed).await;
    assert_eq!(decided_by(&engine, id, 0).await.as_deref(), Some("a-second"));
    engine.rules().remove(&second.id).await.expect("it exists");
    let gone = engine.rules().remove(&second.id).await.expect_err("it is gone");
    assert!(matches!(gone, RuleProblem::Unknown(_)), "{gone}");
    let twice = engine.rules().add(&first).await.expect_err("its name is taken");
    assert!(matches!(twice, RuleProblem::Exists(_)), "{twice}");
    let never = engine.rules().add(&rule("never", RuleMatch::default(), RuleAction::Permanent)).await;
    assert!(matches!(never.expect_err("it says nothing"), RuleProblem::Invalid(_)));
}

#[tokio::test(start_paused = true)]
async fn a_rule_is_tried_on_the_past_and_changes_nothing() {
    // F18
    let engine = engine();
    let dead = play(&engine, &["error"], quick().retries(0), State::Failed).await;
    play(&engine, &["ok"], quick(), State::Succeeded).await;
    play(&engine, &["invalid"], quick(), State::Failed).await;
    let before = engine.rules().list().await.expect("listed");
    let tried = rule("try", about("plain"), RuleAction::Permanent);
    let rehearsal = engine.rules().rehearse(&tried, JobFilter::default(), 100).await.expect("valid");
    assert_eq!((rehearsal.looked_at, rehearsal.matched.len()), (2, 1));
    assert_eq!((rehearsal.matched[0].job, rehearsal.matched[0].decided.as_str()), (dead, "dead"));
    assert_eq!(engine.rules().list().await.expect("listed"), before);
    let bounded = engine.rules().rehearse(&tried, JobFilter::default(), 1).await.expect("valid");
    assert_eq!((bounded.looked_at, bounded.matched.len()), (1, 0), "the newest first");
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_cannot_be_read_harms_nothing() {
    // F18
    let engine = engine();
    let edit = |key: &str, body: &str| Edit {
        drawer: Drawer::Rules,
        key: key.to_owned(),
        expect: Expect::Any,
        body: Some(body.into()),
    };
    let edits = vec![edit("bad", "{nonsense"), edit("odd", "[]")];
    engine.store().amend(Amend { edits, ..Amend::default() }).await.expect("amend");
    engine.rules().add(&rule("good", about("plain"), RuleAction::Permanent)).await.expect("valid");
    let id = play(&engine, &["error"], quick(), State::Failed).await;
    assert_eq!(decided_by(&engine, id, 0).await.as_deref(), Some("good"));
}

#[tokio::test(start_paused = true)]
async fn a_crash_can_be_ruled_too() {
    // F18, C1
    let engine = engine();
    let matches = RuleMatch { cause: Some(Cause::Crash), ..RuleMatch::default() };
    engine.rules().add(&rule("no-second-try", matches, RuleAction::Permanent)).await.expect("valid");
    let id = engine.enqueue(act(&["hang"])).policy(quick()).submit().await.expect("admitted").id;
    let running = worker(&engine).start().await.expect("the model is there");
    reach(&engine, id, State::Running).await;
    // A process that is gone says nothing any more.
    engine.store().retire(detail(&engine, id).await.view.worker().expect("held")).await.expect("retire");
    reach(&engine, id, State::Failed).await;
    assert_eq!(decided_by(&engine, id, 0).await.as_deref(), Some("no-second-try"));
    running.stop().await;
}
