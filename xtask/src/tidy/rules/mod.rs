//! Every rule that is promised is named by a test, and every rule that a test names is on the page of rules.
//!
//! Owns what counts as naming a rule. The page itself is read and written by `page`.

mod page;

use super::source::SourceFile;
use super::{Tree, Violation};
use page::{Heading, Section};

/// What users read as the guarantees.
pub(crate) const PAGE: &str = "docs/rules.md";

/// An id in a comment of a test.
struct Mention<'a> {
    id: &'a str,
    path: &'a str,
    line: usize,
}

/// Rules that no test holds, headings that are none, and ids in tests that lead nowhere.
pub(crate) fn check(tree: &Tree<'_>) -> Vec<Violation> {
    let Some(page) = tree.files.iter().find(|file| file.path == PAGE) else {
        return vec![Violation::new(PAGE, 1, "the page of rules is missing; restore it")];
    };
    let sections = page::sections(&page.text);
    let mentions = mentions(tree);
    let mut findings = on_the_page(&sections, &mentions);
    findings.extend(in_tests(&sections, &mentions));
    findings
}

/// The page of rules as it should be, with the tests of today; nothing when there is no page.
pub(crate) fn filled(tree: &Tree<'_>) -> Option<String> {
    let page = tree.files.iter().find(|file| file.path == PAGE)?;
    let mentions = mentions(tree);
    Some(page::fill(&page.text, &|id| files_naming(&mentions, id)))
}

/// The files that name a rule, each once: first cases of the conformance suite, because every store runs those.
fn files_naming<'a>(mentions: &[Mention<'a>], id: &str) -> Vec<&'a str> {
    let mut paths: Vec<&str> =
        mentions.iter().filter(|mention| mention.id == id).map(|mention| mention.path).collect();
    paths.sort_unstable_by_key(|path| (!path.contains("/conformance/"), *path));
    paths.dedup();
    paths
}

fn on_the_page(sections: &[Section<'_>], mentions: &[Mention<'_>]) -> Vec<Violation> {
    let mut findings = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    let mut group = "";
    for section in sections {
        let complaint = match section.heading {
            Heading::Title => continue,
            Heading::Malformed => Some(
                "this is no heading of the page; write `## L. Name of the group`, `### L1 Name of the rule` or \
                 `### L1 Name of the rule (not yet)`"
                    .to_owned(),
            ),
            Heading::Group(letters) => {
                group = letters;
                let twice = seen.contains(&letters);
                seen.push(letters);
                twice.then(|| format!("group {letters} is there twice; join the two"))
            }
            Heading::Rule { id, .. } if seen.contains(&id) => {
                Some(format!("rule {id} is there twice; remove one of the two"))
            }
            Heading::Rule { id, done } => {
                seen.push(id);
                let named = mentions.iter().any(|mention| mention.id == id);
                if page::group(id) != group {
                    Some(format!("rule {id} does not stand in its group; move it"))
                } else if !section.has_text {
                    Some(format!("rule {id} has no text; say what is promised"))
                } else if done && !named {
                    Some(format!(
                        "rule {id} is promised, but no test names it; write the test with a comment `// {id}`, or \
                         mark the rule `(not yet)`"
                    ))
                } else {
                    None
                }
            }
        };
        findings.extend(complaint.map(|text| Violation::new(PAGE, section.line, text)));
    }
    findings
}

/// Ids of known groups that are not on the page. Other words of that form (P95, R41) are none of ours.
fn in_tests(sections: &[Section<'_>], mentions: &[Mention<'_>]) -> Vec<Violation> {
    let is_group =
        |id: &str| sections.iter().any(|section| section.heading == Heading::Group(page::group(id)));
    let is_known = |id: &str| {
        sections
            .iter()
            .any(|section| matches!(section.heading, Heading::Rule { id: known, .. } if known == id))
    };
    mentions
        .iter()
        .filter(|mention| is_group(mention.id) && !is_known(mention.id))
        .map(|mention| {
            let text = format!(
                "the comment names rule {0}, which is not in {PAGE}; fix the id, add the rule, or write `{0}` in \
                 backticks when it means something else",
                mention.id
            );
            Violation::new(mention.path, mention.line, text)
        })
        .collect()
}

/// What the comments of tests name; a comment in production code proves nothing.
fn mentions<'a>(tree: &Tree<'a>) -> Vec<Mention<'a>> {
    let mut found = Vec::new();
    for source in &tree.sources {
        let path = source.path;
        for comment in source.comments.iter().filter(|comment| is_test(source, comment.line)) {
            found.extend(ids(comment.text).into_iter().map(|id| Mention { id, path, line: comment.line }));
        }
    }
    found
}

