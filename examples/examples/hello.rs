// The smallest whole program. Run it with: cargo run -p backstop-examples --example hello
use backstop::prelude::*;

#[job]
async fn greet(name: String) {
    println!("hello {name}");
}

#[tokio::main]
async fn main() -> JobResult {
    let engine = Backstop::open("sqlite:hello.db").await?;
    engine.enqueue(Greet { name: "world".into() }).submit().await?;
    engine.worker(()).register_all().queue("default", 4).inline()?.drain(100).await?;
    Ok(())
}
