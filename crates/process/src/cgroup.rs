//! Limits of memory by cgroup (version 2), where a part of its tree was handed to this process.
//!
//! A process may make cgroups beside its own when the one above both is marked as delegated, as systemd does for
//! `Delegate=yes` with `DelegateSubgroup=`. It never moves itself, and never touches a cgroup that was not handed out.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use rustix::process::Pid;

/// What systemd writes on a cgroup that it has handed out; whoever does that by hand can write it too.
const DELEGATED: &std::ffi::CStr = c"user.delegate";

/// How often a cgroup whose processes were killed is tried to be removed, and how long between two tries.
const REMOVALS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(25);

/// A cgroup in which others with a limit of memory can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegatedCgroup {
    path: PathBuf,
}

impl DelegatedCgroup {
    /// The one above the cgroup of this process.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub fn find() -> Result<Self, String> {
        let read = |path: &str| fs::read_to_string(path).map_err(|problem| format!("{path}: {problem}"));
        let own = own_path(&read("/proc/self/cgroup")?)?.to_owned();
        let folder = folder(&read("/proc/self/mountinfo")?, &own)?;
        Self::above(&folder, is_marked)
    }

    fn above(own: &Path, is_delegated: impl Fn(&Path) -> bool) -> Result<Self, String> {
        let path = own.parent().unwrap_or(own).to_owned();
        if !is_delegated(&path) {
            return Err(format!("{} is not marked as delegated (user.delegate)", path.display()));
        }
        let told = |file: &str, problem: io::Error| format!("{}: {problem}", path.join(file).display());
        let has_memory = |file: &str| {
            let text = fs::read_to_string(path.join(file)).map_err(|problem| told(file, problem))?;
            Ok::<_, String>(text.split_whitespace().any(|controller| controller == "memory"))
        };
        if !has_memory("cgroup.controllers")? {
            return Err(format!("{} does not have the memory controller", path.display()));
        }
        if !has_memory("cgroup.subtree_control")? {
            let file = "cgroup.subtree_control";
            fs::write(path.join(file), "+memory").map_err(|problem| told(file, problem))?;
        }
        Ok(Self { path })
    }

    /// Makes a cgroup with this name, which must be no other's, and moves a process there. What the process starts from
    /// then on is there too, and all of it dies together when it wants more memory than it may have.
    ///
    /// # Errors
    /// When the kernel refuses any of that.
    pub fn hold(&self, process: Pid, name: &str) -> io::Result<MemoryCgroup> {
        let cgroup = MemoryCgroup { path: self.path.join(format!("backstop-{name}")) };
        fs::create_dir(&cgroup.path)?;
        fs::write(cgroup.path.join("memory.oom.group"), "1")?;
        fs::write(cgroup.path.join("cgroup.procs"), process.as_raw_nonzero().to_string())?;
        Ok(cgroup)
    }
}

/// The cgroup of one child. It is removed with this value, as soon as its processes are gone.
#[derive(Debug)]
pub struct MemoryCgroup {
    path: PathBuf,
}

impl MemoryCgroup {
    /// Sets how many bytes of memory its processes may have together from now on.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub fn limit(&self, bytes: Option<u64>) -> io::Result<()> {
        let most = bytes.map_or_else(|| "max".to_owned(), |bytes| bytes.to_string());
        match fs::write(self.path.join("memory.swap.max"), if bytes.is_some() { "0" } else { "max" }) {
            // A kernel without swap does not have the file.
            Err(problem) if problem.kind() != io::ErrorKind::NotFound => return Err(problem),
            _ => {}
        }
        fs::write(self.path.join("memory.max"), most)
    }

    /// True when the kernel has killed its processes because they wanted more memory than they may have.
    #[must_use]
    pub fn ran_out(&self) -> bool {
        oom_kills(&fs::read_to_string(self.path.join("memory.events")).unwrap_or_default()) > 0
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        if fs::remove_dir(&self.path).is_ok() {
            return;
        }
        // Its processes were told to die, and are not gone yet.
        let path = std::mem::take(&mut self.path);
        let _ = thread::Builder::new().spawn(move || {
            for _ in 0..REMOVALS {
                thread::sleep(PAUSE);
                if fs::remove_dir(&path).is_ok() || !path.exists() {
                    return;
                }
            }
        });
    }
}

