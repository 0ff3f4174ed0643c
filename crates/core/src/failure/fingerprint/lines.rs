//! Finds the message in a stack trace: drops frames, keeps what was said, on one line.
//!
//! Two runs of one failure may come through different frames, and a new release moves every line number.

use std::borrow::Cow;

use crate::text::collapse_whitespace;

/// More lines than this are no message any more, but a dump.
const MAX_LINES: usize = 8;

/// The lines of `message` that say something, joined. A message of one line is never dropped.
pub(super) fn headline(message: &str) -> Cow<'_, str> {
    let message = message.trim();
    if !message.contains('\n') {
        return collapse_whitespace(message);
    }
    let mut kept = Vec::new();
    let mut in_python_frame = false;
    for line in message.lines() {
        let said = line.trim();
        if starts_trace(said) && !kept.is_empty() || kept.len() == MAX_LINES {
            break;
        }
        let is_indented = line.starts_with([' ', '\t']);
        let is_python_frame = said.starts_with("File \"") && said.contains("\", line ");
        // The source line below a Python frame is indented deeper; the error itself is not.
        let is_python_source = in_python_frame && is_indented;
        in_python_frame = is_python_frame || is_python_source;
        if !in_python_frame && !is_frame(said, is_indented) && !is_remark(said) {
            kept.push(said);
        }
    }
    if kept.is_empty() {
        return collapse_whitespace(message.lines().next().unwrap_or_default());
    }
    Cow::Owned(collapse_whitespace(&kept.join(" ")).into_owned())
}

/// Lines after which only frames follow.
fn starts_trace(line: &str) -> bool {
    const STARTS: [&str; 6] =
        ["stack backtrace:", "stack trace:", "stacktrace:", "[stacktrace]", "backtrace:", "call stack:"];
    let is_go = line.starts_with("goroutine ") && line.ends_with("]:");
    is_go
        || STARTS
            .iter()
            .any(|start| line.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start)))
}

/// Frames of Java, JavaScript and .NET (`at`), Ruby (`from`), PHP (`#0`), Elixir (`(app 1.0) lib/x.ex:3:`),
/// Go.
fn is_frame(line: &str, is_indented: bool) -> bool {
    let has_place = line.contains(['(', ':']);
    let is_numbered =
        line.strip_prefix('#').is_some_and(|rest| rest.starts_with(|ch: char| ch.is_ascii_digit()));
    (is_indented && has_place && (line.starts_with("at ") || line.starts_with("from ")))
        || (line.starts_with("at ") && line.ends_with(')') && line.contains(".java:"))
        || (is_indented && line.starts_with('(') && line.contains(".ex"))
        || (is_indented && line.contains(".go:"))
        || (line.starts_with("... ") && line.ends_with(" more"))
        || is_numbered
}

/// What runtimes say around a trace, and the marks under a source line.
fn is_remark(line: &str) -> bool {
    const REMARKS: [&str; 5] = [
        "Traceback (most recent call last)",
        "During handling of the above exception",
        "The above exception was the direct",
        "note: run with `RUST_BACKTRACE",
        "note: Some details are omitted",
    ];
    line.chars().all(|ch| matches!(ch, '^' | '~' | '-' | '=' | ' '))
        || REMARKS.iter().any(|remark| line.starts_with(remark))
}
