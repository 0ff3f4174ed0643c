//! `backstop workflow list|show|submit|cancel|pause|resume`: jobs that wait for each other (W1-W6).

mod lanes;

use std::path::{Path, PathBuf};

use backstop::workflows::WorkflowStatus;
use backstop::{JobId, State, Timestamp};
use backstop_server::drawing::{self, PictureNode};
use backstop_server::shape::{GivenReason, Items, WorkflowChanged, WorkflowJson, WorkflowStored};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::app::App;
use crate::client::{Client, escaped, query};
use crate::output::figures::{counted, grouped};
use crate::output::ids::short_ids;
use crate::output::paint::Colour;
use crate::output::span::{both, relative};
use crate::output::table::{Properties, TextTable, inked, number, number_inked, text};
use crate::output::{CliOutput, clean};
use crate::problem::{Exit, Problem};

const WORKFLOWS: &str = "/api/v1/workflows";

/// Commands about workflows.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowCommand {
    /// List workflows, newest first.
    List(WorkflowListOptions),
    /// Show a workflow: how far it is, and a picture of its steps.
    Show {
        /// Its id, or the first characters of it.
        id: String,
        /// Write the picture as SVG to this file; `-` writes it to stdout.
        #[arg(long, value_name = "FILE", conflicts_with = "mermaid")]
        svg: Option<PathBuf>,
        /// Write the picture as text for Mermaid to this file; `-` writes it to stdout.
        #[arg(long, value_name = "FILE")]
        mermaid: Option<PathBuf>,
    },
    /// Submit a workflow from a JSON file.
    Submit {
        /// The file, as POST /api/v1/workflows takes it; `-` reads stdin.
        file: PathBuf,
    },
    /// Cancel every step that has not ended.
    Cancel {
        /// Its id, or the first characters of it.
        id: String,
        /// Why; kept with the jobs.
        #[arg(long)]
        reason: Option<String>,
    },
    /// Hold back every step that has not started.
    Pause {
        /// Its id, or the first characters of it.
        id: String,
    },
    /// Let the steps go on that were held back.
    Resume {
        /// Its id, or the first characters of it.
        id: String,
    },
}

/// Which workflows or batches.
#[derive(Debug, Args)]
pub(crate) struct WorkflowListOptions {
    /// In this status.
    #[arg(long)]
    status: Option<StatusWord>,
    /// Of this name.
    #[arg(long)]
    name: Option<String>,
    /// Rows at most.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Go on after this row.
    #[arg(long)]
    cursor: Option<String>,
}

/// The statuses of a workflow.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum StatusWord {
    Running,
    Succeeded,
    Failed,
    Paused,
    Canceled,
}

impl WorkflowListOptions {
    pub(super) fn query(&self) -> String {
        let status = self.status.and_then(|status| status.to_possible_value());
        query([
            ("status", status.map(|status| status.get_name().to_owned())),
            ("name", self.name.clone()),
            ("limit", Some(self.limit.to_string())),
            ("cursor", self.cursor.clone()),
        ])
    }

    pub(super) const fn narrows(&self) -> bool {
        self.status.is_some() || self.name.is_some() || self.cursor.is_some()
    }
}

pub(crate) async fn run(command: WorkflowCommand, app: &App) -> Result<Exit, Problem> {
    let submits = matches!(command, WorkflowCommand::Submit { .. });
    let client = if submits { app.client().await? } else { app.looking().await? };
    let path = |id: &str| format!("{WORKFLOWS}/{}", escaped(id));
    match command {
        WorkflowCommand::List(options) => list(&client, app, &options).await?,
        WorkflowCommand::Show { id, svg, mermaid } => {
            let workflow: WorkflowJson = client.get(&path(&id)).await?;
            match (svg, mermaid) {
                (Some(file), _) => write(app, &file, &drawing::svg(&workflow))?,
                (_, Some(file)) => write(app, &file, &drawing::mermaid(&workflow))?,
                _ => show(&client, app, &workflow).await?,
            }
        }
        WorkflowCommand::Submit { file } => {
            let stored: WorkflowStored = client.post(WORKFLOWS, &body(&file)?).await?;
            told(app, &stored, &stored.workflow.id.to_string(), stored.deduplicated)?;
        }
        WorkflowCommand::Cancel { id, reason } => {
            let body = GivenReason { reason };
            said(app, &client.post(&format!("{}/cancel", path(&id)), &body).await?, "canceled", "step")?;
        }
        WorkflowCommand::Pause { id } => {
            said(app, &client.post(&format!("{}/pause", path(&id)), &()).await?, "paused", "step")?;
        }
        WorkflowCommand::Resume { id } => {
            said(app, &client.post(&format!("{}/resume", path(&id)), &()).await?, "resumed", "step")?;
        }
    }
    Ok(Exit::Done)
}

