//! The workload of `backstop up --demo`: one job for each way a job can end, run by a real worker on a real store.
//!
//! - [`jobs`]: the kinds, as typed jobs. [`script`]: what each scene submits and how it must end.
//! - [`stage`]: submits, watches, and calls one job off. [`view`]: what a person sees meanwhile.
//! - [`summary`]: the table at the end. [`living`]: what the page shows afterwards.

mod jobs;
mod living;
mod script;
mod stage;
mod summary;
mod view;

use backstop::WorkerBuilder;
use backstop_kinds::Kinds;

pub(crate) use living::fill;
pub(crate) use script::QUEUE;
pub(crate) use stage::play;
pub(crate) use summary::tell;
pub(crate) use view::DemoViewer;

/// Teaches a worker every kind of the demo, except the one that no worker knows.
pub(crate) fn register(worker: WorkerBuilder<Kinds>) -> WorkerBuilder<Kinds> {
    worker
        .register::<jobs::SendReceipt>()
        .register::<jobs::CallPartner>()
        .register::<jobs::SyncStock>()
        .register::<jobs::ChargeCard>()
        .register::<jobs::ImportOrder>()
        .register::<jobs::RenderReport>()
        .register::<jobs::ResizeImage>()
        .register::<jobs::AwaitStock>()
        .register::<jobs::ShipParcel>()
        .register::<jobs::ExportLedger>()
        .register::<jobs::CheckCredit>()
        .register::<jobs::FlashSale>()
        .register::<jobs::ImportCatalog>()
}

/// Keeps panics that the demo plans from being printed into its own view; any other panic is told as ever.
pub(crate) fn hush_planned_panics() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let planned = info.payload().downcast_ref::<&str>().is_some_and(|text| *text == jobs::PLANNED_PANIC);
        if !planned {
            usual(info);
        }
    }));
}
