//! A queue of daycry/jobs, run by Backstop: `Jobs::define(...)->dispatch()` stays as it is.
//!
//! Run with `JOBS_SIGNING_KEY=… cargo run -p backstop-bridges --example daycry -- beanstalk://127.0.0.1:11300`.

use std::collections::BTreeMap;
use std::error::Error;

use backstop::prelude::*;
use backstop_bridges::{BridgeSettings, DaycrySettings, Source, SourceSettings};

/// What the handler `import_users` was.
#[job(kind = "import")]
async fn import(file: String) -> JobResult<String> {
    Ok(format!("imported {file}"))
}

/// Runs jobs of the tube `default` until `done` is.
pub(crate) async fn serve(
    broker: &str,
    store: &str,
    keys: Vec<String>,
    done: impl Future<Output = ()>,
) -> Result<(), Box<dyn Error>> {
    let engine = Backstop::open(store).await?;
    let mut daycry = DaycrySettings::signed_by(keys);
    daycry.handlers = BTreeMap::from([("import_users".to_owned(), "import".to_owned())]);
    let settings = BridgeSettings::new(broker, SourceSettings::new("default", "import")).as_daycry(daycry);
    let source = Source::new(&engine, "php", &settings)?.start();
    let worker = engine.worker(()).register::<Import>().queue("default", 4).start().await?;
    done.await;
    source.stop().await;
    worker.stop().await;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let broker = std::env::args().nth(1).unwrap_or_else(|| "beanstalk://127.0.0.1:11300".to_owned());
    // Without a key of its own, it is that of the variable JOBS_SIGNING_KEY.
    serve(&broker, "sqlite:php.db", Vec::new(), std::future::pending()).await
}
