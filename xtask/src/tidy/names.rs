//! File names say what is inside, and every module begins by saying what it owns.

use super::{Tree, Violation};

/// Names that say nothing about their contents; the list holds for files and for folders of modules.
const EMPTY_NAMES: [&str; 6] = ["utils", "util", "helpers", "helper", "common", "manager"];

/// Names that say nothing, and modules without a first `//!` line.
pub(crate) fn check(tree: &Tree<'_>) -> Vec<Violation> {
    let mut findings = Vec::new();
    for source in &tree.sources {
        let words = source.path.trim_end_matches(".rs").split('/');
        if let Some(name) = words.into_iter().find(|word| EMPTY_NAMES.contains(word)) {
            let text = format!("the name `{name}` says nothing; name the file by the concept it owns");
            findings.push(Violation::new(source.path, 1, text));
        }
        // Examples are read on their own, and cases for the compiler hold nothing but the case.
        let is_module = !source.path.starts_with("examples/") && !source.path.contains("/tests/ui/");
        if is_module && !source.text.starts_with("//!") {
            let text = "the module does not begin with `//!`; say what it owns and what it must not do";
            findings.push(Violation::new(source.path, 1, text));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    #[test]
    fn a_named_and_described_module_passes() {
        assert!(
            found(check, &[("src/backoff.rs", "//! Delays.\n"), ("src/community.rs", "//! People.\n")])
                .is_empty()
        );
    }

    #[test]
    fn empty_names_and_missing_descriptions_are_found() {
        for path in ["src/utils.rs", "src/helpers.rs", "tests/common/mod.rs", "src/manager.rs"] {
            assert!(found(check, &[(path, "//! X.\n")])[0].contains("says nothing"), "{path}");
        }
        assert!(
            found(check, &[("src/a.rs", "use b;\n//! Late.\n")])[0].contains("does not begin with `//!`")
        );
    }
}
