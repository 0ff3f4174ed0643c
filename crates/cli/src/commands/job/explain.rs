//! `backstop job explain`: where a job is, why, what happens next, and every check in order (F20).

use backstop::core::explain::Explanation;
use backstop::core::failure::{Check, Decision, Verdict};
use backstop::core::job::JobView;
use backstop::{Backstop, JobId, Timestamp};

use crate::app::{App, absent};
use crate::output::clean;
use crate::output::paint::Ink;
use crate::output::span::{length, relative};
use crate::output::table::Facts;
use crate::output::wrap::wrapped;
use crate::problem::Problem;

pub(super) async fn run(id: JobId, engine: &Backstop, app: &App) -> Result<(), Problem> {
    let Some((view, explanation)) = engine.explain(id).await? else { return Err(absent(id, engine).await) };
    if app.out.json {
        return app.out.document(&explanation);
    }
    let now = engine.store().now().await?;
    app.out.page(&page(app, &view, &explanation, now))
}

fn page(app: &App, view: &JobView, explanation: &Explanation, now: Timestamp) -> String {
    let head = |text: &str| app.out.ink(Ink::Bold, text);
    let state = app.out.ink(Ink::of_state(explanation.status), explanation.status.as_str());
    let (spec, at) = (&view.job.spec, explanation.next_at);
    let when = at.map_or_else(String::new, |at| format!("  ({})", relative(now, at)));
    let mut page = format!("{} {}\n\n", head(&clean(&spec.kind)), spec.id);
    page.push_str(&format!("  {}  {state} on queue `{}`\n", head("where"), clean(&spec.queue)));
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
    let mut facts = Facts::default();
    for check in checks {
        facts.add(&clean(&check.check), clean(&check.answer));
    }
    facts.page(&app.out)
}

fn decided(app: &App, decision: &Decision) -> String {
    let (ink, words) = match &decision.verdict {
        Verdict::Succeed => (Ink::Green, "succeeded".to_owned()),
        Verdict::Retry { delay } => (Ink::Yellow, format!("runs again after {}", length(*delay))),
        Verdict::Defer { delay } => (Ink::Yellow, format!("goes back without blame, for {}", length(*delay))),
        Verdict::Dead { reason } => (Ink::Red, format!("a dead letter: {reason}")),
        Verdict::Cancel { reason } => (Ink::Grey, format!("called off: {}", clean(reason))),
    };
    format!("{}  → {}\n", checks(app, &decision.trace), app.out.ink(ink, &words))
}