/// What was done, in one line.
pub(super) fn said(app: &App, done: &WorkflowChanged, word: &str, noun: &str) -> Result<(), Problem> {
    if app.out.json {
        return app.out.document(done);
    }
    app.out.page(&format!("{} {word}; it is {}", counted(done.changed, noun), done.status))
}

/// The document of a file, sent as it stands.
pub(super) fn body(file: &Path) -> Result<Box<RawValue>, Problem> {
    let shown = file.display().to_string();
    let text =
        if shown == "-" { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(file) };
    let text = text.map_err(|error| Problem::failed("file", format!("cannot read {shown}: {error}")))?;
    serde_json::from_str(&text)
        .map_err(|error| Problem::failed("file", format!("{shown} is not valid JSON: {error}")))
}

/// Says what was stored.
pub(super) fn told(app: &App, stored: &impl Serialize, id: &str, deduplicated: bool) -> Result<(), Problem> {
    if app.out.json {
        return app.out.document(stored);
    }
    if deduplicated {
        app.out.note("it had been submitted before, under the same key");
    }
    app.out.page(id)
}

fn write(app: &App, file: &Path, picture: &str) -> Result<(), Problem> {
    if file.as_os_str() == "-" {
        return app.out.page(picture.trim_end());
    }
    let shown = file.display();
    std::fs::write(file, picture)
        .map_err(|error| Problem::failed("file", format!("cannot write {shown}: {error}")))?;
    app.out.note(&format!("written to {shown}"));
    Ok(())
}

pub(super) const fn colour(status: WorkflowStatus) -> Colour {
    match status {
        WorkflowStatus::Running => Colour::of_state(State::Running),
        WorkflowStatus::Succeeded => Colour::of_state(State::Succeeded),
        WorkflowStatus::Failed => Colour::of_state(State::Failed),
        WorkflowStatus::Paused => Colour::of_state(State::Paused),
        WorkflowStatus::Canceled => Colour::of_state(State::Canceled),
    }
}

async fn list(client: &Client, app: &App, options: &WorkflowListOptions) -> Result<(), Problem> {
    let page: Items<WorkflowJson> = client.get(&format!("{WORKFLOWS}{}", options.query())).await?;
    if app.out.json {
        return app.out.items(&page.items, page.next_cursor);
    }
    if page.items.is_empty() && page.next_cursor.is_none() {
        return app.out.page(if options.narrows() {
            "no workflow matches: `backstop workflow list` without filters shows all"
        } else {
            "no workflows yet: `backstop workflow submit FILE` adds one"
        });
    }
    let now = client.now().await?;
    let heads = ["id", "workflow", "status", "done", "failed", "waiting", "submitted"];
    let mut table = TextTable::new(&app.out, &heads).drop_first(&[6, 5]);
    for (workflow, id) in page.items.iter().zip(ids(page.items.iter().map(|workflow| workflow.id))) {
        let progress = &workflow.progress;
        let failed = if progress.failed > 0 {
            number_inked(Colour::of_state(State::Failed), progress.failed)
        } else {
            number(0)
        };
        table.row(vec![
            text(&id),
            text(&workflow.name),
            inked(colour(workflow.status), workflow.status.as_str()),
            text(&done(progress.succeeded + progress.failed + progress.canceled, progress.total)),
            failed,
            number(progress.waiting),
            text(&relative(now, workflow.created_at)),
        ]);
    }
    app.out.page(&table.text())?;
    more(app, page.next_cursor);
    Ok(())
}

