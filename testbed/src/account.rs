//! The user that a server runs as: database servers refuse to run as root.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::Command;

use crate::trouble::TestbedError;

/// An ordinary user of this machine.
#[derive(Clone, Debug)]
pub(crate) struct SystemUser {
    name: String,
    user: u32,
    group: u32,
}

/// The user to become when this process is root: `preferred` where it exists, else `nobody`.
pub(crate) fn account(preferred: &str) -> Result<Option<SystemUser>, TestbedError> {
    // The owner of our own entry in /proc tells who we are without calling C.
    let ourselves = fs::metadata("/proc/self").map_err(TestbedError::io("cannot read /proc/self"))?;
    if ourselves.uid() != 0 {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").map_err(TestbedError::io("cannot read /etc/passwd"))?;
    [preferred, "nobody"]
        .iter()
        .find_map(|name| users.lines().find_map(|line| parse(line, name)))
        .map(Some)
        .ok_or_else(|| {
            TestbedError::new(format!(
                "a server must not run as root, and /etc/passwd has neither `{preferred}` nor `nobody`; \
                 run the tests as an ordinary user"
            ))
        })
}

/// Reads `name:password:user:group:...`.
fn parse(line: &str, wanted: &str) -> Option<SystemUser> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, user, group, ..] = fields.as_slice() else { return None };
    let found =
        || Some(SystemUser { name: wanted.to_owned(), user: user.parse().ok()?, group: group.parse().ok()? });
    if *name == wanted { found() } else { None }
}

impl SystemUser {
    fn give(&self, path: &Path) -> Result<(), TestbedError> {
        chown(path, Some(self.user), Some(self.group)).map_err(TestbedError::io(format!(
            "cannot give {} to the user {}",
            path.display(),
            self.name
        )))
    }

    /// Gives the folder to this user, who must be able to reach it.
    fn own(&self, folder: &Path) -> Result<(), TestbedError> {
        self.give(folder)?;
        match folder.ancestors().skip(1).find(|above| !self.may_pass(above)) {
            None => Ok(()),
            Some(above) => Err(TestbedError::new(format!(
                "the user {} cannot reach {}: {} is closed to others; choose a folder elsewhere",
                self.name,
                folder.display(),
                above.display()
            ))),
        }
    }

    fn may_pass(&self, folder: &Path) -> bool {
        let Ok(data) = folder.metadata() else { return true };
        let open = |bit: u32| data.mode() & bit != 0;
        open(0o001) || (data.uid() == self.user && open(0o100)) || (data.gid() == self.group && open(0o010))
    }
}

/// Gives a file to the server's user when there is one.
pub(crate) fn give(file: &Path, account: Option<&SystemUser>) -> Result<(), TestbedError> {
    account.map_or(Ok(()), |account| account.give(file))
}

/// Creates the folder, for the server's user when there is one.
pub(crate) fn prepare(folder: &Path, account: Option<&SystemUser>) -> Result<(), TestbedError> {
    fs::create_dir_all(folder).map_err(TestbedError::io(format!("cannot create {}", folder.display())))?;
    account.map_or(Ok(()), |account| account.own(folder))
}

/// A command that runs as the account and, when `bound`, is killed by the kernel when its parent dies.
pub(crate) fn command(program: impl AsRef<OsStr>, account: Option<&SystemUser>, bound: bool) -> Command {
    if account.is_none() && !bound {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    if let Some(account) = account {
        command.args(["--reuid", &account.user.to_string(), "--regid", &account.group.to_string()]);
        command.arg("--clear-groups");
    }
    if bound {
        command.args(["--pdeathsig", "KILL"]);
    }
    command.arg("--").arg(program);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_user_list_is_read() {
        let found =
            parse("postgres:x:101:104:PostgreSQL,,,:/var/lib/postgresql:/bin/bash", "postgres").unwrap();
        assert_eq!((found.user, found.group), (101, 104));
        assert!(parse("postgres:x:101:104::/:/bin/sh", "post").is_none());
        assert!(parse("", "postgres").is_none());
    }
}