/// How many processes the kernel has killed for lack of memory: in the cgroup of this process and below it, or in the
/// whole machine where that cannot be read. None where the kernel does not say.
#[must_use]
pub fn killed_for_memory() -> Option<u64> {
    let own = || {
        let read = |path: &str| fs::read_to_string(path).ok();
        let own = own_path(&read("/proc/self/cgroup")?).ok()?.to_owned();
        let folder = folder(&read("/proc/self/mountinfo")?, &own).ok()?;
        fs::read_to_string(folder.join("memory.events")).ok()
    };
    let counts = own().or_else(|| fs::read_to_string("/proc/vmstat").ok())?;
    counts.contains("oom_kill ").then(|| oom_kills(&counts))
}

/// The path of a process in the tree of version 2, where that is the one that limits memory.
fn own_path(cgroups: &str) -> Result<&str, String> {
    let mut own = None;
    for line in cgroups.lines() {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next(), parts.next().unwrap_or(""), parts.next());
        if controllers.split(',').any(|controller| controller == "memory") {
            return Err("memory is limited by cgroups of version 1 here".to_owned());
        }
        if number == Some("0") && controllers.is_empty() {
            own = path;
        }
    }
    own.ok_or_else(|| "there are no cgroups of version 2 here".to_owned())
}

/// Where the files of a cgroup are.
fn folder(mounts: &str, own: &str) -> Result<PathBuf, String> {
    for line in mounts.lines() {
        let Some((before, after)) = line.split_once(" - ") else { continue };
        if after.split(' ').next() != Some("cgroup2") {
            continue;
        }
        let mut fields = before.split(' ').skip(3);
        let (Some(root), Some(mounted)) = (fields.next(), fields.next()) else { continue };
        // Below a mount of a part of the tree, the rest of the path counts.
        let Ok(rest) = Path::new(own).strip_prefix(root) else { continue };
        if rest == Path::new("") {
            return Err("this process is at the root of the cgroups that it can see".to_owned());
        }
        return Ok(Path::new(mounted).join(rest));
    }
    Err("the cgroup of this process is not mounted".to_owned())
}

/// How many processes the kernel has killed for want of memory.
fn oom_kills(events: &str) -> u64 {
    let count = |line: &str| line.strip_prefix("oom_kill ")?.trim().parse().ok();
    events.lines().find_map(count).unwrap_or(0)
}

