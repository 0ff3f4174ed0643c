//! How an application tests its jobs. Run it with: cargo run -p backstop-examples --example testing
//!
//! No server, no file, no sleep: the real engine on a store in memory, with a clock that the test moves. The tests
//! below are plain functions too, so that this program can run them one after another.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop::prelude::*;
use backstop::{Cause, State};
use backstop_testing::{TestEngine, assert_enqueued, crash_everywhere, refute_enqueued, run_job};

/// The application: it sends an invoice, and a reminder two weeks later unless it was paid.
struct Shop {
    engine: Backstop,
    outbox: Mutex<Vec<String>>,
}

impl Shop {
    fn on(engine: &Backstop) -> Arc<Self> {
        Arc::new(Self { engine: engine.clone(), outbox: Mutex::default() })
    }

    fn sent(&self) -> Vec<String> {
        self.outbox.lock().expect("no handler panics with it").clone()
    }
}

const TWO_WEEKS: Duration = Duration::from_secs(14 * 24 * 60 * 60);

#[job]
async fn send_invoice(cx: JobContext<Shop>, to: String, cents: i64) -> JobResult {
    if cents <= 0 {
        Err(Outcome::permanent("an invoice is for more than nothing"))?;
    }
    cx.app().outbox.lock().map_err(|_| "the outbox is broken")?.push(format!("invoice to {to}"));
    cx.app().engine.enqueue(Remind { to }).delay(TWO_WEEKS).submit().await?;
    Ok(())
}

#[job]
async fn remind(cx: JobContext<Shop>, to: String) -> JobResult {
    cx.app().outbox.lock().map_err(|_| "the outbox is broken")?.push(format!("reminder to {to}"));
    Ok(())
}

fn invoice(cents: i64) -> SendInvoice {
    SendInvoice { to: "ada".into(), cents }
}

/// One handler by itself, through the whole pipeline.
#[cfg_attr(test, tokio::test)]
async fn a_wrong_amount_is_never_retried() {
    let test = TestEngine::new();
    let run = run_job(Shop::on(test.engine()), invoice(0)).await;
    run.assert_cause(Cause::Permanent);
    assert_eq!(run.state, State::Failed);
    refute_enqueued::<Remind>(test.engine(), |_| true).await;
}

/// What a handler submits.
#[cfg_attr(test, tokio::test)]
async fn an_invoice_plans_its_reminder() {
    let test = TestEngine::new();
    test.run_job(Shop::on(test.engine()), invoice(500)).await.assert_succeeded();
    assert_enqueued::<Remind>(test.engine(), |reminder| reminder.to == "ada").await;
}

/// Days pass in no time.
#[cfg_attr(test, tokio::test)]
async fn the_reminder_comes_after_two_weeks() {
    let test = TestEngine::new();
    let shop = Shop::on(test.engine());
    test.engine().enqueue(invoice(500)).submit().await.expect("admitted");
    let work = || test.drain(shop.clone(), |worker| worker.register::<SendInvoice>().register::<Remind>());
    work().await;
    assert_eq!(shop.sent(), ["invoice to ada"]);
    assert_eq!(test.advance_to_next().await, Some(TWO_WEEKS));
    work().await;
    assert_eq!(shop.sent(), ["invoice to ada", "reminder to ada"]);
}

/// The process dies at each call to its store, and the invoice is sent all the same.
#[cfg_attr(test, tokio::test)]
async fn no_crash_loses_the_invoice() {
    let submit =
        async |engine: &Backstop| engine.enqueue(invoice(500)).idempotency_key("invoice-1").submit().await;
    // C6
    let crashes = crash_everywhere(
        async |engine: Backstop| -> JobResult {
            submit(&engine).await?;
            let worker = engine.worker_sharing(Shop::on(&engine)).register::<SendInvoice>();
            worker.queue("default", 1).inline()?.drain(1).await?;
            Ok(())
        },
        async |test, point| {
            submit(test.engine()).await.expect("admitted");
            let shop = Shop::on(test.engine());
            test.run_to_end(shop.clone(), |worker| worker.register::<SendInvoice>().register::<Remind>())
                .await;
            assert!(shop.sent().contains(&"reminder to ada".to_owned()), "{point}");
        },
    )
    .await;
    println!("the process died at {crashes} places, and the reminder came each time");
    assert!(crashes > 0);
}

#[cfg(not(test))]
#[tokio::main]
async fn main() {
    a_wrong_amount_is_never_retried().await;
    println!("a wrong amount is never retried");
    an_invoice_plans_its_reminder().await;
    println!("an invoice plans its reminder");
    the_reminder_comes_after_two_weeks().await;
    println!("the reminder comes after two weeks, and this took no time");
    no_crash_loses_the_invoice().await;
}
