//! `backstop job list`.

use backstop::core::job::JobView;
use backstop::{Backstop, State, Timestamp};

use crate::app::App;
use crate::commands::filter::Filter;
use crate::output::paint::Ink;
use crate::output::span::relative;
use crate::output::table::{Listing, inked, number, short, text};
use crate::problem::Problem;

pub(super) async fn run(
    status: Option<State>,
    filter: &Filter,
    engine: &Backstop,
    app: &App,
) -> Result<(), Problem> {
    let mut page = engine.jobs(filter.jobs(status), filter.page()).await?;
    let next = page.next.map(|id| id.to_string());
    page.items.iter_mut().for_each(|view| *view = view.masked(&engine.mask()));
    if app.out.json {
        return app.out.items(&page.items, next);
    }
    if page.items.is_empty() {
        return app.out.page(if status.is_some() || filter.narrows() {
            "no job matches: `backstop job list` without filters shows all"
        } else {
            "there is no job yet: `backstop enqueue KIND` stores one, `backstop up --demo` shows some"
        });
    }
    app.out.page(&table(app, &page.items, engine.store().now().await?))?;
    if let Some(next) = next {
        app.out.note(&format!("\nthere are more: add --cursor {next}"));
    }
    Ok(())
}

fn table(app: &App, views: &[JobView], now: Timestamp) -> String {
    let heads = ["id", "kind", "queue", "status", "runs", "when", "note"];
    let mut table = Listing::new(&app.out, &heads).flexible(&[6]).drop_first(&[2, 6, 5, 4]);
    for view in views {
        let spec = &view.job.spec;
        table.row(vec![
            text(&spec.id.to_string()),
            text(&spec.kind),
            text(&spec.queue),
            inked(Ink::of_state(view.state()), view.state().as_str()),
            number(view.record.runs.into()),
            text(&when(view, now)),
            short(&note(view), 120),
        ]);
    }
    table.text()
}

/// The moment that matters in the job's state.
fn when(view: &JobView, now: Timestamp) -> String {
    let record = &view.record;
    match view.state() {
        State::Pending | State::Waiting if record.run_at > now => relative(now, record.run_at),
        State::Pending | State::Waiting => format!("due {}", relative(now, record.run_at)),
        State::Running => {
            let since = record.hold.map_or(record.run_at, |hold| hold.started_at.unwrap_or(hold.claimed_at));
            format!("since {}", relative(now, since).trim_end_matches(" ago"))
        }
        State::Paused => format!("stored {}", relative(now, view.job.created_at)),
        State::Succeeded | State::Failed | State::Canceled => {
            relative(now, record.finished_at.unwrap_or(view.job.created_at))
        }
    }
}

/// What a person wants to know beside the state.
fn note(view: &JobView) -> String {
    let record = &view.record;
    let failure = || view.last_failure.as_ref().map(|failure| failure.message.clone());
    let said = match view.state() {
        State::Succeeded => view.warning.clone(),
        State::Canceled => record.cancel_reason.clone(),
        State::Waiting if view.waits_for_code => Some("waits for code".to_owned()),
        State::Running => record.progress.as_ref().map(|p| format!("{}% {}", p.percent, p.note)),
        State::Failed => {
            let reason = record.reason.map_or("failed", backstop::TerminalReason::as_str);
            Some(failure().map_or_else(|| reason.to_owned(), |message| format!("{reason}: {message}")))
        }
        State::Pending | State::Waiting | State::Paused => failure(),
    };
    said.unwrap_or_default()
}
