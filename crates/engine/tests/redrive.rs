//! Re-drive plans through the engine: on the model store, with a clock that the test moves (D4, D7).

#[path = "redrive/frail.rs"]
mod frail;
#[path = "redrive/scenario.rs"]
mod scenario;
#[path = "redrive/stage.rs"]
mod stage;

#[path = "redrive/growth.rs"]
mod growth;
#[path = "redrive/interface.rs"]
mod interface;
#[path = "redrive/job_lists.rs"]
mod job_lists;
#[path = "redrive/kills.rs"]
mod kills;

#[tokio::test(start_paused = true)]
async fn five_thousand_jobs_of_one_bug_are_driven_and_forty_of_another_are_not() {
    // D4
    let store = stage::in_tokio_time();
    scenario::five_thousand_and_forty(store, async || {
        tokio::time::advance(std::time::Duration::from_millis(50)).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
