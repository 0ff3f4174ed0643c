//! `backstop config check`: every effective setting, with where it comes from.

use backstop::Alerts;
use clap::Subcommand;
use serde_json::json;

use crate::app::App;
use crate::config::Source;
use crate::output::paint::Ink;
use crate::output::span::length;
use crate::output::table::{Listing, inked, short, text};
use crate::problem::{Exit, Problem};

/// Commands about the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Check the file and print every effective setting with its source.
    Check,
}

pub(crate) fn run(command: &Config, app: &App) -> Result<Exit, Problem> {
    let Config::Check = command;
    let settings = &app.settings;
    let unused: Vec<&str> =
        settings.rows.iter().filter(|row| !row.used).map(|row| row.key.as_str()).collect();
    let warnings: Vec<String> =
        unused.iter().map(|key| format!("`{key}` is not used by this version")).collect();
    let file = settings.file.as_ref().map(|path| path.display().to_string());
    if app.out.json {
        app.out.document(&json!({ "file": file, "settings": settings.rows, "warnings": warnings }))?;
        return Ok(Exit::Done);
    }
    let mut table = Listing::new(&app.out, &["setting", "value", "source"]).flexible(&[1]);
    for row in &settings.rows {
        let value = row.value.as_str().map_or_else(|| row.value.to_string(), str::to_owned);
        let source = match (row.used, row.source) {
            (false, _) => inked(Ink::Yellow, "file, not used by this version"),
            (true, Source::Default) => inked(Ink::Grey, "default"),
            (true, source) => text(&source.to_string()),
        };
        table.row(vec![text(&row.key), short(&value, 200), source]);
    }
    app.out.page(&table.text())?;
    warnings.iter().for_each(|warning| app.out.warn(warning));
    app.out.note(&alerts(&settings.engine.alerts));
    match file {
        Some(file) => app.out.note(&format!("{file} is fine")),
        None => app.out.note("there is no backstop.toml here: these are the defaults, flags and environment"),
    }
    Ok(Exit::Done)
}

/// Who is told of dead letters, in a sentence.
fn alerts(alerts: &Alerts) -> String {
    let names: Vec<&str> = alerts.channels.iter().map(|channel| channel.name()).collect();
    if names.is_empty() {
        return "nobody is told of dead letters: set alerts.webhook or alerts.log".to_owned();
    }
    let gap = length(alerts.gap);
    format!("dead letters are told by {}, each incident at most once in {gap}", names.join(" and "))
}
