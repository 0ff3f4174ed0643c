//! The language of Mermaid, which many wikis and code hosts draw.

use std::fmt::Write as _;

use backstop::State;

use super::{picture, svg::colours};
use crate::shape::WorkflowJson;

/// A workflow as a flowchart.
#[must_use]
pub fn mermaid(workflow: &WorkflowJson) -> String {
    let picture = picture(workflow);
    let mut text = String::from("flowchart LR\n");
    for (number, node) in picture.nodes.iter().enumerate() {
        let (name, status) = (quoted(&node.name), quoted(&node.status_text));
        let _ = writeln!(text, "    n{number}[\"{name}<br/>{status}\"]:::{}", node.status);
        for from in &node.after {
            let label = if node.condition.is_empty() {
                String::new()
            } else {
                format!("|\"{}\"|", quoted(&node.condition))
            };
            let _ = writeln!(text, "    n{from} -->{label} n{number}");
        }
    }
    if picture.left_out > 0 {
        let _ = writeln!(text, "    more[\"and {} more steps\"]", picture.left_out);
    }
    for state in State::ALL {
        let (fill, line) = colours(state);
        let _ = writeln!(text, "    classDef {state} fill:{fill},stroke:{line},color:#1c2430");
    }
    text
}

/// Text between quotation marks: what Mermaid or HTML would read otherwise is written as its number.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '#' | '&' | '<' | '>' | '`' | '\\' | ';' => {
                let _ = write!(quoted, "#{};", u32::from(letter));
            }
            letter if letter.is_control() => quoted.push(' '),
            letter => quoted.push(letter),
        }
    }
    quoted
}
