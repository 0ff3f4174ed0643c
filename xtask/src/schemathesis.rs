//! Schemathesis, which checks the HTTP API against its own document: a Python program in a folder of its own.
//!
//! Owns its version and where it is installed: below the build folder, never into the machine's Python. The versions of
//! what it needs are in `xtask/schemathesis.txt`, so that every machine runs the same.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::TaskError;
use crate::process::{CommandLine, build_folder};

/// The version that the tests are written for.
const VERSION: &str = "4.32.5";

/// The versions of everything that it needs.
const PINS: &str = "xtask/schemathesis.txt";

/// Finds it, or installs it, and answers where the program is.
pub(crate) fn program() -> Result<PathBuf, TaskError> {
    let folder = build_folder().join(format!("schemathesis-{VERSION}"));
    let program = folder.join("bin/schemathesis");
    if !is_there(&program) {
        install(&folder)?;
    }
    if is_there(&program) {
        return Ok(program);
    }
    Err(TaskError::Failed(format!(
        "{} is not schemathesis {VERSION} after its installation; remove {} and try again",
        program.display(),
        folder.display()
    )))
}

/// Whether the program answers with the version that the tests are written for.
fn is_there(program: &Path) -> bool {
    let line = CommandLine::of(&[program.display().to_string(), "--version".to_owned()]);
    program.is_file() && line.output().is_ok_and(|said| said.contains(VERSION))
}

fn install(folder: &Path) -> Result<(), TaskError> {
    println!("   installing schemathesis {VERSION} into {}", folder.display());
    // What an interrupted installation left is no ground to build on.
    if folder.exists() {
        fs::remove_dir_all(folder)
            .map_err(|error| TaskError::Failed(format!("cannot remove {}: {error}", folder.display())))?;
    }
    let shown = folder.display();
    CommandLine::new("python3 -m venv").with(&[shown.to_string()]).run()?;
    let pip = CommandLine::of(&[format!("{shown}/bin/pip")]);
    let package = format!("schemathesis=={VERSION}");
    pip.with(
        &["install", "--quiet", "--disable-pip-version-check", "--constraint", PINS, &package]
            .map(str::to_owned),
    )
    .run()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::repository_root;

    #[test]
    fn a_program_that_is_no_schemathesis_is_not_taken_for_it() {
        assert!(!is_there(Path::new("/no/such/program")));
        assert!(!is_there(Path::new("/bin/sh")), "it answers no version of schemathesis");
    }

    #[test]
    fn its_version_is_among_the_pins() {
        let pins = fs::read_to_string(repository_root().join(PINS)).unwrap();
        assert!(pins.lines().any(|line| line == format!("schemathesis=={VERSION}")), "{pins}");
    }
}
