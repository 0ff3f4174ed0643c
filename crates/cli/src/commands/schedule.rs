//! `backstop schedule list|show|set|pause|resume|run|backfill|delete`: jobs that are submitted again and again (W11).

use std::borrow::Cow;
use std::time::Duration;

use backstop::Timestamp;
use backstop::schedules::{Misfire, Overlap, PassReason};
use backstop_server::shape::{
    BackfillDone, BackfillRange, PlanActor, ScheduleJson, ScheduleOwnerKind, ScheduleRun, SetSchedule,
};
use clap::{Args, Subcommand};

use super::job_options::{JobOptions, millis, payload};
use crate::app::{App, who};
use crate::client::{Client, escaped};
use crate::output::clean;
use crate::output::figures::counted;
use crate::output::paint::Colour;
use crate::output::span::{both, length, parse, relative};
use crate::output::table::{Properties, TextTable, inked, text};
use crate::problem::{Exit, Problem};

const SCHEDULES: &str = "/api/v1/schedules";

/// Commands about schedules.
#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// List schedules with their next fire times.
    List,
    /// Show one schedule.
    Show {
        /// Its name.
        name: String,
    },
    /// Set a schedule: when it fires, and the job that is submitted each time.
    Set(Box<SetScheduleOptions>),
    /// Pause a schedule; what it would fire is not made up for later.
    Pause {
        /// Its name.
        name: String,
    },
    /// Resume a schedule, from its next fire time on.
    Resume {
        /// Its name.
        name: String,
    },
    /// Submit its job once, now.
    Run {
        /// Its name.
        name: String,
    },
    /// Submit jobs for fire times of the past that were not submitted.
    Backfill {
        /// Its name.
        name: String,
        /// The first moment.
        #[arg(long, value_name = "MOMENT")]
        from: Timestamp,
        /// The last moment.
        #[arg(long, value_name = "MOMENT")]
        to: Timestamp,
    },
    /// Delete a schedule; jobs that it has submitted stay.
    Delete {
        /// Its name.
        name: String,
        /// Also one that a program or backstop.toml declares; it comes back when that starts again.
        #[arg(long)]
        force: bool,
    },
}

/// What a schedule says.
#[derive(Debug, Args)]
pub(crate) struct SetScheduleOptions {
    /// Its name; of a schedule that has it, what is not given here stays as it is.
    name: String,
    /// Forget what was set before and is not given here.
    #[arg(long)]
    replace: bool,
    /// When: minute, hour, day of month, month, day of week; seconds in front are optional.
    #[arg(long, value_name = "FIELDS", conflicts_with = "every")]
    cron: Option<String>,
    /// Every so often, such as 90s.
    #[arg(long, value_name = "SPAN", value_parser = parse)]
    every: Option<Duration>,
    /// Whose clock it means, such as Europe/Berlin [default: UTC].
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// The kind of job; a new schedule needs one.
    #[arg(long)]
    kind: Option<String>,
    /// The payload as JSON; `-` reads it from stdin [default: {}].
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    payload: Option<String>,
    /// What becomes of fire times that were missed: skip, fire_once or catch_up:N [default: fire_once].
    #[arg(long, value_name = "POLICY")]
    misfire: Option<Misfire>,
    /// What becomes of a fire while the last job has not ended: allow, skip or queue [default: allow].
    #[arg(long, value_name = "POLICY")]
    overlap: Option<Overlap>,
    /// Never start a job later than this long after it may first run.
    #[arg(long, value_name = "SPAN", value_parser = parse)]
    expires_in: Option<Duration>,
    #[command(flatten)]
    job: JobOptions,
    /// Begin with a pause.
    #[arg(long)]
    paused: bool,
}

pub(crate) async fn run(command: ScheduleCommand, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    let path = |name: &str| format!("{SCHEDULES}/{}", escaped(name));
    match command {
        ScheduleCommand::List => list(&client, app).await?,
        ScheduleCommand::Show { name } => show(&client, app, &client.get(&path(&name)).await?).await?,
        ScheduleCommand::Set(options) => set(&client, app, &options).await?,
        ScheduleCommand::Pause { name } => {
            let body = PlanActor { by: Some(who(None)) };
            say(app, &client.post(&format!("{}/pause", path(&name)), &body).await?, "paused")?;
        }
        ScheduleCommand::Resume { name } => {
            say(app, &client.post(&format!("{}/resume", path(&name)), &()).await?, "resumed")?;
        }
        ScheduleCommand::Run { name } => {
            let ran: ScheduleRun = client.post(&format!("{}/run", path(&name)), &()).await?;
            match app.out.json {
                true => app.out.document(&ran)?,
                false => app.out.page(&ran.id.to_string())?,
            }
        }
        ScheduleCommand::Backfill { name, from, to } => {
            let range = BackfillRange { from, to };
            backfilled(app, &client.post(&format!("{}/backfill", path(&name)), &range).await?)?;
        }
        ScheduleCommand::Delete { name, force } => {
            let force = if force { "?force=true" } else { "" };
            say(app, &client.delete(&format!("{}{force}", path(&name))).await?, "deleted")?;
        }
    }
    Ok(Exit::Done)
}

