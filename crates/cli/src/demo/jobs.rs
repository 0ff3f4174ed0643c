//! The kinds of the demo. Each handler is what an application would write, and ends in its own way.

use std::time::Duration;

use backstop::prelude::*;
use backstop::rejects::NewReject;
use backstop_kinds::Kinds;
use tokio::time::sleep;

/// The text of the panic that the demo plans.
pub(super) const PLANNED_PANIC: &str = "index out of bounds: the image has no pixels";

/// Works for `steps` steps and says how far it is.
async fn work(cx: &JobContext<Kinds>, steps: u8, note: &str) -> JobResult {
    for step in 1..=steps {
        sleep(Duration::from_millis(450)).await;
        cx.progress(step.saturating_mul(100) / steps.max(1), note).await?;
    }
    Ok(())
}

/// Ends well at once.
#[derive(Serialize, Deserialize)]
pub(super) struct SendReceipt {
    pub(super) to: String,
}

impl Job for SendReceipt {
    const KIND: &'static str = "demo.send_receipt";
    type Context = Kinds;
    type Output = JobResult<serde_json::Value>;
    async fn run(self, cx: JobContext<Kinds>) -> JobResult<serde_json::Value> {
        cx.log(format!("writing to {}", self.to));
        work(&cx, 4, "sending").await?;
        Ok(serde_json::json!({ "accepted": true, "message_id": cx.effect_key() }))
    }
}

/// Fails by an ordinary error, then succeeds.
#[derive(Serialize, Deserialize)]
pub(super) struct CallPartner {
    pub(super) fails: u32,
}

impl Job for CallPartner {
    const KIND: &'static str = "demo.call_partner";
    type Context = Kinds;
    type Output = JobResult;
    async fn run(self, cx: JobContext<Kinds>) -> JobResult {
        cx.log(format!("calling, attempt {}", cx.attempt()));
        work(&cx, 1, "calling").await?;
        if cx.attempt() <= self.fails {
            return Err("the partner answered 500 to request 0f3a77c2".into());
        }
        Ok(())
    }
}

/// Fails until its attempts are used up; its error holds a password that is never stored.
#[derive(Serialize, Deserialize)]
pub(super) struct SyncStock {
    pub(super) warehouse: u32,
}

impl Job for SyncStock {
    const KIND: &'static str = "demo.sync_stock";
    type Context = Kinds;
    type Output = JobResult;
    async fn run(self, cx: JobContext<Kinds>) -> JobResult {
        work(&cx, 1, "connecting").await?;
        let url = "postgres://stock:hunter2@db.example.com:5432/stock";
        Err(format!("warehouse {}: cannot connect to {url}: connection refused", self.warehouse).into())
    }
}

/// What can go wrong with a card.
#[derive(Debug, thiserror::Error, JobError)]
pub(super) enum CardError {
    /// The bank said no.
    #[error("the bank declined the card: {0}")]
    #[job(permanent = "asking the bank again gives the same answer")]
    Declined(&'static str),
}

/// Meets an error that is marked as permanent.
#[derive(Serialize, Deserialize)]
pub(super) struct ChargeCard {
    pub(super) cents: u32,
}

impl Job for ChargeCard {
    const KIND: &'static str = "demo.charge_card";
    type Context = Kinds;
    type Output = Result<(), CardError>;
    async fn run(self, cx: JobContext<Kinds>) -> Result<(), CardError> {
        cx.log(format!("charging {} cents", self.cents));
        sleep(Duration::from_millis(900)).await;
        Err(CardError::Declined("stolen card"))
    }
}

/// Has an input that can never be handled.
#[derive(Serialize, Deserialize)]
pub(super) struct ImportOrder {
    pub(super) quantity: i64,
}

impl Job for ImportOrder {
    const KIND: &'static str = "demo.import_order";
    type Context = Kinds;
    type Output = JobResult;

    fn validate(&self) -> Result<(), String> {
        if self.quantity > 0 { Ok(()) } else { Err(format!("the quantity is {}", self.quantity)) }
    }

