//! The tables of the comparison, for the terminal and for `docs/benchmarks.md`.

use std::time::Duration;

use super::figures::{shown, times};
use super::measure::{ComparedMeasure, MEASURES};
use super::results::{ResultCell, ResultRow, Results};

/// The tables, each with its title and the measures in its columns.
const TABLES: [(&str, &[&str]); 10] = [
    ("Rates, jobs a second", &["enqueue_bulk", "enqueue_single", "drain"]),
    (
        "Pick-up latency, milliseconds",
        &[
            "latency_100_p50",
            "latency_100_p99",
            "latency_100_p999",
            "latency_2000_p50",
            "latency_2000_p99",
            "latency_2000_p999",
        ],
    ),
    ("The failure path, jobs a second", &["fail", "retry", "redrive"]),
    (
        "Flat as work grows: a transaction is held open, jobs a second",
        &["pinned_first", "pinned_last", "pinned_ratio", "pinned_trend", "pinned"],
    ),
    (
        "Flat as work grows: a large backlog, jobs a second",
        &["backlog_small", "backlog_large", "backlog_ratio"],
    ),
    ("Flat as work grows: a long history, jobs a second", &["history_none", "history_kept", "history_ratio"]),
    (
        "Flat as work grows: many queues, jobs a second",
        &["queues_one", "queues_many", "queues_many_ratio", "queues_few", "queues_few_ratio"],
    ),
    (
        "A storm of failures beside another queue",
        &[
            "storm_alone",
            "storm_beside",
            "storm_ratio",
            "storm_alone_p50",
            "storm_beside_p50",
            "storm_alone_p99",
            "storm_beside_p99",
            "storm_failures",
        ],
    ),
    ("Idle", &["idle_busy", "idle_statements"]),
    ("Cost", &["log_bytes", "commits", "memory"]),
];

/// The tables in plain text, then what is absent and why.
pub(crate) fn terminal(results: &Results) -> String {
    let mut out = String::new();
    for (title, names) in TABLES {
        let measures = measures(names);
        let mut heading = vec!["contender"];
        heading.extend(measures.iter().map(|measure| measure.title));
        let rows: Vec<Vec<String>> =
            shown_rows(results, &measures).map(|row| line(results, row, &measures)).collect();
        if rows.is_empty() {
            continue;
        }
        out.push_str(&format!("\n{title}\n\n{}\n", crate::table::render(&heading, &rows)));
    }
    out.push('\n');
    for absence in absences(results) {
        out.push_str(&format!("{absence}\n"));
    }
    out
}

/// The page: the template with its marks replaced.
pub(crate) fn markdown(template: &str, results: &Results) -> String {
    let tables: Vec<String> =
        TABLES.iter().filter_map(|(title, names)| table(results, title, &measures(names))).collect();
    let listed =
        |lines: Vec<String>| lines.iter().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n");
    let absent = match absences(results) {
        none if none.is_empty() => "- Nobody.".to_owned(),
        some => listed(some),
    };
    let sizes = &results.sizes;
    let numbers = [
        ("{jobs}", sizes.jobs),
        ("{singles}", sizes.singles),
        ("{seconds}", sizes.latency_seconds),
        ("{limit}", seconds(sizes.drain_limit)),
        ("{rounds}", sizes.rounds),
        ("{pinned_rounds}", sizes.pinned_rounds),
        ("{pinned_sessions}", sizes.pinned_sessions),
        ("{repeats}", sizes.repeats),
        ("{backlog}", sizes.backlog),
        ("{history}", sizes.history),
        ("{storm_seconds}", sizes.storm_seconds),
        ("{idle_seconds}", sizes.idle_seconds),
    ];
    let page =
        numbers.iter().fold(template.to_owned(), |page, (mark, number)| page.replace(mark, &whole(*number)));
    page.replace("{tables}", &tables.join("\n\n"))
        .replace("{absent}", &absent)
        .replace("{contenders}", &listed(versions(results)))
        .replace("{facts}", &facts(results))
}

/// One table, when somebody has something to show in it.
fn table(results: &Results, title: &str, measures: &[&'static ComparedMeasure]) -> Option<String> {
    let titles: Vec<&str> = measures.iter().map(|measure| measure.title).collect();
    let head = format!("| contender | {} |", titles.join(" | "));
    let rule = format!("|---|{}", "---:|".repeat(measures.len()));
    let rows: Vec<String> = shown_rows(results, measures)
        .map(|row| format!("| {} |", line(results, row, measures).join(" | ")))
        .collect();
    (!rows.is_empty()).then(|| format!("### {title}\n\n{head}\n{rule}\n{}", rows.join("\n")))
}

/// A size, with its thousands apart.
fn whole(number: u32) -> String {
    if number < 100 { number.to_string() } else { shown(f64::from(number)) }
}

fn seconds(span: Duration) -> u32 {
    u32::try_from(span.as_secs()).unwrap_or(u32::MAX)
}

fn measures(names: &[&str]) -> Vec<&'static ComparedMeasure> {
    MEASURES.iter().filter(|measure| names.contains(&measure.name)).collect()
}

