//! `backstop archive list|show|export|prune`: jobs that ended long ago (L16, D5).

use std::path::PathBuf;
use std::time::Duration;

use backstop::{JobId, State, Timestamp};
use backstop_server::shape::{ArchivedJob, ExportedJob, Items, PruneAnswer, PruneRequest};
use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::consent::consent;
use super::json_lines::{ExportTarget, documents};
use crate::app::App;
use crate::client::{Client, JobRef, query};
use crate::output::figures::{counted, grouped};
use crate::output::ids::short_ids;
use crate::output::paint::Colour;
use crate::output::span::{self, both, length, relative};
use crate::output::table::{Properties, TextTable, inked, number, short, text};
use crate::output::{brief, brief_json, clean};
use crate::problem::{Exit, Problem};

/// Jobs that are read at once.
const PAGE: usize = 500;

const ARCHIVE: &str = "/api/v1/archive";

/// Characters of a value that a page shows; `--json` shows all.
const VALUE_CHARS: usize = 2_000;

/// Commands about archived jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum ArchiveCommand {
    /// List archived jobs, newest first.
    List(ArchiveFilter),
    /// Show everything that is kept of an archived job.
    Show {
        /// The job: its id, or at least the first 6 characters of it.
        id: JobRef,
        /// Show payload, parameters and result in the clear, secrets included.
        #[arg(long)]
        reveal: bool,
    },
    /// Export every archived job as a line of JSON, payloads in the clear.
    Export {
        /// Write to this new file instead of stdout.
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Remove jobs that were archived long ago; a job that never ran stays.
    Prune(PruneOptions),
}

/// Options of `archive list`.
#[derive(Debug, Args)]
pub(crate) struct ArchiveFilter {
    /// Ended in this status: succeeded, failed or canceled.
    #[arg(long)]
    status: Option<State>,
    /// Of this kind.
    #[arg(long)]
    kind: Option<String>,
    /// On this queue.
    #[arg(long)]
    queue: Option<String>,
    /// With an id that was made before this moment, such as 2026-11-15T09:30:00Z.
    #[arg(long, value_name = "MOMENT")]
    created_before: Option<Timestamp>,
    /// At most this many, up to 1000.
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Continue after this job: `next_cursor` of the previous page.
    #[arg(long, value_name = "ID")]
    cursor: Option<JobId>,
}

impl ArchiveFilter {
    /// True when it leaves out jobs.
    const fn narrows(&self) -> bool {
        let of_jobs = self.status.is_some() || self.kind.is_some() || self.queue.is_some();
        of_jobs || self.created_before.is_some() || self.cursor.is_some()
    }

    fn query(&self) -> String {
        query([
            ("status", self.status.map(|status| status.to_string())),
            ("kind", self.kind.clone()),
            ("queue", self.queue.clone()),
            ("created_before", self.created_before.map(|moment| moment.to_string())),
            ("limit", Some(self.limit.to_string())),
            ("cursor", self.cursor.map(|cursor| cursor.to_string())),
        ])
    }
}

