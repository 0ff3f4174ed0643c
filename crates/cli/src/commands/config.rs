//! `backstop config init|check|reference`: a first file, every effective setting with where it comes from, and every
//! setting that there is.

use std::path::Path;
use std::time::Duration;

use backstop::Alerts;
use clap::Subcommand;
use serde_json::json;

use super::unserved;
use crate::app::App;
use crate::config::bridges::clashes;
use crate::config::{FILE_NAME, SettingSource, Settings, init as file, reference as all};
use crate::output::paint::Colour;
use crate::output::span::length;
use crate::output::table::{TextTable, inked, short, text};
use crate::output::{CliOutput, clean};
use crate::problem::{Exit, Problem};

/// How long a check waits for the store: it is about the configuration first.
const STORE_PATIENCE: Duration = Duration::from_secs(3);

/// Commands about the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Write a commented backstop.toml to start from.
    Init,
    /// Check the file and print every effective setting with its source.
    Check,
    /// Print every setting with its variable, default and meaning, as Markdown.
    Reference,
}

/// Writes a first file; `path` is the one that `--config` names.
pub(crate) fn init(path: Option<&Path>, output: &CliOutput) -> Result<Exit, Problem> {
    let path = path.unwrap_or(Path::new(FILE_NAME));
    file::write(path)?;
    let name = path.display().to_string();
    if output.json {
        output.document(&json!({ "file": name }))?;
    } else {
        output.page(&format!("wrote {}", clean(&name)))?;
        output.note("every setting in it is commented out; `backstop config check` shows what is in effect");
    }
    Ok(Exit::Done)
}

/// Prints every setting that there is, whatever is set.
pub(crate) fn reference(output: &CliOutput) -> Result<Exit, Problem> {
    if output.json {
        output.document(&json!({ "markdown": all::page() }))?;
    } else {
        output.page(&all::page())?;
    }
    Ok(Exit::Done)
}

pub(crate) async fn run(command: &ConfigCommand, app: &App) -> Result<Exit, Problem> {
    match command {
        ConfigCommand::Init => return init(None, &app.out),
        ConfigCommand::Reference => return reference(&app.out),
        ConfigCommand::Check => {}
    }
    let settings = &app.settings;
    let mut warnings = unused(settings);
    warnings.extend(unserved::by_settings(settings));
    warnings.extend(clashes(&settings.bridges));
    warnings.extend(waiting(app).await);
    let file = settings.file.as_ref().map(|path| path.display().to_string());
    if app.out.json {
        app.out.document(&json!({ "file": file, "settings": settings.rows, "warnings": warnings }))?;
        return Ok(Exit::Done);
    }
    app.out.page(&table(app))?;
    warnings.iter().for_each(|warning| app.out.warn(warning));
    app.out.note(&alerts(&settings.engine.alerts));
    match file {
        Some(file) => app.out.note(&format!("{file} is valid")),
        None => app.out.note(
            "no backstop.toml here: these are the defaults, flags and environment; `backstop config init` writes one",
        ),
    }
    Ok(Exit::Done)
}

fn unused(settings: &Settings) -> Vec<String> {
    let unused = settings.rows.iter().filter(|row| !row.used);
    unused.map(|row| format!("`{}` is not used by this version", row.key)).collect()
}

/// Queues of the store whose jobs wait for a worker that is not there. A store that cannot be looked at says nothing.
async fn waiting(app: &App) -> Vec<String> {
    let look = async {
        let client = app.looking().await.ok()?;
        unserved::by_store(&client, &app.settings).await.ok()
    };
    tokio::time::timeout(STORE_PATIENCE, look).await.ok().flatten().unwrap_or_default()
}

fn table(app: &App) -> String {
    let mut table = TextTable::new(&app.out, &["setting", "value", "source"]).flexible(&[1]);
    for row in &app.settings.rows {
        let value = row.value.as_str().map_or_else(|| row.value.to_string(), str::to_owned);
        let source = match (row.used, row.source) {
            (false, _) => inked(Colour::Yellow, "file, not used by this version"),
            (true, SettingSource::Default) => inked(Colour::Grey, "default"),
            (true, source) => text(&source.to_string()),
        };
        table.row(vec![text(&row.key), short(&value, 200), source]);
    }
    table.text()
}

/// Who is told of dead letters, in a sentence.
fn alerts(alerts: &Alerts) -> String {
    let names: Vec<&str> = alerts.channels.iter().map(|channel| channel.name()).collect();
    if names.is_empty() {
        return "dead letters raise no alert: set alerts.webhook or alerts.log".to_owned();
    }
    let gap = length(alerts.gap);
    format!("alerts about dead letters go to {}, at most one per incident in {gap}", names.join(" and "))
}
