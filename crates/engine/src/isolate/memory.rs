//! What limits the memory of isolated runs: a cgroup for each child where that may be, else its address space.

use std::sync::OnceLock;

use backstop_process::{DelegatedCgroup, MemoryCgroup};
use backstop_store::{Finding, Level};
use rustix::process::Pid;

/// Where cgroups can be made, or why not. Looked at once: nobody is moved to another part of the tree while it runs.
fn delegated() -> Result<&'static DelegatedCgroup, &'static str> {
    static FOUND: OnceLock<Result<DelegatedCgroup, String>> = OnceLock::new();
    FOUND.get_or_init(DelegatedCgroup::find).as_ref().map_err(String::as_str)
}

/// Puts a child into a cgroup of its own, where that may be.
pub(super) fn hold(child: Pid, mark: &str) -> Option<MemoryCgroup> {
    match delegated().ok()?.hold(child, mark) {
        Ok(cgroup) => Some(cgroup),
        Err(problem) => {
            tracing::warn!(%problem, "cannot put an isolated child into a cgroup of its own: its memory is limited by \
                its address space");
            None
        }
    }
}

/// What `doctor` says of it.
pub(crate) fn finding() -> Finding {
    let message = match delegated() {
        Ok(_) => "the memory of isolated runs is limited by a cgroup of each child".to_owned(),
        Err(why) => format!("the memory of isolated runs is limited by their address space: {why}"),
    };
    Finding { level: Level::Good, subject: "isolation".to_owned(), message, hint: None }
}
