//! Rejected items as the command line tells them (W9).

use backstop::JobId;
use backstop::prelude::*;
use backstop::rejects::NewReject;
use serde_json::json;

use crate::program::{Program, on_engine};
use crate::server::Serving;

/// Rejects three of its ten rows, one of them with the row.
#[derive(Serialize, Deserialize)]
struct Import {}

impl Job for Import {
    const KIND: &'static str = "import";
    type Context = ();
    type Output = JobResult;

    async fn run(self, cx: JobContext<()>) -> JobResult {
        cx.saw(10);
        cx.reject_many([(1, "row 1 has no name"), (2, "row 2 has no name")]).await?;
        let kept = NewReject::new(&serde_json::json!({ "password": "hunter2" }), "a strange row").keep_item();
        cx.reject_with(kept).await?;
        Ok(())
    }
}

fn imported(program: &Program) -> JobId {
    on_engine(program, async |engine| {
        let id = engine.enqueue(Import {}).submit().await.expect("stored").id;
        let worker = engine.worker(()).register::<Import>().queue("default", 1).inline().expect("a worker");
        worker.drain(10).await.expect("it runs");
        id
    })
}

#[test]
fn rejects_are_listed_counted_shown_and_exported() {
    // W9
    let program = Program::new();
    let id = imported(&program).to_string();
    let told = format!("3 of 10 items in run 1, 3 stored: backstop reject list --job {id}");
    program.run(&["job", "show", &id]).exits(0).says(&[&told]);
    let listed =
        program.run(&["reject", "list", "--job", &id]).exits(0).says(&["row 1 has no name", "a strange row"]);
    assert!(!listed.stdout.contains("hunter2"), "{}", listed.stdout);
    let groups = program.run(&["reject", "list", "--groups", "--json"]).exits(0).json();
    let groups = groups["items"].as_array().expect("a list").clone();
    let group = groups.iter().find(|group| group["items"] == 2).expect("rows without a name");
    let fingerprint = group["fingerprint"].as_str().expect("a text");
    program
        .run(&["reject", "show", fingerprint])
        .exits(0)
        .says(&["2, 2 of them stored now", "row 2 has no name"]);
    program.run(&["reject", "show", "0123456789abcdef"]).tells(&["no rejected item with the fingerprint"]);
    let all = program.run(&["reject", "export"]).exits(0);
    assert_eq!(all.stdout.lines().count(), 3, "{}", all.stdout);
    assert!(all.stdout.contains("hunter2"), "an export is in the clear: {}", all.stdout);
    let some = program.run(&["reject", "export", "--fingerprint", fingerprint]).exits(0);
    assert_eq!(some.stdout.lines().count(), 2, "{}", some.stdout);
}

#[test]
fn what_the_file_says_of_rejects_holds_for_workers_elsewhere() {
    // W9
    let program = Program::new();
    program.write(
        "backstop.toml",
        "[rejects]\nsink = 'log'\non_sink_failure = 'continue'\nkeep_items = true\nmax_rejects = 1\n",
    );
    let mut server = Serving::start(&program, &["up", "--no-worker", "--listen", "127.0.0.1:0"]);
    server.says("rejects of items go to a sink that is not durable: they may be lost");
    let id = program.enqueue(&["import", "{}"]);
    let ask = json!({ "worker": "w", "queues": ["default"], "kinds": ["import"] });
    let lease = server.post("/api/v1/work/claim", &ask)["jobs"][0]["lease"]["token"].clone();
    let row = |number: u32| json!({ "error": "no name", "item": { "row": number, "password": "hunter2" } });
    let body = json!({ "lease": lease, "items": [row(1), row(2)], "seen": 10 });
    let answer = server.post("/api/v1/work/reject", &body);
    assert_eq!(answer["over_limit"], "the run has rejected 2 items, and its limit is 1", "{answer}");
    let said = server.says("an item was rejected");
    assert!(said.contains(&format!("job={id}")) && !said.contains("hunter2"), "{said}");
    let listed = program.run(&["reject", "list", "--job", &id, "--json"]).exits(0).json();
    assert_eq!(listed["items"], json!([]));
    program.run(&["doctor"]).says(&["rejects of items go to `log`, which is not durable"]);
}
