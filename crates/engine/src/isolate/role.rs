//! Whether this process is a child that a worker has started.

/// The variable that tells a process that it is a child: the process id of its worker.
#[cfg(target_os = "linux")]
pub(super) const CHILD: &str = "BACKSTOP_CHILD";

/// True in a process that a worker has started to run isolated jobs in: what a program does before it starts its
/// worker, it does there too, and this is how to leave it out.
///
/// ```
/// if !backstop::is_isolated_child() {
///     println!("listening on port 8080");
/// }
/// ```
#[must_use]
pub fn is_isolated_child() -> bool {
    #[cfg(target_os = "linux")]
    {
        static ANSWER: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        *ANSWER.get_or_init(|| {
            // The variable alone does not make a child: what a handler starts inherits it.
            let worker = std::env::var(CHILD).ok().and_then(|worker| worker.parse::<i32>().ok());
            worker.is_some()
                && worker == rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get())
        })
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}
