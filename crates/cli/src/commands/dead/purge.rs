//! `backstop dead purge`: dead letters removed for good, after a look at what goes (D5).

use std::path::PathBuf;
use std::time::Duration;

use backstop::{TerminalReason, Timestamp};
use backstop_server::shape::{JobSurvey, Purge, PurgeAnswer};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;

use super::{DEAD_LETTERS, export_page};
use crate::app::App;
use crate::client::Client;
use crate::commands::consent::consent;
use crate::commands::filter::JobConditions;
use crate::commands::json_lines::{JsonLinesFile, documents};
use crate::output::clean;
use crate::output::figures::{counted, grouped};
use crate::output::paint::Colour;
use crate::output::span;
use crate::output::table::{TextTable, inked, number, text};
use crate::problem::{Exit, Problem};

/// PurgeOptions of `dead purge`.
#[derive(Debug, Args)]
pub(crate) struct PurgeOptions {
    #[command(flatten)]
    conditions: JobConditions,
    /// Dead for at least this long, such as 30d.
    #[arg(long, value_name = "DURATION", value_parser = span::parse)]
    older_than: Option<Duration>,
    /// Every dead letter: needed when nothing else narrows them down.
    #[arg(long)]
    all: bool,
    /// Only count what would go.
    #[arg(long)]
    dry_run: bool,
    /// Write each one to this new file, as a line of JSON with its payload in the clear, before it goes.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Do not ask for confirmation.
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(options: &PurgeOptions, client: &Client, app: &App) -> Result<Exit, Problem> {
    let moment = match options.older_than {
        Some(span) => Some(client.now().await?.before(span)),
        None => None,
    };
    let look = Purge { dry_run: true, ..options.conditions.purge(moment) };
    let looked: PurgeAnswer = client.post(&format!("{DEAD_LETTERS}/purge"), &look).await?;
    let survey = looked.survey.unwrap_or(JobSurvey { groups: Vec::new(), complete: true });
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
    purge(options, moment, &survey, client, app).await?;
    Ok(Exit::Done)
}

/// How many there are, in words.
fn dead_letters(survey: &JobSurvey) -> String {
    if survey.complete {
        counted(survey.jobs(), "dead letter")
    } else {
        format!("more than {} dead letters", grouped(survey.jobs()))
    }
}

fn nothing(options: &PurgeOptions, app: &App) -> Result<Exit, Problem> {
    if app.out.json {
        app.out.document(&json!({ "dry_run": options.dry_run, "purged": 0, "left": 0, "exported": null }))?;
    } else {
        app.out.page("no dead letters: nothing to remove")?;
    }
    Ok(Exit::Done)
}

fn table(app: &App, survey: &JobSurvey) -> String {
    let heads = ["queue", "kind", "reason", "fingerprint", "jobs"];
    let mut table = TextTable::new(&app.out, &heads).drop_first(&[3, 0]).figures(&[4]);
    for group in &survey.groups {
        table.row(vec![
            text(&group.queue),
            text(&group.kind),
            inked(Colour::Red, group.reason.map_or("-", TerminalReason::as_str)),
            text(group.fingerprint.as_deref().unwrap_or("-")),
            number(group.jobs),
        ]);
    }
    table.text()
}

async fn purge(
    options: &PurgeOptions,
    moment: Option<Timestamp>,
    survey: &JobSurvey,
    client: &Client,
    app: &App,
) -> Result<(), Problem> {
    // Before anything goes: a file that cannot be made is no reason to lose what was to be in it.
    let mut keep = options.export.as_deref().map(JsonLinesFile::create).transpose()?;
    let bar = if app.out.live { ProgressBar::new(survey.jobs()) } else { ProgressBar::hidden() };
    let (mut purged, mut left, mut cursor) = (0, 0, None);
    loop {
        let (done, next) = match &mut keep {
            Some(keep) => after_keeping(options, moment, cursor, keep, client).await?,
            None => at_once(options, moment, cursor, client).await?,
        };
        purged += done.purged;
        left += done.left;
        bar.inc(done.purged + done.left);
        if next.is_none() {
            break;
        }
        cursor = next;
    }
    bar.finish_and_clear();
    tell(purged, left, keep.as_ref(), app)
}

/// Removes a batch, and says where the next one begins.
async fn at_once(
    options: &PurgeOptions,
    moment: Option<Timestamp>,
    cursor: Option<String>,
    client: &Client,
) -> Result<(PurgeAnswer, Option<String>), Problem> {
    let cursor = cursor.as_deref().and_then(|cursor| cursor.parse().ok());
    let purge = Purge { all: options.all, cursor, ..options.conditions.purge(moment) };
    let done: PurgeAnswer = client.post(&format!("{DEAD_LETTERS}/purge"), &purge).await?;
    let next = done.next_cursor.map(|id| id.to_string());
    Ok((done, next))
}

/// The same for just those jobs that are in the file.
async fn after_keeping(
    options: &PurgeOptions,
    moment: Option<Timestamp>,
    cursor: Option<String>,
    keep: &mut JsonLinesFile,
    client: &Client,
) -> Result<(PurgeAnswer, Option<String>), Problem> {
    let batch = export_page(&options.conditions, cursor.as_deref(), moment, client).await?;
    keep.batch(&documents(&batch.items))?;
    let ids = batch.items.iter().map(|job| job.id).collect();
    let purge = Purge { ids: Some(ids), ..Purge::default() };
    let done: PurgeAnswer = client.post(&format!("{DEAD_LETTERS}/purge"), &purge).await?;
    Ok((done, batch.next_cursor))
}

fn tell(purged: u64, left: u64, keep: Option<&JsonLinesFile>, app: &App) -> Result<(), Problem> {
    if app.out.json {
        let exported = keep.map(|keep| json!({ "jobs": keep.kept(), "file": keep.name() }));
        return app
            .out
            .document(&json!({ "dry_run": false, "purged": purged, "left": left, "exported": exported }));
    }
    let removed = counted(purged, "dead letter");
    let kept = keep.map_or_else(String::new, |keep| format!("; they are in {}", clean(&keep.name())));
    app.out.page(&format!("removed {removed} for good{kept}"))?;
    if left > 0 {
        app.out.note(&format!("{} changed meanwhile and stay", counted(left, "job")));
    }
    Ok(())
}
