//! Where a process dies: words of the statements that it sends to its database, one after the other.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use backstop_testbed::Proxy;

/// Words in the order in which a process sends them. It dies at the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashTrap {
    /// The words.
    pub words: Vec<String>,
    /// True: the database has done what the last word asks for. False: the word has not reached it.
    pub after: bool,
}

const WORDS: &str = "CHAOS_TRAP";
const AFTER: &str = "CHAOS_TRAP_AFTER";
const TOKEN: &str = "CHAOS_TRAP_TOKEN";

impl CrashTrap {
    /// At the COMMIT of the transaction that holds `label`.
    #[must_use]
    pub fn at_commit_of(label: &str, after: bool) -> Self {
        Self { words: vec![label.to_owned(), "COMMIT".to_owned()], after }
    }

    /// At the statement that ends the run with `label` in its result, where that is one statement without a COMMIT.
    #[must_use]
    pub fn at_end_of(label: &str, after: bool) -> Self {
        Self { words: vec![label.to_owned()], after }
    }

    /// At the first statement that holds `word` for the `times`th time.
    #[must_use]
    pub fn at_nth(word: &str, times: usize) -> Self {
        Self { words: vec![word.to_owned(); times], after: false }
    }

    /// Sets it up between a process and its server. Connections that are made from now on are watched.
    pub fn set(&self, proxy: &Proxy) {
        let words: Vec<&[u8]> = self.words.iter().map(String::as_bytes).collect();
        if self.after { proxy.hold_answers(&words) } else { proxy.hold_before(&words) }
    }

    /// What the variables of this process say.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        let words = std::env::var(WORDS).ok()?;
        let words = words.lines().map(ToOwned::to_owned).collect();
        Some(Self { words, after: std::env::var_os(AFTER).is_some() })
    }
}

/// The variables by which a process learns where it dies. It leaves `token` behind.
#[must_use]
pub fn variables(trap: Option<&CrashTrap>, token: &Path) -> Vec<(&'static str, String)> {
    let mut variables = vec![(TOKEN, token.display().to_string())];
    variables.extend(trap.map(|trap| (WORDS, trap.words.join("\n"))));
    variables.extend(trap.filter(|trap| trap.after).map(|_| (AFTER, "1".to_owned())));
    variables
}

/// Ends this process as a crash does, unless one has already died with the same token.
pub fn die_once() {
    let token = std::env::var_os(TOKEN).map(PathBuf::from);
    let taken =
        token.is_some_and(|token| OpenOptions::new().write(true).create_new(true).open(token).is_err());
    if !taken {
        std::process::abort();
    }
}
