//! Installs Debian packages without side effects on the machine's services.
//!
//! Debian starts a database server as soon as it is installed. The tests bring their own servers, and a machine that
//! runs the tests must not get services that nobody asked for.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::TaskError;
use crate::process::CommandLine;

/// Debian asks this program before it starts a service; exit code 101 means no.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// What the installation of PostgreSQL reads before it makes a cluster of its own.
const CLUSTERS: &str = "/etc/postgresql-common/createcluster.conf";

/// The package that brings [`CLUSTERS`].
const CLUSTERS_PACKAGE: &str = "postgresql-common";

/// Installs the packages; no service is started and PostgreSQL makes no cluster.
pub(crate) fn install(packages: &[String]) -> Result<(), TaskError> {
    println!("   installing Debian packages: {}", packages.join(" "));
    apt("apt-get update -qq").run()?;
    let policy =
        Policy::forbid(Path::new(POLICY)).map_err(cannot("forbid the start of services in", POLICY))?;
    let installed = install_quietly(packages);
    policy.restore().map_err(cannot("restore", POLICY))?;
    installed
}

fn install_quietly(packages: &[String]) -> Result<(), TaskError> {
    let line = || apt("apt-get install -y -qq --no-install-recommends");
    // A configuration that is already there is somebody's choice; only one that we brought is changed.
    if packages.iter().any(|package| package == "postgresql") && !Path::new(CLUSTERS).exists() {
        line().with(&[CLUSTERS_PACKAGE.to_owned()]).run()?;
        without_cluster(Path::new(CLUSTERS)).map_err(cannot("change", CLUSTERS))?;
    }
    line().with(packages).run()
}

fn apt(words: &str) -> CommandLine {
    CommandLine::new(words).variable("DEBIAN_FRONTEND", "noninteractive")
}

fn cannot(what: &'static str, path: &'static str) -> impl FnOnce(io::Error) -> TaskError {
    move |error| TaskError::Failed(format!("cannot {what} {path}: {error}"))
}

/// Answers no to the question whether a cluster is made along with the installation.
fn without_cluster(path: &Path) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    let others =
        text.lines().filter(|line| !line.trim_start_matches(['#', ' ']).starts_with("create_main_cluster"));
    let lines: Vec<&str> = others.chain(["create_main_cluster = false"]).collect();
    fs::write(path, lines.join("\n") + "\n")
}

/// The start of services is forbidden while this exists.
struct Policy {
    path: PathBuf,
    /// Where the policy is that was there before.
    earlier: Option<PathBuf>,
    restored: bool,
}

impl Policy {
    fn forbid(path: &Path) -> io::Result<Self> {
        let aside = path.with_extension("d.before-backstop");
        // A run that was killed left its own policy in place and the earlier one aside: that one is the real one.
        let earlier = if aside.exists() {
            Some(aside)
        } else if path.exists() {
            fs::rename(path, &aside)?;
            Some(aside)
        } else {
            None
        };
        let policy = Self { path: path.to_owned(), earlier, restored: false };
        fs::write(path, "#!/bin/sh\nexit 101\n")?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
        Ok(policy)
    }

    fn restore(mut self) -> io::Result<()> {
        self.put_back()
    }

    fn put_back(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.restored, true) {
            return Ok(());
        }
        match &self.earlier {
            Some(earlier) => fs::rename(earlier, &self.path),
            None => fs::remove_file(&self.path),
        }
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        // Reached without `restore` only on a failure that is already being reported.
        let _ = self.put_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_testbed::Folder;

    #[test]
    fn the_policy_that_was_there_comes_back() {
        let folder = Folder::new("policy").unwrap();
        let path = folder.join("policy-rc.d");
        Policy::forbid(&path).unwrap().restore().unwrap();
        assert!(!path.exists());
        fs::write(&path, "theirs").unwrap();
        let policy = Policy::forbid(&path).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("exit 101"));
        policy.restore().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        // A killed run restores nothing; the next one does.
        std::mem::forget(Policy::forbid(&path).unwrap());
        drop(Policy::forbid(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    }

    #[test]
    fn the_installation_is_told_to_make_no_cluster() {
        let folder = Folder::new("clusters").unwrap();
        let path = folder.join("createcluster.conf");
        fs::write(&path, "# what to do\n#create_main_cluster = true\nssl = on\n").unwrap();
        without_cluster(&path).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "# what to do\nssl = on\ncreate_main_cluster = false\n"
        );
    }
}