async fn set(client: &Client, app: &App, options: &SetScheduleOptions) -> Result<(), Problem> {
    let payload = options.payload.as_deref().map(payload).transpose()?;
    let (job, params) = (&options.job, options.job.params()?);
    let body = SetSchedule {
        cron: options.cron.clone(),
        every_ms: options.every.map(millis),
        time_zone: options.time_zone.clone(),
        misfire: options.misfire,
        overlap: options.overlap,
        paused: options.paused.then_some(true),
        kind: Cow::Borrowed(options.kind.as_deref().unwrap_or_default()),
        payload: payload.as_deref(),
        queue: job.queue.clone(),
        priority: job.priority,
        delay_ms: job.delay.map(millis),
        expires_in_ms: options.expires_in.map(millis),
        max_retries: job.max_retries,
        backoff: job.backoff(),
        timeout_ms: job.timeout_ms,
        max_wait_ms: job.max_wait_ms,
        business_key: job.business_key.clone(),
        ordering_key: job.ordering_key.clone(),
        limit_key: job.limit_key.clone(),
        single_instance: job.single_instance.clone(),
        permits: job.permits.iter().cloned().collect(),
        max_deferral_ms: job.max_deferral_ms,
        dependency: job.dependency.clone(),
        on_conflict: job.on_conflict,
        tags: job.tags.clone(),
        params: params.as_deref(),
        correlation_id: job.correlation_id.clone(),
        ..SetSchedule::default()
    };
    let keep = if options.replace { "" } else { "?keep=true" };
    let set: ScheduleJson =
        client.put(&format!("{SCHEDULES}/{}{keep}", escaped(&options.name)), &body).await?;
    say(app, &set, "set")
}

fn say(app: &App, schedule: &ScheduleJson, done: &str) -> Result<(), Problem> {
    if app.out.json {
        return app.out.document(schedule);
    }
    let next = match schedule.next.first() {
        Some(next) if !schedule.paused && done != "deleted" => format!(", next at {next}"),
        _ => String::new(),
    };
    app.out.page(&format!("schedule `{}` {done}: {}{next}", clean(&schedule.name), timing(schedule)))
}

fn backfilled(app: &App, done: &BackfillDone) -> Result<(), Problem> {
    if app.out.json {
        return app.out.document(done);
    }
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let mut said = vec![format!("{} submitted", counted(count(done.submitted), "job"))];
    if done.known > 0 {
        said.push(format!("{} were there", count(done.known)));
    }
    if done.skipped > 0 {
        said.push(format!("{} skipped, because another job holds the business key", count(done.skipped)));
    }
    app.out.page(&said.join(", "))
}

/// When it fires.
fn timing(schedule: &ScheduleJson) -> String {
    match (&schedule.cron, schedule.every_ms) {
        (Some(cron), _) => {
            format!("{} {}", clean(cron), clean(schedule.time_zone.as_deref().unwrap_or("UTC")))
        }
        (None, every) => format!("every {}", length(Duration::from_millis(every.unwrap_or_default()))),
    }
}

fn owner(schedule: &ScheduleJson) -> String {
    match (schedule.owner, &schedule.program) {
        (ScheduleOwnerKind::Api, _) => "API".to_owned(),
        (ScheduleOwnerKind::Settings, _) => "backstop.toml".to_owned(),
        (ScheduleOwnerKind::Code, program) => {
            format!("code of {}", clean(program.as_deref().unwrap_or_default()))
        }
    }
}

async fn list(client: &Client, app: &App) -> Result<(), Problem> {
    let schedules: Vec<ScheduleJson> = client.list(SCHEDULES).await?;
    if app.out.json {
        return app.out.items(&schedules, None);
    }
    if schedules.is_empty() {
        return app
            .out
            .page("no schedule: `backstop schedule set NAME --cron '0 3 * * *' --kind KIND` sets one");
    }
    let now = client.now().await?;
    let heads = ["schedule", "fires", "next", "last", "kind", "queue", "owner"];
    let mut table = TextTable::new(&app.out, &heads).drop_first(&[6, 5, 3]);
    for schedule in &schedules {
        let next = match schedule.next.first() {
            _ if schedule.paused => inked(Colour::Yellow, "paused"),
            Some(next) => text(&relative(now, *next)),
            None => inked(Colour::Red, "never"),
        };
        let last = schedule.last.as_ref().map_or_else(String::new, |last| relative(now, last.fire_time));
        table.row(vec![
            text(&schedule.name),
            text(&timing(schedule)),
            next,
            text(&last),
            text(&schedule.kind),
            text(&schedule.queue),
            text(&owner(schedule)),
        ]);
    }
    app.out.page(&table.text())
}

async fn show(client: &Client, app: &App, schedule: &ScheduleJson) -> Result<(), Problem> {
    if app.out.json {
        return app.out.document(schedule);
    }
    let now = client.now().await?;
    let mut facts = Properties::default();
    facts.add("fires", timing(schedule));
    facts.text("kind", Some(&schedule.kind));
    facts.text("queue", Some(&schedule.queue));
    facts.add("priority", schedule.priority.to_string());
    facts.add("missed fires", schedule.misfire.to_string());
    facts.add("overlap", schedule.overlap.as_str());
    facts.add("owner", owner(schedule));
    facts.text("paused by", schedule.paused_by.as_deref());
    for (at, next) in schedule.next.iter().enumerate() {
        facts.add(if at == 0 { "next" } else { "" }, both(now, *next));
    }
    if let Some(last) = &schedule.last {
        facts.add("last", format!("{}: job {}", both(now, last.fire_time), last.job));
    }
    if schedule.queued > 0 {
        facts.add("waiting", counted(schedule.queued, "fire"));
    }
    if let Some(passed) = &schedule.passed {
        let why = match passed.reason {
            PassReason::Missed => "nobody was there for it",
            PassReason::Overlap => "the last job had not ended",
            PassReason::QueueFull => "too many waited for the last job",
            PassReason::Refused => "its job was refused, or skipped for one that holds its business key",
        };
        facts.add("passed over", format!("{}: {why}", both(now, passed.fire_time)));
    }
    facts.text("problem", schedule.problem.as_deref());
    let title = app.out.ink(Colour::Bold, &clean(&schedule.name));
    app.out.page(&format!("{title}\n\n{}", facts.page(&app.out)))
}
