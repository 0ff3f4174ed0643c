//! Every rule that is called done is named by a test.

use super::source::Source;
use super::unfinished::has_word;
use super::{Finding, Tree};

/// One rule id per line; `#` begins a comment.
const LIST: &str = "docs/rules.txt";

/// Rules in the list that no test names, and lines that are no rule.
pub(crate) fn check(tree: &Tree<'_>) -> Vec<Finding> {
    let Some(list) = tree.files.iter().find(|file| file.path == LIST) else {
        return vec![Finding::new(LIST, 1, "the list of done rules is missing; restore it")];
    };
    let mut seen: Vec<&str> = Vec::new();
    let mut findings = Vec::new();
    for (index, line) in list.text.lines().enumerate() {
        let id = line.split('#').next().unwrap_or_default().trim();
        let complaint = match id {
            "" => continue,
            id if !is_rule_id(id) => format!("`{id}` is no rule id; write one id such as F11 on a line"),
            id if seen.contains(&id) => format!("rule {id} is listed twice; remove this line"),
            id if !tree.sources.iter().any(|source| names(source, id)) => {
                format!("rule {id} is done, but no test names it; write the test with a comment `// {id}`")
            }
            _ => {
                seen.push(id);
                continue;
            }
        };
        findings.push(Finding::new(LIST, index + 1, complaint));
    }
    findings
}

fn is_rule_id(id: &str) -> bool {
    let digits = id.trim_start_matches(|c: char| c.is_ascii_uppercase());
    digits.len() < id.len() && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a comment in test code names the rule; a comment in production code proves nothing.
fn names(source: &Source<'_>, id: &str) -> bool {
    let proves = |line| source.is_test(line) || is_suite(source.path);
    source.comments.iter().any(|comment| has_word(comment.text, id) && proves(comment.line))
}

/// Tests that are called by other tests and so do not look like tests by name.
fn is_suite(path: &str) -> bool {
    path.starts_with("chaos/") || path.starts_with("examples/") || path.contains("conformance")
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn rules_named_by_tests_pass() {
        let list = "# done\nF11 # sanitized\nL5\nC6\nD1\n";
        let inline = "#[cfg(test)]\nmod tests {\n    // F11\n}\n";
        let files = [
            ("docs/rules.txt", list),
            ("crates/core/src/a.rs", inline),
            ("crates/x/tests/a.rs", "// L4, L5: both\n"),
            ("crates/store/src/conformance/dead.rs", "/// D1\nfn a() {}\n"),
            ("chaos/src/a.rs", "// C6\n"),
        ];
        assert!(found(check, &files).is_empty());
    }

    #[test]
    fn rules_that_no_test_names_are_found() {
        let files = [
            ("docs/rules.txt", "F1\nL5\nL5\nnot a rule\n"),
            ("crates/core/src/a.rs", "// F1 in production code\n"),
            ("crates/x/tests/a.rs", "// F11 L5\nlet x = \"F1\";\n"),
        ];
        let findings = found(check, &files);
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert!(findings[0].starts_with("docs/rules.txt:1: rule F1 is done, but no test names it"));
        assert!(findings[1].contains("L5 is listed twice") && findings[2].contains("is no rule id"));
    }

    #[test]
    fn the_list_cannot_get_lost() {
        assert_eq!(found(check, &[]).len(), 1);
    }
}
