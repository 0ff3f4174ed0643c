//! The chart of the comparison: bars of the three rates, as SVG that needs nothing around it.

use std::fmt::Write;

use super::figures::shown;
use super::measure::MEASURES;
use super::results::Results;

const PANEL: f64 = 300.0;
const NAMES: f64 = 220.0;
const ROW: f64 = 22.0;
const TOP: f64 = 46.0;
/// Room behind the longest bar for its number.
const NUMBER: f64 = 70.0;

/// The rates that everybody has.
const RATES: [&str; 3] = ["enqueue_bulk", "enqueue_single", "drain"];

/// Draws bulk enqueue, single enqueue and drain of every contender that has one of them.
pub(crate) fn svg(results: &Results) -> String {
    let measures: Vec<_> = MEASURES.iter().filter(|measure| RATES.contains(&measure.name)).collect();
    let rows: Vec<_> = results
        .rows
        .iter()
        .filter(|row| measures.iter().any(|measure| row.value(measure).is_some()))
        .collect();
    let width = NAMES + PANEL * length(measures.len());
    let height = TOP + ROW * length(rows.len()) + 14.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    for (at, row) in rows.iter().enumerate() {
        let weight = if is_ours(row.contender.name) { "bold" } else { "normal" };
        let (x, y) = (NAMES - 8.0, TOP + ROW * length(at) + 15.0);
        text(&mut out, x, y, "end", weight, row.contender.label);
    }
    for (panel, measure) in measures.iter().enumerate() {
        let left = NAMES + PANEL * length(panel);
        text(&mut out, left, 20.0, "start", "bold", &format!("{}, {}", measure.title, measure.unit));
        let values: Vec<Option<f64>> = rows.iter().map(|row| row.value(measure)).collect();
        let most = values.iter().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
        for (at, (row, value)) in rows.iter().zip(&values).enumerate() {
            let y = TOP + ROW * length(at);
            let bar = value.map_or(0.0, |value| value / most * (PANEL - NUMBER));
            let color = if is_ours(row.contender.name) { "#1f6f54" } else { "#9aa5b1" };
            // Writing to a string does not fail.
            let _ = writeln!(
                out,
                "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{bar:.1}\" height=\"{:.1}\" fill=\"{color}\"/>",
                y + 3.0,
                ROW - 6.0
            );
            let label = value.map_or_else(|| "–".to_owned(), shown);
            text(&mut out, left + bar + 4.0, y + 15.0, "start", "normal", &label);
        }
    }
    out.push_str("</svg>\n");
    out
}

fn is_ours(name: &str) -> bool {
    name.starts_with("backstop-")
}

fn length(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, weight: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\">{words}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::sample;
    use super::*;

    #[test]
    fn the_chart_has_a_bar_for_each_figure_and_no_number_that_is_none() {
        let svg = svg(&sample());
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(svg.contains("50,000") && svg.contains("5,000") && svg.contains("pg-boss"), "{svg}");
        assert!(!svg.contains(">awa<"), "who is absent has no bar: {svg}");
    }

    #[test]
    fn nobody_at_all_is_an_empty_chart() {
        let mut results = sample();
        results.rows.clear();
        let svg = svg(&results);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
    }
}
