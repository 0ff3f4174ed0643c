//! The shape of docs/rules.md: a section for each group, a smaller one for each rule, and its tests in one line.
//!
//! Knows the text only. Which tests name a rule is asked of the caller, so that the page can be filled and checked
//! without a tree.

/// How a line begins that is written by `cargo xtask generate`.
const TESTS: &str = "Tests:";

/// How the heading of a rule ends that nothing holds yet.
const NOT_YET: &str = " (not yet)";

/// As many links fit under a rule without hiding its text.
const SHOWN: usize = 8;

/// What a heading of the page says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heading<'a> {
    /// `# The guarantees`
    Title,
    /// `## L. Life of a job`: the letters with which the ids of the group begin.
    Group(&'a str),
    /// `### L1 Seven states`
    Rule { id: &'a str, done: bool },
    /// Anything else.
    Malformed,
}

/// A heading and whether words follow it.
pub(super) struct Section<'a> {
    pub(super) heading: Heading<'a>,
    pub(super) line: usize,
    pub(super) has_text: bool,
}

/// The page, heading by heading.
pub(super) fn sections(page: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for (index, line) in page.lines().enumerate() {
        if line.starts_with('#') {
            sections.push(Section { heading: heading(line), line: index + 1, has_text: false });
        } else if let Some(section) = sections.last_mut() {
            section.has_text |= !line.trim().is_empty() && !line.starts_with(TESTS);
        }
    }
    sections
}

fn heading(line: &str) -> Heading<'_> {
    let Some((level, words)) = line.split_once(' ') else { return Heading::Malformed };
    let (first, title) = words.split_once(' ').unwrap_or((words, ""));
    // Brackets are for the mark alone, so that one which is misspelled does not turn into a promise.
    let unmarked = title.strip_suffix(NOT_YET).unwrap_or(title);
    let sound = !unmarked.trim().is_empty() && !unmarked.contains(['(', ')']);
    match level {
        "#" => Heading::Title,
        "##" => match first.strip_suffix('.') {
            Some(letters) if sound && is_group(letters) => Heading::Group(letters),
            _ => Heading::Malformed,
        },
        "###" if sound && is_rule_id(first) => {
            Heading::Rule { id: first, done: unmarked.len() == title.len() }
        }
        _ => Heading::Malformed,
    }
}

/// Whether the word has the form of an id: the letters of a group and a number from 1 to 99.
pub(super) fn is_rule_id(word: &str) -> bool {
    let number = &word[group(word).len()..];
    let plain = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
    is_group(group(word)) && plain && (1..=2).contains(&number.len())
}

/// The letters with which an id begins.
pub(super) fn group(id: &str) -> &str {
    let letters = id.bytes().take_while(u8::is_ascii_uppercase).count();
    &id[..letters]
}

fn is_group(letters: &str) -> bool {
    (1..=2).contains(&letters.len()) && letters.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// The page with the tests of each rule below its text; lines about tests that were there before are replaced.
pub(super) fn fill<'a>(page: &str, tests: &dyn Fn(&str) -> Vec<&'a str>) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut rule = None;
    for line in page.lines().filter(|line| !line.starts_with(TESTS)) {
        if line.starts_with('#') {
            end_section(&mut lines, rule, tests);
            rule = match heading(line) {
                Heading::Rule { id, .. } => Some(id),
                _ => None,
            };
        }
        lines.push(line.to_owned());
    }
    end_section(&mut lines, rule, tests);
    lines.join("\n")
}

/// Leaves one empty line behind the section, and what names its rule.
fn end_section<'a>(lines: &mut Vec<String>, rule: Option<&str>, tests: &dyn Fn(&str) -> Vec<&'a str>) {
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    if let Some(found) = rule.map(tests).filter(|found| !found.is_empty()) {
        lines.extend([String::new(), tests_line(&found)]);
    }
    if !lines.is_empty() {
        lines.push(String::new());
    }
}

fn tests_line(paths: &[&str]) -> String {
    let links: Vec<String> =
        paths.iter().take(SHOWN).map(|path| format!("[{}](../{path})", label(path))).collect();
    let rest = match paths.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{TESTS} {}{rest}", links.join(", "))
}

/// What a reader needs to tell files apart: `crates/core/src/failure/decide.rs` is core/failure/decide.
fn label(path: &str) -> String {
    let path = path.strip_prefix("crates/").unwrap_or(path);
    path.strip_suffix(".rs").unwrap_or(path).replacen("/src/", "/", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_read() {
        assert_eq!(heading("# The guarantees"), Heading::Title);
        assert_eq!(heading("## L. Life of a job"), Heading::Group("L"));
        assert_eq!(heading("### L1 Seven states"), Heading::Rule { id: "L1", done: true });
        assert_eq!(heading("### AB12 Later (not yet)"), Heading::Rule { id: "AB12", done: false });
        for line in [
            "## Life of a job",
            "## L.",
            "## L1. Life",
            "##",
            "### L1",
            "### L1 (not yet)",
            "### L1 Seven states (Not yet)",
            "### L1 Seven states(not yet)",
            "### L1: Seven states",
            "### L01 Seven states",
            "### L404 Not found",
            "### Seven states",
            "#### L1 Seven states",
            "###L1 Seven states",
        ] {
            assert_eq!(heading(line), Heading::Malformed, "{line}");
        }
    }

    #[test]
    fn ids_have_letters_and_a_small_number() {
        assert!(["F1", "L22", "AB9"].iter().all(|word| is_rule_id(word)));
        assert!(
            ["", "F", "7", "F0", "F123", "ABC1", "F1a", "f1", "É1", "UTF8"].iter().all(|w| !is_rule_id(w))
        );
    }

    #[test]
    fn a_line_about_tests_is_no_text() {
        let page = "# T\n\nWords.\n\n### L1 A\n\nTests: [a](../a.rs)\n\n### L2 B\n\nWords.\n";
        let texts: Vec<(usize, bool)> = sections(page).iter().map(|s| (s.line, s.has_text)).collect();
        assert_eq!(texts, [(1, true), (5, false), (9, true)]);
    }

    #[test]
    fn tests_stand_below_the_text_of_their_rule() {
        let page = "# T\n\nWords.\n\n## L. Life\n### L1 A\n\nIt lives.\n\n\nTests: old\n\n\
            ### L2 B (not yet)\n\nIt ends.\n";
        let tests = |id: &str| match id {
            "L1" => vec!["crates/core/src/job/a.rs", "crates/x/tests/b.rs", "chaos/src/c.rs"],
            _ => Vec::new(),
        };
        let filled = fill(page, &tests);
        assert_eq!(
            filled,
            "# T\n\nWords.\n\n## L. Life\n\n### L1 A\n\nIt lives.\n\n\
             Tests: [core/job/a](../crates/core/src/job/a.rs), [x/tests/b](../crates/x/tests/b.rs), \
             [chaos/c](../chaos/src/c.rs)\n\n### L2 B (not yet)\n\nIt ends.\n"
        );
        assert_eq!(fill(&filled, &tests), filled, "filling again changes nothing");
    }

    #[test]
    fn of_many_tests_some_are_shown() {
        let paths: Vec<String> = (0..10).map(|number| format!("tests/a{number}.rs")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let line = tests_line(&paths);
        assert!(line.ends_with("[tests/a7](../tests/a7.rs) and 2 more"), "{line}");
        assert!(tests_line(&paths[..8]).ends_with("(../tests/a7.rs)"));
    }
}
