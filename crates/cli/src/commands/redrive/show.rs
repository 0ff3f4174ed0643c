//! `backstop redrive show`: a plan in full, and what became of each of its jobs.

use backstop::Timestamp;
use backstop_core::job::PlanId;
use backstop_core::redrive::{Plan, PlanJob, PlanJobOutcome};
use backstop_server::shape::{Items, PlanShown};
use clap::Args;

use super::{REDRIVES, watch};
use crate::app::App;
use crate::client::{Client, query};
use crate::output::clean;
use crate::output::figures::grouped;
use crate::output::paint::Colour;
use crate::output::span::{both, relative};
use crate::output::table::{Properties, TextTable, inked, number, short, text};
use crate::output::wrap::wrapped;
use crate::problem::{Exit, Problem};

/// Which plan, and how much of it.
#[derive(Debug, Args)]
pub(crate) struct ShowPlanOptions {
    /// The plan, such as rd-1f0c9a22.
    id: PlanId,
    /// Watch it until it is done, halted or canceled.
    #[arg(long, conflicts_with = "jobs")]
    watch: bool,
    /// List its jobs and what became of each.
    #[arg(long)]
    jobs: bool,
    /// With --jobs: at most this many.
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// With --jobs: continue after this one: `next_cursor` of the previous page.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

pub(super) async fn run(options: &ShowPlanOptions, client: &Client, app: &App) -> Result<Exit, Problem> {
    if options.watch {
        return watch::run(&options.id, client, app).await;
    }
    let shown: PlanShown = client.get(&format!("{REDRIVES}/{}", options.id)).await?;
    if options.jobs {
        return jobs(options, &shown, client, app).await;
    }
    if app.out.json {
        app.out.document(&shown)?;
    } else {
        app.out.page(&page(app, &shown, client.now().await?))?;
        app.out.note(&format!("`backstop redrive show {} --jobs` lists what became of each job", options.id));
    }
    Ok(Exit::Done)
}

fn page(app: &App, PlanShown { plan, description }: &PlanShown, now: Timestamp) -> String {
    let head = |text: &str| app.out.ink(Colour::Bold, text);
    let mut page = format!("{} {}\n", head("plan"), app.out.ink(super::ink(plan.phase), plan.id.as_str()));
    page.push_str(&format!("  {}\n\n", wrapped(&clean(description), app.out.width, 2)));
    page.push_str(&format!("{}\n{}\n", head("what"), facts(plan, now).page(&app.out)));
    page.push_str(&format!("{}\n{}\n", head("so far"), figures(plan).page(&app.out)));
    page.push_str(&format!("{}\n", head("who did what")));
    for entry in &plan.history {
        let by = entry.by.as_deref().unwrap_or("by itself");
        let line = format!("{}  {}: {}", relative(now, entry.at), clean(by), clean(&entry.what));
        page.push_str(&format!("  {}\n", wrapped(&line, app.out.width, 4)));
    }
    page
}

fn facts(plan: &Plan, now: Timestamp) -> Properties {
    let mut facts = Properties::default();
    facts.add("which", clean(&plan.selector.to_string()));
    facts.text("incident", plan.about.as_deref());
    facts.text("note", Some(plan.note.as_str()).filter(|note| !note.is_empty()));
    facts.add("made", both(now, plan.created_at));
    facts.text("by", Some(&plan.created_by));
    facts.text("needs code", plan.needs.as_deref());
    let care = &plan.settings;
    let canaries = if care.canary == 1 { "1 canary".to_owned() } else { format!("{} canaries", care.canary) };
    facts.add(
        "care",
        format!(
            "{canaries}, batches of {}, {} a second, {} in flight at most, ceiling {}, {} other failures tolerated",
            care.batch, care.per_second, care.in_flight, care.ceiling, care.max_failures
        ),
    );
    facts
}

fn figures(plan: &Plan) -> Properties {
    let counts = &plan.counts;
    let mut facts = Properties::default();
    let all = [
        ("expected", plan.expected),
        ("driven", counts.driven),
        ("in flight", plan.open.into()),
        ("succeeded", counts.succeeded),
        ("failed again", counts.failed_same),
        ("failed otherwise", counts.failed_other),
        ("canceled", counts.canceled),
        ("gone", counts.gone),
        ("driven by hand", counts.by_hand),
        ("left out", counts.skipped),
    ];
    for (name, count) in all {
        facts.add(name, grouped(count));
    }
    facts
}

async fn jobs(
    options: &ShowPlanOptions,
    PlanShown { plan, description }: &PlanShown,
    client: &Client,
    app: &App,
) -> Result<Exit, Problem> {
    let page = query([("limit", Some(options.limit.to_string())), ("cursor", options.cursor.clone())]);
    let page: Items<PlanJob> = client.get(&format!("{REDRIVES}/{}/jobs{page}", plan.id)).await?;
    if app.out.json {
        app.out.items(&page.items, page.next_cursor)?;
        return Ok(Exit::Done);
    }
    if page.items.is_empty() {
        app.out.page(&format!("plan {} has driven no job: {}", plan.id, clean(description)))?;
        return Ok(Exit::Done);
    }
    app.out.page(&table(app, &page.items, client.now().await?))?;
    if let Some(next) = page.next_cursor {
        app.out.note(&format!("more: add --cursor {next}"));
    }
    Ok(Exit::Done)
}

fn table(app: &App, items: &[PlanJob], now: Timestamp) -> String {
    let heads = ["job", "part", "outcome", "driven", "redrives", "more"];
    let mut table = TextTable::new(&app.out, &heads).flexible(&[5]).drop_first(&[4, 3, 5]);
    for item in items {
        let (word, colour, more) = told(item.outcome.as_ref());
        table.row(vec![
            text(&item.job.to_string()),
            text(&item.part.to_string()),
            inked(colour, word),
            text(&relative(now, item.driven_at)),
            number(item.redrives.into()),
            short(&more, 120),
        ]);
    }
    table.text()
}

fn told(outcome: Option<&PlanJobOutcome>) -> (&'static str, Colour, String) {
    let Some(outcome) = outcome else { return ("in flight", Colour::Blue, String::new()) };
    let (ink, more) = match outcome {
        PlanJobOutcome::Succeeded => (Colour::Green, String::new()),
        PlanJobOutcome::FailedAgain => (Colour::Red, "of the same".to_owned()),
        PlanJobOutcome::FailedOtherwise { fingerprint } => {
            (Colour::Red, fingerprint.as_ref().map_or_else(String::new, |print| format!("incident {print}")))
        }
        PlanJobOutcome::NotDriven { why } => (Colour::Yellow, why.clone()),
        PlanJobOutcome::Canceled | PlanJobOutcome::Gone | PlanJobOutcome::DrivenByHand => {
            (Colour::Grey, String::new())
        }
    };
    (outcome.as_str(), ink, more)
}
