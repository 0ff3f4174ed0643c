//! A workflow as lines of a terminal: one line per step, from top to bottom, and lanes that lead from what is followed
//! to what follows.

use backstop_server::drawing::PictureNode;

/// Lanes beside each other; a picture with more is no help.
const MOST_LANES: usize = 24;

/// One line of the picture: its lanes, and the step that stands on it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PictureLine {
    pub(super) lanes: String,
    pub(super) node: Option<usize>,
}

/// What stands for a step in the lanes.
pub(super) const MARK: char = '●';

/// The lines of a picture; without lanes when there would be too many.
pub(super) fn lines(nodes: &[PictureNode]) -> Vec<PictureLine> {
    let mut behind: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (number, node) in nodes.iter().enumerate() {
        node.after.iter().for_each(|from| behind[*from].push(number));
    }
    // The step to which each lane leads; none for a lane that is free.
    let mut lanes: Vec<Option<usize>> = Vec::new();
    let mut lines = Vec::new();
    for (number, behind) in behind.iter().enumerate() {
        let leading: Vec<usize> = (0..lanes.len()).filter(|lane| lanes[*lane] == Some(number)).collect();
        let own = leading.first().copied().unwrap_or_else(|| free(&mut lanes, number));
        if leading.len() > 1 {
            lines.push(PictureLine { lanes: link(&lanes, own, &leading[1..], false), node: None });
        }
        leading.iter().for_each(|lane| lanes[*lane] = None);
        let mark = |lane: usize| match lanes[lane] {
            _ if lane == own => MARK,
            Some(_) => '│',
            None => ' ',
        };
        lines.push(PictureLine { lanes: spaced((0..lanes.len()).map(mark)), node: Some(number) });
        lanes[own] = behind.first().copied();
        let others: Vec<usize> = behind.iter().skip(1).map(|to| free(&mut lanes, *to)).collect();
        if !others.is_empty() {
            lines.push(PictureLine { lanes: link(&lanes, own, &others, true), node: None });
        }
        while lanes.last() == Some(&None) {
            lanes.pop();
        }
        if lanes.len() > MOST_LANES {
            let line = |number| PictureLine { lanes: MARK.to_string(), node: Some(number) };
            return (0..nodes.len()).map(line).collect();
        }
    }
    lines
}

/// A free lane, now leading to a step.
fn free(lanes: &mut Vec<Option<usize>>, to: usize) -> usize {
    let lane = lanes.iter().position(Option::is_none).unwrap_or(lanes.len());
    if lane == lanes.len() {
        lanes.push(None);
    }
    lanes[lane] = Some(to);
    lane
}

/// A line on which lanes come together in `own`, or fork from it.
fn link(lanes: &[Option<usize>], own: usize, others: &[usize], forks: bool) -> String {
    let first = others.iter().copied().fold(own, usize::min);
    let last = others.iter().copied().fold(own, usize::max);
    let letter = |lane: usize| match (lane == own, others.contains(&lane)) {
        (true, _) if first == own => '├',
        (true, _) if last == own => '┤',
        (true, _) => '┼',
        (_, true) if lane == last => {
            if forks {
                '┐'
            } else {
                '┘'
            }
        }
        (_, true) if lane == first => {
            if forks {
                '┌'
            } else {
                '└'
            }
        }
        (_, true) => {
            if forks {
                '┬'
            } else {
                '┴'
            }
        }
        _ if lanes[lane].is_some() => '│',
        _ if (first..last).contains(&lane) => '─',
        _ => ' ',
    };
    let mut line = String::new();
    for lane in 0..lanes.len() {
        line.push(letter(lane));
        line.push(if (first..last).contains(&lane) { '─' } else { ' ' });
    }
    line.trim_end().to_owned()
}

fn spaced(letters: impl Iterator<Item = char>) -> String {
    let text: String = letters.flat_map(|letter| [letter, ' ']).collect();
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use backstop::State;
    use backstop_server::drawing::PictureNode;

    use super::lines;

    fn drawn(after: &[&[usize]]) -> Vec<String> {
        let node = |after: &&[usize]| PictureNode {
            name: String::new(),
            count: 1,
            status: State::Waiting,
            status_text: String::new(),
            condition: String::new(),
            after: after.to_vec(),
            layer: 0,
        };
        let nodes: Vec<PictureNode> = after.iter().map(node).collect();
        lines(&nodes).into_iter().map(|line| line.lanes).collect()
    }

    #[test]
    fn a_chain_is_one_lane() {
        assert_eq!(drawn(&[&[], &[0], &[1]]), ["●", "●", "●"]);
    }

    #[test]
    fn branches_fork_and_come_together() {
        // W6: one step, two after it, and one after both.
        assert_eq!(drawn(&[&[], &[0], &[0], &[1, 2]]), ["●", "├─┐", "● │", "│ ●", "├─┘", "●"]);
        assert_eq!(
            drawn(&[&[], &[0], &[0], &[0], &[1, 2, 3]]),
            ["●", "├─┬─┐", "● │ │", "│ ● │", "│ │ ●", "├─┴─┘", "●"]
        );
    }

    #[test]
    fn a_lane_passes_those_that_are_nothing_to_it() {
        // The first leads to the last; the second and third are between.
        assert_eq!(drawn(&[&[], &[0], &[1], &[0, 2]]), ["●", "├─┐", "● │", "● │", "├─┘", "●"]);
        assert_eq!(drawn(&[&[], &[], &[1], &[0]]), ["●", "│ ●", "│ ●", "●"]);
    }

    #[test]
    fn too_many_lanes_are_none() {
        let mut after: Vec<Vec<usize>> = vec![vec![]; 30];
        after.push((0..30).collect());
        let after: Vec<&[usize]> = after.iter().map(Vec::as_slice).collect();
        assert_eq!(drawn(&after), vec!["●"; 31]);
    }
}
