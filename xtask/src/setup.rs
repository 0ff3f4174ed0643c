//! Makes sure that the machine has what the tests need, and installs it where that is allowed.
//!
//! Owns the list of needed programs with the Debian package of each. A missing program is a failure with one clear
//! sentence, never a silent skip. Must not change anything unless it runs as root on a machine with apt-get.

use std::path::Path;

use crate::failure::Failure;
use crate::process::CommandLine;

/// A program that the checks call, and the Debian package that has it.
struct Need {
    program: &'static str,
    package: &'static str,
    why: &'static str,
}

/// Everything beyond the Rust toolchain.
const NEEDS: [Need; 4] = [
    Need { program: "git", package: "git", why: "tidy asks it for the list of files" },
    Need { program: "cc", package: "build-essential", why: "the bundled SQLite is C code" },
    Need { program: "unshare", package: "util-linux", why: "fault tests make private mounts" },
    Need { program: "mount", package: "mount", why: "fault tests make full and failing disks" },
];

/// Parts of the Rust toolchain that a minimal installation leaves out.
const COMPONENTS: [(&str, &str); 2] = [("fmt", "rustfmt"), ("clippy", "clippy")];

/// Finds or installs everything that the checks call.
pub(crate) fn machine() -> Result<(), Failure> {
    for (subcommand, component) in COMPONENTS {
        toolchain_component(subcommand, component)?;
    }
    let missing: Vec<&Need> = NEEDS.iter().filter(|need| !in_path(need.program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !(is_root() && in_path("apt-get")) {
        return Err(Failure::Failed(ask_to_install(&missing)));
    }
    install(&missing)?;
    match missing.iter().find(|need| !in_path(need.program)) {
        None => Ok(()),
        Some(need) => Err(Failure::Failed(format!(
            "`{}` is still missing after package {} was installed; is its folder in PATH?",
            need.program, need.package
        ))),
    }
}

fn toolchain_component(subcommand: &str, component: &str) -> Result<(), Failure> {
    if CommandLine::new(&format!("cargo {subcommand} --version")).succeeds() {
        return Ok(());
    }
    if !in_path("rustup") {
        return Err(Failure::Failed(format!(
            "`cargo {subcommand}` is missing; install the component {component} of your Rust toolchain"
        )));
    }
    println!("   installing the component {component} of the Rust toolchain");
    CommandLine::new(&format!("rustup component add {component}")).run()
}

fn install(missing: &[&Need]) -> Result<(), Failure> {
    let packages = packages(missing);
    println!("   installing Debian packages: {}", packages.join(" "));
    let apt = |words: &str| CommandLine::new(words).variable("DEBIAN_FRONTEND", "noninteractive");
    apt("apt-get update -qq").run()?;
    apt("apt-get install -y -qq --no-install-recommends").with(&packages).run()
}

fn ask_to_install(missing: &[&Need]) -> String {
    let programs: Vec<String> =
        missing.iter().map(|need| format!("`{}` ({})", need.program, need.why)).collect();
    format!(
        "missing {}; install with: sudo apt-get install {}",
        programs.join(", "),
        packages(missing).join(" ")
    )
}

fn packages(missing: &[&Need]) -> Vec<String> {
    let mut packages: Vec<String> = missing.iter().map(|need| need.package.to_owned()).collect();
    packages.sort();
    packages.dedup();
    packages
}

/// Whether a folder of PATH holds the program.
pub(crate) fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Whether this process may install packages; the owner of our own /proc entry tells without calling C.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    Path::new("/proc/self").metadata().is_ok_and(|data| data.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_the_path() {
        assert!(in_path("sh"));
        assert!(!in_path("no-such-program-here"));
    }

    #[test]
    fn the_sentence_names_programs_reasons_and_packages_once() {
        let missing: Vec<&Need> =
            NEEDS.iter().filter(|need| need.program != "git").chain([&NEEDS[1]]).collect();
        let text = ask_to_install(&missing);
        assert!(text.contains("`cc` (the bundled SQLite is C code)"), "{text}");
        assert!(text.ends_with("apt-get install build-essential mount util-linux"), "{text}");
    }
}
