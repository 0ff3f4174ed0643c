//! Lines over the last hour, drawn as SVG without a word in it: the words stand around it, where they can be read at
//! any width.

use std::fmt::Write as _;
use std::time::Duration;

use maud::{Markup, PreEscaped, html};

use super::history::{Line, POINTS};
use super::words::span;

/// The size of a drawing; it is stretched to the room that there is.
const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 72.0;
const BOX: &str = "0 0 240 72";

/// A line with what it is, and the class that gives it its colour.
pub(super) struct ChartLine<'a> {
    pub(super) name: &'a str,
    pub(super) class: &'a str,
    pub(super) points: Line,
}

/// A chart with its title, its latest value, its scale and its span.
pub(super) fn chart(
    (key, title): (&str, &str),
    window: Duration,
    lines: &[ChartLine<'_>],
    write: impl Fn(f64) -> String,
) -> Markup {
    drawing((key, title), window, lines, None, write)
}

/// `own` is what lines are by themselves where they are drawn on top of each other.
fn drawing(
    (key, title): (&str, &str),
    window: Duration,
    lines: &[ChartLine<'_>],
    own: Option<&[Line]>,
    write: impl Fn(f64) -> String,
) -> Markup {
    let top = scale(lines.iter().map(|line| highest(&line.points)).fold(0.0, f64::max));
    let known = lines.iter().any(|line| line.points.iter().any(Option::is_some));
    let latest = |place: usize| {
        let points = own.map_or(&lines[place].points, |own| &own[place]);
        points.iter().rev().find_map(|point| *point)
    };
    let told = lines.iter().enumerate().map(|(place, line)| match latest(place) {
        Some(value) => format!("{} {}", line.name, write(value)),
        None => format!("{} not known", line.name),
    });
    let label = format!("{title}, the last {}: {}", span(window), told.collect::<Vec<_>>().join(", "));
    let value = |place: usize| latest(place).map_or_else(|| "–".to_owned(), &write);
    let (middle, foot) = (HEIGHT / 2.0, HEIGHT - 0.5);
    let grid = format!("M0 0.5H{WIDTH}M0 {middle}H{WIDTH}M0 {foot}H{WIDTH}");
    html! {
        figure.chart data-live=(key) {
            figcaption {
                span.what { (title) }
                @if lines.len() == 1 { b.now { (value(0)) } }
            }
            div.plot {
                span.top { (write(top)) }
                svg role="img" aria-label=(label) viewBox=(BOX) preserveAspectRatio="none" {
                    path.grid d=(grid) {}
                    @if own.is_some() {
                        // The highest first: each lower one is drawn over it.
                        @for line in lines.iter().rev() {
                            path.area.(line.class) d=(PreEscaped(area(&line.points, top))) {}
                        }
                    }
                    @for line in lines { path.line.(line.class) d=(PreEscaped(drawn(&line.points, top))) {} }
                }
                @if !known { p.unknown { "nothing is known yet" } }
            }
            div.span { span { (span(window)) " ago" } span { "now" } }
            @if lines.len() > 1 {
                ul.legend {
                    @for (place, line) in lines.iter().enumerate() {
                        li { i.dot.(line.class) {} " " (line.name) " " b { (value(place)) } }
                    }
                }
            }
        }
    }
}

/// The same with lines on top of each other, each with what it adds to those below: the highest is the sum of all.
pub(super) fn stacked(
    named: (&str, &str),
    window: Duration,
    mut lines: Vec<ChartLine<'_>>,
    write: impl Fn(f64) -> String,
) -> Markup {
    let own: Vec<Line> = lines.iter().map(|line| line.points.clone()).collect();
    for place in 1..lines.len() {
        let (below, above) = lines.split_at_mut(place);
        let (Some(below), Some(above)) = (below.last(), above.first_mut()) else { continue };
        for (point, under) in above.points.iter_mut().zip(&below.points) {
            *point = match (*point, *under) {
                (Some(own), Some(under)) => Some(own + under),
                (own, under) => own.or(under),
            };
        }
    }
    drawing(named, window, &lines, Some(&own), write)
}

/// A line beside a number.
pub(super) fn spark(points: &Line, class: &str, label: &str) -> Markup {
    let top = scale(highest(points));
    html! {
        svg.spark role="img" aria-label=(label) viewBox=(BOX) preserveAspectRatio="none" {
            path.line.(class) d=(PreEscaped(drawn(points, top))) {}
        }
    }
}

/// The path of what is under a line, piece by piece where it has gaps.
fn area(points: &Line, top: f64) -> String {
    let step = WIDTH / backstop::figures::float(u64::try_from(POINTS - 1).unwrap_or(1));
    let foot = HEIGHT - 1.0;
    let mut path = String::new();
    for (place, point) in points.iter().enumerate() {
        let Some(value) = point else { continue };
        let x = step * backstop::figures::float(u64::try_from(place).unwrap_or(0));
        let y = foot - (HEIGHT - 2.0) * (value / top).clamp(0.0, 1.0);
        if place == 0 || points[place - 1].is_none() {
            let _ = write!(path, "M{x:.1} {foot:.1}");
        }
        let _ = write!(path, "L{x:.1} {y:.1}");
        if points.get(place + 1).copied().flatten().is_none() {
            let _ = write!(path, "L{x:.1} {foot:.1}Z");
        }
    }
    path
}

fn highest(points: &Line) -> f64 {
    points.iter().flatten().copied().fold(0.0, f64::max)
}

/// The top of a scale that begins at zero: a round number, so that people can read it.
fn scale(highest: f64) -> f64 {
    if highest <= 0.0 {
        return 1.0;
    }
    let step = 10f64.powf(highest.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * step).find(|top| *top >= highest).unwrap_or(highest)
}

/// The path of a line. Points that are not known are left out, and nothing is drawn over them; a point alone is a dash.
fn drawn(points: &Line, top: f64) -> String {
    let step = WIDTH / backstop::figures::float(u64::try_from(POINTS - 1).unwrap_or(1));
    let (mut path, mut pen_down) = (String::new(), false);
    for (place, point) in points.iter().enumerate() {
        let Some(value) = point else {
            pen_down = false;
            continue;
        };
        let x = step * backstop::figures::float(u64::try_from(place).unwrap_or(0));
        let y = HEIGHT - 1.0 - (HEIGHT - 2.0) * (value / top).clamp(0.0, 1.0);
        let next = points.get(place + 1).copied().flatten();
        let _ = match (pen_down, next) {
            (false, None) => write!(path, "M{:.1} {y:.1}h1", x - 1.0),
            (false, Some(_)) => write!(path, "M{x:.1} {y:.1}"),
            (true, _) => write!(path, "L{x:.1} {y:.1}"),
        };
        pen_down = true;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacked_lines_add_up_and_say_what_each_is() {
        let line = |name, value: f64| ChartLine { name, class: "first", points: vec![Some(value); POINTS] };
        let drawn =
            stacked(("k", "Failures"), Duration::from_secs(60), vec![line("a", 2.0), line("b", 3.0)], |v| {
                format!("{v}")
            })
            .0;
        assert!(drawn.contains("a 2, b 3"), "{drawn}");
        assert!(drawn.contains("L240.0 1.0"), "the sum is at the top of the scale of five: {drawn}");
        assert_eq!(drawn.matches("class=\"area").count(), 2);
        let mut points = vec![None; POINTS];
        points[3] = Some(1.0);
        assert_eq!(area(&points, 1.0).matches(['M', 'Z']).count(), 2, "a gap has nothing under it");
    }

    #[test]
    fn a_gap_is_a_gap_and_the_scale_begins_at_zero() {
        let mut points = vec![None; POINTS];
        points[1] = Some(5.0);
        points[2] = Some(10.0);
        points[5] = Some(0.0);
        let path = drawn(&points, scale(10.0));
        assert_eq!(path.matches('M').count(), 2, "{path}");
        assert!(path.contains("L4.0 1.0"), "the highest is at the top: {path}");
        assert!(path.contains("71.0h1"), "zero is at the bottom, and a point alone is seen: {path}");
        for (highest, top) in
            [(0.0, 1.0), (0.3, 0.5), (7.0, 10.0), (10.0, 10.0), (11.0, 20.0), (1_204.0, 2_000.0)]
        {
            assert!((scale(highest) - top).abs() < 1e-9, "{highest}");
        }
    }
}
