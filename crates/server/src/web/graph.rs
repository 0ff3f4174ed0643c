//! A workflow from left to right, each step a link to its job. The layout is the one of the API's pictures; the colours
//! are the page's, so that it is dark where the page is. The way that decides when it ends is thicker than the others.

use std::collections::HashMap;

use backstop::State;
use maud::{Markup, html};

use super::words::{counted, short};
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
    let critical = critical_path(&drawn.nodes);
    let is_critical = |number: usize| critical.contains(&number);
    let right = places.iter().map(|(x, _)| x + WIDTH).max().unwrap_or(WIDTH) + MARGIN;
    let foot = places.iter().map(|(_, y)| y + HEIGHT).max().unwrap_or(HEIGHT) + MARGIN;
    html! {
        svg width=(right) height=(foot) viewBox={ "0 0 " (right) " " (foot) } {
            title { (short(&workflow.name, 120)) }
            @for (number, node) in drawn.nodes.iter().enumerate() {
                @for from in &node.after {
                    path.critical[is_next(&critical, *from, number)] d=(edge(places[*from], places[number])) {}
                }
            }
            @for (number, (node, place)) in drawn.nodes.iter().zip(&places).enumerate() {
                // Several steps that are drawn as one have no job of their own to go to.
                @match jobs.get(node.name.as_str()) {
                    Some(path) => {
                        a.(node.status.as_str()).critical[is_critical(number)] href=(path) { (step(node, *place)) }
                    },
                    None => { g.(node.status.as_str()).critical[is_critical(number)] { (step(node, *place)) } },
                }
            }
        }
        @if drawn.left_out > 0 { p.since { "and " (drawn.left_out) " more steps" } }
        (in_words(&drawn.nodes, &critical))
    }
}

/// True for a step that has not ended well or for good: something is to come of it.
const fn is_open(state: State) -> bool {
    matches!(state, State::Pending | State::Running | State::Waiting | State::Paused | State::Failed)
}

/// The way with the most steps that are still to come, and of those the longest: places of nodes, from the left. What
/// was canceled is on no way.
fn critical_path(nodes: &[PictureNode]) -> Vec<usize> {
    // Of the best way to each node: its open steps, its steps, and the node before it.
    let mut ways: Vec<(usize, usize, Option<usize>)> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let before = node.after.iter().filter(|from| **from < ways.len());
        let best = before.max_by_key(|from| (ways[**from].0, ways[**from].1)).copied();
        let (open, steps) = best.map_or((0, 0), |from| (ways[from].0, ways[from].1));
        ways.push(match node.status {
            State::Canceled => (0, 0, None),
            state => (open + usize::from(is_open(state)), steps + 1, best.filter(|_| steps > 0)),
        });
    }
    let last = (0..ways.len()).max_by_key(|place| (ways[*place].0, ways[*place].1));
    let mut path: Vec<usize> = std::iter::successors(last, |place| ways[*place].2).collect();
    path.reverse();
    path
}

/// True for two steps that follow each other on the way.
fn is_next(path: &[usize], from: usize, to: usize) -> bool {
    path.windows(2).any(|pair| pair == [from, to])
}

/// The same for those who do not see it.
fn in_words(nodes: &[PictureNode], path: &[usize]) -> Markup {
    let left = path.iter().filter(|place| is_open(nodes[**place].status)).count();
    let next = path.iter().map(|place| &nodes[*place]).find(|node| is_open(node.status));
    html! {
        @if let Some(next) = next.filter(|_| path.len() > 1) {
            p.since {
                "Critical path: " (counted(left as u64, "step")) " of it " @if left == 1 { "is" } @else { "are" }
                " left, the next is " (short(&next.name, 40)) ", " (next.status_text) "."
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn node(status: State, after: &[usize]) -> PictureNode {
        let (name, status_text, condition) = (String::new(), status.to_string(), String::new());
        PictureNode { name, count: 1, status, status_text, condition, after: after.to_vec(), layer: 0 }
    }

    #[test]
    fn the_critical_path_is_the_longest_way_that_is_left() {
        // A long way that is done, and a shorter one with more to come.
        let nodes = [
            node(State::Succeeded, &[]),
            node(State::Succeeded, &[0]),
            node(State::Succeeded, &[1]),
            node(State::Running, &[0]),
            node(State::Waiting, &[3]),
            node(State::Waiting, &[2, 4]),
        ];
        assert_eq!(critical_path(&nodes), [0, 3, 4, 5]);
        assert!(is_next(&[0, 3, 4, 5], 3, 4) && !is_next(&[0, 3, 4, 5], 2, 5));
        let told = in_words(&nodes, &[0, 3, 4, 5]).0;
        assert!(told.contains("3 steps of it are left") && told.contains("running"), "{told}");
        // Once all is done it is the longest that there was; what was canceled is on none.
        let nodes = [
            node(State::Succeeded, &[]),
            node(State::Canceled, &[0]),
            node(State::Canceled, &[1]),
            node(State::Succeeded, &[0]),
        ];
        assert_eq!(critical_path(&nodes), [0, 3]);
        assert_eq!(critical_path(&[]), Vec::<usize>::new());
        assert_eq!(in_words(&nodes, &[0, 3]).0, "");
    }
}
