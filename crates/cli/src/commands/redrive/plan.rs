//! `backstop redrive plan`: the dry run first, then the plan.

use std::time::Duration;

use backstop::Timestamp;
use backstop_core::failure::{Fingerprint, TerminalReason};
use backstop_core::redrive::{PlanSettings, PlanSurvey};
use backstop_server::shape::{NewPlan, NewPlanSettings, PlanMade, PlanShown};
use backstop_store::QueueView;
use clap::Args;
use serde_json::json;

use super::{ActorOptions, REDRIVES, ask, under_way};
use crate::app::App;
use crate::client::Client;
use crate::output::clean;
use crate::output::figures::grouped;
use crate::output::span;
use crate::output::table::{TextTable, number, short, text};
use crate::problem::{Exit, Problem};

/// Which dead letters, and how carefully.
#[derive(Debug, Args)]
pub(crate) struct PlanOptions {
    /// Those that died of this incident.
    #[arg(long, value_name = "FINGERPRINT")]
    incident: Option<Fingerprint>,
    /// Those of this kind.
    #[arg(long)]
    kind: Option<String>,
    /// Those on this queue.
    #[arg(long)]
    queue: Option<String>,
    /// Those that are dead for this reason. `invalid` and `signature` are driven only when named here.
    #[arg(long)]
    reason: Option<TerminalReason>,
    /// Those with this tag.
    #[arg(long)]
    tag: Option<String>,
    /// Those that died longer ago than this, such as 1h.
    #[arg(long, value_name = "AGE", value_parser = span::parse)]
    older_than: Option<Duration>,
    /// Those that died within this time, such as 1d.
    #[arg(long, value_name = "AGE", value_parser = span::parse)]
    younger_than: Option<Duration>,
    /// Every dead letter.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    care: CareOptions,
    /// Only code of this version or a later one may run them [default: what the incident is fixed in].
    #[arg(long, value_name = "VERSION")]
    needs: Option<String>,
    /// Why; kept with the plan.
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    #[command(flatten)]
    who: ActorOptions,
    /// Count only; create no plan.
    #[arg(long, conflicts_with = "start")]
    dry_run: bool,
    /// Start the plan at once.
    #[arg(long)]
    start: bool,
    /// With --start: watch it.
    #[arg(long, requires = "start")]
    watch: bool,
}

/// How carefully a plan goes.
#[derive(Debug, Args)]
struct CareOptions {
    /// Jobs that go first; the rest follow only when they have succeeded.
    #[arg(long, value_name = "N", default_value_t = PlanSettings::default().canary)]
    canary: u32,
    /// Jobs driven in one step at most.
    #[arg(long, value_name = "N", default_value_t = PlanSettings::default().batch)]
    batch: u32,
    /// Jobs driven each second, on average.
    #[arg(long, value_name = "N", default_value_t = PlanSettings::default().per_second)]
    rate: u32,
    /// Jobs that are driven and have not ended, at most.
    #[arg(long, value_name = "N", default_value_t = PlanSettings::default().in_flight)]
    in_flight: u32,
    /// Leave out what was already driven again this often.
    #[arg(long, value_name = "N", default_value_t = PlanSettings::default().ceiling)]
    ceiling: u32,
    /// Failures with another cause that are allowed before the plan halts.
    #[arg(long, value_name = "N", default_value_t = PlanSettings::default().max_failures)]
    max_failures: u32,
}

impl PlanOptions {
    /// The plan that is asked for; ages are counted back from `now`.
    fn wanted(&self, now: Timestamp) -> NewPlan {
        let care = &self.care;
        NewPlan {
            incident: self.incident.clone(),
            kind: self.kind.clone(),
            queue: self.queue.clone(),
            tag: self.tag.clone(),
            reason: self.reason,
            finished_before: self.older_than.map(|age| now.before(age)),
            finished_after: self.younger_than.map(|age| now.before(age)),
            all: self.all,
            settings: Some(NewPlanSettings {
                canary: care.canary,
                batch: care.batch,
                per_second: care.rate,
                in_flight: care.in_flight,
                ceiling: care.ceiling,
                max_failures: care.max_failures,
            }),
            needs: self.needs.clone(),
            note: self.note.clone(),
            by: Some(self.who.name()),
            dry_run: false,
        }
    }
}

