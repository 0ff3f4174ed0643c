//! A worker of the CAF Worker Framework as jobs: its producers and consumers are not changed.
//!
//! Run with `cargo run -p backstop-bridges --example caf -- amqp://127.0.0.1:5672`, with the queues `langdetect-in` and
//! `langdetect-out` on that broker.

use std::error::Error;

use backstop::prelude::*;
use backstop::sinks::SinkTopic;
use backstop_bridges::{BridgeSettings, BridgeSink, CafSettings, SinkSettings, Source, SourceSettings};
use serde_json::{Value, json};

/// What `doWork` was.
#[job(kind = "langdetect")]
async fn langdetect(text: String) -> JobResult<Value> {
    if text.is_empty() {
        // throw new InvalidTaskException("the text is empty")
        return Err(Outcome::invalid("the text is empty").into());
    }
    let lang = if text.contains("bonjour") { "fr" } else { "en" };
    Ok(json!({ "lang": lang }))
}

/// Answers tasks until `done` is.
pub(crate) async fn serve(
    broker: &str,
    store: &str,
    done: impl Future<Output = ()>,
) -> Result<(), Box<dyn Error>> {
    let engine = Backstop::open(store).await?;
    let source = SourceSettings::new("langdetect-in", "langdetect");
    let sink = SinkSettings::new("langdetect-out", [SinkTopic::Results]);
    let settings = BridgeSettings::new(broker, source).with_sink(sink).as_caf(CafSettings::default());
    let sink = BridgeSink::new(&engine, "worker-langdetect", &settings)?.start();
    let source = Source::new(&engine, "worker-langdetect", &settings)?.start();
    let worker = engine.worker(()).register::<Langdetect>().queue("default", 4).start().await?;
    done.await;
    source.stop().await;
    worker.stop().await;
    sink.stop().await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let broker = std::env::args().nth(1).unwrap_or_else(|| "amqp://127.0.0.1:5672".to_owned());
    serve(&broker, "sqlite:langdetect.db", std::future::pending()).await
}
