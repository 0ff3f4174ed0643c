//! The table at the end of the demo: how each job ended, and what to type next.

use backstop::State;
use serde_json::{Value, json};

use super::stage::PlayedScene;
use crate::app::App;
use crate::output::paint::Colour;
use crate::output::table::{TextTable, inked, number, text};
use crate::problem::Problem;

/// Prints the summary, and answers whether every job ended as it should.
pub(crate) fn tell(app: &App, run_tag: &str, played: &[PlayedScene]) -> Result<bool, Problem> {
    let as_expected = !played.is_empty() && played.iter().all(PlayedScene::as_expected);
    if app.out.json {
        let items: Vec<Value> = played.iter().map(document).collect();
        app.out.document(&json!({ "demo": run_tag, "as_expected": as_expected, "items": items }))?;
        return Ok(as_expected);
    }
    app.out.page(&table(app, played))?;
    for one in played.iter().filter(|one| !one.as_expected()) {
        app.out.warn(&format!("`{}` should have ended as {:?}", one.scene.shows, one.scene.ends));
    }
    app.out.note(&format!(
        "\n`backstop job list --tag {run_tag}` lists these jobs, `backstop incident list` what went wrong"
    ));
    Ok(as_expected)
}

fn document(played: &PlayedScene) -> Value {
    let mut item = json!(played.end);
    item["shows"] = json!(played.scene.shows);
    item["id"] = json!(played.view.job.spec.id);
    item["kind"] = json!(played.view.job.spec.kind);
    item["as_expected"] = json!(played.as_expected());
    item["next"] = json!(next(played));
    item
}

fn table(app: &App, played: &[PlayedScene]) -> String {
    let heads = ["shows", "status", "runs", "charged", "cause", "reason", "what to type next"];
    let mut table = TextTable::new(&app.out, &heads).flexible(&[0]).drop_first(&[5, 4, 3, 2]);
    for one in played {
        let end = &one.end;
        let cause =
            end.cause.map_or_else(|| text("-"), |cause| inked(Colour::of_cause(cause), cause.as_str()));
        table.row(vec![
            text(one.scene.shows),
            inked(Colour::of_state(end.status), end.status.as_str()),
            number(end.runs.into()),
            number(end.attempt.into()),
            cause,
            text(end.terminal_reason.map_or("-", backstop::TerminalReason::as_str)),
            text(&next(one)),
        ]);
    }
    table.text()
}

/// The command that shows most about a job that ended so.
fn next(played: &PlayedScene) -> String {
    let id = played.view.job.spec.id;
    match played.end.status {
        State::Failed => format!("backstop dead show {id}"),
        State::Succeeded if played.end.runs > 1 => format!("backstop job attempts {id}"),
        State::Succeeded => format!("backstop job show {id}"),
        _ => format!("backstop job explain {id}"),
    }
}
