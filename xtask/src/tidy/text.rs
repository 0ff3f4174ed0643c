//! Plain text rules: width of lines, whitespace at their ends, a newline at the end of the file.

use super::source::is_test_path;
use super::{TextFile, Tree, Violation};

/// rustfmt keeps code within 110 columns but leaves long strings and comments alone; this is the wall for those.
const COLUMNS: usize = 120;

/// Files that people write; captured output and pictures may end as they like.
const WRITTEN: [&str; 14] =
    ["rs", "md", "toml", "txt", "sh", "sql", "yml", "yaml", "html", "css", "js", "ts", "json", "service"];

/// Text rules over all files that people write.
pub(crate) fn check(tree: &Tree<'_>) -> Vec<Violation> {
    tree.files.iter().filter(|file| is_written(&file.path)).flat_map(check_file).collect()
}

fn is_written(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((_, extension)) => WRITTEN.contains(&extension),
        None => true,
    }
}

fn check_file(file: &TextFile) -> Vec<Violation> {
    let mut findings = Vec::new();
    for (index, line) in file.text.split_terminator('\n').enumerate() {
        if line.ends_with(char::is_whitespace) {
            let text = "whitespace at the end of the line; remove it";
            findings.push(Violation::new(&file.path, index + 1, text));
        }
        let columns = line.chars().count();
        // A corpus of messages in a test is read line by line; breaking its strings would make it worse.
        if file.path.ends_with(".rs") && columns > COLUMNS && !is_test_path(&file.path) {
            let text = format!("the line has {columns} columns, the limit is {COLUMNS}; break it");
            findings.push(Violation::new(&file.path, index + 1, text));
        }
    }
    let last = file.text.lines().count();
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        findings.push(Violation::new(&file.path, last, "no newline at the end of the file; add it"));
    } else if file.text.ends_with("\n\n") {
        findings.push(Violation::new(&file.path, last, "empty lines at the end of the file; remove them"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn clean_text_passes() {
        let wide = format!("{}\n", "é".repeat(120));
        assert!(
            found(check, &[("a.rs", &wide), ("a.md", &wide.repeat(2)), ("b.snap", "x "), ("run", "a\n")])
                .is_empty()
        );
    }

    #[test]
    fn each_rule_is_found_with_its_line() {
        let wide = format!("a\n{}\n", "x".repeat(121));
        assert!(found(check, &[("a.rs", &wide)])[0].starts_with("a.rs:2: the line has 121 columns"));
        assert!(found(check, &[("a.md", "a\nb \n")])[0].starts_with("a.md:2: whitespace"));
        assert!(found(check, &[("a.md", "a\r\n")])[0].starts_with("a.md:1: whitespace"));
        assert!(found(check, &[("a.toml", "a\nb")])[0].starts_with("a.toml:2: no newline"));
        assert!(found(check, &[("run", "a\n\n")])[0].starts_with("run:2: empty lines"));
    }
}
