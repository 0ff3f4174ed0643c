//! `backstop reject list|show|export`: items that runs could not handle, and that did not stop them (W9).

use std::path::PathBuf;

use backstop::Timestamp;
use backstop::rejects::{RejectGroup, RejectView};
use backstop_core::failure::Fingerprint;
use backstop_server::shape::Items;
use clap::{Args, Subcommand};

use super::json_lines::ExportTarget;
use crate::app::App;
use crate::client::{Client, JobRef, query};
use crate::output::figures::grouped;
use crate::output::ids::short_ids;
use crate::output::paint::Colour;
use crate::output::span::{both, relative};
use crate::output::table::{Properties, TextTable, number, short, text};
use crate::output::{brief_json, clean};
use crate::problem::{Exit, Problem};

const REJECTS: &str = "/api/v1/rejects";
const GROUPS: &str = "/api/v1/reject-groups";

/// Rejects that are read at once.
const PAGE: usize = 500;

/// Rejects that a group is shown with.
const SAMPLES: usize = 5;

/// Characters of an item that a page shows; `--json` shows all.
const ITEM_CHARS: usize = 500;

/// Commands about rejects.
#[derive(Debug, Subcommand)]
pub(crate) enum RejectCommand {
    /// List rejected items, or count them by what they have in common.
    List {
        #[command(flatten)]
        which: RejectSelector,
        /// Count them by kind and error instead.
        #[arg(long, conflicts_with_all = ["job", "reveal"])]
        groups: bool,
        /// Show kept items in the clear, secrets included.
        #[arg(long)]
        reveal: bool,
        /// At most this many.
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// Continue after this one: `next_cursor` of the previous page.
        #[arg(long)]
        cursor: Option<String>,
    },
    /// Show what the rejects with one fingerprint have in common, and some of them.
    Show {
        /// The fingerprint.
        fingerprint: Fingerprint,
    },
    /// Export rejects as lines of JSON, kept items in the clear.
    Export {
        #[command(flatten)]
        which: RejectSelector,
        /// Write to this new file instead of stdout.
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
}

/// Which rejects are meant.
#[derive(Debug, Args)]
pub(crate) struct RejectSelector {
    /// Only those of this job: its id, or at least the first 6 characters of it.
    #[arg(long, value_name = "ID")]
    job: Option<JobRef>,
    /// Only those with this fingerprint.
    #[arg(long)]
    fingerprint: Option<Fingerprint>,
}

pub(crate) async fn run(command: RejectCommand, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    match command {
        RejectCommand::List { which, groups: true, limit, cursor, .. } => {
            let fingerprint = which.fingerprint.map(|print| print.to_string());
            let which =
                [("fingerprint", fingerprint), ("limit", Some(limit.to_string())), ("cursor", cursor)];
            list_groups(&client, app, &query(which)).await?;
        }
        RejectCommand::List { which, reveal, limit, cursor, .. } => {
            let mut conditions = conditions(&client, which).await?;
            conditions.push(("reveal", reveal.then(|| "true".to_owned())));
            conditions.extend([("limit", Some(limit.to_string())), ("cursor", cursor)]);
            list(&client, app, &query(conditions)).await?;
        }
        RejectCommand::Show { fingerprint } => show(&client, app, &fingerprint).await?,
        RejectCommand::Export { which, to } => {
            let conditions = conditions(&client, which).await?;
            export(ExportTarget::open(to.as_deref())?, &client, app, conditions).await?;
        }
    }
    Ok(Exit::Done)
}

type Conditions = Vec<(&'static str, Option<String>)>;

async fn conditions(client: &Client, which: RejectSelector) -> Result<Conditions, Problem> {
    let job = match &which.job {
        Some(job) => Some(client.job_id(job).await?.to_string()),
        None => None,
    };
    Ok(vec![("job", job), ("fingerprint", which.fingerprint.map(|print| print.to_string()))])
}

async fn list(client: &Client, app: &App, which: &str) -> Result<(), Problem> {
    let Items { items, next_cursor } = client.get::<Items<RejectView>>(&format!("{REJECTS}{which}")).await?;
    if app.out.json {
        return app.out.items(&items, next_cursor);
    }
    if items.is_empty() && next_cursor.is_none() {
        return app.out.page("no rejected item matches: handlers tell of them with `cx.reject`");
    }
    let now = client.now().await?;
    let heads = ["job", "kind", "item", "error", "count", "retries", "fingerprint", "when"];
    let mut table = TextTable::new(&app.out, &heads).flexible(&[3]).drop_first(&[5, 7, 2]).figures(&[4, 5]);
    for (one, id) in items.iter().zip(short_ids(items.iter().map(|one| one.job))) {
        table.row(vec![
            text(&id),
            text(&one.kind),
            text(&one.item_fingerprint),
            short(&format!("{}: {}", one.error_type, one.error), 160),
            number(one.count),
            number(u64::from(one.retries)),
            text(one.fingerprint.as_ref()),
            text(&relative(now, one.at)),
        ]);
    }
    app.out.page(&table.text())?;
    app.out.note("\n`backstop reject show F` says more about all with one fingerprint");
    if let Some(next) = next_cursor {
        app.out.note(&format!("there are more: add --cursor {next}"));
    }
    Ok(())
}

async fn list_groups(client: &Client, app: &App, which: &str) -> Result<(), Problem> {
    let Items { items, next_cursor } = client.get::<Items<RejectGroup>>(&format!("{GROUPS}{which}")).await?;
    if app.out.json {
        return app.out.items(&items, next_cursor);
    }
    if items.is_empty() {
        return app.out.page("no rejected item is stored: handlers tell of them with `cx.reject`");
    }
    let now = client.now().await?;
    let heads = ["fingerprint", "kind", "items", "stored", "error", "first seen", "last seen"];
    let mut table = TextTable::new(&app.out, &heads).flexible(&[4]).drop_first(&[5, 6, 3]).figures(&[2, 3]);
    for one in &items {
        table.row(vec![
            text(one.fingerprint.as_ref()),
            text(&one.kind),
            number(one.items),
            number(one.stored),
            short(&format!("{}: {}", one.error_type, one.error), 160),
            text(&relative(now, one.first_seen)),
            text(&relative(now, one.last_seen)),
        ]);
    }
    app.out.page(&table.text())?;
    if let Some(next) = next_cursor {
        app.out.note(&format!("there are more: add --cursor {next}"));
    }
    Ok(())
}

async fn show(client: &Client, app: &App, fingerprint: &Fingerprint) -> Result<(), Problem> {
    let which = query([("fingerprint", Some(fingerprint.to_string()))]);
    let mut found: Items<RejectGroup> = client.get(&format!("{GROUPS}{which}")).await?;
    let Some(group) = found.items.pop() else {
        let message = format!("no rejected item with the fingerprint {fingerprint} is stored");
        return Err(Problem::refused("no_such_reject_group", message)
            .hint("`backstop reject list --groups` shows those that are"));
    };
    let few = [("job", group.sample_job.to_string()), ("fingerprint", fingerprint.to_string())];
    let few = few.map(|(name, value)| (name, Some(value)));
    let few = query(few.into_iter().chain([("limit", Some(SAMPLES.to_string()))]));
    let samples: Items<RejectView> = client.get(&format!("{REJECTS}{few}")).await?;
    if app.out.json {
        return app.out.document(&serde_json::json!({ "group": group, "samples": samples.items }));
    }
    let mut page = format!("{} {fingerprint}\n\n", app.out.ink(Colour::Bold, "rejects"));
    page.push_str(&facts(&group, client.now().await?).page(&app.out));
    page.push_str(&format!("\n{}\n", app.out.ink(Colour::Bold, "some of its latest job")));
    for one in &samples.items {
        let item = one
            .item
            .as_ref()
            .map_or_else(|| format!("item {}", one.item_fingerprint), |item| brief_json(item, ITEM_CHARS));
        page.push_str(&format!("  run {}  {item}  {}\n", one.run, clean(&one.error)));
    }
    page.push_str(&format!("\n{}\n", app.out.ink(Colour::Bold, "what to do")));
    page.push_str(&format!("  look at the job: backstop job show {}\n", group.sample_job));
    page.push_str(&format!("  take them all: backstop reject export --fingerprint {fingerprint}\n"));
    app.out.page(page.trim_end())
}

fn facts(group: &RejectGroup, now: Timestamp) -> Properties {
    let mut facts = Properties::default();
    facts.add("kind", clean(&group.kind));
    facts.add("queue", clean(&group.queue));
    facts.add("error", clean(&format!("{}: {}", group.error_type, group.error)));
    facts.add("items", format!("{}, {} of them stored now", grouped(group.items), grouped(group.stored)));
    facts.add("first seen", both(now, group.first_seen));
    facts.add("last seen", both(now, group.last_seen));
    facts
}

async fn export(
    mut target: ExportTarget,
    client: &Client,
    app: &App,
    conditions: Conditions,
) -> Result<(), Problem> {
    let mut cursor = None;
    loop {
        let page =
            [("reveal", Some("true".to_owned())), ("limit", Some(PAGE.to_string())), ("cursor", cursor)];
        let which = query(conditions.iter().cloned().chain(page));
        let found: Items<RejectView> = client.get(&format!("{REJECTS}{which}")).await?;
        let lines: Vec<String> =
            found.items.iter().map(|one| serde_json::to_string(one).unwrap_or_default()).collect();
        target.batch(&lines.iter().map(String::as_str).collect::<Vec<_>>(), app)?;
        match found.next_cursor {
            Some(next) => cursor = Some(next),
            None => return target.tell("reject", app),
        }
    }
}
