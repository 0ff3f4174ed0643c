//! `backstop incident list`: failures with one fingerprint, counted (D2).

use backstop::Timestamp;
use clap::Subcommand;

use crate::app::App;
use crate::output::paint::Ink;
use crate::output::span::relative;
use crate::output::table::{Listing, number, number_inked, short, text};
use crate::problem::{Exit, Problem};

/// Commands about incidents.
#[derive(Debug, Subcommand)]
pub(crate) enum Incident {
    /// Incidents, latest seen first.
    List {
        /// At most this many.
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
}

pub(crate) async fn run(command: Incident, app: &App) -> Result<Exit, Problem> {
    let Incident::List { limit } = command;
    let engine = app.look().await?;
    let incidents = engine.incidents(limit).await?;
    if app.out.json {
        app.out.items(&incidents, None)?;
    } else if incidents.is_empty() {
        app.out.page("no failure has been seen: `backstop job list` shows all jobs")?;
    } else {
        app.out.page(&table(app, &incidents, engine.store().now().await?))?;
        app.out.note("\n`backstop job list --fingerprint F` lists the jobs of one incident");
    }
    Ok(Exit::Done)
}

fn table(app: &App, incidents: &[backstop::store::Incident], now: Timestamp) -> String {
    let heads = ["fingerprint", "kind", "failures", "dead", "error", "first seen", "last seen", "latest job"];
    let mut table = Listing::new(&app.out, &heads).flexible(&[4]).drop_first(&[7, 5, 6]);
    for one in incidents {
        table.row(vec![
            text(one.fingerprint.as_ref()),
            text(&one.kind),
            number(one.failures),
            number_inked(Ink::Red, one.dead),
            short(&format!("{}: {}", one.error_type, one.message), 160),
            text(&relative(now, one.first_seen)),
            text(&relative(now, one.last_seen)),
            text(&one.sample_job.to_string()),
        ]);
    }
    table.text()
}
