//! One program from its start to its end: what it reads and prints, and what it leaves behind.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use backstop_process::ChildProcess;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::JoinSet;

use super::admit::AdmittedCommand;
use super::ending::EndedProgram;
use super::output::{Log, OutputStream};
use super::settings::CommandSettings;

/// How long the pipes may stay open after everything was killed: somebody who got away may hold them.
const DRAIN: Duration = Duration::from_millis(300);

/// A running program. Dropping it kills all that it started.
pub(super) struct Process {
    child: ChildProcess,
    pipes: JoinSet<()>,
    stdout: OutputStream,
    stderr: OutputStream,
}

impl Process {
    /// Starts what was admitted.
    pub(super) async fn start(
        admitted: AdmittedCommand,
        settings: &CommandSettings,
        log: &Log,
    ) -> io::Result<Self> {
        let mark = backstop::job_id().to_string();
        let mut child = ChildProcess::start(command(&admitted, settings), mark, &settings.limits).await?;
        let (stdout, stderr) = (OutputStream::default(), OutputStream::default());
        let mut pipes = JoinSet::new();
        if let (Some(pipe), Some(bytes)) = (child.stdin(), admitted.stdin) {
            pipes.spawn(feed(Sender::from_owned_fd(pipe.into())?, bytes));
        }
        if let Some(pipe) = child.stdout() {
            pipes.spawn(stdout.clone().read(Receiver::from_owned_fd(pipe.into())?, "", log.clone()));
        }
        if let Some(pipe) = child.stderr() {
            let pipe = Receiver::from_owned_fd(pipe.into())?;
            pipes.spawn(stderr.clone().read(pipe, "stderr: ", log.clone()));
        }
        Ok(Self { child, pipes, stdout, stderr })
    }

    /// Resolves when the program itself has ended.
    pub(super) async fn exited(&mut self) {
        self.child.exited().await;
    }

    /// Ends the whole tree: SIGTERM, a grace period, SIGKILL.
    pub(super) async fn stop(self, grace: Duration) {
        self.child.terminate(grace).await;
        // Also when all seem gone: one more look costs little.
        let _ = self.leave().await;
    }

    /// Kills what the program left behind, and answers how it ended.
    pub(super) async fn leave(mut self) -> io::Result<EndedProgram> {
        self.child.kill().await;
        let drained = async { while self.pipes.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(DRAIN, drained).await;
        let status = self.child.reap()?.status;
        Ok(EndedProgram { status, stdout: self.stdout.captured(), stderr: self.stderr.captured() })
    }
}

fn command(admitted: &AdmittedCommand, settings: &CommandSettings) -> Command {
    let mut command = Command::new(&admitted.program);
    command
        .args(&admitted.args)
        .env_clear()
        .envs(admitted.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&admitted.dir)
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

/// Writes what the program reads. One that does not read is no failure: its exit says what it made of it.
async fn feed(mut pipe: Sender, bytes: Vec<u8>) {
    let _ = pipe.write_all(&bytes).await;
}
