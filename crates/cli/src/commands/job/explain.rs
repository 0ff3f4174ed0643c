//! `backstop job explain`: where a job is, why, what happens next, and every check in order (F20).

use backstop::{JobId, Timestamp};
use backstop_core::failure::{Check, Decision, Verdict};
use backstop_server::shape::ExplainedJob;

use super::named::path;
use crate::app::App;
use crate::client::Client;
use crate::output::clean;
use crate::output::paint::Colour;
use crate::output::span::{length, relative};
use crate::output::table::Properties;
use crate::output::wrap::wrapped;
use crate::problem::Problem;

pub(super) async fn run(id: JobId, client: &Client, app: &App) -> Result<(), Problem> {
    let explained: ExplainedJob = client.get(&path(id, "/explain")).await?;
    if app.out.json {
        return app.out.document(&explained.explanation);
    }
    app.out.page(&page(app, &explained, client.now().await?))
}

fn page(app: &App, explained: &ExplainedJob, now: Timestamp) -> String {
    let explanation = &explained.explanation;
    let head = |text: &str| app.out.ink(Colour::Bold, text);
    let state = app.out.ink(Colour::of_state(explanation.status), explanation.status.as_str());
    let at = explanation.next_at;
    let when = at.map_or_else(String::new, |at| format!("  ({})", relative(now, at)));
    let mut page = format!("{} {}\n\n", head(&clean(&explained.kind)), explained.id);
    page.push_str(&format!("  {}  {state} on queue `{}`\n", head("where"), clean(&explained.queue)));
    let sentence = |text: &str| wrapped(&clean(text), app.out.width, 9);
    page.push_str(&format!("  {}    {}\n", head("why"), sentence(&explanation.because)));
    page.push_str(&format!("  {}   {}{when}\n", head("next"), sentence(&explanation.next)));
    page.push_str(&format!("\n{}\n{}", head("checks, in order"), checks(app, &explanation.checks)));
    if let Some(decision) = &explanation.last_decision {
        page.push_str(&format!("\n{}\n{}", head("how its latest run was decided"), decided(app, decision)));
    }
    page
}

fn checks(app: &App, checks: &[Check]) -> String {
    let mut facts = Properties::default();
    for check in checks {
        facts.add(&clean(&check.check), clean(&check.answer));
    }
    facts.page(&app.out)
}

fn decided(app: &App, decision: &Decision) -> String {
    let (ink, words) = match &decision.verdict {
        Verdict::Succeed => (Colour::Green, "succeeded".to_owned()),
        Verdict::Retry { delay } => (Colour::Yellow, format!("runs again after {}", length(*delay))),
        Verdict::Defer { delay } => {
            (Colour::Yellow, format!("requeued, not charged, for {}", length(*delay)))
        }
        Verdict::Wait { signal, until, .. } => {
            (Colour::Yellow, format!("waits for signal `{}` until {until}, not charged", clean(signal)))
        }
        Verdict::Dead { reason } => (Colour::Red, format!("dead: {reason}")),
        Verdict::Cancel { reason } => (Colour::Grey, format!("canceled: {}", clean(reason))),
    };
    format!("{}  → {}\n", checks(app, &decision.trace), app.out.ink(ink, &words))
}
