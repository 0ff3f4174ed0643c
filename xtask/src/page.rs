//! `cargo xtask page`: the page in a real browser, on the real program.
//!
//! Owns where the browser tests run and what they are given: below the build folder, with the versions that their lock
//! file names, never into the machine. A browser or a package that is missing is a failure, never a skip.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{TaskError, only_names};
use crate::process::{CommandLine, build_folder, repository_root};
use crate::setup;

/// Where the tests are kept.
const TESTS: &str = "crates/server/tests/browser";

/// The lock file, and the copy of it beside what was installed by it.
const LOCK: &str = "package-lock.json";
const INSTALLED: &str = "installed.json";

/// Runs the tests, or those whose files are named.
pub(crate) fn run(arguments: &[String]) -> Result<(), TaskError> {
    only_names("page", arguments)?;
    setup::programs()?;
    CommandLine::new("cargo build --package backstop-cli --all-features").run()?;
    check_files(arguments)
}

/// All of them, as a step of the whole check: the program is built already.
pub(crate) fn check() -> Result<(), TaskError> {
    check_files(&[])
}

fn check_files(names: &[String]) -> Result<(), TaskError> {
    let folder = build_folder().join("browser");
    let tests = prepare(&folder)?;
    let wanted: Vec<String> = tests.into_iter().filter(|test| is_wanted(test, names)).collect();
    if wanted.is_empty() {
        return Err(TaskError::Usage(format!("no browser test is named like {}", names.join(" "))));
    }
    let program = build_folder().join("debug/backstop");
    let screens = build_folder().join("screens");
    println!("   screens: {}", screens.display());
    // One file after the other: two browsers and two programs at once would make each other late.
    let line = CommandLine::new("node --test --test-concurrency=1 --test-reporter=spec");
    line.with(&wanted)
        .variable("BACKSTOP_PROGRAM", &program.display().to_string())
        .variable("BACKSTOP_BROWSER_FOLDER", &folder.display().to_string())
        .variable("BACKSTOP_SCREENS", &screens.display().to_string())
        .run()
}

fn is_wanted(test: &str, names: &[String]) -> bool {
    names.is_empty() || names.iter().any(|name| test.contains(name.as_str()))
}

/// Puts the tests where their packages are, and answers where each of them is.
fn prepare(folder: &Path) -> Result<Vec<String>, TaskError> {
    let cannot = |what: &str, error: std::io::Error| TaskError::Failed(format!("cannot {what}: {error}"));
    fs::create_dir_all(folder).map_err(|error| cannot("make the folder of the browser tests", error))?;
    let source = repository_root().join(TESTS);
    let mut tests = Vec::new();
    let files = fs::read_dir(&source).map_err(|error| cannot("read the browser tests", error))?;
    for file in files {
        let path: PathBuf = file.map_err(|error| cannot("read the browser tests", error))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let copy = folder.join(name);
        fs::copy(&path, &copy).map_err(|error| cannot("copy a browser test", error))?;
        if name.ends_with(".test.mjs") {
            tests.push(copy.display().to_string());
        }
    }
    tests.sort();
    install(folder)?;
    Ok(tests)
}

/// Installs what the lock file names, once for each lock file.
fn install(folder: &Path) -> Result<(), TaskError> {
    let lock = fs::read_to_string(folder.join(LOCK))
        .map_err(|error| TaskError::Failed(format!("the browser tests have no {LOCK}: {error}")))?;
    let installed = folder.join(INSTALLED);
    if fs::read_to_string(&installed).is_ok_and(|before| before == lock) {
        return Ok(());
    }
    println!("   installing playwright-core and axe-core into {}", folder.display());
    let folder = folder.display().to_string();
    CommandLine::new("npm ci --no-audit --no-fund --ignore-scripts --prefix").with(&[folder]).run()?;
    fs::write(&installed, lock)
        .map_err(|error| TaskError::Failed(format!("cannot write {}: {error}", installed.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_pinned_and_no_registry_is_named() {
        let read = |name: &str| fs::read_to_string(repository_root().join(TESTS).join(name)).unwrap();
        let (package, lock) = (read("package.json"), read(LOCK));
        for name in ["playwright-core", "axe-core"] {
            let (_, rest) = package.split_once(&format!("\"{name}\": \"")).unwrap();
            let version = rest.split('"').next().unwrap();
            assert!(version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'), "{name} {version}");
            assert!(lock.contains(&format!("\"version\": \"{version}\"")), "{name} {version} is not locked");
        }
        assert!(!lock.contains("\"resolved\""), "which registry it comes from is the machine's business");
    }

    #[test]
    fn names_narrow_the_tests_down() {
        assert!(is_wanted("/x/story.test.mjs", &[]));
        assert!(is_wanted("/x/story.test.mjs", &["story".to_owned()]));
        assert!(!is_wanted("/x/views.test.mjs", &["story".to_owned()]));
    }
}
