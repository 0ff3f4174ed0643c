//! Durable steps and effects as the command line tells them (W7, W8).

use backstop::JobId;
use backstop::prelude::*;

use crate::program::{Program, on_engine};

/// Packs, and loses the answer of a call to the outside.
#[derive(Serialize, Deserialize)]
struct Ship {}

impl Job for Ship {
    const KIND: &'static str = "ship";
    type Context = ();
    type Output = JobResult;

    async fn run(self, cx: JobContext<()>) -> JobResult {
        cx.step("pack", || async { JobResult::Ok("secret contents".to_owned()) }).await?;
        cx.effect("send", "parcel-7", || async { Err::<(), _>("no answer came") }).await?;
        Ok(())
    }
}

fn shipped(program: &Program) -> JobId {
    on_engine(program, async |engine| {
        let id = engine.enqueue(Ship {}).max_retries(0).submit().await.expect("stored").id;
        let worker = engine.worker(()).register::<Ship>().queue("default", 1).inline().expect("a worker");
        worker.drain(10).await.expect("it runs");
        id
    })
}

#[test]
fn steps_are_named_with_their_state_wherever_a_job_is_told() {
    // W7, W8, D1, D4
    let program = Program::new();
    let id = shipped(&program).to_string();
    let done = "step `pack` at index 0 is done: run 1 stored its result";
    let unknown = "effect `send` with key `parcel-7` at index 1 is unknown: run 1 began it";
    let shown = program.run(&["job", "show", &id]).exits(0).says(&[done, unknown]);
    assert!(!shown.stdout.contains("secret contents"), "{}", shown.stdout);
    let find_out = "find out whether effect `send` with key `parcel-7` happened";
    program.run(&["job", "explain", &id]).exits(0).says(&[done, unknown, find_out]);
    let json = program.run(&["job", "show", &id, "--json"]).exits(0).json();
    assert_eq!((&json["steps"][0]["state"], &json["steps"][1]["state"]), (&"done".into(), &"unknown".into()));
    program.run(&["dead", "show", &id, "--envelope"]).exits(0).says(&[&format!("{id}:1:1")]);
    let dry = ["redrive", "plan", "--kind", "ship", "--dry-run"];
    let told = format!("job {id}: effect `send` with key `parcel-7` may have happened");
    program.run(&dry).exits(0).says(&[&told]);
    let survey = program.run(&[&dry[..], &["--json"]].concat()).exits(0).json();
    assert_eq!(survey["survey"]["unknown_effects"][0]["key"], "parcel-7");
}
