//! Where the servers' programs are on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use crate::trouble::TestbedError;

/// Folders that hold servers and are missing from the PATH of ordinary users.
const SERVER_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"];

/// Where Debian keeps one folder per version of PostgreSQL.
const POSTGRES_VERSIONS: &str = "/usr/lib/postgresql";

/// The oldest PostgreSQL that the tests accept.
const OLDEST_POSTGRES: u32 = 15;

/// A program in PATH or in one of the folders for servers.
#[must_use]
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SERVER_FOLDERS.map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The folder with the programs of the newest PostgreSQL server, 15 or later.
#[must_use]
pub fn postgres() -> Option<PathBuf> {
    newest_version(Path::new(POSTGRES_VERSIONS))
        .or_else(|| program("postgres").and_then(|file| file.parent().map(Path::to_path_buf)))
        .filter(|folder| folder.join("initdb").is_file())
}

/// The library that shifts the clock of a program, in its form for programs with threads.
#[must_use]
pub fn faketime() -> Option<PathBuf> {
    let architectures = fs::read_dir("/usr/lib").ok()?.flatten();
    let mut files = architectures.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    files.find(|file| file.is_file())
}

fn newest_version(versions: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(versions).ok()?.flatten();
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            let folder = entry.path().join("bin");
            (version >= OLDEST_POSTGRES && folder.join("postgres").is_file()).then_some((version, folder))
        })
        .collect();
    found.sort();
    found.pop().map(|(_, folder)| folder)
}

/// Like [`program`], and names the Debian package when there is none.
pub(crate) fn needed(name: &str, package: &str) -> Result<PathBuf, TestbedError> {
    program(name).ok_or_else(|| {
        TestbedError::new(format!("`{name}` is not installed; install the Debian package {package}"))
    })
}

/// Like [`postgres`], and names the Debian package when there is none.
pub(crate) fn needed_postgres() -> Result<PathBuf, TestbedError> {
    postgres().ok_or_else(|| {
        TestbedError::new(format!(
            "PostgreSQL {OLDEST_POSTGRES} or later is not installed; install the Debian package postgresql"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn the_newest_version_wins_by_number() {
        let folder = Folder::new("versions").unwrap();
        for version in ["9", "14", "15", "100", "common"] {
            let bin = folder.join(version).join("bin");
            fs::create_dir_all(&bin).unwrap();
            fs::write(bin.join("postgres"), "").unwrap();
        }
        assert_eq!(newest_version(folder.path()), Some(folder.join("100/bin")));
        fs::remove_dir_all(folder.join("100")).unwrap();
        fs::remove_dir_all(folder.join("15")).unwrap();
        assert_eq!(newest_version(folder.path()), None);
    }
}
