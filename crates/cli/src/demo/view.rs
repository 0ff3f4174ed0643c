//! What a person sees while the demo runs: rows that are redrawn on a terminal, lines elsewhere.

use std::io::Write;
use std::time::Instant;

use backstop::{JobId, State};
use backstop_core::job::Progress;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::output::paint::{self, Colour};
use crate::output::{brief, clean};

/// Where one job of the demo is, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DemoRow {
    pub(super) shows: &'static str,
    pub(super) id: JobId,
    pub(super) kind: String,
    pub(super) status: State,
    pub(super) runs: u32,
    pub(super) progress: Option<Progress>,
    pub(super) last: String,
    pub(super) done: bool,
}

impl DemoRow {
    pub(super) fn new(shows: &'static str, id: JobId) -> Self {
        Self {
            shows,
            id,
            kind: String::new(),
            status: State::Pending,
            runs: 0,
            progress: None,
            last: "stored".to_owned(),
            done: false,
        }
    }

    /// The row as a line of aligned columns.
    fn line(&self, colour: bool) -> String {
        let mark = match self.status {
            State::Succeeded => "✓",
            State::Failed => "✗",
            State::Canceled => "⊘",
            State::Running => "▶",
            State::Pending | State::Waiting | State::Paused => "·",
        };
        let ink = Colour::of_state(self.status);
        let status = paint::apply(colour, ink, &format!("{mark} {:<9}", self.status.as_str()));
        let said = match &self.progress {
            Some(progress) => format!("{}% {}", progress.percent, clean(&progress.note)),
            None => brief(&self.last, 160),
        };
        let (kind, runs) = (brief(&self.kind, 22), self.runs);
        format!("{status} {:<30} {kind:<22} {runs:>4}  {said}", self.shows)
    }
}

/// Who watches.
pub(crate) enum DemoViewer {
    /// Nobody: a machine waits for the end.
    Nobody,
    /// Someone who reads lines.
    Reader {
        /// When the show began.
        began: Instant,
        /// The latest line of each row: the same is not told twice.
        told: Vec<String>,
    },
    /// Someone at a terminal.
    Terminal(Box<DemoScreen>),
}

/// The redrawn rows.
pub(crate) struct DemoScreen {
    all: MultiProgress,
    /// Kept, because a bar that is dropped is cleared.
    head: ProgressBar,
    rows: Vec<ProgressBar>,
    total: ProgressBar,
    done: Vec<bool>,
}

impl DemoViewer {
    /// The audience that fits where stderr goes.
    pub(crate) fn new(json: bool, live: bool) -> Self {
        if json {
            Self::Nobody
        } else if live {
            let (head, total) = (ProgressBar::hidden(), ProgressBar::hidden());
            Self::Terminal(Box::new(DemoScreen {
                all: MultiProgress::new(),
                head,
                rows: Vec::new(),
                total,
                done: Vec::new(),
            }))
        } else {
            Self::Reader { began: Instant::now(), told: Vec::new() }
        }
    }

    /// The jobs are stored.
    pub(super) fn open(&mut self, rows: &[DemoRow]) {
        match self {
            Self::Nobody => {}
            Self::Reader { told, .. } => *told = vec![String::new(); rows.len()],
            Self::Terminal(screen) => screen.open(rows),
        }
    }

    /// Something happened to a job.
    pub(super) fn changed(&mut self, at: usize, row: &DemoRow) {
        match self {
            Self::Nobody => {}
            Self::Reader { began, told } => {
                // A line for each thing that happens; how far a run is would be too much to read.
                let line = DemoRow { progress: None, ..row.clone() }.line(false);
                if told[at] != line {
                    let seconds = began.elapsed().as_secs_f64();
                    let _ = writeln!(std::io::stderr().lock(), "{seconds:>6.2} s  {line}");
                    told[at] = line;
                }
            }
            Self::Terminal(screen) => screen.changed(at, row),
        }
    }

    /// The show was broken off: the rows stay as they are.
    pub(crate) fn leave(&mut self) {
        if let Self::Terminal(screen) = self {
            screen.rows.iter().chain([&screen.head, &screen.total]).for_each(ProgressBar::abandon);
            let _ = writeln!(std::io::stderr().lock());
        }
    }

    /// The show is over.
    pub(crate) fn close(&mut self) {
        if let Self::Terminal(screen) = self {
            // The summary says all that the rows said.
            let _ = screen.all.clear();
        }
    }
}

impl DemoScreen {
    fn open(&mut self, rows: &[DemoRow]) {
        let plain = |template: &str| {
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
        };
        self.head = self.all.add(ProgressBar::new_spinner().with_style(plain("{wide_msg}")));
        let titles = format!(
            "  {:<9} {:<30} {:<22} {:>4}  {}",
            "STATUS", "SHOWS", "KIND", "RUNS", "LAST THING THAT HAPPENED"
        );
        self.head.set_message(paint::apply(true, Colour::Bold, &titles));
        for row in rows {
            let bar = self.all.add(ProgressBar::new_spinner().with_style(plain("{wide_msg}")));
            bar.set_message(row.line(true));
            self.rows.push(bar);
        }
        let length = u64::try_from(rows.len()).unwrap_or(0);
        let style =
            plain("\n  {bar:40.green/black} {pos} of {len} have ended  {elapsed}").progress_chars("━━─");
        self.total = self.all.add(ProgressBar::new(length).with_style(style));
        self.total.enable_steady_tick(std::time::Duration::from_millis(250));
        self.done = vec![false; rows.len()];
        self.total.tick();
    }

    fn changed(&mut self, at: usize, row: &DemoRow) {
        if let Some(bar) = self.rows.get(at) {
            bar.set_message(row.line(true));
        }
        if row.done && !std::mem::replace(&mut self.done[at], true) {
            self.total.inc(1);
        }
    }
}
