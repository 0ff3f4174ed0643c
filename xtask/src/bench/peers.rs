//! Installs the contenders by their ordinary package managers, below the build folder, and finds their drivers.
//!
//! A contender that cannot be installed is absent for a reason; nothing here makes the whole run fail.

use std::fs;
use std::path::{Path, PathBuf};

use super::contender::{Contender, ContenderProgram};
use super::driver::Driver;
use crate::process::{CommandLine, build_folder, repository_root};
use crate::setup;

const PEERS: &str = "bench/peers";

/// Where everything of the comparison is kept between runs.
pub(crate) fn folder() -> PathBuf {
    build_folder().join("bench")
}

/// The drivers of these contenders in the same order; the floor, which has none, gets no answer at all.
pub(crate) fn install(contenders: &[&Contender]) -> Vec<Result<Option<Driver>, String>> {
    let any =
        |wanted: fn(ContenderProgram) -> bool| contenders.iter().any(|contender| wanted(contender.program));
    let ours = if any(|program| program == ContenderProgram::Ours) { build_ours() } else { Ok(()) };
    build_rust(contenders);
    let node =
        if any(|program| matches!(program, ContenderProgram::Node(_))) { install_node() } else { Ok(()) };
    let python =
        if any(|program| matches!(program, ContenderProgram::Python(_))) { install_python() } else { Ok(()) };
    contenders
        .iter()
        .map(|contender| match contender.program {
            ContenderProgram::Floor => Ok(None),
            ContenderProgram::Ours => {
                ours.clone().map(|()| Some(plain(build_folder().join("release/backstop-contender"))))
            }
            ContenderProgram::Rust(name) => rust_driver(name).map(Some),
            ContenderProgram::Node(name) => node.clone().map(|()| Some(node_driver(name))),
            ContenderProgram::Python(name) => python.clone().map(|()| Some(python_driver(name))),
        })
        .collect()
}

fn plain(program: PathBuf) -> Driver {
    Driver { program, arguments: Vec::new() }
}

fn run(line: &CommandLine) -> Result<(), String> {
    println!("   {line}");
    line.run().map_err(|failure| failure.to_string())
}

fn build_ours() -> Result<(), String> {
    run(&CommandLine::new("cargo build --release --package backstop-contender"))
}

fn rust_target() -> PathBuf {
    folder().join("peers-rust")
}

/// Builds all peers at once; which of them failed is seen by what is missing afterwards.
fn build_rust(contenders: &[&Contender]) {
    let names = contenders.iter().filter_map(|contender| match contender.program {
        ContenderProgram::Rust(name) => Some(format!("--package=contest-{name}")),
        _ => None,
    });
    let packages: Vec<String> = names.collect();
    if packages.is_empty() {
        return;
    }
    // An earlier build of a driver that no longer compiles must not stand in for it.
    for name in contenders.iter().filter_map(|contender| rust_name(contender)) {
        let _ = fs::remove_file(rust_program(name));
    }
    let manifest = format!("--manifest-path={PEERS}/rust/Cargo.toml");
    let line =
        CommandLine::new("cargo build --release --locked --keep-going").with(&[manifest]).with(&packages);
    if let Err(reason) = run(&line.variable("CARGO_TARGET_DIR", &rust_target().display().to_string())) {
        eprintln!("xtask: {reason}");
    }
}

fn rust_name(contender: &Contender) -> Option<&'static str> {
    if let ContenderProgram::Rust(name) = contender.program { Some(name) } else { None }
}

fn rust_program(name: &str) -> PathBuf {
    rust_target().join("release").join(format!("contest-{name}"))
}

fn rust_driver(name: &str) -> Result<Driver, String> {
    let program = rust_program(name);
    if program.is_file() { Ok(plain(program)) } else { Err("cargo could not build it".to_owned()) }
}

/// Copies the drivers next to the packages, where Node looks for them, and installs the packages.
fn install_node() -> Result<(), String> {
    setup::bench_program("npm").map_err(|failure| failure.to_string())?;
    let target = folder().join("node");
    copy(&repository_root().join(PEERS).join("node"), &target)?;
    let line =
        CommandLine::new("npm install --no-audit --no-fund --no-package-lock --loglevel=error --prefix");
    once(&target.join("package.json"), || run(&line.with(&[target.display().to_string()])))
}

fn node_driver(name: &str) -> Driver {
    let target = folder().join("node");
    // Some engines need a newer Node than many machines have, so it is one of the packages.
    let own = target.join("node_modules/node/bin/node");
    let program = if own.is_file() { own } else { PathBuf::from("node") };
    Driver { program, arguments: vec![target.join(format!("{name}.mjs")).display().to_string()] }
}

fn install_python() -> Result<(), String> {
    let target = folder().join("python");
    copy(&repository_root().join(PEERS).join("python"), &target)?;
    let shown = target.display();
    let words = |line: String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    once(&target.join("requirements.txt"), || {
        run(&CommandLine::of(&words(format!("python3 -m venv {shown}/venv"))))?;
        let quiet = "--quiet --disable-pip-version-check";
        run(&CommandLine::of(&words(format!(
            "{shown}/venv/bin/pip install {quiet} -r {shown}/requirements.txt"
        ))))
    })
}

fn python_driver(name: &str) -> Driver {
    let target = folder().join("python");
    Driver {
        program: target.join("venv/bin/python"),
        arguments: vec![target.join(format!("{name}_driver.py")).display().to_string()],
    }
}

/// Installs unless exactly this list of packages was installed before.
fn once(list: &Path, install: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let stamp = list.with_extension("installed");
    let wanted =
        fs::read_to_string(list).map_err(|error| format!("cannot read {}: {error}", list.display()))?;
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    install()?;
    fs::write(&stamp, wanted).map_err(|error| format!("cannot write {}: {error}", stamp.display()))
}

/// Copies the files of a folder, not the folders in it.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let cannot =
        |error: std::io::Error| format!("cannot copy {} to {}: {error}", from.display(), to.display());
    fs::create_dir_all(to).map_err(cannot)?;
    for entry in fs::read_dir(from).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).map_err(cannot)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::contender::ALL;
    use super::*;

    #[test]
    fn every_peer_has_its_driver_in_the_repository() {
        let peers = repository_root().join(PEERS);
        for contender in &ALL {
            let file = match contender.program {
                ContenderProgram::Ours | ContenderProgram::Floor => continue,
                ContenderProgram::Rust(name) => format!("rust/{name}/src/main.rs"),
                ContenderProgram::Node(name) => format!("node/{name}.mjs"),
                ContenderProgram::Python(name) => format!("python/{name}_driver.py"),
            };
            assert!(peers.join(&file).is_file(), "{file}");
        }
    }

    #[test]
    fn a_list_is_installed_once_and_again_when_it_changes() {
        let folder = backstop_testbed::Folder::new("once").unwrap();
        let list = folder.join("list.txt");
        let mut count = 0;
        for (text, expected) in [("a", 1), ("a", 1), ("b", 2)] {
            fs::write(&list, text).unwrap();
            once(&list, || {
                count += 1;
                Ok(())
            })
            .unwrap();
            assert_eq!(count, expected);
        }
        fs::write(&list, "c").unwrap();
        assert!(once(&list, || Err("no".to_owned())).is_err());
        assert!(once(&list, || Err("still no".to_owned())).is_err(), "a failure does not install anything");
    }
}
