//! Makes sure that the machine has what the tests need.
//!
//! Owns the list of needed programs with the Debian package of each. A missing program is a failure with one clear
//! sentence, never a silent skip. Must not change anything unless it runs as root on a machine with apt-get.

use std::path::Path;

use backstop_testbed::find;

use crate::error::TaskError;
use crate::install;
use crate::process::CommandLine;

/// Something that the checks call, and the Debian package that has it.
pub(crate) struct NeededPackage {
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    pub(crate) why: &'static str,
    /// Whether the machine has it; the name comes in again.
    is_there: fn(&str) -> bool,
}

const fn need(name: &'static str, package: &'static str, why: &'static str) -> NeededPackage {
    NeededPackage { name, package, why, is_there: |name| find::program(name).is_some() }
}

/// Everything beyond the Rust toolchain.
const NEEDS: [NeededPackage; 22] = [
    need("git", "git", "tidy asks it for the list of files"),
    need("cc", "build-essential", "the bundled SQLite is C code"),
    need("unshare", "util-linux", "fault tests make private mounts"),
    need("setpriv", "util-linux", "servers for tests run as ordinary users and die with their test"),
    need("mount", "mount", "fault tests make full and failing disks"),
    NeededPackage {
        name: "PostgreSQL 15",
        package: "postgresql",
        why: "the tests of its store run on a real server",
        is_there: |_| find::postgres().is_some(),
    },
    need("mariadbd", "mariadb-server", "the tests of the MySQL store run on a real server"),
    need("mariadb-install-db", "mariadb-server", "every test server begins with an empty data folder"),
    need("openssl", "openssl", "tests of encrypted connections make certificates with it"),
    need("pgbouncer", "pgbouncer", "tests reach PostgreSQL through a pool of connections"),
    need("redis-server", "redis-server", "bridges are tested on real brokers"),
    need("beanstalkd", "beanstalkd", "bridges are tested on real brokers"),
    need("nats-server", "nats-server", "bridges are tested on real brokers"),
    need("rabbitmq-server", "rabbitmq-server", "bridges are tested on real brokers"),
    need("supervisord", "supervisor", "the example for supervisord is run"),
    need("systemd-analyze", "systemd", "the example for systemd is checked"),
    need("chromium", "chromium", "the page is tested in a real browser"),
    need("node", "nodejs", "the browser tests are written for it"),
    need("npm", "npm", "what the browser tests need is installed by it"),
    need("python3", "python3", "schemathesis, which checks the HTTP API, is a Python program"),
    NeededPackage {
        name: "venv of Python",
        package: "python3-venv",
        why: "schemathesis is installed into a folder of its own",
        is_there: |_| CommandLine::new("python3 -c").with(&["import ensurepip, venv".to_owned()]).succeeds(),
    },
    NeededPackage {
        name: "libfaketime",
        package: "libfaketime",
        why: "fault tests shift the clocks of processes",
        is_there: |_| find::faketime().is_some(),
    },
];

/// Parts of the Rust toolchain that a minimal installation leaves out.
const COMPONENTS: [(&str, &str); 2] = [("fmt", "rustfmt"), ("clippy", "clippy")];

/// Finds or installs everything that the checks call.
pub(crate) fn machine() -> Result<(), TaskError> {
    for (subcommand, component) in COMPONENTS {
        toolchain_component(subcommand, component)?;
    }
    programs()
}

/// What only the comparison with other engines calls.
const BENCH_NEEDS: [NeededPackage; 2] = [
    need("redis-server", "redis-server", "BullMQ keeps its jobs in it"),
    need("npm", "npm", "engines written in JavaScript are installed by it"),
];

/// Finds or installs everything beyond the Rust toolchain.
pub(crate) fn programs() -> Result<(), TaskError> {
    all(&NEEDS)
}

/// Finds or installs a program that only the comparison with other engines calls.
pub(crate) fn bench_program(name: &str) -> Result<(), TaskError> {
    BENCH_NEEDS.iter().filter(|need| need.name == name).try_for_each(|need| all(std::slice::from_ref(need)))
}

fn all(needs: &[NeededPackage]) -> Result<(), TaskError> {
    let missing: Vec<&NeededPackage> = needs.iter().filter(|need| !(need.is_there)(need.name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !(is_root() && find::program("apt-get").is_some()) {
        return Err(TaskError::Failed(ask_to_install(&missing)));
    }
    install::install(&packages(&missing))?;
    match missing.iter().find(|need| !(need.is_there)(need.name)) {
        None => Ok(()),
        Some(need) => Err(TaskError::Failed(format!(
            "`{}` is still missing after package {} was installed; is its folder in PATH, and is the version right?",
            need.name, need.package
        ))),
    }
}

fn toolchain_component(subcommand: &str, component: &str) -> Result<(), TaskError> {
    if CommandLine::new(&format!("cargo {subcommand} --version")).succeeds() {
        return Ok(());
    }
    if find::program("rustup").is_none() {
        return Err(TaskError::Failed(format!(
            "`cargo {subcommand}` is missing; install the component {component} of your Rust toolchain"
        )));
    }
    println!("   installing the component {component} of the Rust toolchain");
    CommandLine::new(&format!("rustup component add {component}")).run()
}

fn ask_to_install(missing: &[&NeededPackage]) -> String {
    let names: Vec<String> = missing.iter().map(|need| format!("`{}` ({})", need.name, need.why)).collect();
    format!(
        "missing {}; install with: sudo apt-get install {}",
        names.join(", "),
        packages(missing).join(" ")
    )
}

fn packages(missing: &[&NeededPackage]) -> Vec<String> {
    let mut packages: Vec<String> = missing.iter().map(|need| need.package.to_owned()).collect();
    packages.sort();
    packages.dedup();
    packages
}

/// Whether this process may install packages; the owner of our own /proc entry tells without calling C.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    Path::new("/proc/self").metadata().is_ok_and(|data| data.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_the_path() {
        assert!(find::program("sh").is_some());
        assert!(find::program("no-such-program-here").is_none());
    }

    #[test]
    fn the_sentence_names_programs_reasons_and_packages_once() {
        let missing: Vec<&NeededPackage> =
            NEEDS[1..5].iter().chain([&NEEDS[1]]).filter(|need| need.name != "git").collect();
        let text = ask_to_install(&missing);
        assert!(text.contains("`cc` (the bundled SQLite is C code)"), "{text}");
        assert!(text.ends_with("apt-get install build-essential mount util-linux"), "{text}");
    }
}