/// The ids that stand alone in a comment; a quoted `F1` is talked about, not meant.
fn ids(comment: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut before = None;
    for part in comment.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_') {
        let word = part.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '_');
        if before != Some('`') && page::is_rule_id(word) {
            found.push(word);
        }
        before = part.chars().next_back();
    }
    found
}

/// Tests by their look, and suites that are called by other tests and so do not look like tests.
fn is_test(source: &SourceFile<'_>, line: usize) -> bool {
    let path = source.path;
    let is_suite =
        path.starts_with("chaos/") || path.starts_with("examples/") || path.contains("conformance");
    is_suite || source.is_test(line)
}

#[cfg(test)]
mod tests {
    use super::super::{TextFile, found};
    use super::*;

    const SOUND: &str = "# Rules\n\n## F. Failures\n\n### F11 Sanitized\n\nClean.\n\n## L. Life\n\n### L5 Fences\n\n\
        They grow.\n\n### L21 Order (not yet)\n\nIn turn.\n";

    #[test]
    fn rules_named_by_tests_pass() {
        let files = [
            (PAGE, SOUND),
            ("crates/core/src/a.rs", "#[cfg(test)]\nmod tests {\n    // F11\n}\n"),
            ("crates/x/tests/a.rs", "// L21, L5: both\n"),
        ];
        assert!(found(check, &files).is_empty());
        let files = [
            (PAGE, SOUND),
            ("crates/store/src/conformance/dead.rs", "/// What is stored (F11).\nfn a() {}\n"),
            ("chaos/src/a.rs", "// L4x L5\n"),
        ];
        assert!(found(check, &files).is_empty());
    }

    #[test]
    fn rules_that_no_test_names_are_found() {
        let files = [
            (PAGE, SOUND),
            ("crates/core/src/a.rs", "// F11 in production code\n"),
            ("crates/x/tests/a.rs", "// F111 `F11` L5_a\nlet x = \"F11\";\n"),
        ];
        let findings = found(check, &files);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].starts_with("docs/rules.md:5: rule F11 is promised, but no test names it"));
        assert!(findings[1].starts_with("docs/rules.md:11: rule L5 is promised"));
    }

    #[test]
    fn ids_that_are_not_on_the_page_are_found() {
        let text =
            "// F11, L5\n\n// L2-L5 (F12)\n// P95, A1, UTF8, F404, C0, F0, `L7`, R41, 0xF1, F_2, H2O\n";
        let findings = found(check, &[(PAGE, SOUND), ("crates/x/tests/a.rs", text)]);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].starts_with("crates/x/tests/a.rs:3: the comment names rule L2, which is not in"));
        assert!(findings[1].contains("rule F12"));
        assert!(
            found(check, &[(PAGE, "# Rules\n"), ("src/a.rs", "// F12 is read in tests only\n")]).is_empty()
        );
    }

    #[test]
    fn headings_that_promise_nothing_are_found() {
        let page = "# Rules\n\n## F. Failures\n\n### F1 One\n\nText.\n\n### F1 Again\n\nText.\n\n### L5 Fences\n\n\
            Text.\n\n### F2 Two (not yet)\n\nTests: [a](../a.rs)\n\n### F3\n\nText.\n\n## F. More\n";
        let findings = found(check, &[(PAGE, page), ("tests/a.rs", "// F1 L5\n")]);
        assert_eq!(findings.len(), 5, "{findings:?}");
        assert!(findings[0].starts_with("docs/rules.md:9: rule F1 is there twice"));
        assert!(findings[1].starts_with("docs/rules.md:13: rule L5 does not stand in its group"));
        assert!(findings[2].starts_with("docs/rules.md:17: rule F2 has no text"));
        assert!(findings[3].starts_with("docs/rules.md:21: this is no heading of the page"));
        assert!(findings[4].starts_with("docs/rules.md:25: group F is there twice"));
    }

    #[test]
    fn the_page_cannot_get_lost() {
        assert_eq!(found(check, &[]).len(), 1);
        assert_eq!(filled(&Tree::new(&[])), None);
    }

    #[test]
    fn the_page_lists_each_file_once_and_the_conformance_suite_first() {
        let file = |path: &str, text: &str| TextFile { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("crates/a/tests/x.rs", "// F11\n\n// F11 again\n"),
            file("crates/store/src/conformance/dead.rs", "// F11\n"),
            file(PAGE, SOUND),
        ];
        let filled = filled(&Tree::new(&files)).unwrap();
        let line = "Clean.\n\nTests: [store/conformance/dead](../crates/store/src/conformance/dead.rs), \
            [a/tests/x](../crates/a/tests/x.rs)\n\n## L. Life";
        assert!(filled.contains(line), "{filled}");
        assert!(filled.ends_with("In turn.\n"), "a rule that no test names has no line of tests");
    }
}
