//! Colours that mean something: green is done, blue is under way, yellow waits, red is dead, grey is canceled.

use backstop::State;
use backstop_core::failure::Cause;
use backstop_core::incident::IncidentState;
use backstop_server::shape::DoctorLevel;
use comfy_table::Color;

/// The colours that are used, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Green,
    Blue,
    Yellow,
    Red,
    Grey,
    Bold,
}

impl Colour {
    const fn code(self) -> &'static str {
        match self {
            Self::Green => "32",
            Self::Blue => "34",
            Self::Yellow => "33",
            Self::Red => "31",
            Self::Grey => "90",
            Self::Bold => "1",
        }
    }

    /// The same colour for a table's cell.
    pub(crate) const fn cell(self) -> Color {
        match self {
            Self::Green => Color::DarkGreen,
            Self::Blue => Color::DarkBlue,
            Self::Yellow => Color::DarkYellow,
            Self::Red => Color::DarkRed,
            Self::Grey => Color::DarkGrey,
            Self::Bold => Color::Reset,
        }
    }

    /// The colour of a state.
    pub(crate) const fn of_state(state: State) -> Self {
        match state {
            State::Succeeded => Self::Green,
            State::Running => Self::Blue,
            State::Pending | State::Waiting | State::Paused => Self::Yellow,
            State::Failed => Self::Red,
            State::Canceled => Self::Grey,
        }
    }

    /// The colour of an incident: red wants somebody, yellow has somebody, green is fixed.
    pub(crate) const fn of_incident(state: IncidentState) -> Self {
        match state {
            IncidentState::New | IncidentState::Regressed => Self::Red,
            IncidentState::Acknowledged => Self::Yellow,
            IncidentState::Fixed => Self::Green,
            IncidentState::Muted => Self::Grey,
        }
    }

    /// The colour of a run's end: charged ones are red, the rest is nobody's fault.
    pub(crate) fn of_cause(cause: Cause) -> Self {
        match cause {
            Cause::Succeeded => Self::Green,
            Cause::Canceled => Self::Grey,
            cause if cause.is_failure() => Self::Red,
            _ => Self::Yellow,
        }
    }

    /// The colour of a finding.
    pub(crate) const fn of_level(level: DoctorLevel) -> Self {
        match level {
            DoctorLevel::Good => Self::Green,
            DoctorLevel::Warning => Self::Yellow,
            DoctorLevel::Bad => Self::Red,
        }
    }
}

/// `text` in a colour when `colour` is on.
pub(crate) fn apply(colour: bool, ink: Colour, text: &str) -> String {
    if colour { format!("\u{1b}[{}m{text}\u{1b}[0m", ink.code()) } else { text.to_owned() }
}