pub(super) fn more(app: &App, next: Option<String>) {
    if let Some(next) = next {
        app.out.note(&format!("\nmore: add --cursor {next}"));
    }
}

/// Ids of workflows, as short as tells them apart.
pub(super) fn ids(ids: impl Iterator<Item = backstop::workflows::WorkflowId>) -> Vec<String> {
    short_ids(ids.map(|id| JobId::from_uuid(id.as_uuid())))
}

/// How many of how many, with a bar.
pub(super) fn done(done: u64, total: u64) -> String {
    const CELLS: u64 = 10;
    let full = done.saturating_mul(CELLS).checked_div(total).unwrap_or(CELLS).min(CELLS);
    let bar: String = (0..CELLS).map(|cell| if cell < full { '█' } else { '░' }).collect();
    format!("{bar} {}/{}", grouped(done), grouped(total))
}

/// Dead predicates that are named below a graph.
const MOST_PREDICATES: usize = 10;

async fn show(client: &Client, app: &App, workflow: &WorkflowJson) -> Result<(), Problem> {
    if app.out.json {
        return app.out.document(workflow);
    }
    app.out.page(&page(&app.out, workflow, client.now().await?))
}

fn page(out: &CliOutput, workflow: &WorkflowJson, now: Timestamp) -> String {
    let progress = &workflow.progress;
    let mut facts = Properties::default();
    facts.add("id", workflow.id.to_string());
    facts.add("status", out.ink(colour(workflow.status), workflow.status.as_str()));
    facts.add("done", done(progress.succeeded + progress.failed + progress.canceled, progress.total));
    facts.add("submitted", both(now, workflow.created_at));
    if let Some(end) = workflow.finished_at {
        facts.add("ended", both(now, end));
    }
    let title = out.ink(Colour::Bold, &clean(&workflow.name));
    let picture = drawing::picture(workflow);
    let lines = lanes::lines(&picture.nodes);
    let width = lines.iter().map(|line| line.lanes.chars().count()).max().unwrap_or_default();
    let names = picture.nodes.iter().map(|node| label(node).chars().count()).max().unwrap_or_default();
    let mut text = format!("{title}\n\n{}\n", facts.page(out));
    for line in &lines {
        let lanes = format!("{:<width$}", line.lanes);
        let Some(node) = line.node.map(|node| &picture.nodes[node]) else {
            text.push_str(&format!("  {}\n", out.ink(Colour::Grey, lanes.trim_end())));
            continue;
        };
        let (ink, label) = (Colour::of_state(node.status), label(node));
        let lanes = lanes.replace(lanes::MARK, &out.ink(ink, &lanes::MARK.to_string()));
        let condition = if node.condition.is_empty() {
            String::new()
        } else {
            format!("  {}", out.ink(Colour::Grey, &clean(&node.condition)))
        };
        text.push_str(&format!(
            "  {lanes}  {label:<names$}  {}{condition}\n",
            out.ink(ink, &node.status_text)
        ));
    }
    if picture.left_out > 0 {
        text.push_str(&format!("  and {} more steps\n", grouped(picture.left_out as u64)));
    }
    // They are jobs of no step, so no list of steps leads to them.
    let dead = workflow.nodes.iter().filter_map(|node| Some((&node.name, node.asked.as_ref()?)));
    for (step, asked) in dead.filter(|(_, asked)| asked.status == State::Failed).take(MOST_PREDICATES) {
        let told = format!("the predicate of {} failed: backstop job explain {}", clean(step), asked.job);
        text.push_str(&format!("\n{}\n", out.ink(Colour::of_state(State::Failed), &told)));
    }
    text.trim_end().to_owned()
}

fn label(node: &PictureNode) -> String {
    match node.count {
        1 => clean(&node.name).into_owned(),
        count => format!("{} ({})", clean(&node.name), grouped(count as u64)),
    }
}
