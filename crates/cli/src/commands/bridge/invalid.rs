//! `backstop bridge invalid`: messages that could not become jobs (B4).

use std::path::PathBuf;

use backstop_server::shape::{InvalidJson, InvalidPurge, InvalidPurged, Items};
use clap::Args;

use super::path;
use crate::app::App;
use crate::client::{Client, query};
use crate::commands::consent::consent;
use crate::commands::json_lines::ExportTarget;
use crate::output::clean;
use crate::output::figures::counted;
use crate::output::span::relative;
use crate::output::table::{TextTable, number, short, text};
use crate::problem::Problem;

/// Messages that are read or removed at once.
const PAGE: usize = 500;

/// Options of `bridge invalid`.
#[derive(Debug, Args)]
pub(crate) struct InvalidOptions {
    /// The bridge.
    name: String,
    /// Export them as lines of JSON, with raw bytes in base64.
    #[arg(long, conflicts_with_all = ["purge", "purge_all", "cursor"])]
    export: bool,
    /// Export to this new file instead of stdout.
    #[arg(long, value_name = "FILE", requires = "export")]
    to: Option<PathBuf>,
    /// Show bodies (in base64) and headers too, with --json.
    #[arg(long)]
    reveal: bool,
    /// At most this many.
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Continue after this one: `next_cursor` of the previous page.
    #[arg(long)]
    cursor: Option<String>,
    /// Remove the message with this key; repeat for more.
    #[arg(long, value_name = "KEY")]
    purge: Vec<String>,
    /// Remove all messages of the bridge.
    #[arg(long, conflicts_with = "purge")]
    purge_all: bool,
    /// Remove without being asked.
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(options: InvalidOptions, client: &Client, app: &App) -> Result<(), Problem> {
    let place = format!("{}/invalid", path(&options.name));
    if options.export {
        return export(&place, &options, client, app).await;
    }
    if options.purge_all || !options.purge.is_empty() {
        return purge(&place, options, client, app).await;
    }
    list(&place, options, client, app).await
}

async fn page(place: &str, which: &str, client: &Client) -> Result<Items<InvalidJson>, Problem> {
    client.get(&format!("{place}{which}")).await
}

async fn list(place: &str, options: InvalidOptions, client: &Client, app: &App) -> Result<(), Problem> {
    let which = query([
        ("reveal", options.reveal.then(|| "true".to_owned())),
        ("limit", Some(options.limit.to_string())),
        ("cursor", options.cursor),
    ]);
    let Items { items, next_cursor } = page(place, &which, client).await?;
    if app.out.json {
        return app.out.items(&items, next_cursor);
    }
    let name = clean(&options.name);
    if items.is_empty() && next_cursor.is_none() {
        return app.out.page(&format!("no invalid message: every message of `{name}` could become a job"));
    }
    let now = client.now().await?;
    let mut table = TextTable::new(&app.out, &["key", "message", "bytes", "reason", "when"])
        .flexible(&[3])
        .drop_first(&[2])
        .figures(&[2]);
    for one in &items {
        table.row(vec![
            text(&one.key),
            short(&one.id, 60),
            number(one.bytes),
            short(&one.reason, 200),
            text(&relative(now, one.at)),
        ]);
    }
    app.out.page(&table.text())?;
    app.out.note(&format!(
        "\n`backstop bridge invalid {name} --export --to FILE` takes them all, with raw bytes"
    ));
    if let Some(next) = next_cursor {
        app.out.note(&format!("there are more: add --cursor {next}"));
    }
    Ok(())
}

async fn export(place: &str, options: &InvalidOptions, client: &Client, app: &App) -> Result<(), Problem> {
    let mut target = ExportTarget::open(options.to.as_deref())?;
    let mut cursor = None;
    loop {
        let which =
            [("reveal", Some("true".to_owned())), ("limit", Some(PAGE.to_string())), ("cursor", cursor)];
        let found = page(place, &query(which), client).await?;
        let lines: Vec<String> =
            found.items.iter().map(|one| serde_json::to_string(one).unwrap_or_default()).collect();
        target.batch(&lines.iter().map(String::as_str).collect::<Vec<_>>(), app)?;
        match found.next_cursor {
            Some(next) => cursor = Some(next),
            None => return target.tell("message", app),
        }
    }
}

async fn purge(place: &str, options: InvalidOptions, client: &Client, app: &App) -> Result<(), Problem> {
    let name = clean(&options.name).into_owned();
    let what = if options.purge_all {
        "all messages".to_owned()
    } else {
        counted(u64::try_from(options.purge.len()).unwrap_or(u64::MAX), "message")
    };
    let question = format!("Remove {what} of the invalid channel of `{name}` for good?");
    if !consent(&question, options.yes, app)? {
        return app.out.page("nothing was removed");
    }
    let mut removed = 0;
    if options.purge_all {
        loop {
            let which = query([("limit", Some(PAGE.to_string()))]);
            let keys: Vec<String> =
                page(place, &which, client).await?.items.into_iter().map(|one| one.key).collect();
            if keys.is_empty() {
                break;
            }
            let before = removed;
            removed += gone(place, keys, client).await?;
            if removed == before {
                break;
            }
        }
    } else {
        for keys in options.purge.chunks(PAGE) {
            removed += gone(place, keys.to_vec(), client).await?;
        }
    }
    if app.out.json {
        return app.out.document(&InvalidPurged { removed });
    }
    app.out.page(&format!("removed {} of `{name}`", counted(removed, "message")))
}

async fn gone(place: &str, keys: Vec<String>, client: &Client) -> Result<u64, Problem> {
    let answer: InvalidPurged = client.post(&format!("{place}/purge"), &InvalidPurge { keys }).await?;
    Ok(answer.removed)
}
