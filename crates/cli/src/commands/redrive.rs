//! `backstop redrive plan|list|start|show|pause|resume|cancel`: dead letters driven again by a stored plan (D4, D7).
//!
//! Nothing here drives a job: that does whichever node leads the duty, whether this program runs or not.

mod plan;
mod show;
mod watch;

use backstop::core::job::PlanId;
use backstop::core::redrive::{Phase, Plan};
use backstop::{Backstop, Timestamp};
use clap::{Args, Subcommand};

use crate::app::{App, who};
use crate::output::clean;
use crate::output::paint::Ink;
use crate::output::span::relative;
use crate::output::table::{Listing, inked, number, number_inked, short, text};
use crate::problem::{Exit, Problem};

/// Commands about re-drive plans.
#[derive(Debug, Subcommand)]
pub(crate) enum Redrive {
    /// Count what would be driven again and make a plan for it; `--dry-run` only counts.
    Plan(Box<plan::Options>),
    /// Every plan, latest first.
    List,
    /// Let a plan go, beginning with its canary.
    Start {
        #[command(flatten)]
        which: Which,
        /// Stay and show how it goes, until it is done, halted or canceled.
        #[arg(long)]
        watch: bool,
    },
    /// One plan: where it is, what happened so far, and who did what.
    Show(show::Options),
    /// Drive nothing more until it is resumed; what is in flight goes on.
    Pause(Which),
    /// Let a paused plan go on; one that halted begins again with a canary.
    Resume {
        #[command(flatten)]
        which: Which,
        /// Stay and show how it goes, until it is done, halted or canceled.
        #[arg(long)]
        watch: bool,
    },
    /// Call a plan off; what is in flight goes on.
    Cancel(Which),
}

/// A plan, and who asks.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The plan, such as rd-1f0c9a22.
    id: PlanId,
    #[command(flatten)]
    who: Who,
}

/// Who asks, for the audit.
#[derive(Debug, Args)]
pub(crate) struct Who {
    /// Your name in the audit [default: the user you are logged in as].
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Who {
    fn name(&self) -> String {
        who(self.by.clone())
    }
}

pub(crate) async fn run(command: Redrive, app: &App) -> Result<Exit, Problem> {
    let engine = app.look().await?;
    match command {
        Redrive::Plan(options) => plan::run(&options, &engine, app).await,
        Redrive::List => list(&engine, app).await,
        Redrive::Show(options) => show::run(&options, &engine, app).await,
        Redrive::Start { which, watch } => {
            let plan = engine.start_redrive(&which.id, &which.who.name()).await?;
            under_way(&plan, watch, &engine, app).await
        }
        Redrive::Resume { which, watch } => {
            let plan = engine.resume_redrive(&which.id, &which.who.name()).await?;
            under_way(&plan, watch, &engine, app).await
        }
        Redrive::Pause(which) => told(app, &engine.pause_redrive(&which.id, &which.who.name()).await?),
        Redrive::Cancel(which) => told(app, &engine.cancel_redrive(&which.id, &which.who.name()).await?),
    }
}

/// Tells of a plan that was let go, and stays with it if that was asked for.
async fn under_way(plan: &Plan, stay: bool, engine: &Backstop, app: &App) -> Result<Exit, Problem> {
    if engine.workers().await?.iter().all(|worker| !worker.live) {
        app.out
            .warn("no worker is up, so nothing happens yet: workers carry plans out, such as `backstop up`");
    }
    if stay {
        return watch::run(&plan.id, engine, app).await;
    }
    told(app, plan)?;
    app.out.note(&format!("`backstop redrive show {} --watch` shows how it goes", plan.id));
    Ok(Exit::Done)
}

fn told(app: &App, plan: &Plan) -> Result<Exit, Problem> {
    if app.out.json {
        app.out.document(plan)?;
    } else {
        app.out.page(&format!("plan {}: {}", plan.id, clean(&plan.describe())))?;
    }
    Ok(Exit::Done)
}

async fn list(engine: &Backstop, app: &App) -> Result<Exit, Problem> {
    let plans = engine.redrive_plans().await?;
    if app.out.json {
        app.out.items(&plans, None)?;
    } else if plans.is_empty() {
        app.out.page("there is no plan yet: `backstop redrive plan --incident F` makes one")?;
    } else {
        app.out.page(&table(app, &plans, engine.store().now().await?))?;
        app.out.note("\n`backstop redrive show ID` says where one is and what comes next");
    }
    Ok(Exit::Done)
}

fn table(app: &App, plans: &[Plan], now: Timestamp) -> String {
    let heads = ["plan", "phase", "driven", "succeeded", "failed", "expected", "made", "by", "which"];
    let mut table = Listing::new(&app.out, &heads).flexible(&[8]).drop_first(&[7, 6, 5]);
    for plan in plans {
        let counts = &plan.counts;
        table.row(vec![
            text(plan.id.as_str()),
            inked(ink(plan.phase), plan.phase.as_str()),
            number(counts.driven),
            number_inked(Ink::Green, counts.succeeded),
            number_inked(Ink::Red, counts.failed_same + counts.failed_other),
            number(plan.expected),
            text(&relative(now, plan.created_at)),
            short(&plan.created_by, 30),
            short(&plan.selector.to_string(), 120),
        ]);
    }
    table.text()
}

/// The colour of a phase.
const fn ink(phase: Phase) -> Ink {
    match phase {
        Phase::Done => Ink::Green,
        Phase::Halted => Ink::Red,
        Phase::Paused => Ink::Yellow,
        Phase::Planned | Phase::Canceled => Ink::Grey,
        Phase::Canary | Phase::Gate | Phase::Driving | Phase::Draining => Ink::Blue,
    }
}
