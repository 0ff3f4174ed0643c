//! A picture of a workflow, from left to right.

use std::fmt::Write as _;

use backstop::State;

use super::{WorkflowPicture, picture};
use crate::shape::WorkflowJson;

const WIDTH: usize = 210;
const HEIGHT: usize = 46;
const BETWEEN_LAYERS: usize = 90;
const BETWEEN_ROWS: usize = 22;
const MARGIN: usize = 24;
const TITLE: usize = 44;

/// The colour of a box, and of its border and mark.
pub(super) const fn colours(state: State) -> (&'static str, &'static str) {
    match state {
        State::Succeeded => ("#e6f4ea", "#1e8e3e"),
        State::Failed => ("#fce8e6", "#c5221f"),
        State::Running => ("#e8f0fe", "#1a73e8"),
        State::Paused => ("#fef7e0", "#b06000"),
        State::Pending => ("#eef3f8", "#5b7ea6"),
        State::Waiting => ("#f6f7f9", "#9aa5b1"),
        State::Canceled => ("#f1f1f1", "#80868b"),
    }
}

/// A workflow as SVG.
#[must_use]
pub fn svg(workflow: &WorkflowJson) -> String {
    let picture = picture(workflow);
    let places = places(&picture);
    let right = places.iter().map(|(x, _)| x + WIDTH).max().unwrap_or(WIDTH);
    let foot = places.iter().map(|(_, y)| y + HEIGHT).max().unwrap_or(TITLE);
    let (width, height) = (right + MARGIN, foot + MARGIN + if picture.left_out > 0 { 24 } else { 0 });
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <title>{name}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{MARGIN}\" y=\"30\" font-size=\"15\" font-weight=\"600\" fill=\"#1c2430\">{name}: {status}</text>\n",
        name = escaped(&workflow.name),
        status = workflow.status,
    );
    for (number, node) in picture.nodes.iter().enumerate() {
        for from in &node.after {
            edge(&mut text, places[*from], places[number], &node.condition);
        }
    }
    for (node, (x, y)) in picture.nodes.iter().zip(&places) {
        let (fill, line) = colours(node.status);
        let dashes = if node.status == State::Canceled { " stroke-dasharray=\"4 3\"" } else { "" };
        let (name, status) = (escaped(&node.name), escaped(&node.status_text));
        let _ = write!(
            text,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"7\" fill=\"{fill}\" \
             stroke=\"{line}\"{dashes}/>\n<circle cx=\"{}\" cy=\"{}\" r=\"5\" fill=\"{line}\"/>\n\
             <text x=\"{}\" y=\"{}\" font-weight=\"600\" fill=\"#1c2430\">{name}</text>\n\
             <text x=\"{}\" y=\"{}\" font-size=\"11\" fill=\"#4a5560\">{status}</text>\n",
            x + 14,
            y + HEIGHT / 2,
            x + 27,
            y + 20,
            x + 27,
            y + 36,
        );
    }
    if picture.left_out > 0 {
        let y = foot + MARGIN;
        let _ = writeln!(
            text,
            "<text x=\"{MARGIN}\" y=\"{y}\" fill=\"#4a5560\">and {} more steps</text>",
            picture.left_out
        );
    }
    text.push_str("</svg>\n");
    text
}

/// Where each box is: its layer says how far right, its place in the layer how far down.
fn places(picture: &WorkflowPicture) -> Vec<(usize, usize)> {
    let layers = picture.nodes.iter().map(|node| node.layer).max().map_or(0, |last| last + 1);
    let mut rows = vec![0; layers];
    let place = |node: &super::PictureNode| {
        let row = rows[node.layer];
        rows[node.layer] += 1;
        (MARGIN + node.layer * (WIDTH + BETWEEN_LAYERS), TITLE + row * (HEIGHT + BETWEEN_ROWS))
    };
    picture.nodes.iter().map(place).collect()
}

fn edge(text: &mut String, (from_x, from_y): (usize, usize), (to_x, to_y): (usize, usize), condition: &str) {
    let (x1, y1) = (from_x + WIDTH, from_y + HEIGHT / 2);
    let (x2, y2) = (to_x, to_y + HEIGHT / 2);
    let bend = usize::midpoint(x1, x2);
    let _ = writeln!(
        text,
        "<path d=\"M{x1} {y1} C{bend} {y1} {bend} {y2} {x2} {y2}\" fill=\"none\" stroke=\"#9aa5b1\"/>\
         <path d=\"M{} {} L{x2} {y2} L{} {}\" fill=\"none\" stroke=\"#9aa5b1\"/>",
        x2 - 6,
        y2 - 4,
        x2 - 6,
        y2 + 4,
    );
    if !condition.is_empty() {
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{}\" font-size=\"10\" text-anchor=\"end\" fill=\"#4a5560\">{}</text>",
            x2 - 8,
            y2 - 6,
            escaped(condition)
        );
    }
}

/// Text as XML has it.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter if letter.is_control() => escaped.push(' '),
            letter => escaped.push(letter),
        }
    }
    escaped
}
