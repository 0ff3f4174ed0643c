//! A process that is killed after the commit of a job and before the acknowledgement of its message (B1, C6).
//!
//! The process is this test again, with variables that say so. It says what it has stored and goes no further, so that
//! it is killed at that point and at no other.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use backstop::{Backstop, Config};
use backstop_bridges::{BridgeSettings, Source, SourceSettings};
use backstop_core::Refusal;
use backstop_store::{Answer, Layer, Store, Submit, Submitted};
use backstop_testbed::Folder;

use crate::stage::{Stage, TestEngine, eventually, soon, times};

/// What makes this test a process that is killed: the URL of its store, and the settings of its bridge.
const CHILD_STORE: &str = "BACKSTOP_BRIDGE_KILLED_STORE";
const CHILD_SETTINGS: &str = "BACKSTOP_BRIDGE_KILLED_SETTINGS";

/// What its lines begin with, and what it tells: a new job is stored; a message was a job already.
const MARK: &str = "killed-source: ";
const STORED: &str = "stored";
const KNOWN: &str = "known";

/// Some brokers keep what a consumer holds under the name of its node: the next process takes it up again.
const NODE: &str = "killed";

/// A store that answers no submit which has stored a job.
struct HaltingStore {
    below: Arc<dyn Store>,
}

impl Layer for HaltingStore {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    fn submit(&self, submit: Submit) -> Answer<'_, Vec<Result<Submitted, Refusal>>> {
        Box::pin(async move {
            let payloads: Vec<String> = submit.jobs.iter().map(|job| job.spec.payload.to_string()).collect();
            let answers = self.below.submit(submit).await?;
            let mut has_stored = false;
            for (payload, answer) in payloads.iter().zip(&answers) {
                let known = answer.as_ref().expect("every message can be a job").deduplicated;
                let told = if known { KNOWN } else { STORED };
                // Not captured by the test harness, which knows `println` alone.
                writeln!(std::io::stdout(), "{MARK}{told} {payload}").expect("somebody reads");
                has_stored |= !known;
            }
            if has_stored {
                std::future::pending::<()>().await;
            }
            Ok(answers)
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed() {
    // B1, C6: nothing is tested unless another test has started it.
    let (Ok(url), Ok(settings)) = (std::env::var(CHILD_STORE), std::env::var(CHILD_SETTINGS)) else { return };
    let settings: BridgeSettings = toml::from_str(&settings).expect("good settings");
    let below = Backstop::open(&url).await.expect("a store").store().clone();
    let engine = Backstop::on(Arc::new(HaltingStore { below }), Config::default().node(NODE));
    let source = Source::new(&engine, "orders", &settings).expect("good settings").times(times());
    let handle = source.start();
    // Nobody has killed it if this ends.
    soon("the end of this process", handle.until(|_| false)).await;
}

/// A process with a source. It is killed when this goes away.
struct SourceProcess(Child);

impl SourceProcess {
    fn start(url: &str, settings: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("a running program has a path"));
        command.args(["--exact", "killed::a_process_that_is_killed"]);
        command.env(CHILD_STORE, url).env(CHILD_SETTINGS, settings);
        // Keys of SQS, which settings do not show again.
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts"))
    }

    /// Waits until it has stored a job and answers the payload of that. What was a job already goes to `known`.
    fn stored(&mut self, known: &mut BTreeSet<String>) -> String {
        let stdout = self.0.stdout.take().expect("it is piped");
        for line in BufReader::new(stdout).lines() {
            let line = line.expect("text");
            // The harness may have begun the line.
            let Some((_, told)) = line.split_once(MARK) else { continue };
            match told.split_once(' ') {
                Some((STORED, payload)) => return payload.to_owned(),
                Some((KNOWN, payload)) => {
                    known.insert(payload.to_owned());
                }
                _ => panic!("it says {told}"),
            }
        }
        panic!("the process ended before it stored a job");
    }
}

impl Drop for SourceProcess {
    fn drop(&mut self) {
        // SIGKILL: the system closes its connections, and nothing of it runs any more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The settings of the process, as text: one message at a time.
fn child_settings(stage: &Stage, queue: &str) -> String {
    let url = stage.server.url();
    let settings = BridgeSettings::new(url.clone(), SourceSettings::new(queue, "charge"));
    let settings = stage.server.settings(settings);
    let hold = settings.source.as_ref().and_then(|source| source.hold);
    let lines = [
        Some(format!("broker = \"{url}\"")),
        settings.region.as_ref().map(|region| format!("region = \"{region}\"")),
        Some(format!("[source]\nqueue = \"{queue}\"\nkind = \"charge\"\nprefetch = 1")),
        hold.map(|hold| format!("hold = \"{}ms\"", hold.as_millis())),
    ];
    lines.into_iter().flatten().collect::<Vec<String>>().join("\n")
}

/// B1, C6: a hundred processes are killed, each right after it stored the job of a message and before it acknowledged
/// that message. Each of the hundred messages is one job, comes again, and is known then.
pub(crate) async fn a_hundred_processes_are_killed_before_the_ack(stage: &Stage) {
    const TIMES: usize = 100;
    let folder = Folder::new("bridge-killed").expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let engine = TestEngine::at(&url, Config::default().node(NODE), folder).await;
    let queue = stage.queue();
    let bodies: BTreeSet<String> = (0..TIMES).map(|number| format!("{{\"n\":{number}}}")).collect();
    stage.publish(&queue, bodies.iter().cloned()).await;
    let settings = child_settings(stage, &queue);
    let (mut stored, mut known) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..TIMES {
        let mut process = SourceProcess::start(&url, &settings);
        let payload = tokio::task::block_in_place(|| process.stored(&mut known));
        assert!(stored.insert(payload), "in round {round} a message was a job already");
    }
    assert_eq!(stored, bodies);
    let payloads = engine.payloads().await;
    assert_eq!((payloads.len(), payloads.into_iter().collect::<BTreeSet<_>>()), (TIMES, bodies.clone()));
    // Whatever was not acknowledged is still there, and becomes no second job.
    let handle = stage.start(&engine, SourceSettings::new(&queue, "charge").prefetch(10));
    let come_again = || {
        let here = engine.faults.known.lock().expect("no panic");
        bodies.iter().all(|body| known.contains(body) || here.contains(body))
    };
    eventually(&handle, come_again).await;
    soon("an empty queue", async {
        while stage.depth(&queue).await > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let status = handle.status();
    assert_eq!((status.admitted, status.invalid), (0, 0), "{status:?}");
    handle.stop().await;
    assert_eq!(engine.payloads().await.len(), TIMES);
}
