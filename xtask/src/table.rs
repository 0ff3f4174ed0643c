//! Plain tables for people: aligned columns, a rule under the heading, no trailing whitespace.

/// Lays out `rows` under `heading`; cells that read as numbers are aligned to the right.
pub(crate) fn render(heading: &[&str], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = heading
        .iter()
        .enumerate()
        .map(|(column, title)| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain([title.chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let titles: Vec<String> = heading.iter().map(|title| (*title).to_owned()).collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    [titles, rule].iter().chain(rows).map(|row| line(row, &widths)).collect::<Vec<_>>().join("\n")
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells: Vec<String> =
        row.iter()
            .zip(widths)
            .map(|(cell, width)| {
                if cell.parse::<f64>().is_ok() {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            })
            .collect();
    cells.join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_numbers_stand_on_the_right() {
        let rows =
            vec![vec!["fmt".to_owned(), "1.5".to_owned()], vec!["clippy".to_owned(), "12.0".to_owned()]];
        let expected = "step    secs\n------  ----\nfmt      1.5\nclippy  12.0";
        assert_eq!(render(&["step", "secs"], &rows), expected);
    }
}
