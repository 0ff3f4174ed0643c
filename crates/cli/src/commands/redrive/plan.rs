//! `backstop redrive plan`: the dry run first, then the plan.

use std::time::Duration;

use backstop::core::failure::{Fingerprint, TerminalReason};
use backstop::core::redrive::{Plan, PlanError, Selector, Settings, Survey};
use backstop::{Backstop, Redrive, RedriveError, Timestamp};
use clap::Args;
use serde_json::json;

use super::{Who, under_way};
use crate::app::App;
use crate::output::clean;
use crate::output::figures::grouped;
use crate::output::span;
use crate::output::table::{Listing, number, short, text};
use crate::problem::{Exit, Problem};

/// Which dead letters, and how carefully.
#[derive(Debug, Args)]
pub(crate) struct Options {
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
    care: Care,
    /// Only code of this version or a later one may run them [default: what the incident is fixed in].
    #[arg(long, value_name = "VERSION")]
    needs: Option<String>,
    /// Why, for whoever reads the plan later.
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    #[command(flatten)]
    who: Who,
    /// Count only; make no plan.
    #[arg(long, conflicts_with = "start")]
    dry_run: bool,
    /// Let the plan go at once.
    #[arg(long)]
    start: bool,
    /// With --start: stay and show how it goes.
    #[arg(long, requires = "start")]
    watch: bool,
}

/// How carefully a plan goes.
#[derive(Debug, Args)]
struct Care {
    /// Jobs that go first; the rest follow only when they have succeeded.
    #[arg(long, value_name = "N", default_value_t = Settings::default().canary)]
    canary: u32,
    /// Jobs driven in one step at most.
    #[arg(long, value_name = "N", default_value_t = Settings::default().batch)]
    batch: u32,
    /// Jobs driven each second, on average.
    #[arg(long, value_name = "N", default_value_t = Settings::default().per_second)]
    rate: u32,
    /// Jobs that are driven and have not ended, at most.
    #[arg(long, value_name = "N", default_value_t = Settings::default().in_flight)]
    in_flight: u32,
    /// Leave out what was driven again this often already.
    #[arg(long, value_name = "N", default_value_t = Settings::default().ceiling)]
    ceiling: u32,
    /// Failures of another kind that are borne before the plan halts.
    #[arg(long, value_name = "N", default_value_t = Settings::default().max_failures)]
    max_failures: u32,
}

impl Options {
    fn selector(&self, now: Timestamp) -> Selector {
        Selector {
            incident: self.incident.clone(),
            kind: self.kind.clone(),
            queue: self.queue.clone(),
            tag: self.tag.clone(),
            reason: self.reason,
            finished_before: self.older_than.map(|age| now.before(age)),
            finished_after: self.younger_than.map(|age| now.before(age)),
            all: self.all,
        }
    }

    fn redrive(&self, engine: &Backstop, now: Timestamp) -> Redrive {
        let care = &self.care;
        let redrive = engine.redrive(self.selector(now)).settings(Settings {
            canary: care.canary,
            batch: care.batch,
            per_second: care.rate,
            in_flight: care.in_flight,
            ceiling: care.ceiling,
            max_failures: care.max_failures,
        });
        let redrive = redrive.note(self.note.clone()).by(self.who.name());
        match &self.needs {
            Some(version) => redrive.needs(version.clone()),
            None => redrive,
        }
    }
}

pub(super) async fn run(options: &Options, engine: &Backstop, app: &App) -> Result<Exit, Problem> {
    let now = engine.store().now().await?;
    let redrive = options.redrive(engine, now);
    let survey = match redrive.dry_run().await {
        Err(RedriveError::Refused(refusal @ PlanError::SelectsEverything)) => {
            let dead = grouped(dead_letters(engine).await?);
            let hint =
                format!("there are {dead} dead letters; `backstop incident list` shows what they died of");
            return Err(Problem::from(RedriveError::from(refusal)).hint(hint));
        }
        answer => answer?,
    };
    if !app.out.json {
        app.out.page(&drawn(app, &survey))?;
    }
    let dead = dead_letters(engine).await?;
    if !options.all && dead > 1 && survey.jobs >= dead {
        let dead = grouped(dead);
        app.out.warn(&format!("this matches every dead letter there is, all {dead} of them: is that meant?"));
    }
    if options.dry_run {
        return dry(app, &survey);
    }
    let plan = redrive.create().await?;
    if !options.start {
        return made(app, &survey, &plan);
    }
    let plan = engine.start_redrive(&plan.id, &options.who.name()).await?;
    under_way(&plan, options.watch, engine, app).await
}

async fn dead_letters(engine: &Backstop) -> Result<u64, Problem> {
    Ok(engine.queues().await?.iter().map(|queue| queue.failed).sum())
}

fn dry(app: &App, survey: &Survey) -> Result<Exit, Problem> {
    if app.out.json {
        app.out.document(&json!({ "survey": survey, "plan": null }))?;
    } else {
        app.out.note("\nnothing was changed: the same without --dry-run makes the plan");
    }
    Ok(Exit::Done)
}

fn made(app: &App, survey: &Survey, plan: &Plan) -> Result<Exit, Problem> {
    if app.out.json {
        app.out.document(&json!({ "survey": survey, "plan": plan }))?;
    } else {
        app.out.page(&format!("\nplan {}: {}", plan.id, clean(&plan.describe())))?;
    }
    Ok(Exit::Done)
}

/// The dry run as a table, with what is left out below it.
fn drawn(app: &App, survey: &Survey) -> String {
    let heads = ["jobs", "kind", "queue", "reason", "fingerprint", "error"];
    let mut table = Listing::new(&app.out, &heads).flexible(&[5]).drop_first(&[5, 2]);
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
    for (why, many) in &survey.left_out {
        page.push_str(&format!("{} left out: {}\n", grouped(*many), why.meaning()));
    }
    page
}
