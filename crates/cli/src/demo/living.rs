//! What stays when the scenes are over, so that the page has something to show: failures of one cause, a blocked key, a
//! workflow, rejected items, and a schedule that goes on while the program runs.

use std::time::Duration;

use backstop::Backstop;
use backstop::schedules::{Overlap, ScheduleOwner, ScheduleSettings};

use super::jobs;
use super::script::QUEUE;
use crate::problem::Problem;

/// Cards that are declined: many jobs, one incident.
const DECLINED: u32 = 40;

/// How often the schedule fires.
const EVERY: Duration = Duration::from_secs(5);

/// Submits it.
pub(crate) async fn fill(engine: &Backstop) -> Result<(), Problem> {
    for cents in 0..DECLINED {
        let card = engine.enqueue(jobs::ChargeCard { cents: 990 + cents }).queue(QUEUE).tag("demo");
        card.submit().await?;
    }
    // The first of them dies and blocks the key; those behind it wait for a person.
    for quantity in [-1, 2, 3] {
        let order = engine.enqueue(jobs::ImportOrder { quantity }).queue(QUEUE).tag("demo");
        order.ordering_key("customer-31").submit().await?;
    }
    engine.enqueue(jobs::ImportCatalog { rows: 60 }).queue(QUEUE).tag("demo").submit().await?;
    workflow(engine).await?;
    let often = ScheduleSettings::every(EVERY).overlap(Overlap::Skip);
    let receipt = engine.enqueue(jobs::SendReceipt { to: "ada@example.com".to_owned() }).queue(QUEUE);
    let schedules = [("demo receipts", (often, receipt.untyped()))];
    let owner = ScheduleOwner::Code("backstop demo".into());
    engine.schedules().declare(owner, schedules).await.map_err(|problem| failed(&problem))?;
    Ok(())
}

/// An order that is checked, then packed and confirmed at once, then shipped.
async fn workflow(engine: &Backstop) -> Result<(), Problem> {
    let receipt = |to: &str| engine.enqueue(jobs::SendReceipt { to: to.to_owned() }).queue(QUEUE);
    let mut order = engine.workflow("order 4711");
    let check = order.step("check", receipt("stock@example.com")).add();
    let pack = order.step("pack", receipt("warehouse@example.com")).after(&check).add();
    let confirm = order.step("confirm", receipt("ada@example.com")).after(&check).add();
    let ship = engine.enqueue(jobs::ShipParcel { parcel: 13 }).queue(QUEUE);
    order.step("ship", ship).after(&pack).after(&confirm).add();
    order.submit().await.map_err(|problem| failed(&problem))?;
    Ok(())
}

fn failed(problem: &dyn std::fmt::Display) -> Problem {
    Problem::failed("demo", problem.to_string())
}
