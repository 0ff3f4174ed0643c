//! SQL lives in the stores, and there in the few files made for it.

use super::lexer::TokenKind;
use super::source::SourceFile;
use super::{Tree, Violation};

/// How a statement begins; capitals tell it from prose.
const STATEMENTS: [&str; 7] = ["SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "WITH", "BEGIN"];

/// How a transaction can begin.
const BEGINNINGS: [&str; 4] = [" IMMEDIATE", " DEFERRED", " EXCLUSIVE", " TRANSACTION"];

const STORES: [&str; 3] = ["crates/sqlite/", "crates/postgres/", "crates/mysql/"];

/// Files of a store that hold statements.
const HOMES: [&str; 3] = ["sql", "schema", "migrations"];

/// The benchmark's floor: hand-written SQL without the engine, to compare with.
const FLOOR: &str = "floor.rs";

/// Statements outside their homes. Campaigns, examples and xtask are not the engine and are left alone.
pub(crate) fn check(tree: &Tree<'_>) -> Vec<Violation> {
    let crates =
        tree.sources.iter().filter(|source| source.path.starts_with("crates/") && !is_home(source.path));
    crates.flat_map(check_file).collect()
}

fn is_home(path: &str) -> bool {
    let in_store = STORES.iter().any(|store| path.starts_with(store));
    let named = path.trim_end_matches(".rs").split('/').any(|word| HOMES.contains(&word));
    (in_store && named) || path.rsplit('/').next() == Some(FLOOR) || path.contains("/examples/")
}

fn check_file(source: &SourceFile<'_>) -> Vec<Violation> {
    let literals =
        source.tokens.iter().filter(|token| token.kind == TokenKind::Text && !source.is_test(token.line));
    literals
        .filter(|token| is_statement(token.text))
        .map(|token| {
            let text = "SQL outside a store's sql.rs; make it a named const there and call the store";
            Violation::new(source.path, token.line, text)
        })
        .collect()
}

fn is_statement(literal: &str) -> bool {
    // A literal may open with a line break, plain or escaped.
    let text = literal.trim_start_matches(|c: char| c.is_whitespace() || c == '\\');
    STATEMENTS.iter().any(|word| {
        let Some(rest) = text.strip_prefix(word) else { return false };
        match *word {
            // The first words of a key block are no transaction.
            "BEGIN" => {
                rest.is_empty() || rest.starts_with(';') || BEGINNINGS.iter().any(|how| rest.starts_with(how))
            }
            _ => rest.starts_with([' ', '\n', '\\']),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    const STATEMENT: &str = "const A: &str = \"\\\n    SELECT 1\";";

    #[test]
    fn statements_at_home_and_in_tests_pass() {
        for path in [
            "crates/sqlite/src/sql.rs",
            "crates/postgres/src/sql/claim.rs",
            "crates/mysql/src/migrations.rs",
            "crates/cli/src/bench/floor.rs",
            "crates/sqlite/tests/a.rs",
            "chaos/src/lib.rs",
        ] {
            assert!(found(check, &[(path, STATEMENT)]).is_empty(), "{path}");
        }
    }

    #[test]
    fn statements_elsewhere_are_found() {
        for path in ["crates/sqlite/src/lib.rs", "crates/engine/src/sql.rs", "crates/core/src/a.rs"] {
            assert!(found(check, &[(path, STATEMENT)])[0].contains("SQL outside"), "{path}");
        }
        for text in ["\"BEGIN IMMEDIATE\"", "\"BEGIN\"", "r#\"\n  WITH x AS (y)\"#"] {
            assert_eq!(found(check, &[("crates/engine/src/a.rs", text)]).len(), 1, "{text}");
        }
    }

    #[test]
    fn prose_and_other_words_pass() {
        let text = "f(\"Select a job\", \"SELECTED\", \"-----BEGIN KEY\", \"UPDATE\", \"delete from x\")";
        assert!(found(check, &[("crates/engine/src/a.rs", text)]).is_empty());
    }
}
