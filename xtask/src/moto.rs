//! moto, which speaks like SQS for the tests of bridges: a Python program in a folder of its own.
//!
//! Owns its version and where it is installed: below the build folder, never into the machine's Python. The versions of
//! what it needs are in `xtask/moto.txt`, so that every machine runs the same.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::TaskError;
use crate::process::{CommandLine, build_folder};

/// The version that the tests are written for.
const VERSION: &str = "5.2.5";

/// The versions of everything that it needs.
const PINS: &str = "xtask/moto.txt";

/// Finds it, or installs it, and answers where the program is.
pub(crate) fn program() -> Result<PathBuf, TaskError> {
    let folder = build_folder().join(format!("moto-{VERSION}"));
    if !is_there(&folder) {
        install(&folder)?;
    }
    if is_there(&folder) {
        return Ok(folder.join("bin/moto_server"));
    }
    Err(TaskError::Failed(format!(
        "{} has no moto {VERSION} after its installation; remove it and try again",
        folder.display()
    )))
}

/// Whether the folder has the version that the tests are written for; the program itself does not tell.
fn is_there(folder: &Path) -> bool {
    let pip = CommandLine::of(&[folder.join("bin/pip").display().to_string(), "freeze".to_owned()]);
    let pinned = format!("moto=={VERSION}");
    folder.join("bin/moto_server").is_file()
        && pip.output().is_ok_and(|said| said.lines().any(|line| line == pinned))
}

fn install(folder: &Path) -> Result<(), TaskError> {
    println!("   installing moto {VERSION} into {}", folder.display());
    // What an interrupted installation left is no ground to build on.
    if folder.exists() {
        fs::remove_dir_all(folder)
            .map_err(|error| TaskError::Failed(format!("cannot remove {}: {error}", folder.display())))?;
    }
    let shown = folder.display();
    CommandLine::new("python3 -m venv").with(&[shown.to_string()]).run()?;
    let package = format!("moto[server]=={VERSION}");
    let words = ["install", "--quiet", "--disable-pip-version-check", "--constraint", PINS, &package];
    CommandLine::of(&[format!("{shown}/bin/pip")]).with(&words.map(str::to_owned)).run()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::repository_root;

    #[test]
    fn a_folder_without_it_is_not_taken_for_it() {
        assert!(!is_there(Path::new("/no/such/folder")));
        assert!(!is_there(Path::new("/usr")));
    }

    #[test]
    fn its_version_is_among_the_pins() {
        let pins = fs::read_to_string(repository_root().join(PINS)).unwrap();
        assert!(pins.lines().any(|line| line == format!("moto=={VERSION}")), "{pins}");
    }
}
