//! Signals as the command line sends and lists them (W10).

use backstop::JobId;
use backstop::prelude::*;

use crate::program::{Program, on_engine};

/// Waits until somebody approves it.
#[derive(Serialize, Deserialize)]
struct Approve {
    order: u32,
}

impl Job for Approve {
    const KIND: &'static str = "approve";
    type Context = ();
    type Output = JobResult<Option<String>>;

    async fn run(self, cx: JobContext<()>) -> JobResult<Option<String>> {
        Ok(cx.signal(format!("order-{}/approved", self.order)).await?.received())
    }
}

/// Runs what is to be run.
async fn work(engine: &Backstop) {
    let worker = engine.worker(()).register::<Approve>().queue("default", 1).inline().expect("a worker");
    worker.drain(10).await.expect("it runs");
}

fn waiting(program: &Program, orders: &[u32]) -> Vec<JobId> {
    on_engine(program, async |engine| {
        let mut ids = Vec::new();
        for order in orders {
            ids.push(engine.enqueue(Approve { order: *order }).submit().await.expect("stored").id);
        }
        work(&engine).await;
        ids
    })
}

#[test]
fn a_signal_is_sent_to_those_who_wait_or_kept() {
    // W10
    let program = Program::new();
    let ids = waiting(&program, &[7, 7, 8]);
    program.run(&["signal", "list"]).exits(0).says(&[
        "KEY",
        "order-7/approved",
        "waited for",
        &ids[0].to_string(),
    ]);
    let send = ["signal", "send", "order-7/approved", "--payload", r#""ann""#, "--id", "mail-1"];
    program.run(&send).exits(0).says(&["signal `order-7/approved` sent: 2 jobs go on"]);
    let again = program.run(&[&send[..], &["--json"]].concat()).exits(0).json();
    assert_eq!((&again["delivered"], &again["kept"]), (&2.into(), &false.into()), "the same one again");
    program.run(&["signal", "send", "order-8/approved"]).exits(0).says(&["sent: 1 job goes on"]);
    let early = ["signal", "send", "order-9/approved", "--payload", r#"{"by": "bob"}"#];
    program
        .run(&early)
        .exits(0)
        .says(&["no job waits for `order-9/approved`", "kept for the first that will"]);
    let listed = program.run(&["signal", "list", "--json"]).exits(0).json();
    let items = listed["items"].as_array().expect("a list");
    assert_eq!(items.len(), 1, "nobody waits any more: {listed}");
    assert_eq!((&items[0]["key"], &items[0]["state"]), (&"order-9/approved".into(), &"kept".into()));
    on_engine(&program, async |engine| work(&engine).await);
    program.run(&["job", "show", &ids[0].to_string()]).exits(0).says(&["succeeded"]);
}

#[test]
fn what_no_signal_can_bring_is_refused_in_words() {
    // W10
    let program = Program::new();
    waiting(&program, &[]);
    program
        .run(&["signal", "send", "approved", "--payload", "yes"])
        .exits(2)
        .tells(&["the payload is not valid JSON", "quote texts twice"]);
    program.run(&["signal", "send", ""]).exits(3).tells(&["signal is invalid: it is empty"]);
    program.run(&["signal", "list"]).exits(0).says(&["no job waits for a signal, and none is kept"]);
}
