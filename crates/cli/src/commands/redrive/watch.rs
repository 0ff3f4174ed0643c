//! `--watch`: a progress bar on a terminal, lines elsewhere, until the plan is done, halted or canceled.

use std::time::Duration;

use backstop_core::job::PlanId;
use backstop_core::redrive::{Plan, PlanPhase};
use backstop_server::shape::PlanShown;
use indicatif::{ProgressBar, ProgressStyle};

use super::{REDRIVES, told};
use crate::app::App;
use crate::client::Client;
use crate::output::clean;
use crate::output::figures::grouped;
use crate::problem::{Exit, Problem};

/// How often the plan is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Looks between two lines where no bar can be drawn, unless the phase changes.
const QUIET_LOOKS: u32 = 20;

/// Shows a plan until it stops. Halted and canceled are no success for whoever waits for it.
pub(super) async fn run(id: &PlanId, client: &Client, app: &App) -> Result<Exit, Problem> {
    let mut view = View::new(app);
    loop {
        let shown: PlanShown = client.get(&format!("{REDRIVES}/{id}")).await?;
        view.show(app, &shown);
        let phase = shown.plan.phase;
        if matches!(phase, PlanPhase::Done | PlanPhase::Halted | PlanPhase::Canceled) {
            view.clear();
            told(app, &shown)?;
            return Ok(if phase == PlanPhase::Done { Exit::Done } else { Exit::Failed });
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Who watches.
enum View {
    Bar(ProgressBar),
    Lines { said: String, phase: Option<PlanPhase>, looks: u32 },
}

impl View {
    fn new(app: &App) -> Self {
        if !app.out.live || app.verbose {
            return Self::Lines { said: String::new(), phase: None, looks: 0 };
        }
        let style = ProgressStyle::with_template("{bar:30.cyan/blue} {pos}/{len} ended  {wide_msg}");
        let bar = ProgressBar::new(0);
        // The template is a constant of ours; the default bar does where it could not be read.
        Self::Bar(style.map_or(bar.clone(), |style| bar.with_style(style)))
    }

    fn show(&mut self, app: &App, PlanShown { plan, description }: &PlanShown) {
        match self {
            Self::Bar(bar) => {
                bar.set_length(plan.expected.max(plan.counts.driven));
                bar.set_position(plan.counts.driven.saturating_sub(plan.open.into()));
                bar.set_message(figures(plan));
            }
            Self::Lines { said: before, phase, looks } => {
                *looks += 1;
                let is_news = description != before && (*phase != Some(plan.phase) || *looks >= QUIET_LOOKS);
                if is_news && !app.out.json {
                    app.out.note(&clean(description));
                    (*before, *phase, *looks) = (description.clone(), Some(plan.phase), 0);
                }
            }
        }
    }

    fn clear(&self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// What stands beside the bar: short, so that the figures are not the part that a narrow terminal cuts off.
fn figures(plan: &Plan) -> String {
    let counts = &plan.counts;
    let failed = counts.failed_same + counts.failed_other;
    let waits = if plan.waits_for_code { ", waits for code" } else { "" };
    let (driven, succeeded) = (grouped(counts.driven), grouped(counts.succeeded));
    format!("{}: {driven} driven, {succeeded} succeeded, {} failed{waits}", plan.phase, grouped(failed))
}