/// Options of `archive prune`.
#[derive(Debug, Args)]
pub(crate) struct PruneOptions {
    /// Archived at least this long ago [default: retention.archive of the configuration].
    #[arg(long, value_name = "DURATION", value_parser = span::parse)]
    older_than: Option<Duration>,
    /// Only count what would go.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation.
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(command: ArchiveCommand, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    match command {
        ArchiveCommand::List(filter) => list(&filter, &client, app).await?,
        ArchiveCommand::Show { id, reveal } => show(client.job_id(&id).await?, reveal, &client, app).await?,
        ArchiveCommand::Export { to } => export(ExportTarget::open(to.as_deref())?, &client, app).await?,
        ArchiveCommand::Prune(options) => return prune(&options, &client, app).await,
    }
    Ok(Exit::Done)
}

fn page_of(limit: usize, cursor: Option<String>) -> String {
    query([("limit", Some(limit.to_string())), ("cursor", cursor)])
}

async fn list(filter: &ArchiveFilter, client: &Client, app: &App) -> Result<(), Problem> {
    let found: Items<ArchivedJob> = client.get(&format!("{ARCHIVE}{}", filter.query())).await?;
    if app.out.json {
        return app.out.items(&found.items, found.next_cursor);
    }
    if found.items.is_empty() {
        return match found.next_cursor {
            Some(next) => app.out.page(&format!(
                "none of the thousand archived jobs that were looked at is like that: add --cursor {next} to go on"
            )),
            None if filter.narrows() => app.out.page("no archived job is like that"),
            None => app.out.page("no job is archived: `backstop job list` shows those that are not"),
        };
    }
    let now = client.now().await?;
    let heads = ["id", "kind", "queue", "status", "runs", "archived"];
    let mut table = TextTable::new(&app.out, &heads).drop_first(&[2, 4, 5]);
    for (archived, id) in found.items.iter().zip(short_ids(found.items.iter().map(|one| one.id))) {
        let job = &archived.job;
        table.row(vec![
            text(&id),
            text(job["kind"].as_str().unwrap_or("-")),
            text(job["queue"].as_str().unwrap_or("-")),
            inked(Colour::of_state(archived.status), archived.status.as_str()),
            number(job["runs"].as_u64().unwrap_or(0)),
            text(&relative(now, archived.archived_at)),
        ]);
    }
    app.out.page(&table.text())?;
    app.out.note("\n`backstop archive show ID` shows all that is kept of one");
    if let Some(next) = found.next_cursor {
        app.out.note(&format!("more: add --cursor {next}"));
    }
    Ok(())
}

async fn show(id: JobId, reveal: bool, client: &Client, app: &App) -> Result<(), Problem> {
    let clear = query([("reveal", reveal.then(|| "true".to_owned()))]);
    let found: ArchivedJob = client.get(&format!("{ARCHIVE}/{id}{clear}")).await?;
    if app.out.json {
        let ArchivedJob { archived_at, ran, job, attempts, .. } = found;
        let document = json!({ "archived_at": archived_at, "ran": ran, "job": job, "attempts": attempts });
        return app.out.document(&document);
    }
    app.out.page(&page(app, &found, client.now().await?))
}

fn page(app: &App, archived: &ArchivedJob, now: Timestamp) -> String {
    let (id, job) = (archived.id, &archived.job);
    let state = app.out.ink(Colour::of_state(archived.status), archived.status.as_str());
    let kind = app.out.ink(Colour::Bold, &clean(job["kind"].as_str().unwrap_or("-")));
    let mut facts = Properties::default();
    facts.add("archived", both(now, archived.archived_at));
    for (name, value) in job.as_object().into_iter().flatten() {
        let empty = value.is_null()
            || value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(serde_json::Map::is_empty);
        if !empty && !["id", "kind", "status"].contains(&name.as_str()) {
            let shown =
                value.as_str().map_or_else(|| brief_json(value, VALUE_CHARS), |t| brief(t, VALUE_CHARS));
            facts.add(name, shown);
        }
    }
    let runs = archived.attempts.as_ref().and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let ledger = if runs.is_empty() { "  it never ran".to_owned() } else { ledger(app, runs) };
    let head = app.out.ink(Colour::Bold, "runs");
    format!("{kind} {id} {state}\n\n{}\n{head}\n{ledger}\n", facts.page(&app.out))
}

fn ledger(app: &App, runs: &[Value]) -> String {
    let mut table = TextTable::new(&app.out, &["run", "cause", "ended", "error"]).flexible(&[3]);
    for run in runs {
        let error = run["error"].as_str().or_else(|| run["failure"]["message"].as_str()).unwrap_or_default();
        table.row(vec![
            number(run["number"].as_u64().unwrap_or(0)),
            text(run["cause"].as_str().unwrap_or("-")),
            text(run["finished_at"].as_str().unwrap_or("-")),
            short(error, 200),
        ]);
    }
    table.text()
}

async fn export(mut outlet: ExportTarget, client: &Client, app: &App) -> Result<(), Problem> {
    let mut cursor = None;
    loop {
        let page = page_of(PAGE, cursor);
        let found: Items<ExportedJob> = client.get(&format!("{ARCHIVE}/export{page}")).await?;
        outlet.batch(&documents(&found.items), app)?;
        match found.next_cursor {
            Some(next) => cursor = Some(next),
            None => return outlet.tell("archived job", app),
        }
    }
}

async fn prune(options: &PruneOptions, client: &Client, app: &App) -> Result<Exit, Problem> {
    let asked = options.older_than.map(|keep| u64::try_from(keep.as_millis()).unwrap_or(u64::MAX));
    let look = PruneRequest { keep_ms: asked, dry_run: true };
    let looked: PruneAnswer = client.post(&format!("{ARCHIVE}/prune"), &look).await?;
    let (keep_ms, count) = (looked.keep_ms, looked.jobs.unwrap_or(0));
    let keep = length(Duration::from_millis(keep_ms));
    let found = format!("{} that left at least {keep} ago", counted(count, "archived job"));
    if options.dry_run || count == 0 {
        if app.out.json {
            app.out.document(&json!({ "dry_run": options.dry_run, "jobs": count, "pruned": 0 }))?;
        } else {
            app.out.page(&format!("{found}: nothing was changed"))?;
        }
        return Ok(Exit::Done);
    }
    if !consent(&format!("remove {found} for good?"), options.yes, app)? {
        app.out.note("nothing was changed");
        return Ok(Exit::Refused);
    }
    let pruned = remove(keep_ms, count, client, app).await?;
    if app.out.json {
        app.out.document(&json!({ "dry_run": false, "jobs": count, "pruned": pruned }))?;
    } else {
        app.out.page(&format!("removed {} for good", counted(pruned, "archived job")))?;
    }
    Ok(Exit::Done)
}

/// Removes them batch by batch.
async fn remove(keep_ms: u64, count: u64, client: &Client, app: &App) -> Result<u64, Problem> {
    let bar = if app.out.live { ProgressBar::new(count) } else { ProgressBar::hidden() };
    let asked = PruneRequest { keep_ms: Some(keep_ms), dry_run: false };
    let mut removed = 0;
    loop {
        match client.post::<PruneAnswer>(&format!("{ARCHIVE}/prune"), &asked).await {
            Ok(PruneAnswer { pruned, more, .. }) => {
                removed += pruned;
                bar.inc(pruned);
                if !more {
                    bar.finish_and_clear();
                    return Ok(removed);
                }
            }
            Err(problem) => {
                bar.finish_and_clear();
                return Err(if problem.is("led_elsewhere") { led_elsewhere(removed) } else { problem });
            }
        }
    }
}

fn led_elsewhere(removed: u64) -> Problem {
    let so_far = if removed == 0 { "nothing".to_owned() } else { grouped(removed) };
    let message = format!(
        "a running worker does this by itself, by its own retention.archive: {so_far} was removed here"
    );
    Problem::refused("led_elsewhere", message)
        .hint("set retention.archive where the workers run, or stop them before this")
        .details(json!({ "pruned": removed }))
}
