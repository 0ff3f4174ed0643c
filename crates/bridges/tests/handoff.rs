//! Hand-off from one engine to another over HTTP, on every store (B7, B8).
//!
//! The receiver is a real server. What a real one never answers is played by a small server of the test's own.
#![allow(missing_docs, reason = "a test")]

#[path = "handoff/cases.rs"]
mod cases;
#[path = "handoff/encrypted.rs"]
mod encrypted;
#[path = "handoff/log.rs"]
mod log;
#[path = "handoff/played.rs"]
mod played;
#[path = "handoff/stage.rs"]
mod stage;
#[path = "handoff/stores.rs"]
mod stores;
#[allow(dead_code, reason = "its `main` is not called")]
#[path = "../examples/tpf.rs"]
mod tpf;

use stage::StorePair;

async fn everything(stores: StorePair) {
    cases::each_success_is_one_job_there(&stores).await;
    cases::a_key_that_was_seen_is_suppressed_and_counted(&stores).await;
    cases::pressure_is_backlog_and_nothing_else(&stores).await;
    cases::a_refusal_stops_one_hand_off_until_a_person_lets_it_go_on(&stores).await;
    cases::a_wrong_token_stops_it_and_a_right_one_starts_it(&stores).await;
    cases::a_publication_is_signed(&stores).await;
    cases::a_tenant_s_jobs_stay_a_tenant_s(&stores).await;
    cases::one_process_publishes_at_a_time(&stores).await;
    cases::what_is_sealed_is_opened_by_who_has_the_keys(&stores).await;
}

#[tokio::test]
async fn in_memory() {
    // B7
    stores::in_memory(everything).await;
}

#[tokio::test]
async fn on_sqlite() {
    // B7
    stores::on_sqlite("handoff", everything).await;
}

#[tokio::test]
async fn on_postgres() {
    // B7
    stores::on_postgres("handoff", everything).await;
}

#[tokio::test]
async fn on_mysql() {
    // B7
    stores::on_mysql("handoff", everything).await;
}

#[tokio::test]
async fn the_example_of_the_pipeline_framework_hands_its_checkpoints_off() {
    // B7, B8, F6, W1, W9
    let played = tokio::time::timeout(std::time::Duration::from_secs(60), tpf::play()).await;
    assert_eq!(
        played.expect("in time").expect("it plays"),
        [
            "november again: the same execution, true",
            "rejected item \"n/a\": invalid digit found in string",
            "checkpoints: 1 admitted, 1 suppressed",
            "there: \"november.csv: goods for 1000 cents\"",
            "december: failed after 1 run, non_retryable",
        ]
    );
}
