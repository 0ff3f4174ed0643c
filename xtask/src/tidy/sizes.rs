//! Files and functions stay small enough to be read in one go.

use super::source::{SourceFile, closing, item_end};
use super::{Tree, Violation};

/// A file of 400 lines is a lot; this is where it must be split.
const FILE_LINES: usize = 600;
/// Tests and generated files are lists of cases and may be longer.
const LONG_FILE_LINES: usize = 900;
/// A function of 40 lines is long; this is the wall.
const FUNCTION_LINES: usize = 70;

/// Files and functions over their limits.
pub(crate) fn check(tree: &Tree<'_>) -> Vec<Violation> {
    tree.sources.iter().flat_map(|source| file(source).into_iter().chain(functions(source))).collect()
}

fn file(source: &SourceFile<'_>) -> Option<Violation> {
    let generated = source.text.lines().take(5).any(|line| line.contains("@generated"));
    let limit = if source.test_file || generated { LONG_FILE_LINES } else { FILE_LINES };
    let lines = source.text.lines().count();
    let text = || format!("the file has {lines} lines, the limit is {limit}; split it by concept");
    (lines > limit).then(|| Violation::new(source.path, limit + 1, text()))
}

fn functions(source: &SourceFile<'_>) -> Vec<Violation> {
    let tokens = &source.tokens;
    let mut findings = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        // `fn(u8)` is a type and `r#fn` a name: a function has a name behind a plain `fn`.
        let raw_name = at > 0 && tokens[at - 1].is("#");
        let named = pair[1].is("$") || pair[1].text.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if !pair[0].is("fn") || !named || raw_name {
            continue;
        }
        let Some(body) = item_end(tokens, at + 1).filter(|end| tokens[*end].is("{")) else { continue };
        let lines = tokens[closing(tokens, body)].line - pair[0].line + 1;
        if lines > FUNCTION_LINES {
            let text = format!(
                "function `{}` has {lines} lines, the limit is {FUNCTION_LINES}; split it into named steps",
                pair[1].text
            );
            findings.push(Violation::new(source.path, pair[0].line, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn function(lines: usize) -> String {
        format!(
            "fn f<const N: usize>(x: [u8; 2], g: fn(u8)) -> S<{{ N }}>\nwhere\n    T: X,\n{{{}}}\n",
            "\n".repeat(lines - 4)
        )
    }

    #[test]
    fn a_function_at_the_wall_passes_and_one_over_it_does_not() {
        assert!(found(check, &[("a.rs", &function(70))]).is_empty());
        let findings = found(check, &[("a.rs", &function(71))]);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("a.rs:1: function `f` has 71 lines"), "{findings:?}");
    }

    #[test]
    fn braces_in_strings_comments_and_characters_do_not_count() {
        let noise = "fn f() { \"{\"; r#\"{\"{\"#; '{'; b'{'; /* { */ // {\n }\n";
        let text = format!("{noise}const X: u8 = 1;{}fn g() {{}}\n", "\n".repeat(100));
        assert!(found(check, &[("a.rs", &text)]).is_empty());
    }

    #[test]
    fn functions_without_a_body_are_not_measured() {
        let text = format!("trait T {{ fn a(&self);{}fn b(&self) {{}} }}\n", "\n".repeat(100));
        assert!(found(check, &[("a.rs", &text)]).is_empty());
    }

    #[test]
    fn only_the_nested_function_that_is_too_long_is_named() {
        let text =
            format!("mod m {{\nfn outer() {{ let c = || {{}}; }}\nfn long() {{{}}}\n}}\n", "\n".repeat(80));
        let findings = found(check, &[("a.rs", &text)]);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].contains("`long`"), "{findings:?}");
    }

    #[test]
    fn long_files_are_found_and_tests_may_be_longer() {
        let text = "//!\n".repeat(601);
        assert!(found(check, &[("src/a.rs", &text)])[0].starts_with("src/a.rs:601: the file has 601 lines"));
        assert!(found(check, &[("tests/a.rs", &text)]).is_empty());
        assert!(found(check, &[("src/a.rs", &format!("// @generated\n{text}"))]).is_empty());
        assert_eq!(found(check, &[("tests/a.rs", &"//!\n".repeat(901))]).len(), 1);
    }
}
