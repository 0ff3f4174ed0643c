//! What the kind `command` may run, and how. Nothing is allowed until it is listed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use backstop_process::ProcessLimits;

use super::account::primary_group;
use super::program::Program;
use crate::error::SettingsError;
use crate::refusal::brief;

/// How long a program may run when nobody says: long enough for a conversion, short enough to notice what hangs.
const TIMEOUT: Duration = Duration::from_secs(600);
/// How long a process may tidy up after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);
/// The engine lets a handler tidy up for 9 s at most, and one of them is for the killing.
const GRACE_MAX: Duration = Duration::from_secs(8);

/// The same path without links and `..`.
pub(super) fn real(path: &Path) -> Result<PathBuf, SettingsError> {
    if !path.is_absolute() {
        return Err(SettingsError::Relative { path: path.to_owned() });
    }
    path.canonicalize()
        .map_err(|problem| SettingsError::Missing { path: path.to_owned(), problem: problem.to_string() })
}

fn directory(path: &Path) -> Result<PathBuf, SettingsError> {
    let real = real(path)?;
    if real.is_dir() { Ok(real) } else { Err(SettingsError::NoDirectory { path: path.to_owned() }) }
}

/// What the kind `command` may do; by default it runs nothing.
#[derive(Debug, Clone)]
pub struct CommandSettings {
    pub(super) programs: Vec<Program>,
    pub(super) dir: PathBuf,
    pub(super) payload_dirs: Vec<PathBuf>,
    pub(super) payload_env: BTreeSet<String>,
    pub(super) kept_env: BTreeSet<String>,
    pub(super) timeout: Duration,
    pub(super) grace: Duration,
    pub(super) user: Option<u32>,
    pub(super) group: Option<u32>,
    /// The one that belongs to the user, when nobody names another.
    primary_group: Option<u32>,
    pub(super) limits: ProcessLimits,
}

impl Default for CommandSettings {
    fn default() -> Self {
        Self {
            programs: Vec::new(),
            dir: PathBuf::from("/"),
            payload_dirs: Vec::new(),
            payload_env: BTreeSet::new(),
            kept_env: BTreeSet::new(),
            timeout: TIMEOUT,
            grace: GRACE,
            user: None,
            group: None,
            primary_group: None,
            limits: ProcessLimits::default(),
        }
    }
}

impl CommandSettings {
    /// Allows a program.
    #[must_use]
    pub fn allow(mut self, program: Program) -> Self {
        self.programs.push(program);
        self
    }

    /// The directory that programs run in; `/` by default.
    ///
    /// # Errors
    /// When it is no directory.
    pub fn dir(mut self, dir: impl AsRef<Path>) -> Result<Self, SettingsError> {
        self.dir = directory(dir.as_ref())?;
        Ok(self)
    }

    /// A directory that payloads may name as `dir`, with all below it; none by default.
    ///
    /// # Errors
    /// When it is no directory.
    pub fn allow_dir(mut self, dir: impl AsRef<Path>) -> Result<Self, SettingsError> {
        self.payload_dirs.push(directory(dir.as_ref())?);
        Ok(self)
    }

    /// A variable that payloads may set; none by default.
    ///
    /// # Errors
    /// When it is no name of a variable, or one that decides which code is loaded.
    pub fn allow_env(mut self, name: impl Into<String>) -> Result<Self, SettingsError> {
        let name = name.into();
        if let Some(why) = never_from_payloads(&name) {
            return Err(SettingsError::Variable { name: brief(&name), why });
        }
        self.payload_env.insert(name);
        Ok(self)
    }

    /// A variable of the worker's own environment that programs get too; none by default.
    #[must_use]
    pub fn keep_env(mut self, name: impl Into<String>) -> Self {
        self.kept_env.insert(name.into());
        self
    }

    /// The longest a program may run; a payload may ask for less. Ten minutes by default.
    ///
    /// # Errors
    /// When it is zero.
    pub fn timeout(mut self, timeout: Duration) -> Result<Self, SettingsError> {
        if timeout.is_zero() {
            return Err(SettingsError::Zero { name: "timeout" });
        }
        self.timeout = timeout;
        Ok(self)
    }