/// Whether a cgroup is marked as handed out.
#[allow(unsafe_code, reason = "the standard library does not read extended attributes")]
fn is_marked(path: &Path) -> bool {
    let Ok(name) = CString::new(OsStr::as_bytes(path.as_os_str())) else { return false };
    let mut value = [0_u8; 8];
    // SAFETY: both names end with a zero, and no more is written than the buffer has.
    let length =
        unsafe { libc::getxattr(name.as_ptr(), DELEGATED.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    length == 1 && value[0] == b'1'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_memory_under_version_2_counts() {
        // E2
        let service = "0::/system.slice/shop.service/worker\n";
        assert_eq!(own_path(service), Ok("/system.slice/shop.service/worker"));
        assert_eq!(own_path("0::/a:b\n"), Ok("/a:b"), "a name may hold a colon");
        for (text, says) in [
            ("4:memory:/x\n0::/\n", "version 1"),
            ("7:cpu,memory:/x\n0::/y\n", "version 1"),
            ("3:cpuset:/\n", "no cgroups of version 2"),
            ("", "no cgroups of version 2"),
        ] {
            let told = own_path(text).unwrap_err();
            assert!(told.contains(says), "{text:?}: {told}");
        }
    }

    #[test]
    fn the_folder_of_a_cgroup_is_found_below_whatever_is_mounted() {
        // E2
        let line = |root: &str| {
            format!(
                "25 1 0:22 / /proc rw - proc proc rw\n\
                 31 23 0:27 {root} /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
            )
        };
        for (root, own, found) in [
            ("/", "/a/b", Ok("/sys/fs/cgroup/a/b")),
            ("/a", "/a/b", Ok("/sys/fs/cgroup/b")),
            ("/", "/", Err("at the root")),
            ("/a", "/a", Err("at the root")),
            ("/other", "/a/b", Err("not mounted")),
        ] {
            match (folder(&line(root), own), found) {
                (Ok(path), Ok(wanted)) => assert_eq!(path, Path::new(wanted)),
                (Err(told), Err(says)) => assert!(told.contains(says), "{root} {own}: {told}"),
                (got, wanted) => panic!("{root} {own}: {got:?} and not {wanted:?}"),
            }
        }
        assert!(folder("25 1 0:22 / /proc rw - proc proc rw\n", "/a").is_err());
    }

    #[test]
    fn kills_are_told_apart_from_mere_want() {
        // C4
        assert_eq!(oom_kills("low 0\nhigh 0\nmax 31\noom 2\noom_kill 1\noom_group_kill 1\n"), 1);
        assert_eq!(oom_kills("max 31\noom 2\noom_kill 0\n"), 0);
        assert_eq!(oom_kills(""), 0);
    }

    /// Files like those of a cgroup, in a folder.
    fn tree(name: &str, controllers: &str, enabled: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("backstop-cgroup-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("worker")).unwrap();
        fs::write(path.join("cgroup.controllers"), controllers).unwrap();
        fs::write(path.join("cgroup.subtree_control"), enabled).unwrap();
        path
    }

    #[test]
    fn a_cgroup_is_used_when_it_was_handed_out_with_memory() {
        // E2
        for (name, controllers, enabled, delegated, refused) in [
            ("a", "cpu memory pids\n", "memory\n", true, None),
            ("b", "cpu memory pids\n", "\n", true, None),
            ("c", "cpu memory pids\n", "memory\n", false, Some("is not marked as delegated")),
            ("d", "cpu pids\n", "cpu\n", true, Some("does not have the memory controller")),
        ] {
            let path = tree(name, controllers, enabled);
            let found = DelegatedCgroup::above(&path.join("worker"), |_| delegated);
            match refused {
                None => {
                    assert_eq!(found, Ok(DelegatedCgroup { path: path.clone() }));
                    let enabled = fs::read_to_string(path.join("cgroup.subtree_control")).unwrap();
                    assert!(enabled.contains("memory"), "{name}: {enabled}");
                }
                Some(says) => assert!(found.unwrap_err().contains(says), "{name}"),
            }
            fs::remove_dir_all(path).unwrap();
        }
    }

    #[test]
    fn a_child_is_moved_and_limited_by_writing_to_files() {
        // E2
        let path = tree("child", "memory", "memory");
        let delegated = DelegatedCgroup { path: path.clone() };
        let child = delegated.hold(Pid::from_raw(4711).unwrap(), "mark").unwrap();
        let read = |file: &str| fs::read_to_string(path.join("backstop-mark").join(file)).unwrap();
        assert_eq!((&*read("cgroup.procs"), &*read("memory.oom.group")), ("4711", "1"));
        child.limit(Some(4096)).unwrap();
        assert_eq!((&*read("memory.max"), &*read("memory.swap.max")), ("4096", "0"));
        child.limit(None).unwrap();
        assert_eq!((&*read("memory.max"), &*read("memory.swap.max")), ("max", "max"));
        assert!(!child.ran_out());
        fs::write(path.join("backstop-mark").join("memory.events"), "oom_kill 1\n").unwrap();
        assert!(child.ran_out());
        fs::remove_dir_all(path).unwrap();
        drop(child);
    }
}
