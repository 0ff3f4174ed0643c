//! `backstop archive list|show|export|prune`: jobs that ended long ago (L16, D5).

use std::path::PathBuf;
use std::time::Duration;

use backstop::store::{Archived, PageRequest};
use backstop::{Backstop, Exported, JobId, Timestamp, worker_id};
use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::consent::consent;
use super::keep::Outlet;
use crate::app::{App, no_such_job};
use crate::output::figures::{counted, grouped};
use crate::output::paint::Ink;
use crate::output::span::{self, both, length, relative};
use crate::output::table::{Facts, Listing, inked, number, short, text};
use crate::output::{brief, brief_json, clean};
use crate::problem::{Exit, Problem};

/// Jobs that are read at once.
const PAGE: usize = 500;

/// Archived jobs that are counted at most.
const COUNT: usize = 10_000_000;

/// How long this program leads the duty: long enough for a batch, short enough not to keep a worker waiting.
const TERM: Duration = Duration::from_secs(10);

/// Characters of a value that a page shows; `--json` shows all.
const VALUE_CHARS: usize = 2_000;

/// Commands about archived jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum Archive {
    /// Archived jobs, newest first.
    List {
        /// At most this many.
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// Go on after this job, as `next_cursor` of the page before says.
        #[arg(long, value_name = "ID")]
        cursor: Option<JobId>,
    },
    /// All that is kept of one archived job.
    Show {
        /// The job.
        id: JobId,
        /// Show payload, parameters and result in clear, secrets included.
        #[arg(long)]
        reveal: bool,
    },
    /// Every archived job as a line of JSON, payloads in clear.
    Export {
        /// Write to this new file instead of stdout.
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Remove what was archived long ago for good; a job that never ran stays.
    Prune(Prune),
}

/// Options of `archive prune`.
#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Archived at least this long ago [default: retention.archive of the configuration].
    #[arg(long, value_name = "DURATION", value_parser = span::parse)]
    older_than: Option<Duration>,
    /// Only count what would go.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(command: Archive, app: &App) -> Result<Exit, Problem> {
    let engine = app.look().await?;
    match command {
        Archive::List { limit, cursor } => list(PageRequest { limit, after: cursor }, &engine, app).await?,
        Archive::Show { id, reveal } => show(id, reveal, &engine, app).await?,
        Archive::Export { to } => export(Outlet::open(to.as_deref())?, &engine, app).await?,
        Archive::Prune(options) => return prune(&options, &engine, app).await,
    }
    Ok(Exit::Done)
}

async fn list(page: PageRequest<JobId>, engine: &Backstop, app: &App) -> Result<(), Problem> {
    let found = engine.archive_page(page).await?;
    let next = found.next.map(|id| id.to_string());
    let read = |archived: &Archived| document(archived, false, app);
    if app.out.json {
        let items = found.items.iter().map(|(id, archived)| {
            let (state, at, ran) = (archived.state, archived.archived_at, archived.ran);
            let job = read(archived)["job"].take();
            json!({ "id": id, "status": state, "archived_at": at, "ran": ran, "job": job })
        });
        return app.out.items(&items.collect::<Vec<Value>>(), next);
    }
    if found.items.is_empty() {
        return app.out.page("no job is archived: `backstop job list` shows those that are not");
    }
    let now = engine.store().now().await?;
    let heads = ["id", "kind", "queue", "status", "runs", "archived"];
    let mut table = Listing::new(&app.out, &heads).drop_first(&[2, 4, 5]);
    for (id, archived) in &found.items {
        let job = &read(archived)["job"];
        table.row(vec![
            text(&id.to_string()),
            text(job["kind"].as_str().unwrap_or("-")),
            text(job["queue"].as_str().unwrap_or("-")),
            inked(Ink::of_state(archived.state), archived.state.as_str()),
            number(job["runs"].as_u64().unwrap_or(0)),
            text(&relative(now, archived.archived_at)),
        ]);
    }
    app.out.page(&table.text())?;
    app.out.note("\n`backstop archive show ID` shows all that is kept of one");
    if let Some(next) = next {
        app.out.note(&format!("there are more: add --cursor {next}"));
    }
    Ok(())
}

