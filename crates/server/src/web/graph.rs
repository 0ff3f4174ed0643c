//! A workflow from left to right, each step a link to its job. The layout is the one of the API's pictures; the colours
//! are the page's, so that it is dark where the page is.

use std::collections::HashMap;

use maud::{Markup, html};

use super::words::short;
use crate::drawing::{PictureNode, picture};
use crate::shape::WorkflowJson;

const WIDTH: usize = 190;
const HEIGHT: usize = 44;
const BETWEEN_LAYERS: usize = 60;
const BETWEEN_ROWS: usize = 16;
const MARGIN: usize = 4;

/// The whole graph.
pub(super) fn graph(workflow: &WorkflowJson) -> Markup {
    let drawn = picture(workflow);
    let jobs: HashMap<&str, String> =
        workflow.nodes.iter().map(|node| (node.name.as_str(), format!("/jobs/{}", node.job))).collect();
    let places = places(&drawn.nodes);
    let right = places.iter().map(|(x, _)| x + WIDTH).max().unwrap_or(WIDTH) + MARGIN;
    let foot = places.iter().map(|(_, y)| y + HEIGHT).max().unwrap_or(HEIGHT) + MARGIN;
    html! {
        svg width=(right) height=(foot) viewBox={ "0 0 " (right) " " (foot) } {
            title { (short(&workflow.name, 120)) }
            @for (number, node) in drawn.nodes.iter().enumerate() {
                @for from in &node.after { path d=(edge(places[*from], places[number])) {} }
            }
            @for (node, place) in drawn.nodes.iter().zip(&places) {
                // Several steps that are drawn as one have no job of their own to go to.
                @match jobs.get(node.name.as_str()) {
                    Some(path) => { a.(node.status.as_str()) href=(path) { (step(node, *place)) } },
                    None => { g.(node.status.as_str()) { (step(node, *place)) } },
                }
            }
        }
        @if drawn.left_out > 0 { p.since { "and " (drawn.left_out) " more steps" } }
    }
}

fn step(node: &PictureNode, (x, y): (usize, usize)) -> Markup {
    let detail = match node.condition.is_empty() {
        true => node.status_text.clone(),
        false => format!("{}, {}", node.status_text, node.condition),
    };
    html! {
        rect x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="3" {}
        text x=(x + 10) y=(y + 18) { (short(&node.name, 26)) }
        text.small x=(x + 10) y=(y + 35) { (short(&detail, 30)) }
    }
}

/// Where each step is: its layer says how far right, its place in the layer how far down.
fn places(nodes: &[PictureNode]) -> Vec<(usize, usize)> {
    let mut rows = vec![0; nodes.iter().map(|node| node.layer + 1).max().unwrap_or(0)];
    let place = |node: &PictureNode| {
        let row = rows[node.layer];
        rows[node.layer] += 1;
        (MARGIN + node.layer * (WIDTH + BETWEEN_LAYERS), MARGIN + row * (HEIGHT + BETWEEN_ROWS))
    };
    nodes.iter().map(place).collect()
}

fn edge((from_x, from_y): (usize, usize), (to_x, to_y): (usize, usize)) -> String {
    let (x1, y1, x2, y2) = (from_x + WIDTH, from_y + HEIGHT / 2, to_x, to_y + HEIGHT / 2);
    let bend = usize::midpoint(x1, x2);
    let (back, above, below) = (x2 - 6, y2 - 4, y2 + 4);
    format!("M{x1} {y1}C{bend} {y1} {bend} {y2} {x2} {y2}M{back} {above}L{x2} {y2}L{back} {below}")
}