pub(super) async fn run(options: &PlanOptions, client: &Client, app: &App) -> Result<Exit, Problem> {
    let wanted = options.wanted(client.now().await?);
    let survey = match client.post(REDRIVES, &NewPlan { dry_run: true, ..wanted.clone() }).await {
        Ok(PlanMade { survey, .. }) => survey.ok_or_else(|| missing("survey"))?,
        Err(problem) if problem.code() == "selects_everything" => {
            let dead = grouped(dead_letters(client).await?);
            let hint =
                format!("there are {dead} dead letters; `backstop incident list` shows what they died of");
            return Err(problem.hint(hint));
        }
        Err(problem) => return Err(problem),
    };
    if !app.out.json {
        app.out.page(&drawn(app, &survey))?;
    }
    let dead = dead_letters(client).await?;
    if !options.all && dead > 1 && survey.jobs >= dead {
        let dead = grouped(dead);
        app.out.warn(&format!(
            "this matches every dead letter there is, all {dead} of them: is that what you want?"
        ));
    }
    if options.dry_run {
        return dry(app, &survey);
    }
    let made: PlanMade = client.post(REDRIVES, &wanted).await?;
    let shown = made.plan.ok_or_else(|| missing("plan"))?;
    if !options.start {
        return told_made(app, &survey, &shown);
    }
    let shown = ask(client, &shown.plan.id, "start", &options.who).await?;
    under_way(&shown, options.watch, client, app).await
}

/// A server that leaves out what it must answer.
fn missing(what: &str) -> Problem {
    Problem::failed("unexpected_answer", format!("the server's answer has no {what}"))
        .hint("check that --server names a Backstop server of a similar version")
}

async fn dead_letters(client: &Client) -> Result<u64, Problem> {
    let queues: Vec<QueueView> = client.list("/api/v1/queues").await?;
    Ok(queues.iter().map(|queue| queue.failed).sum())
}

fn dry(app: &App, survey: &PlanSurvey) -> Result<Exit, Problem> {
    if app.out.json {
        app.out.document(&json!({ "survey": survey, "plan": null }))?;
    } else {
        app.out.note("\nnothing was changed: the same without --dry-run makes the plan");
    }
    Ok(Exit::Done)
}

fn told_made(
    app: &App,
    survey: &PlanSurvey,
    PlanShown { plan, description }: &PlanShown,
) -> Result<Exit, Problem> {
    if app.out.json {
        app.out.document(&json!({ "survey": survey, "plan": plan }))?;
    } else {
        app.out.page(&format!("\nplan {}: {}", plan.id, clean(description)))?;
    }
    Ok(Exit::Done)
}

/// The dry run as a table, with what is left out below it.
fn drawn(app: &App, survey: &PlanSurvey) -> String {
    let heads = ["jobs", "kind", "queue", "reason", "fingerprint", "error"];
    let mut table = TextTable::new(&app.out, &heads).flexible(&[5]).drop_first(&[5, 2]);
    for group in &survey.groups {
        table.row(vec![
            number(group.jobs),
            text(&group.kind),
            text(&group.queue),
            text(group.reason.map_or("-", TerminalReason::as_str)),
            text(group.fingerprint.as_ref().map_or("-", Fingerprint::as_str)),
            short(group.sample.as_deref().unwrap_or("-"), 160),
        ]);
    }
    let least = if survey.complete { "" } else { "at least " };
    let jobs = if survey.jobs == 1 { "job" } else { "jobs" };
    let mut page =
        format!("{}\n\n{least}{} {jobs} would be driven again\n", table.text(), grouped(survey.jobs));
    for effect in &survey.unknown_effects {
        let (job, name, key) = (effect.job, clean(&effect.name), clean(&effect.key));
        page.push_str(&format!("job {job}: effect `{name}` with key `{key}` may have happened\n"));
    }
    for (why, many) in &survey.left_out {
        page.push_str(&format!("{} left out: {}\n", grouped(*many), why.meaning()));
    }
    page
}
