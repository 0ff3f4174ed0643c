//! `backstop alert list`: what each channel was told of each incident, and what it has yet to be told (D3).

use backstop::Timestamp;
use backstop_server::shape::{Alert, Items};
use clap::Subcommand;

use crate::app::App;
use crate::client::query;
use crate::output::paint::Colour;
use crate::output::span::relative;
use crate::output::table::{TextTable, inked, number, short, text};
use crate::problem::{Exit, Problem};

const ALERTS: &str = "/api/v1/alerts";

/// Commands about alerts.
#[derive(Debug, Subcommand)]
pub(crate) enum AlertCommand {
    /// What each channel was told of each incident, and what it has yet to be told.
    List {
        /// At most this many.
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// Go on after this row, as `next_cursor` of the page before says.
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
}

pub(crate) async fn run(command: AlertCommand, app: &App) -> Result<Exit, Problem> {
    let AlertCommand::List { limit, cursor } = command;
    let client = app.looking().await?;
    let page = query([("limit", Some(limit.to_string())), ("cursor", cursor)]);
    let found: Items<Alert> = client.get(&format!("{ALERTS}{page}")).await?;
    if app.out.json {
        app.out.items(&found.items, found.next_cursor)?;
        return Ok(Exit::Done);
    }
    if found.items.is_empty() {
        app.out.page("no alert was raised: set alerts.webhook or alerts.log to be told of dead letters")?;
        return Ok(Exit::Done);
    }
    app.out.page(&table(app, &found.items, client.now().await?))?;
    if let Some(next) = found.next_cursor {
        app.out.note(&format!("there are more: add --cursor {next}"));
    }
    Ok(Exit::Done)
}

fn table(app: &App, alerts: &[Alert], now: Timestamp) -> String {
    let heads = ["incident", "channel", "state", "told", "waiting", "suppressed", "last told", "trouble"];
    let mut table = TextTable::new(&app.out, &heads).flexible(&[7]).drop_first(&[5, 6, 7]);
    for alert in alerts {
        let (ink, state) = state(alert, now);
        table.row(vec![
            text(&alert.incident),
            text(&alert.channel),
            inked(ink, &state),
            number(alert.told),
            number(alert.waiting),
            number(alert.suppressed),
            alert.told_at.map_or_else(|| text("-"), |at| text(&relative(now, at))),
            short(alert.trouble.as_deref().unwrap_or("-"), 200),
        ]);
    }
    table.text()
}

/// How it stands between an incident and a channel, and the color of that.
fn state(alert: &Alert, now: Timestamp) -> (Colour, String) {
    match (alert.failures, alert.next_try) {
        (0, _) if alert.waiting > 0 => (Colour::Yellow, "waiting".to_owned()),
        (0, _) => (Colour::Green, "told".to_owned()),
        (_, Some(next)) => (Colour::Red, format!("failing, next try {}", relative(now, next))),
        _ => (Colour::Red, "failing".to_owned()),
    }
}
