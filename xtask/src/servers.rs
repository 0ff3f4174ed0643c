//! The database servers that all tests share, and `cargo xtask servers`, which lends them to any command.
//!
//! Owns where their data is and for how long they live. How a server is started is the testbed's business.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use backstop_testbed::{DatabaseSettings, Mariadb, Pgbouncer, Postgres, TestbedError, shared};

use crate::error::TaskError;
use crate::process::{CommandLine, build_folder};
use crate::{moto, schemathesis, setup};

/// The command line that lends the servers to another one.
pub(crate) const PREFIX: &str = "cargo xtask servers --";

/// Where the data of the shared servers is, below the build folder.
const FOLDER: &str = "servers";

/// The shared servers; they stop and their data goes away with this value. They are quick and not durable.
pub(crate) struct Servers {
    pooler: Pgbouncer,
    postgres: Postgres,
    mariadb: Mariadb,
    schemathesis: PathBuf,
    moto: PathBuf,
    // The last field: removed after the servers have stopped.
    _data: ServerData,
}

/// The folder of this process below a folder for servers; it goes away with this value.
pub(crate) struct ServerData(PathBuf);

impl ServerData {
    /// The folder of this process below the one of this name; it is not made yet.
    pub(crate) fn new(name: &str) -> Self {
        Self(base(name).join(std::process::id().to_string()))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ServerData {
    fn drop(&mut self) {
        // What cannot be removed now is swept by the next start.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The command: everything behind `--` is run with the servers' addresses in its environment.
pub(crate) fn run(arguments: &[String]) -> Result<(), TaskError> {
    match arguments.split_first() {
        None => {
            let servers = Servers::start()?;
            for (name, address) in servers.variables() {
                println!("export {name}={address}");
            }
            eprintln!("xtask: the servers run until Ctrl-C");
            // The signal ends this process, and the kernel ends the servers with it.
            loop {
                thread::park();
            }
        }
        Some((dashes, command)) if dashes == "--" && !command.is_empty() => {
            let servers = Servers::start()?;
            let variables = servers.variables();
            CommandLine::of(command).variables(&variables).run_here()
        }
        Some((word, _)) => Err(TaskError::Usage(format!(
            "`servers` does not take `{word}`; write `{PREFIX} COMMAND`, or nothing to start them until Ctrl-C"
        ))),
    }
}

impl Servers {
    /// Finds, if need be installs, and starts all servers.
    pub(crate) fn start() -> Result<Self, TaskError> {
        setup::programs()?;
        let (schemathesis, moto) = (schemathesis::program()?, moto::program()?);
        sweep(&base(FOLDER));
        let data = ServerData::new(FOLDER);
        let settings = |name: &str| DatabaseSettings::new(data.0.join(name));
        let (postgres, mariadb) = thread::scope(|scope| {
            let mariadb = scope.spawn(|| Mariadb::start(settings("mariadb")));
            (Postgres::start(settings("postgres")), mariadb.join())
        });
        let failed = |trouble: TestbedError| TaskError::Failed(trouble.to_string());
        let mariadb = mariadb.map_err(|_| TaskError::Failed("the start of MariaDB panicked".to_owned()))?;
        let (postgres, mariadb) = (postgres.map_err(failed)?, mariadb.map_err(failed)?);
        let pooler = Pgbouncer::start(data.0.join("pgbouncer"), &postgres).map_err(failed)?;
        Ok(Self { pooler, postgres, mariadb, schemathesis, moto, _data: data })
    }

    /// The variables in which tests look for the servers and for programs that are installed with them.
    pub(crate) fn variables(&self) -> [(&'static str, String); 5] {
        [
            (shared::POSTGRES, self.postgres.url()),
            (shared::PGBOUNCER, self.pooler.url()),
            (shared::MARIADB, self.mariadb.url()),
            (shared::SCHEMATHESIS, self.schemathesis.display().to_string()),
            (shared::MOTO, self.moto.display().to_string()),
        ]
    }
}

/// Below the build folder where the servers' users can reach it; the home of root is closed to them.
pub(crate) fn base(name: &str) -> PathBuf {
    let build = build_folder();
    if is_reachable(&build) {
        build.join(name)
    } else {
        std::env::temp_dir().join(format!("backstop-{name}"))
    }
}

fn is_reachable(folder: &Path) -> bool {
    let root = setup::is_root();
    folder.ancestors().filter_map(|above| above.metadata().ok()).all(|data| !root || data.mode() & 0o001 != 0)
}

/// Removes what killed runs left behind: folders named by the id of a process that is gone.
pub(crate) fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if !Path::new("/proc").join(id.to_string()).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_but_a_command_behind_dashes_is_wrong_usage() {
        for words in [&["env"][..], &["--"], &["--fast", "env"]] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert!(matches!(run(&words), Err(TaskError::Usage(_))), "{words:?}");
        }
    }

    #[test]
    fn only_folders_of_dead_processes_are_swept() {
        let base = backstop_testbed::Folder::new("sweep").unwrap();
        let own = std::process::id().to_string();
        // No process has this id: the kernel's limit is 4194304.
        for name in ["4194999", own.as_str(), "notes"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        sweep(base.path());
        assert!(!base.join("4194999").exists());
        assert!(base.join(&own).exists() && base.join("notes").exists());
    }
}
