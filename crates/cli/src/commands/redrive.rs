//! `backstop redrive plan|list|start|show|pause|resume|cancel`: dead letters driven again by a stored plan (D4, D7).
//!
//! Nothing here drives a job: that does whichever node leads the duty, whether this program runs or not.

mod plan;
mod show;
mod watch;

use backstop::Timestamp;
use backstop_core::job::PlanId;
use backstop_core::redrive::{Plan, PlanPhase};
use backstop_server::shape::{PlanActor, PlanShown, Worker};
use clap::{Args, Subcommand};

use super::worker::WORKERS;
use crate::app::{App, who};
use crate::client::Client;
use crate::output::clean;
use crate::output::paint::Colour;
use crate::output::span::relative;
use crate::output::table::{TextTable, inked, number, number_inked, short, text};
use crate::problem::{Exit, Problem};

const REDRIVES: &str = "/api/v1/redrives";

/// Commands about re-drive plans.
#[derive(Debug, Subcommand)]
pub(crate) enum RedriveCommand {
    /// Create a plan for dead letters; `--dry-run` only counts them.
    Plan(Box<plan::PlanOptions>),
    /// List plans, latest first.
    List,
    /// Start a plan, beginning with its canary.
    Start {
        #[command(flatten)]
        which: OnePlan,
        /// Watch it until it is done, halted or canceled.
        #[arg(long)]
        watch: bool,
    },
    /// Show a plan: its state, what happened so far, and who did what.
    Show(show::ShowPlanOptions),
    /// Pause a plan; what is in flight goes on.
    Pause(OnePlan),
    /// Resume a plan; one that halted begins again with a canary.
    Resume {
        #[command(flatten)]
        which: OnePlan,
        /// Watch it until it is done, halted or canceled.
        #[arg(long)]
        watch: bool,
    },
    /// Cancel a plan; what is in flight goes on.
    Cancel(OnePlan),
}

/// A plan, and who asks.
#[derive(Debug, Args)]
pub(crate) struct OnePlan {
    /// The plan, such as rd-1f0c9a22.
    id: PlanId,
    #[command(flatten)]
    who: ActorOptions,
}

/// Who asks, for the audit.
#[derive(Debug, Args)]
pub(crate) struct ActorOptions {
    /// Your name in the audit log [default: the user you are logged in as].
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl ActorOptions {
    fn name(&self) -> String {
        who(self.by.clone())
    }
}

pub(crate) async fn run(command: RedriveCommand, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    let done = match command {
        RedriveCommand::Plan(options) => plan::run(&options, &client, app).await,
        RedriveCommand::List => list(&client, app).await,
        RedriveCommand::Show(options) => show::run(&options, &client, app).await,
        RedriveCommand::Start { which, watch } => {
            let plan = ask(&client, &which.id, "start", &which.who).await?;
            under_way(&plan, watch, &client, app).await
        }
        RedriveCommand::Resume { which, watch } => {
            let plan = ask(&client, &which.id, "resume", &which.who).await?;
            under_way(&plan, watch, &client, app).await
        }
        RedriveCommand::Pause(which) => told(app, &ask(&client, &which.id, "pause", &which.who).await?),
        RedriveCommand::Cancel(which) => told(app, &ask(&client, &which.id, "cancel", &which.who).await?),
    };
    done.map_err(judged)
}

/// Asks something of a plan, and answers it as it is then.
async fn ask(client: &Client, plan: &PlanId, verb: &str, who: &ActorOptions) -> Result<PlanShown, Problem> {
    let asking = PlanActor { by: Some(who.name()) };
    client.post(&format!("{REDRIVES}/{plan}/{verb}"), &asking).await.map_err(judged)
}

/// What a refusal of a plan means to scripts: it was asked for in a wrong way, or a guard stands in the way.
fn judged(problem: Problem) -> Problem {
    match problem.code() {
        "invalid" => problem.exiting(Exit::Usage),
        "no_such_plan" | "no_such_incident" => problem.exiting(Exit::Refused),
        "busy" => problem.exiting(Exit::Failed),
        _ => problem,
    }
}

/// Tells of a plan that was let go, and stays with it if that was asked for.
async fn under_way(plan: &PlanShown, stay: bool, client: &Client, app: &App) -> Result<Exit, Problem> {
    let workers: Vec<Worker> = client.list(WORKERS).await?;
    if workers.iter().all(|worker| !worker.live) {
        app.out.warn(
            "no worker is running, so nothing happens yet: workers carry out plans; `backstop up` starts one",
        );
    }
    if stay {
        return watch::run(&plan.plan.id, client, app).await;
    }
    told(app, plan)?;
    app.out.note(&format!("`backstop redrive show {} --watch` shows its progress", plan.plan.id));
    Ok(Exit::Done)
}

fn told(app: &App, PlanShown { plan, description }: &PlanShown) -> Result<Exit, Problem> {
    if app.out.json {
        app.out.document(plan)?;
    } else {
        app.out.page(&format!("plan {}: {}", plan.id, clean(description)))?;
    }
    Ok(Exit::Done)
}

/// Every plan, page by page.
async fn all(client: &Client) -> Result<Vec<Plan>, Problem> {
    let plans: Vec<PlanShown> = client.list(REDRIVES).await?;
    Ok(plans.into_iter().map(|shown| shown.plan).collect())
}

async fn list(client: &Client, app: &App) -> Result<Exit, Problem> {
    let plans = all(client).await?;
    if app.out.json {
        app.out.items(&plans, None)?;
    } else if plans.is_empty() {
        app.out.page("no plans yet: `backstop redrive plan --incident F` makes one")?;
    } else {
        app.out.page(&table(app, &plans, client.now().await?))?;
        app.out.note("\n`backstop redrive show ID` says where one is and what comes next");
    }
    Ok(Exit::Done)
}

fn table(app: &App, plans: &[Plan], now: Timestamp) -> String {
    let heads = ["plan", "phase", "driven", "succeeded", "failed", "expected", "made", "by", "which"];
    let mut table = TextTable::new(&app.out, &heads).flexible(&[8]).drop_first(&[7, 6, 5]);
    for plan in plans {
        let counts = &plan.counts;
        table.row(vec![
            text(plan.id.as_str()),
            inked(ink(plan.phase), plan.phase.as_str()),
            number(counts.driven),
            number_inked(Colour::Green, counts.succeeded),
            number_inked(Colour::Red, counts.failed_same + counts.failed_other),
            number(plan.expected),
            text(&relative(now, plan.created_at)),
            short(&plan.created_by, 30),
            short(&plan.selector.to_string(), 120),
        ]);
    }
    table.text()
}

/// The colour of a phase.
const fn ink(phase: PlanPhase) -> Colour {
    match phase {
        PlanPhase::Done => Colour::Green,
        PlanPhase::Halted => Colour::Red,
        PlanPhase::Paused => Colour::Yellow,
        PlanPhase::Planned | PlanPhase::Canceled => Colour::Grey,
        PlanPhase::Canary | PlanPhase::Gate | PlanPhase::Driving | PlanPhase::Draining => Colour::Blue,
    }
}