    /// How long processes may tidy up between SIGTERM and SIGKILL; 3 s by default, 8 s at most.
    ///
    /// # Errors
    /// When it is longer.
    pub fn grace(mut self, grace: Duration) -> Result<Self, SettingsError> {
        if grace > GRACE_MAX {
            let (given_ms, max_ms) = (grace.as_millis(), GRACE_MAX.as_millis());
            return Err(SettingsError::Grace { given_ms, max_ms });
        }
        self.grace = grace;
        Ok(self)
    }

    /// The user that programs run as, in the group that `/etc/passwd` gives it and in no other; the worker must have
    /// the right to change both. Call [`group`](Self::group) first for another group, or for a user of a directory
    /// service.
    ///
    /// # Errors
    /// When no group was named and the user is not in `/etc/passwd`: it would keep the group of the worker.
    pub fn user(mut self, id: u32) -> Result<Self, SettingsError> {
        self.primary_group = primary_group(id);
        if self.group.or(self.primary_group).is_none() {
            return Err(SettingsError::NoGroup { user: id });
        }
        self.user = Some(id);
        Ok(self)
    }

    /// The group that programs run as, whatever the user's own is.
    #[must_use]
    pub const fn group(mut self, id: u32) -> Self {
        self.group = Some(id);
        self
    }

    /// The group to run in, if not in the worker's own.
    pub(super) fn group_to_be(&self) -> Option<u32> {
        self.group.or(self.primary_group)
    }

    /// What each process may use.
    #[must_use]
    pub const fn limits(mut self, limits: ProcessLimits) -> Self {
        self.limits = limits;
        self
    }
}

/// Variables that decide which code a program loads are not a payload's to set.
fn never_from_payloads(name: &str) -> Option<&'static str> {
    const LOADERS: [&str; 16] = [
        "PATH",
        "IFS",
        "ENV",
        "BASH_ENV",
        "SHELLOPTS",
        "PYTHONSTARTUP",
        "PYTHONPATH",
        "PYTHONHOME",
        "PERL5LIB",
        "PERL5OPT",
        "RUBYOPT",
        "RUBYLIB",
        "NODE_OPTIONS",
        "NODE_PATH",
        "GCONV_PATH",
        "JAVA_TOOL_OPTIONS",
    ];
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(plain) || name.as_bytes()[0].is_ascii_digit() {
        return Some("a name has letters, digits and `_`, and begins with no digit");
    }
    if name.starts_with("LD_") || name.starts_with("DYLD_") || LOADERS.contains(&name) {
        return Some("it decides which code a program loads");
    }
    name.starts_with("BACKSTOP_").then_some("names that begin with BACKSTOP_ are set by the worker")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_load_code_are_never_a_payload_s_to_set() {
        // E4
        for name in ["LD_PRELOAD", "PATH", "BASH_ENV", "BACKSTOP_RUN", "", "1A", "A=B", "A B", "A\0"] {
            assert!(CommandSettings::default().allow_env(name).is_err(), "{name}");
        }
        assert!(CommandSettings::default().allow_env("LANG").is_ok());
    }

    #[test]
    fn a_user_has_a_group_or_is_refused() {
        // E4
        let nobody = 4_000_000_000;
        let told = CommandSettings::default().user(nobody).expect_err("it is in no file").to_string();
        assert!(told.contains("user 4000000000 is not in /etc/passwd") && told.contains("`group`"), "{told}");
        let named = CommandSettings::default().group(7).user(nobody).expect("it has a group");
        assert_eq!((named.user, named.group_to_be()), (Some(nobody), Some(7)));
        let root = CommandSettings::default().user(0).expect("root is everywhere");
        assert_eq!((root.group_to_be(), root.group(9).group_to_be()), (Some(0), Some(9)));
        assert_eq!(CommandSettings::default().group_to_be(), None);
    }

    #[test]
    fn times_are_bounded() {
        // E3
        assert!(CommandSettings::default().grace(GRACE_MAX).is_ok());
        assert!(CommandSettings::default().grace(GRACE_MAX + Duration::from_millis(1)).is_err());
        assert!(CommandSettings::default().timeout(Duration::ZERO).is_err());
    }
}
