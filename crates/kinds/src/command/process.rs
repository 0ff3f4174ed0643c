//! One program from its start to its end. It is reaped last, so that its number stays its own until nothing of its run
//! is left to be killed.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, WaitId, WaitIdOptions, prlimit, waitid};
use rustix::thread::set_no_new_privs;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::admit::AdmittedCommand;
use super::ending::EndedProgram;
use super::output::{Log, OutputStream};
use super::settings::{CommandSettings, ProcessLimits};
use super::tree::ProcessTree;

/// How often a tree that was told to end is looked at.
const LOOK: Duration = Duration::from_millis(25);
/// How long the pipes may stay open after everything was killed: somebody who got away may hold them.
const DRAIN: Duration = Duration::from_millis(300);

/// A running program. Dropping it kills all that it started.
pub(super) struct Process {
    /// Closed when the program has ended.
    exit: oneshot::Receiver<()>,
    child: Reaped,
    tree: ProcessTree,
    pipes: JoinSet<()>,
    stdout: OutputStream,
    stderr: OutputStream,
}

impl Process {
    /// Starts what was admitted, in a process group of its own.
    pub(super) async fn start(
        admitted: AdmittedCommand,
        settings: &CommandSettings,
        log: &Log,
    ) -> io::Result<Self> {
        let mark = backstop::job_id().to_string();
        let mut command = command(&admitted, settings, &mark);
        let (mut child, exit) = spawn(move || Reaped::new(command.spawn()?, mark)).await?;
        let tree = child.tree.clone();
        limit(tree.root(), &settings.limits)?;
        let (stdout, stderr) = (OutputStream::default(), OutputStream::default());
        let mut pipes = JoinSet::new();
        if let Some(child) = &mut child.child {
            if let (Some(pipe), Some(bytes)) = (child.stdin.take(), admitted.stdin) {
                pipes.spawn(feed(Sender::from_owned_fd(pipe.into())?, bytes));
            }
            if let Some(pipe) = child.stdout.take() {
                pipes.spawn(stdout.clone().read(Receiver::from_owned_fd(pipe.into())?, "", log.clone()));
            }
            if let Some(pipe) = child.stderr.take() {
                pipes.spawn(stderr.clone().read(
                    Receiver::from_owned_fd(pipe.into())?,
                    "stderr: ",
                    log.clone(),
                ));
            }
        }
        Ok(Self { exit, child, tree, pipes, stdout, stderr })
    }

    /// Resolves when the program itself has ended.
    pub(super) async fn exited(&mut self) {
        // It is only ever closed: who waits for the program has nothing to say but that.
        let _ = (&mut self.exit).await;
    }

    /// Ends the whole tree: SIGTERM, a grace period, SIGKILL.
    pub(super) async fn stop(self, grace: Duration) {
        self.tree.terminate();
        let gone = async {
            while self.tree.any_alive() {
                tokio::time::sleep(LOOK).await;
            }
        };
        let _ = tokio::time::timeout(grace, gone).await;
        // Also when all seem gone: one more look costs little.
        let _ = self.leave().await;
    }

    /// Kills what the program left behind, and answers how it ended.
    pub(super) async fn leave(mut self) -> io::Result<EndedProgram> {
        let tree = self.tree.clone();
        let _ = tokio::task::spawn_blocking(move || tree.kill()).await;
        let drained = async { while self.pipes.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(DRAIN, drained).await;
        // One that even SIGKILL has not ended yet is left to the thread that reaps it: nobody here may block.
        let status = self.child.reap()?.ok_or_else(|| io::Error::other("it cannot be killed"))?;
        Ok(EndedProgram { status, stdout: self.stdout.captured(), stderr: self.stderr.captured() })
    }
}

/// A child that is killed with its tree and reaped when nobody has done it before, wherever it is dropped.
struct Reaped {
    child: Option<Child>,
    tree: ProcessTree,
}

impl Reaped {
    fn new(mut child: Child, mark: String) -> io::Result<Self> {
        let Some(root) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
            child.kill()?;
            return Err(io::Error::other("it has no number"));
        };
        Ok(Self { child: Some(child), tree: ProcessTree::new(root, mark) })
    }

    /// How it ended, if it has; from then on it is nobody's.
    fn reap(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.as_mut().map_or(Ok(None), Child::try_wait)?;
        if status.is_some() {
            self.child = None;
        }
        Ok(status)
    }
}

impl Drop for Reaped {
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

fn command(admitted: &AdmittedCommand, settings: &CommandSettings, mark: &str) -> Command {
    let mut command = Command::new(&admitted.program);
    command
        .args(&admitted.args)
        .env_clear()
        .envs(admitted.env.iter().map(|(name, value)| (name, value)))
        .env(super::tree::MARK, mark)
        .current_dir(&admitted.dir)
        .process_group(0)
        .stdin(if admitted.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Before the user, who has no right to do it. With the user all other groups go.
    if let Some(group) = settings.group_to_be() {
        command.gid(group);
    }
    if let Some(user) = settings.user {
        command.uid(user);
    }
    command
}

/// Starts a child from a thread of its own, which gives up the right to gain rights first: children inherit that,
/// and no other thread of this process does. The thread stays to wait for the child's end, without reaping it.
async fn spawn(
    start: impl FnOnce() -> io::Result<Reaped> + Send + 'static,
) -> io::Result<(Reaped, oneshot::Receiver<()>)> {
    let (told, answer) = oneshot::channel::<io::Result<Reaped>>();
    let (ended, exit) = oneshot::channel();
    let begin = move || {
        set_no_new_privs(true)?;
        start()
    };
    std::thread::Builder::new().name("backstop-command".to_owned()).spawn(move || {
        let child = begin();
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

fn limit(process: Pid, limits: &ProcessLimits) -> io::Result<()> {
    let all = [
        (Resource::As, limits.memory_bytes),
        (Resource::Cpu, limits.cpu_seconds),
        (Resource::Nofile, limits.open_files),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Nproc, limits.processes),
    ];
    for (resource, most) in all {
        let Some(most) = most else { continue };
        match prlimit(Some(process), resource, Rlimit { current: Some(most), maximum: Some(most) }) {
            // It has ended already.
            Ok(_) | Err(rustix::io::Errno::SRCH) => {}
            Err(problem) => return Err(problem.into()),
        }
    }
    Ok(())
}

/// Writes what the program reads. One that does not read is no failure: its exit says what it made of it.
async fn feed(mut pipe: Sender, bytes: Vec<u8>) {
    let _ = pipe.write_all(&bytes).await;
}
