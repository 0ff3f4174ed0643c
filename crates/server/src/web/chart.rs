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
    let top = scale(lines.iter().map(|line| highest(&line.points)).fold(0.0, f64::max));
    let known = lines.iter().any(|line| line.points.iter().any(Option::is_some));
    let latest = |line: &ChartLine<'_>| line.points.iter().rev().find_map(|point| *point);
    let told = lines.iter().map(|line| match latest(line) {
        Some(value) => format!("{} {}", line.name, write(value)),
        None => format!("{} not known", line.name),
    });
    let label = format!("{title}, the last {}: {}", span(window), told.collect::<Vec<_>>().join(", "));
    let value = |line: &ChartLine<'_>| latest(line).map_or_else(|| "–".to_owned(), &write);
    let (middle, foot) = (HEIGHT / 2.0, HEIGHT - 0.5);
    let grid = format!("M0 0.5H{WIDTH}M0 {middle}H{WIDTH}M0 {foot}H{WIDTH}");
    html! {
        figure.chart data-live=(key) {
            figcaption {
                span.what { (title) }
                @if let [line] = lines { b.now { (value(line)) } }
            }
            div.plot {
                span.top { (write(top)) }
                svg role="img" aria-label=(label) viewBox=(BOX) preserveAspectRatio="none" {
                    path.grid d=(grid) {}
                    @for line in lines { path.line.(line.class) d=(PreEscaped(drawn(&line.points, top))) {} }
                }
                @if !known { p.unknown { "nothing is known yet" } }
            }
            div.span { span { (span(window)) " ago" } span { "now" } }
            @if lines.len() > 1 {
                ul.legend {
                    @for line in lines { li { i.dot.(line.class) {} " " (line.name) " " b { (value(line)) } } }
                }
            }
        }
    }
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
