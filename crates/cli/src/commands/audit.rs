//! `backstop audit`: who changed what over the HTTP API.

use backstop::Timestamp;
use backstop_server::shape::{AuditLine, Items};
use clap::Args;

use crate::app::App;
use crate::client::query;
use crate::output::paint::Colour;
use crate::output::span::relative;
use crate::output::table::{TextTable, inked, number, short, text};
use crate::problem::{Exit, Problem};

/// Options of `audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditOptions {
    /// At most this many lines, up to 1000.
    #[arg(long, default_value_t = 20)]
    limit: usize,
    /// Continue after this line: `next_cursor` of the previous page.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

pub(crate) async fn run(args: &AuditOptions, app: &App) -> Result<Exit, Problem> {
    let client = app.looking().await?;
    let page = query([("limit", Some(args.limit.to_string())), ("cursor", args.cursor.clone())]);
    let found: Items<AuditLine> = client.get(&format!("/api/v1/audit{page}")).await?;
    if app.out.json {
        app.out.items(&found.items, found.next_cursor)?;
        return Ok(Exit::Done);
    }
    if found.items.is_empty() {
        app.out.page("the audit log is empty: nothing has been changed over the HTTP API yet")?;
        return Ok(Exit::Done);
    }
    app.out.page(&table(app, &found.items, client.now().await?))?;
    if let Some(next) = found.next_cursor {
        app.out.note(&format!("\nmore: add --cursor {next}"));
    }
    Ok(Exit::Done)
}

fn table(app: &App, lines: &[AuditLine], now: Timestamp) -> String {
    let heads = ["when", "who", "tenant", "call", "status", "from", "times"];
    let mut table = TextTable::new(&app.out, &heads).flexible(&[3]).drop_first(&[2, 5, 6]);
    for line in lines {
        let ink = match line.status {
            200..400 => Colour::Green,
            400..500 => Colour::Yellow,
            _ => Colour::Red,
        };
        table.row(vec![
            text(&relative(now, line.at)),
            text(&line.who),
            text(line.tenant.as_deref().unwrap_or("-")),
            short(&call(line), 160),
            inked(ink, &line.status.to_string()),
            text(line.from.as_deref().unwrap_or("-")),
            number(line.count),
        ]);
    }
    table.text()
}

/// The call, or what maintenance has retired.
fn call(line: &AuditLine) -> String {
    let what = line.what.as_deref().map(|what| format!(": {what}")).unwrap_or_default();
    format!("{} {}{what}", line.method, line.path)
}
