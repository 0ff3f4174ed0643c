//! What people and machines read: pages and tables on stdout, notes on stderr, JSON for machines.
//!
//! Owns the terminal. It must not know any command.

pub(crate) mod figures;
pub(crate) mod ids;
pub(crate) mod paint;
pub(crate) mod span;
pub(crate) mod table;
pub(crate) mod wrap;

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;
use serde_json::{Value, json};

use crate::problem::Problem;
use paint::Colour;

/// Where answers go, and how they look.
#[derive(Debug, Clone)]
pub(crate) struct CliOutput {
    /// True when machines read.
    pub(crate) json: bool,
    /// True when stdout may be coloured.
    pub(crate) colour: bool,
    /// True when stderr may be coloured and redrawn.
    pub(crate) live: bool,
    /// Columns of the terminal behind stdout, if it is one.
    pub(crate) width: Option<u16>,
}

impl CliOutput {
    /// Decides once, from the flags and from what stdout and stderr are.
    pub(crate) fn new(json: bool, no_color: bool) -> Self {
        let plain = no_color
            || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            json,
            colour: !plain && io::stdout().is_terminal(),
            live: !json && !plain && io::stderr().is_terminal(),
            width: comfy_table::Table::new().width(),
        }
    }

    /// Prints the one JSON document of an answer.
    pub(crate) fn document(&self, value: &impl Serialize) -> Result<(), Problem> {
        let pretty = io::stdout().is_terminal();
        let text = if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) };
        let text = text.map_err(|problem| Problem::failed("json", problem.to_string()))?;
        self.page(&harmless_json(&text))
    }

    /// Prints the JSON document of a list.
    pub(crate) fn items(&self, items: &[impl Serialize], next: Option<String>) -> Result<(), Problem> {
        #[derive(Serialize)]
        struct Listed<'a, T> {
            items: &'a [T],
            next_cursor: Option<String>,
        }
        self.document(&Listed { items, next_cursor: next })
    }

    /// Prints JSON text that fills one line.
    pub(crate) fn line(&self, json: &str) -> Result<(), Problem> {
        self.page(&harmless_json(json))
    }

    /// Prints text and a line end to stdout. A reader that has gone away is no error of ours.
    pub(crate) fn page(&self, text: &str) -> Result<(), Problem> {
        let mut stdout = io::stdout().lock();
        let written = writeln!(stdout, "{}", text.trim_end_matches('\n')).and_then(|()| stdout.flush());
        written.map_err(Problem::from_stdout)
    }

    /// Tells a person something beside the answer, on stderr. Machines are not told.
    pub(crate) fn note(&self, text: &str) {
        if !self.json {
            // Nobody to tell is fine.
            let width = self.width.filter(|_| self.live);
            let lines: Vec<String> = text.lines().map(|line| wrap::wrapped(line, width, 0)).collect();
            let _ = writeln!(io::stderr().lock(), "{}", lines.join("\n"));
        }
    }

    /// Warns a person, or a machine by a JSON line on stderr.
    pub(crate) fn warn(&self, text: &str) {
        let line = if self.json {
            harmless_json(&json!({ "warning": text }).to_string()).into_owned()
        } else {
            format!("{} {}", self.err_ink(Colour::Yellow, "warning:"), clean(text))
        };
        let _ = writeln!(io::stderr().lock(), "{line}");
    }

    /// Text for stdout in a colour, if colours are wanted.
    pub(crate) fn ink(&self, ink: Colour, text: &str) -> String {
        paint::apply(self.colour, ink, text)
    }

    /// Text for stderr in a colour, if colours are wanted.
    pub(crate) fn err_ink(&self, ink: Colour, text: &str) -> String {
        paint::apply(self.live, ink, text)
    }
}

/// A stored string as a person may see it: one line, no control character.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    backstop_core::text::for_terminal(text)
}

/// A stored string cut to what fits in a cell or a line.
pub(crate) fn brief(text: &str, max_chars: usize) -> String {
    // Cutting first keeps a megabyte of text from being rewritten for eighty characters of it.
    let head = backstop_core::text::truncate_chars(text, max_chars);
    backstop_core::text::truncate_chars(&clean(&head), max_chars).into_owned()
}

/// A JSON value on one line, cut to what fits.
pub(crate) fn brief_json(value: &Value, max_chars: usize) -> String {
    brief(&value.to_string(), max_chars)
}

/// JSON escapes the controls below U+0020 only; others inside its strings would still reach a terminal raw.
fn harmless_json(text: &str) -> Cow<'_, str> {
    let hostile = |ch: char| {
        (ch.is_control() && ch != '\n') || matches!(ch, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(hostile) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for ch in text.chars() {
        if hostile(ch) {
            out.push_str(&format!("\\u{:04x}", u32::from(ch)));
        } else {
            out.push(ch);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_carries_no_raw_control_character_and_stays_the_same_value() {
        let value = json!({ "text": "a\u{1b}[31m\u{9b}2J\u{7f}\u{202e}\u{85}é" });
        let text = value.to_string();
        let shown = harmless_json(&text);
        assert!(!shown.chars().any(|ch| ch.is_control() || ch == '\u{202e}'), "{shown}");
        assert_eq!(serde_json::from_str::<Value>(&shown).expect("still JSON"), value);
        assert!(matches!(harmless_json("{\n \"a\": 1\n}"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_brief_text_is_short_and_harmless() {
        assert_eq!(brief("ab\ncd", 10), "ab⏎ cd");
        assert_eq!(brief("\u{1b}\u{1b}\u{1b}\u{1b}", 3).chars().count(), 3);
    }
}