/// Those who have something to show in a table.
fn shown_rows<'a>(
    results: &'a Results,
    measures: &'a [&ComparedMeasure],
) -> impl Iterator<Item = &'a ResultRow> {
    results.rows.iter().filter(|row| measures.iter().any(|measure| row.cell(measure) != ResultCell::None))
}

fn line(results: &Results, row: &ResultRow, measures: &[&ComparedMeasure]) -> Vec<String> {
    let cells = measures.iter().map(|measure| cell(results, row, measure));
    [row.contender.label.to_owned()].into_iter().chain(cells).collect()
}

/// The median, and behind it how many times Backstop's that is; the row of Backstop itself has the median only.
fn cell(results: &Results, row: &ResultRow, measure: &ComparedMeasure) -> String {
    match row.cell(measure) {
        ResultCell::None => "–".to_owned(),
        ResultCell::Absent(_) => "absent".to_owned(),
        ResultCell::Value { median, partial, .. } => {
            let mark = if partial { "†" } else { "" };
            let is_base = row.contender.base() == row.contender.name;
            let ratio = results.ratio(row, measure).filter(|_| !is_base).map(times);
            let ratio = ratio.map(|ratio| format!(" ({ratio})")).unwrap_or_default();
            format!("{}{mark}{ratio}", shown(median))
        }
    }
}

/// One sentence for each thing that is absent; the same reason for several figures is told once.
fn absences(results: &Results) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for row in &results.rows {
        let label = row.contender.label;
        if let Some(reason) = &row.absent {
            all.push(format!("{label}: absent: {reason}"));
            continue;
        }
        let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
        for measure in &MEASURES {
            if let ResultCell::Absent(reason) = row.cell(measure) {
                match reasons.iter_mut().find(|(known, _)| *known == reason) {
                    Some((_, names)) => names.push(measure.title),
                    None => reasons.push((reason, vec![measure.title])),
                }
            }
        }
        all.extend(
            reasons.iter().map(|(why, names)| format!("{label}, {}: absent: {why}", names.join(", "))),
        );
    }
    all
}

fn versions(results: &Results) -> Vec<String> {
    let there = results.rows.iter().filter(|row| row.absent.is_none());
    there.map(|row| format!("**{}** {}: {}", row.contender.label, row.version, row.settings)).collect()
}

fn facts(results: &Results) -> String {
    let shown: Vec<String> = results
        .facts
        .iter()
        .map(|(name, value)| match *name {
            "cores" => format!("{value} cores shared by servers and clients"),
            "flush_us" => format!("a disk that flushes 8 KiB in {value} µs"),
            "busy_percent" => format!("{value} % of them busy with other work"),
            "postgresql" => format!("PostgreSQL {value}"),
            "mariadb" => format!("MariaDB {value}"),
            "redis" => format!("Redis {value}"),
            name => format!("{name} {value}"),
        })
        .collect();
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::results::tests::sample;
    use super::*;

    #[test]
    fn the_page_has_figures_ratios_and_reasons() {
        let page = markdown("{facts}\n{tables}\n{absent}\n{contenders}\n{jobs} {limit}", &sample());
        for part in [
            "| Backstop, PostgreSQL | – | – | 50,000 |",
            "| pg-boss, polling | – | – | 5,000† (0.10×) |",
            "- awa: absent: cargo could not build it",
            "- pg-boss, polling, p99 at 100/s: absent: too slow",
            "- **Backstop, PostgreSQL** 0.1.0: ",
            "PostgreSQL 15\n",
            "50,000 20",
        ] {
            assert!(page.contains(part), "{part} is missing in\n{page}");
        }
        assert!(!page.contains('{') && !page.contains("NaN"), "{page}");
    }

    #[test]
    fn a_contender_is_in_the_tables_that_it_has_figures_for() {
        let text = terminal(&sample());
        // Rates, and a latency that is absent; nothing of its failure path or its cost.
        assert_eq!(text.matches("pg-boss, polling  ").count(), 2, "{text}");
    }

    #[test]
    fn every_measure_has_its_table() {
        let shown: usize = TABLES.iter().map(|(_, names)| measures(names).len()).sum();
        assert_eq!(shown, MEASURES.len());
    }

    #[test]
    fn the_readme_shows_figures_of_the_page_and_no_others() {
        let (readme, page) =
            (include_str!("../../../README.md"), include_str!("../../../docs/benchmarks.md"));
        let (_, rest) = readme.split_once("### Measured\n").expect("the README has a section with figures");
        let known = figures(page);
        for figure in figures(rest.split("\n## ").next().unwrap_or(rest)) {
            assert!(known.contains(&figure), "{figure} is not in docs/benchmarks.md: fix README.md");
        }
    }

    /// All numbers and versions of a text; 0.067 and 0.0670 are the same.
    fn figures(text: &str) -> BTreeSet<String> {
        let words = text.split(|c: char| c.is_whitespace() || "|()/†×".contains(c));
        let digits = words.map(|word| word.trim_matches(|c: char| !c.is_ascii_digit()).replace(',', ""));
        let plain = |word: String| word.parse::<f64>().map_or(word, |number| number.to_string());
        digits.filter(|word| !word.is_empty()).map(plain).collect()
    }
}
