//! `backstop dead purge`: dead letters removed for good, after a look at what goes (D5).

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use backstop::store::{JobFilter, Survey};
use backstop::{Backstop, PurgeError, Purged, State, TerminalReason};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;

use crate::app::App;
use crate::commands::consent::consent;
use crate::commands::filter::Conditions;
use crate::commands::keep::Keep;
use crate::output::clean;
use crate::output::figures::{counted, grouped};
use crate::output::paint::Ink;
use crate::output::span;
use crate::output::table::{Listing, inked, number, text};
use crate::problem::{Exit, Problem};

/// Dead letters that are counted at most before any goes.
const COUNT: usize = 10_000_000;

/// Options of `dead purge`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    conditions: Conditions,
    /// Dead for at least this long, such as 30d.
    #[arg(long, value_name = "DURATION", value_parser = span::parse)]
    older_than: Option<Duration>,
    /// Every dead letter: needed when nothing else narrows them down.
    #[arg(long)]
    all: bool,
    /// Only count what would go.
    #[arg(long)]
    dry_run: bool,
    /// Write each one to this new file, as a line of JSON with its payload in clear, before it goes.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(options: &Options, engine: &Backstop, app: &App) -> Result<Exit, Problem> {
    let filter = filter(options, engine).await?;
    let survey = engine.survey(filter.clone(), COUNT).await?;
    let found = dead_letters(&survey);
    if survey.jobs() == 0 {
        return nothing(options, app);
    }
    if !options.all && !options.conditions.narrow() && options.older_than.is_none() {
        let message = format!("without a filter this would remove all {found}");
        return Err(Problem::refused("needs_all", message)
            .hint("narrow them down, such as with --kind or --older-than 30d, or add --all")
            .details(json!({ "jobs": survey.jobs() })));
    }
    if options.dry_run && app.out.json {
        app.out.document(&json!({ "dry_run": true, "jobs": survey.jobs(), "survey": survey }))?;
        return Ok(Exit::Done);
    }
    if !app.out.json {
        app.out.page(&table(app, &survey))?;
    }
    if options.dry_run {
        app.out.note(&format!("\nthis would remove {found} for good: nothing was changed"));
        return Ok(Exit::Done);
    }
    if !consent(&format!("remove {found} for good?"), options.yes, app)? {
        app.out.note("nothing was changed");
        return Ok(Exit::Refused);
    }
    purge(options, filter, &survey, engine, app).await?;
    Ok(Exit::Done)
}

async fn filter(options: &Options, engine: &Backstop) -> Result<JobFilter, Problem> {
    let now = engine.store().now().await?;
    let finished_before = options.older_than.map(|span| now.before(span));
    Ok(JobFilter { finished_before, ..options.conditions.jobs(Some(State::Failed)) })
}

/// How many there are, in words.
fn dead_letters(survey: &Survey) -> String {
    if survey.complete {
        counted(survey.jobs(), "dead letter")
    } else {
        format!("more than {} dead letters", grouped(survey.jobs()))
    }
}

fn nothing(options: &Options, app: &App) -> Result<Exit, Problem> {
    if app.out.json {
        app.out.document(&json!({ "dry_run": options.dry_run, "purged": 0, "left": 0, "exported": null }))?;
    } else {
        app.out.page("no dead letter here: nothing to remove")?;
    }
    Ok(Exit::Done)
}

fn table(app: &App, survey: &Survey) -> String {
    let heads = ["queue", "kind", "reason", "fingerprint", "jobs"];
    let mut table = Listing::new(&app.out, &heads).drop_first(&[3, 0]).figures(&[4]);
    for group in &survey.groups {
        table.row(vec![
            text(&group.queue),
            text(&group.kind),
            inked(Ink::Red, group.reason.map_or("-", TerminalReason::as_str)),
            text(group.fingerprint.as_deref().unwrap_or("-")),
            number(group.jobs),
        ]);
    }
    table.text()
}

async fn purge(
    options: &Options,
    filter: JobFilter,
    survey: &Survey,
    engine: &Backstop,
    app: &App,
) -> Result<(), Problem> {
    // Before anything goes: a file that cannot be made is no reason to lose what was to be in it.
    let keep = RefCell::new(options.export.as_deref().map(Keep::create).transpose()?);
    let bar = if app.out.live { ProgressBar::new(survey.jobs()) } else { ProgressBar::hidden() };
    let purged = engine.purge_matching(filter, async |batch| {
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        if options.export.is_some() {
            let jobs = engine.export_jobs(batch).await?;
            if let Some(keep) = keep.borrow_mut().as_mut() {
                keep.batch(&jobs)?;
            }
        }
        bar.inc(count);
        Ok::<(), Problem>(())
    });
    let purged = purged.await;
    bar.finish_and_clear();
    let purged = purged.map_err(|error| match error {
        PurgeError::Batch(problem) => problem,
        PurgeError::Store(error) => error.into(),
        error => Problem::failed("purge", error.to_string()),
    })?;
    tell(purged, keep.into_inner().as_ref(), app)
}

fn tell(purged: Purged, keep: Option<&Keep>, app: &App) -> Result<(), Problem> {
    if app.out.json {
        let exported = keep.map(|keep| json!({ "jobs": keep.kept(), "file": keep.name() }));
        let Purged { purged, left, .. } = purged;
        return app
            .out
            .document(&json!({ "dry_run": false, "purged": purged, "left": left, "exported": exported }));
    }
    let removed = counted(purged.purged, "dead letter");
    let kept = keep.map_or_else(String::new, |keep| format!("; they are in {}", clean(&keep.name())));
    app.out.page(&format!("removed {removed} for good{kept}"))?;
    if purged.left > 0 {
        app.out.note(&format!("{} changed meanwhile and stay", counted(purged.left, "job")));
    }
    Ok(())
}
