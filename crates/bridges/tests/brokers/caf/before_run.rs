//! Tasks that waited in the store: whether anybody still wants them is asked before they run (B3).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use backstop::Config;
use backstop_bridges::CafSettings;
use backstop_core::job::State;
use backstop_store::{JobFilter, PageRequest};

use super::wire::{CafWire, changing_service, tracked};
use super::{queues, run, start, text};
use crate::stage::{TestEngine, until};

#[tokio::test(flavor = "multi_thread")]
async fn caf_a_task_whose_job_ends_while_it_waits_is_discarded() {
    // B3: gone and over are discarded, and who cannot be reached has called nothing off.
    let (wire, engine) = (CafWire::start().await, TestEngine::new(Config::default()).await);
    queues(&wire).await;
    let word = Arc::new(Mutex::new(Some("Active")));
    let (service, asked) = changing_service(&word).await;
    let mut caf = CafSettings::default();
    caf.status_hosts.insert("127.0.0.1".to_owned());
    let bridge = start(&wire, &engine, caf);
    let says = |said| *word.lock().expect("no panic") = said;
    let later = [Some("Gone"), Some("Cancelled"), Some("Waiting"), None];
    for (count, said) in (1..).zip(later) {
        says(Some("Active"));
        wire.produce("lang-in", &tracked(&format!("{count}"), "fr", "lang-in", &service), &[], 0).await;
        let status = until(&bridge.source, |status| status.acked == count).await;
        assert_eq!(status.admitted, count, "it is wanted when it comes");
        says(said);
        run(&engine).await;
    }
    let request = PageRequest { limit: 10, after: None };
    let jobs = engine.engine.jobs(JobFilter::default(), request).await.expect("there").items;
    let ends: Vec<_> = jobs
        .iter()
        .rev()
        .map(|job| (job.record.state, job.record.attempt, job.record.cancel_reason.as_deref()))
        .collect();
    assert_eq!(
        ends[..2],
        [(State::Canceled, 0, Some("its job does not exist")), (State::Canceled, 0, Some("its job is over")),]
    );
    assert!(ends[2..].iter().all(|(state, ..)| *state == State::Succeeded), "{ends:?}");
    assert_eq!((bridge.source.status().discarded, asked.load(Ordering::SeqCst)), (2, 8));
    let heard = wire.consume("lang-out", 2).await;
    let mut ids: Vec<&str> = heard.iter().map(|one| text(&one.task["taskId"])).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["3", "4"], "nobody is told of what nobody wants");
    bridge.stop().await;
}
