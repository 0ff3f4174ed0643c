//! Pictures of workflows: as SVG, as text for Mermaid, and laid out for whoever draws them otherwise.

mod mermaid;
mod svg;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use backstop::State;
use backstop::workflows::{Condition, Join};

pub use self::mermaid::mermaid;
pub use self::svg::svg;
use crate::shape::{WorkflowJson, WorkflowNodeJson};

/// Steps that are alike are drawn as one when there are more of them.
const ALIKE: usize = 6;

/// Steps that a picture shows; the others are counted.
const MOST_DRAWN: usize = 300;

/// Characters of a name, and of a condition.
const NAME_CHARS: usize = 28;
const CONDITION_CHARS: usize = 30;

/// A workflow, laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowPicture {
    /// What is drawn, in an order in which nothing comes before what it follows.
    pub nodes: Vec<PictureNode>,
    /// Steps that are not drawn.
    pub left_out: usize,
}

/// One step, or several that follow the same, are followed by the same, and have the same condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PictureNode {
    /// The name of the step, or of the first and the last one.
    pub name: String,
    /// How many steps it stands for.
    pub count: usize,
    /// Where they are. Of several, what most needs to be looked at.
    pub status: State,
    /// The status in words; for several, how many are where.
    pub status_text: String,
    /// When it runs, in words; empty after a success of all that it follows.
    pub condition: String,
    /// What it follows: places in [`WorkflowPicture::nodes`].
    pub after: Vec<usize>,
    /// How far from the beginning it is.
    pub layer: usize,
}

/// What needs to be looked at first, when one mark stands for several steps.
const BY_NEED: [State; 7] = [
    State::Failed,
    State::Paused,
    State::Running,
    State::Pending,
    State::Waiting,
    State::Canceled,
    State::Succeeded,
];

/// Lays out a workflow.
#[must_use]
pub fn picture(workflow: &WorkflowJson) -> WorkflowPicture {
    let steps = &workflow.nodes;
    let numbers: HashMap<&str, usize> =
        steps.iter().enumerate().map(|(number, step)| (&*step.name, number)).collect();
    let before: Vec<Vec<usize>> = steps
        .iter()
        .map(|step| step.after.iter().filter_map(|name| numbers.get(&**name).copied()).collect())
        .collect();
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    for (number, before) in before.iter().enumerate() {
        before.iter().for_each(|from| behind[*from].push(number));
    }
    let layers = layers(&before, &behind);
    let groups = groups(steps, &before, &behind, &layers);
    let mut place: HashMap<usize, usize> = HashMap::new();
    for (index, group) in groups.iter().enumerate() {
        place.extend(group.iter().map(|number| (*number, index)));
    }
    let drawn = groups.iter().take(MOST_DRAWN).filter_map(|group| {
        let (first, last) = (*group.first()?, *group.last()?);
        let mut after: Vec<usize> =
            before[first].iter().filter_map(|from| place.get(from).copied()).collect();
        after.sort_unstable();
        after.dedup();
        let members = || group.iter().map(|number| &steps[*number]);
        let (status, status_text) = status(members());
        Some(PictureNode {
            name: match group.len() {
                1 => short(&steps[first].name, NAME_CHARS),
                _ => format!("{} … {}", short(&steps[first].name, 12), short(&steps[last].name, 12)),
            },
            count: group.len(),
            status,
            status_text,
            condition: condition(&steps[first]),
            after,
            layer: layers[first],
        })
    });
    let nodes: Vec<PictureNode> = drawn.collect();
    let shown: usize = nodes.iter().map(|node| node.count).sum();
    WorkflowPicture { left_out: steps.len() - shown, nodes }
}

/// How far from the beginning each step is, by the longest way.
fn layers(before: &[Vec<usize>], behind: &[Vec<usize>]) -> Vec<usize> {
    let mut layers = vec![0; before.len()];
    let mut left: Vec<usize> = before.iter().map(Vec::len).collect();
    let mut free: Vec<usize> = (0..before.len()).filter(|number| left[*number] == 0).collect();
    while let Some(number) = free.pop() {
        for to in &behind[number] {
            layers[*to] = layers[*to].max(layers[number] + 1);
            left[*to] -= 1;
            if left[*to] == 0 {
                free.push(*to);
            }
        }
    }
    layers
}

/// Steps that are drawn as one, layer by layer and in the order in which they were given.
fn groups(
    steps: &[WorkflowNodeJson],
    before: &[Vec<usize>],
    behind: &[Vec<usize>],
    layers: &[usize],
) -> Vec<Vec<usize>> {
    let mut alike: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (number, step) in steps.iter().enumerate() {
        let key = (layers[number], &before[number], &behind[number], condition(step));
        alike.entry(key).or_default().push(number);
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for numbers in alike.into_values() {
        if numbers.len() > ALIKE {
            groups.push(numbers);
        } else {
            groups.extend(numbers.into_iter().map(|number| vec![number]));
        }
    }
    groups.sort_by_key(|group| (layers[group[0]], group[0]));
    groups
}

/// The status of a mark, and its words.
fn status<'s>(steps: impl Iterator<Item = &'s WorkflowNodeJson> + Clone) -> (State, String) {
    let count = |state: State| steps.clone().filter(|step| step.status == state).count();
    let counts: Vec<(State, usize)> =
        BY_NEED.into_iter().map(|state| (state, count(state))).filter(|(_, count)| *count > 0).collect();
    let most = counts.first().map_or(State::Waiting, |(state, _)| *state);
    let one = steps.clone().count() == 1;
    let words: Vec<String> = counts
        .iter()
        .map(|(state, count)| if one { state.to_string() } else { format!("{count} {state}") })
        .collect();
    let reason = steps.clone().next().filter(|_| one).map(why).unwrap_or_default();
    (most, words.join(", ") + &reason)
}

/// What is added to the status of one step.
fn why(step: &WorkflowNodeJson) -> String {
    match (&step.reason, step.asked.as_ref().map(|asked| asked.status)) {
        (Some(_), Some(State::Failed)) => ", its predicate failed".to_owned(),
        (Some(reason), _) => format!(", {}", reason.replace('_', " ")),
        (None, Some(status)) if step.status == State::Waiting => format!(", its predicate is {status}"),
        (None, _) => String::new(),
    }
}

/// When a step runs, in words.
fn condition(step: &WorkflowNodeJson) -> String {
    let when = match &step.when {
        Condition::Success => String::new(),
        Condition::Failure => "on failure".to_owned(),
        Condition::Always => "always".to_owned(),
        Condition::Result(test) => format!("if {} = {}", test.pointer.trim_start_matches('/'), test.equals),
        Condition::Predicate(name) => format!("if {name}"),
    };
    let first = if step.join == Join::Any && step.after.len() > 1 { "after the first" } else { "" };
    let comma = if when.is_empty() || first.is_empty() { "" } else { ", " };
    short(&format!("{first}{comma}{when}"), CONDITION_CHARS)
}

/// A text that is cut where it is too long.
fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}