    async fn run(self, _: JobContext<Kinds>) -> JobResult {
        Ok(())
    }
}

/// Takes longer than it may.
#[derive(Serialize, Deserialize)]
pub(super) struct RenderReport {
    pub(super) pages: u32,
}

impl Job for RenderReport {
    const KIND: &'static str = "demo.render_report";
    type Context = Kinds;
    type Output = JobResult;
    async fn run(self, cx: JobContext<Kinds>) -> JobResult {
        cx.log(format!("rendering {} pages", self.pages));
        sleep(Duration::from_secs(3_600)).await;
        Ok(())
    }
}

/// Panics.
#[derive(Serialize, Deserialize)]
pub(super) struct ResizeImage {
    pub(super) width: u32,
}

impl Job for ResizeImage {
    const KIND: &'static str = "demo.resize_image";
    type Context = Kinds;
    type Output = JobResult;
    async fn run(self, cx: JobContext<Kinds>) -> JobResult {
        cx.log(format!("resizing to {}", self.width));
        sleep(Duration::from_millis(700)).await;
        std::panic::panic_any(PLANNED_PANIC)
    }
}

/// Asks to run again later, twice, and costs no attempt by it.
#[derive(Serialize, Deserialize)]
pub(super) struct AwaitStock {
    pub(super) article: u32,
}

impl Job for AwaitStock {
    const KIND: &'static str = "demo.await_stock";
    type Context = Kinds;
    type Output = JobResult;
    async fn run(self, cx: JobContext<Kinds>) -> JobResult {
        sleep(Duration::from_millis(300)).await;
        if cx.run_number() <= 2 {
            Err(Outcome::snooze(Duration::from_millis(2_000)))?;
        }
        cx.log(format!("article {} is there", self.article));
        Ok(())
    }
}

/// Finds a dependency away once, and is not blamed for it.
#[derive(Serialize, Deserialize)]
pub(super) struct ShipParcel {
    pub(super) parcel: u32,
}

impl Job for ShipParcel {
    const KIND: &'static str = "demo.ship_parcel";
    type Context = Kinds;
    type Output = JobResult;
    async fn run(self, cx: JobContext<Kinds>) -> JobResult {
        work(&cx, 1, "asking the carrier").await?;
        if cx.run_number() == 1 {
            Err(Outcome::transient("carrier-api"))?;
        }
        cx.log(format!("parcel {} is on its way", self.parcel));
        Ok(())
    }
}

/// Runs until it is canceled.
#[derive(Serialize, Deserialize)]
pub(super) struct ExportLedger {
    pub(super) year: u32,
}

impl Job for ExportLedger {
    const KIND: &'static str = "demo.export_ledger";
    type Context = Kinds;
    type Output = JobResult;
    async fn run(self, cx: JobContext<Kinds>) -> JobResult {
        let note = format!("exporting {}", self.year);
        tokio::select! {
            done = work(&cx, 200, &note) => done,
            () = cx.canceled() => Ok(()),
        }
    }
}

/// Reports a failure as its result.
#[derive(Serialize, Deserialize)]
pub(super) struct CheckCredit {
    pub(super) customer: u32,
}

impl Job for CheckCredit {
    const KIND: &'static str = "demo.check_credit";
    type Context = Kinds;
    type Output = JobResult;
    async fn run(self, cx: JobContext<Kinds>) -> JobResult {
        work(&cx, 2, "asking the bureau").await?;
        Err(Outcome::failure(serde_json::json!({ "customer": self.customer, "score": "too low" })))?
    }
}

/// Must start before a moment that passes.
#[derive(Serialize, Deserialize)]
pub(super) struct FlashSale {
    pub(super) sale: u32,
}

impl Job for FlashSale {
    const KIND: &'static str = "demo.flash_sale";
    type Context = Kinds;
    type Output = JobResult;
    async fn run(self, _: JobContext<Kinds>) -> JobResult {
        Err(format!("sale {} started although it was over", self.sale).into())
    }
}

/// Takes most of its rows and rejects the others: the run goes on and succeeds.
#[derive(Serialize, Deserialize)]
pub(super) struct ImportCatalog {
    pub(super) rows: u32,
}

impl Job for ImportCatalog {
    const KIND: &'static str = "demo.import_catalog";
    type Context = Kinds;
    type Output = JobResult;
    async fn run(self, cx: JobContext<Kinds>) -> JobResult {
        for row in (1..=self.rows).filter(|row| row % 7 == 0) {
            let item = serde_json::json!({ "row": row, "price": null });
            cx.reject_with(NewReject::new(&item, "the price is missing").keep_item()).await?;
        }
        Ok(())
    }
}
