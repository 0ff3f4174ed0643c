//! What a worker tells whoever has started its process: who it is, so that its death can be told to the store (C4).

use std::fs::OpenOptions;
use std::io::Write as _;

use backstop_core::WorkerId;

/// The variable that names a file to which every worker of this process adds its id, a line each.
///
/// Whoever starts the process makes the file. When the process dies, it tells the store of those workers with
/// [`Backstop::worker_died`](crate::Backstop::worker_died); `backstop work` does.
///
/// ```
/// use std::process::Command;
///
/// let mut command = Command::new("./my-worker");
/// command.env(backstop::WORKERS_FILE, "/run/my-app/workers");
/// ```
pub const WORKERS_FILE: &str = "BACKSTOP_WORKERS_FILE";

/// Adds an id, where somebody wants to know it.
pub(super) fn tell(worker: WorkerId) {
    let Some(path) = std::env::var_os(WORKERS_FILE) else { return };
    let file = OpenOptions::new().append(true).open(&path);
    if let Err(problem) = file.and_then(|mut file| file.write_all(format!("{worker}\n").as_bytes())) {
        tracing::warn!(path = %path.display(), %problem, "cannot tell who started this process which workers it \
            has; if it dies, its runs are taken back when their lease has run out");
    }
}
