//! Figures as Prometheus reads them (text format 0.0.4).

use std::fmt::Write as _;
use std::sync::Arc;

use backstop::figures::{Family, FigureValue, Sample, Sort, float};

/// What the text is.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Families as text.
pub(crate) fn render(families: &[Family]) -> String {
    let mut text = String::with_capacity(16 * 1024);
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        let sort = match family.sort {
            Sort::Counter => "counter",
            Sort::Gauge => "gauge",
            Sort::Histogram => "histogram",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {} {}", family.name, escape_help(family.help));
        let _ = writeln!(text, "# TYPE {} {sort}", family.name);
        family.samples.iter().for_each(|sample| write_sample(&mut text, family.name, sample));
    }
    text
}

fn write_sample(text: &mut String, name: &str, sample: &Sample) {
    match &sample.value {
        FigureValue::Number(value) => line(text, name, "", &sample.labels, None, *value),
        FigureValue::Times { up_to, count, sum } => {
            for (bound, so_many) in up_to {
                let bound = seconds(*bound).to_string();
                line(text, name, "_bucket", &sample.labels, Some(&bound), float(*so_many));
            }
            line(text, name, "_bucket", &sample.labels, Some("+Inf"), float(*count));
            line(text, name, "_sum", &sample.labels, None, seconds(*sum));
            line(text, name, "_count", &sample.labels, None, float(*count));
        }
    }
}

fn line(
    text: &mut String,
    name: &str,
    suffix: &str,
    labels: &[(&'static str, Arc<str>)],
    bound: Option<&str>,
    value: f64,
) {
    let _ = write!(text, "{name}{suffix}");
    let all = labels.iter().map(|(label, value)| (*label, &**value)).chain(bound.map(|bound| ("le", bound)));
    let mut open = '{';
    for (label, value) in all {
        let _ = write!(text, "{open}{label}=\"{}\"", escape(value));
        open = ',';
    }
    if open == ',' {
        text.push('}');
    }
    let _ = writeln!(text, " {value}");
}

fn seconds(micros: u64) -> f64 {
    float(micros) / 1_000_000.0
}

/// A label's value: whatever names people give their queues, one line stays one line.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn escape_help(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_cannot_break_out_of_their_line() {
        // V3
        for (value, expected) in [
            ("plain", "plain"),
            ("a\"} 1\nb{c=\"", "a\\\"} 1\\nb{c=\\\""),
            ("back\\slash", "back\\\\slash"),
            ("\\n", "\\\\n"),
            ("ünï→", "ünï→"),
        ] {
            let sample = Sample::number(vec![("queue", value.into())], 1.0);
            let text = render(&[Family::new("depth", "How\nmany.", Sort::Gauge, vec![sample])]);
            let expected =
                format!("# HELP depth How\\nmany.\n# TYPE depth gauge\ndepth{{queue=\"{expected}\"}} 1\n");
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn a_histogram_is_written_with_its_bounds_its_sum_and_its_count() {
        // V3
        let value = FigureValue::Times { up_to: vec![(500, 1), (2_500_000, 3)], count: 4, sum: 7_000_500 };
        let family =
            Family::new("took_seconds", "x", Sort::Histogram, vec![Sample { labels: vec![], value }]);
        let text = render(&[family]);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "took_seconds_bucket{le=\"0.0005\"} 1",
                "took_seconds_bucket{le=\"2.5\"} 3",
                "took_seconds_bucket{le=\"+Inf\"} 4",
                "took_seconds_sum 7.0005",
                "took_seconds_count 4",
            ]
        );
    }
}
