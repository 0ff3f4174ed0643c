//! What was measured, as a table: the floor, Backstop, the ratio, the goal.

use comfy_table::Cell;
use serde::Serialize;

use crate::output::CliOutput;
use crate::output::figures::grouped;
use crate::output::paint::Colour;
use crate::output::table::{TextTable, text};

/// What the engine should reach of hand-written SQL on the same tables, and a bridge of a bare loop of its broker's
/// client.
const RATIO_GOAL: f64 = 0.5;

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Quantity {
    JobsPerSecond,
    MessagesPerSecond,
    Millis,
    Megabytes,
    Ratio,
}

impl Quantity {
    fn show(self, value: f64) -> String {
        match self {
            Self::JobsPerSecond => format!("{} jobs/s", grouped(whole(value))),
            Self::MessagesPerSecond => format!("{} msg/s", grouped(whole(value))),
            Self::Millis => format!("{value:.2} ms"),
            Self::Megabytes => format!("{value:.0} MB"),
            Self::Ratio => format!("{value:.2}"),
        }
    }
}

/// A figure without its fraction, for people.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates are positive and far below 2^64"
)]
fn whole(value: f64) -> u64 {
    value.max(0.0).round() as u64
}

/// What a figure should reach.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BenchGoal {
    AtLeast(f64),
    Below(f64),
}

impl BenchGoal {
    fn met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(goal) => value >= goal,
            Self::Below(goal) => value < goal,
        }
    }
}

/// One figure.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BenchFigure {
    name: String,
    what: String,
    unit: Quantity,
    floor: Option<f64>,
    backstop: f64,
    ratio: Option<f64>,
    /// What the ratio should reach; every measure with a floor has one.
    ratio_goal: Option<f64>,
    goal: Option<BenchGoal>,
    met: Option<bool>,
    runs: Vec<f64>,
}

impl BenchFigure {
    pub(super) fn new(name: &str, what: &str, unit: Quantity, backstop: f64) -> Self {
        Self {
            name: name.to_owned(),
            what: what.to_owned(),
            unit,
            floor: None,
            backstop,
            ratio: None,
            ratio_goal: None,
            goal: None,
            met: None,
            runs: vec![backstop],
        }
    }

    /// The same with what hand-written SQL reaches, or a bare loop of a client.
    pub(super) fn floor(mut self, floor: f64) -> Self {
        self.floor = Some(floor);
        self.ratio = Some(self.backstop / floor);
        self.ratio_goal = Some(RATIO_GOAL);
        self.judged()
    }

    /// The same with every run that the figure is the median of.
    pub(super) fn runs(mut self, runs: Vec<f64>) -> Self {
        self.runs = runs;
        self
    }

    /// The same with what it should reach.
    pub(super) fn goal(mut self, goal: BenchGoal) -> Self {
        self.goal = Some(goal);
        self.judged()
    }

    /// Every goal must be met.
    fn judged(mut self) -> Self {
        let by_ratio = self.ratio_goal.zip(self.ratio).map(|(goal, ratio)| ratio >= goal);
        let by_figure = self.goal.map(|goal| goal.met(self.backstop));
        self.met = match (by_ratio, by_figure) {
            (Some(a), Some(b)) => Some(a && b),
            (a, b) => a.or(b),
        };
        self
    }

    fn goals(&self) -> String {
        let ratio = self.ratio_goal.map(|goal| format!("≥ {goal:.2} of the floor"));
        let figure = self.goal.map(|goal| match goal {
            BenchGoal::AtLeast(goal) => format!("≥ {}", self.unit.show(goal)),
            BenchGoal::Below(goal) => format!("< {}", self.unit.show(goal)),
        });
        ratio.into_iter().chain(figure).collect::<Vec<_>>().join(", ")
    }
}

/// The table for people.
pub(crate) fn table(output: &CliOutput, measured: &[BenchFigure]) -> String {
    let mut table = TextTable::new(output, &["measure", "floor", "backstop", "ratio", "goal", ""])
        .flexible(&[0])
        .figures(&[1, 2, 3, 4]);
    for one in measured {
        let met = match one.met {
            None => text(""),
            Some(true) => text("met").fg(Colour::Green.cell()),
            Some(false) => text("missed").fg(Colour::Red.cell()),
        };
        table.row(vec![
            text(&one.what),
            Cell::new(one.floor.map_or_else(|| "-".to_owned(), |floor| one.unit.show(floor))),
            Cell::new(one.unit.show(one.backstop)),
            Cell::new(one.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))),
            Cell::new(one.goals()),
            met,
        ]);
    }
    table.text()
}