/// What is kept of a job, with its secrets masked unless they are asked for (F11).
fn document(archived: &Archived, reveal: bool, app: &App) -> Value {
    let mut document = serde_json::from_str(&archived.document).unwrap_or_default();
    if !reveal {
        app.settings.engine.mask().document(&mut document);
    }
    document
}

async fn show(id: JobId, reveal: bool, engine: &Backstop, app: &App) -> Result<(), Problem> {
    let Some(archived) = engine.archived(id).await? else {
        return Err(match engine.job(id).await? {
            None => no_such_job(id),
            Some(_) => Problem::refused("not_archived", format!("job {id} is not archived"))
                .hint(format!("`backstop job show {id}` shows it")),
        });
    };
    let document = document(&archived, reveal, app);
    if app.out.json {
        let (at, ran) = (archived.archived_at, archived.ran);
        let (job, attempts) = (&document["job"], &document["attempts"]);
        return app.out.document(&json!({ "archived_at": at, "ran": ran, "job": job, "attempts": attempts }));
    }
    let now = engine.store().now().await?;
    app.out.page(&page(app, id, &archived, &document, now))
}

fn page(app: &App, id: JobId, archived: &Archived, document: &Value, now: Timestamp) -> String {
    let job = &document["job"];
    let state = app.out.ink(Ink::of_state(archived.state), archived.state.as_str());
    let kind = app.out.ink(Ink::Bold, &clean(job["kind"].as_str().unwrap_or("-")));
    let mut facts = Facts::default();
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
    let runs = document["attempts"].as_array().map_or(&[][..], Vec::as_slice);
    let ledger = if runs.is_empty() { "  it never ran".to_owned() } else { ledger(app, runs) };
    let head = app.out.ink(Ink::Bold, "runs");
    format!("{kind} {id} {state}\n\n{}\n{head}\n{ledger}\n", facts.page(&app.out))
}

fn ledger(app: &App, runs: &[Value]) -> String {
    let mut table = Listing::new(&app.out, &["run", "cause", "ended", "error"]).flexible(&[3]);
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

async fn export(mut outlet: Outlet, engine: &Backstop, app: &App) -> Result<(), Problem> {
    let mut page = PageRequest::first(PAGE);
    loop {
        let found = engine.archive_page(page).await?;
        let jobs: Vec<Exported> =
            found.items.into_iter().map(|(id, archived)| Exported::archived(id, archived)).collect();
        outlet.batch(&jobs, app)?;
        match found.next {
            Some(next) => page.after = Some(next),
            None => return outlet.tell("archived job", app),
        }
    }
}

async fn prune(options: &Prune, engine: &Backstop, app: &App) -> Result<Exit, Problem> {
    let keep = options.older_than.or(app.settings.engine.retention.archive).ok_or_else(|| {
        Problem::usage("usage", "nothing says how long archived jobs stay: add --older-than, such as 90d")
    })?;
    let count = u64::try_from(engine.prunable(keep, COUNT).await?).unwrap_or(u64::MAX);
    let found = format!("{} that left at least {} ago", counted(count, "archived job"), length(keep));
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
    let pruned = remove(keep, count, engine, app).await?;
    if app.out.json {
        app.out.document(&json!({ "dry_run": false, "jobs": count, "pruned": pruned }))?;
    } else {
        app.out.page(&format!("removed {} for good", counted(pruned, "archived job")))?;
    }
    Ok(Exit::Done)
}

/// Removes them batch by batch, as the node that leads the duty.
async fn remove(keep: Duration, count: u64, engine: &Backstop, app: &App) -> Result<u64, Problem> {
    let bar = if app.out.live { ProgressBar::new(count) } else { ProgressBar::hidden() };
    let (node, mut removed) = (worker_id(), 0_u64);
    loop {
        let Some((pruned, more)) = engine.prune(node, TERM, keep).await? else {
            bar.finish_and_clear();
            return Err(led_elsewhere(removed));
        };
        let pruned = u64::try_from(pruned).unwrap_or(u64::MAX);
        removed += pruned;
        bar.inc(pruned);
        if !more {
            bar.finish_and_clear();
            return Ok(removed);
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
