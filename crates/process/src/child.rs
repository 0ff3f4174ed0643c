//! One process from its start to its end.

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, set_parent_process_death_signal, waitid,
};
use rustix::thread::set_no_new_privs;
use tokio::sync::oneshot;

use crate::limits::ProcessLimits;
use crate::tree::{MARK, ProcessTree};

/// How often a tree that was told to end is looked at.
const LOOK: Duration = Duration::from_millis(25);

/// How a process ended, and what it had used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedProcess {
    /// Its exit code or the signal that killed it.
    pub status: ExitStatus,
    /// The most memory that it had at any moment, in bytes.
    pub peak_memory: u64,
}

/// A running process. Dropping it kills all that it started.
#[derive(Debug)]
pub struct ChildProcess {
    /// Closed when the process has ended.
    exit: oneshot::Receiver<()>,
    unreaped: Unreaped,
}

impl ChildProcess {
    /// Starts a process in a group of its own, under `mark`, which must be no other's. It can gain no rights that this
    /// process does not have.
    ///
    /// # Errors
    /// When it cannot be started or limited.
    pub async fn start(mut command: Command, mark: String, limits: &ProcessLimits) -> io::Result<Self> {
        command.env(MARK, &mark).process_group(0);
        let (unreaped, exit) = spawn(move || {
            // Children inherit that, and no other thread of this process does.
            set_no_new_privs(true)?;
            Unreaped::new(command.spawn()?, mark)
        })
        .await?;
        limits.apply(unreaped.tree.root())?;
        Ok(Self { exit, unreaped })
    }

    /// Starts a process in a group of its own, under `mark`, which must be no other's. It may do what this process may,
    /// and gets SIGTERM when this process dies, in whatever way: nobody else would ask it to end then.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn start_bound(mut command: Command, mark: String) -> io::Result<Self> {
        command.env(MARK, &mark).process_group(0);
        bind(&mut command);
        let (unreaped, exit) = spawn(move || Unreaped::new(command.spawn()?, mark)).await?;
        Ok(Self { exit, unreaped })
    }

    /// Its processes.
    #[must_use]
    pub const fn tree(&self) -> &ProcessTree {
        &self.unreaped.tree
    }

    /// The pipe to what it reads, once.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.unreaped.child.as_mut()?.stdin.take()
    }

    /// The pipe from what it prints, once.
    pub fn stdout(&mut self) -> Option<ChildStdout> {
        self.unreaped.child.as_mut()?.stdout.take()
    }

    /// The pipe from what it complains of, once.
    pub fn stderr(&mut self) -> Option<ChildStderr> {
        self.unreaped.child.as_mut()?.stderr.take()
    }

    /// Resolves when the process itself has ended.
    pub async fn exited(&mut self) {
        // It is only ever closed: who waits for the process has nothing to say but that.
        let _ = (&mut self.exit).await;
    }

    /// Asks the whole tree to end, and waits until it has, for `grace` at most.
    pub async fn terminate(&self, grace: Duration) {
        self.unreaped.tree.terminate();
        let gone = async {
            while self.unreaped.tree.any_alive() {
                tokio::time::sleep(LOOK).await;
            }
        };
        let _ = tokio::time::timeout(grace, gone).await;
    }

    /// Kills what is left of the tree.
    pub async fn kill(&self) {
        let tree = self.unreaped.tree.clone();
        let _ = tokio::task::spawn_blocking(move || tree.kill()).await;
    }

    /// How it ended. It is nobody's from then on.
    ///
    /// # Errors
    /// When it cannot be waited for, or has not ended: one that even SIGKILL has not ended yet is left to the thread
    /// that reaps it, because nobody here may block.
    pub fn reap(mut self) -> io::Result<EndedProcess> {
        self.unreaped.reap()?.ok_or_else(|| io::Error::other("it cannot be killed"))
    }
}

/// A child that is killed with its tree and reaped when nobody has done it before, wherever it is dropped.
#[derive(Debug)]
struct Unreaped {
    child: Option<Child>,
    tree: ProcessTree,
}

impl Unreaped {
    fn new(mut child: Child, mark: String) -> io::Result<Self> {
        let Some(root) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
            child.kill()?;
            return Err(io::Error::other("it has no number"));
        };
        Ok(Self { child: Some(child), tree: ProcessTree::new(root, mark) })
    }

    /// How it ended, if it has; from then on it is nobody's.
    fn reap(&mut self) -> io::Result<Option<EndedProcess>> {
        if self.child.is_none() {
            return Ok(None);
        }
        let ended = wait_with_usage(self.tree.root())?;
        if ended.is_some() {
            self.child = None;
        }
        Ok(ended)
    }
}

impl Drop for Unreaped {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // The first blow falls now, whatever becomes of this process; the rest may take a moment.
        self.tree.strike();
        let tree = self.tree.clone();
        // Without another thread the blow has to do.
        let _ = std::thread::Builder::new().spawn(move || {
            tree.kill();
            let _ = child.wait();
        });
    }
}

/// Lets the kernel send SIGTERM to the process when the thread that starts it ends, which is not before its own end.
#[allow(unsafe_code, reason = "no safe call does something between fork and exec")]
fn bind(command: &mut Command) {
    let parent = getpid();
    let bound = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // A parent that died before that call is never told of.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
    };
    // SAFETY: it makes two system calls, and neither allocates nor takes a lock.
    unsafe { command.pre_exec(bound) };
}

/// Starts a child from a thread of its own, which stays to wait for the child's end, without reaping it.
async fn spawn(
    start: impl FnOnce() -> io::Result<Unreaped> + Send + 'static,
) -> io::Result<(Unreaped, oneshot::Receiver<()>)> {
    let (told, answer) = oneshot::channel::<io::Result<Unreaped>>();
    let (ended, exit) = oneshot::channel();
    std::thread::Builder::new().name("backstop-child".to_owned()).spawn(move || {
        let child = start();
        let root = child.as_ref().ok().map(|child| child.tree.root());
        // When the run was dropped meanwhile the child is dropped here, and that kills it.
        let wanted = told.send(child).is_ok();
        if let Some(root) = root.filter(|_| wanted) {
            wait_for_end(root);
        }
        drop(ended);
    })?;
    let child = answer.await.unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()))?;
    Ok((child, exit))
}

/// Blocks until the process has ended; it stays a zombie, so that its number stays its own.
fn wait_for_end(pid: Pid) {
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), how) {}
}

/// Reaps a child that has ended, with what it had used; none when it still runs.
#[allow(unsafe_code, reason = "no safe call tells what one child had used")]
fn wait_with_usage(pid: Pid) -> io::Result<Option<EndedProcess>> {
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    let pid = pid.as_raw_nonzero().get();
    loop {
        // SAFETY: both pointers are to memory of the right type that outlives the call, which writes no more than that.
        let reaped = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) };
        if reaped == 0 {
            return Ok(None);
        }
        if reaped == pid {
            break;
        }
        let problem = io::Error::last_os_error();
        if problem.kind() != io::ErrorKind::Interrupted {
            return Err(problem);
        }
    }
    // SAFETY: zeroes are a value of this type, and the call has written over them.
    let usage = unsafe { usage.assume_init() };
    let kilobytes = u64::try_from(usage.ru_maxrss).unwrap_or(0);
    Ok(Some(EndedProcess { status: ExitStatus::from_raw(status), peak_memory: kilobytes * 1024 }))
}
