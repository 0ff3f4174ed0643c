//! Steps that branch and join. Run it with: cargo run -p backstop-examples --example graph
//!
//! A branch is taken by what a step returned, by a predicate that the program knows under a name, or by how a step
//! ended. A join waits for all of the steps before it, or for the first one.

use backstop::EventKind;
use backstop::prelude::*;
use backstop::workflows::StepName;

#[job]
async fn inspect(pages: u32) -> JobResult<u32> {
    Ok(pages)
}

#[job]
async fn print_fast() {
    println!("print it on the fast machine");
}

#[job]
async fn print_in_color() {
    println!("print it in color");
}

#[job]
async fn bind() {
    println!("bind it");
}

/// What the last step returns.
const PACKED: StepName<String> = StepName::new("pack");

#[job]
async fn pack(cx: JobContext<()>) -> JobResult<String> {
    println!("pack it, bound: {}", cx.inputs().contains_key("bind"));
    Ok("parcel 7".to_owned())
}

/// Follows all of it, and is given what that came to.
#[job]
async fn send(cx: JobContext<()>) -> JobResult {
    println!("send {}", cx.input(PACKED)?);
    Ok(())
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("memory:").await?;
    let mut book = engine.workflow("book").on_success(&Send {});
    let inspect = book.step("inspect", engine.enqueue(Inspect { pages: 400 })).add();
    // Of these two only the first one runs whose condition holds; without `first_match` all would.
    book.first_match(&inspect);
    let fast =
        book.step("fast", engine.enqueue(PrintFast {})).after(&inspect).when_predicate("is long").add();
    let color = book.step("color", engine.enqueue(PrintInColor {})).after(&inspect).when_result("", 12).add();
    let bind = book.step("bind", engine.enqueue(Bind {})).after(&fast).after(&color).join_any().add();
    book.step(PACKED, engine.enqueue(Pack {})).after(&bind).add();
    let book = book.submit().await?;

    let mut events = engine.events();
    let worker =
        engine.worker(()).register_all().predicate("is long", |pages: u32| async move { Ok(pages > 300) });
    worker.queue("default", 4).inline()?.drain(20).await?;
    while let Some(event) = events.try_next() {
        if let EventKind::BranchTaken { step, .. } = &event.what {
            println!("the branch `{step}` was taken");
        }
    }
    let seen = engine.workflows().get(book.id).await?.ok_or("it is stored")?;
    println!("{}: {} steps ran, {} did not", seen.status, seen.counts.succeeded, seen.counts.canceled);
    Ok(())
}
