//! One server process: started, watched until it is ready, stopped politely, killed.
//!
//! Owns the life of the process and its log. Must not know which kind of server it is.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::account::{self, SystemUser};
use crate::port::{self, Port};
use crate::signals::{ProcessIdentity, signal, wait_until};
use crate::spawn::spawn;
use crate::trouble::TestbedError;

/// How long a server may take until it accepts clients.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(60);

/// How long a server may take to end after it was asked to; then it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// How much of the log goes into a message.
const TAIL_LINES: usize = 30;

/// How to start a server, and how to ask it to stop.
#[derive(Debug)]
pub(crate) struct DaemonLaunch {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) account: Option<SystemUser>,
    pub(crate) folder: PathBuf,
    pub(crate) log: PathBuf,
    /// The signal that asks for an orderly end without waiting for the clients.
    pub(crate) stop_signal: &'static str,
}

/// A server process that may or may not be running.
#[derive(Debug)]
pub(crate) struct Daemon {
    pub(crate) launch: DaemonLaunch,
    child: Option<Child>,
}

/// How often a start with another port is tried when somebody took the first.
const PORT_TRIES: usize = 5;

/// Starts a server on a free loopback port, which it only has to listen on to be ready.
pub(crate) fn on_free_port(
    launch: impl Fn(u16) -> Result<DaemonLaunch, TestbedError>,
) -> Result<(Port, Daemon), TestbedError> {
    let mut tries = 1;
    loop {
        let port = port::reserve()?;
        let mut daemon = Daemon::new(launch(port.number)?);
        match daemon.start(|_| listens(port.number)) {
            Ok(()) => return Ok((port, daemon)),
            Err(trouble) if trouble.is_taken_port() && tries < PORT_TRIES => tries += 1,
            Err(trouble) => return Err(trouble),
        }
    }
}

/// True when somebody accepts connections on a loopback port.
pub(crate) fn listens(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

impl Daemon {
    pub(crate) fn new(launch: DaemonLaunch) -> Self {
        Self { launch, child: None }
    }

    /// Starts the process and returns once `ready`, which gets the process id, says that it accepts clients.
    pub(crate) fn start(&mut self, mut ready: impl FnMut(u32) -> bool) -> Result<(), TestbedError> {
        self.kill()?;
        let begin = self.log_length();
        let mut child = self.spawn()?;
        let mut ended = None;
        let settled = wait_until(START_LIMIT, || {
            ended = child.try_wait().ok().flatten();
            ended.is_some() || ready(child.id())
        });
        let program = self.launch.program.display();
        let tail = || self.log_tail(begin);
        if let Some(status) = ended {
            return Err(TestbedError::new(format!(
                "{program} ended with {status} before it was ready\n{}",
                tail()
            )));
        }
        if !settled {
            let seconds = START_LIMIT.as_secs();
            let text = format!("{program} was not ready after {seconds} s\n{}", tail());
            self.child = Some(child);
            self.kill()?;
            return Err(TestbedError::new(text));
        }
        self.child = Some(child);
        Ok(())
    }

    /// The id of the running process.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Asks the server to end, and kills it when it does not.
    pub(crate) fn stop(&mut self) -> Result<(), TestbedError> {
        if let Some(child) = &mut self.child
            && let Some(process) = ProcessIdentity::find(child.id())
        {
            signal(self.launch.stop_signal, &[process])?;
            wait_until(STOP_LIMIT, || matches!(child.try_wait(), Ok(Some(_)) | Err(_)));
        }
        self.kill()
    }

    /// Ends the server like a crash and returns when nothing of it is left: process, children, ports, memory.
    pub(crate) fn kill(&mut self) -> Result<(), TestbedError> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let mut family = Vec::new();
        if let Some(process) = ProcessIdentity::find(child.id()) {
            // A stopped parent starts no more children while they are counted.
            signal("STOP", &[process])?;
            family = process.children();
        }
        let _ = child.kill();
        let _ = child.wait();
        signal("KILL", &family)?;
        if wait_until(STOP_LIMIT, || !family.iter().any(|process| process.lives())) {
            return Ok(());
        }
        Err(TestbedError::new(format!(
            "{} was killed and its children {family:?} do not end",
            self.launch.program.display()
        )))
    }

    fn spawn(&self) -> Result<Child, TestbedError> {
        let launch = &self.launch;
        let log = &launch.log;
        let cannot = format!("cannot write {}", log.display());
        let file = File::options().create(true).append(true).open(log).map_err(TestbedError::io(&cannot))?;
        let errors = file.try_clone().map_err(TestbedError::io(&cannot))?;
        let mut command = account::command(&launch.program, launch.account.as_ref(), true);
        command.args(&launch.arguments).current_dir(&launch.folder).env("LC_ALL", "C");
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        spawn(command)
    }

    fn log_length(&self) -> usize {
        fs::metadata(&self.launch.log).ok().and_then(|data| usize::try_from(data.len()).ok()).unwrap_or(0)
    }

    /// The last lines that were written after `begin`.
    fn log_tail(&self, begin: usize) -> String {
        let bytes = fs::read(&self.launch.log).unwrap_or_default();
        let text = String::from_utf8_lossy(bytes.get(begin..).unwrap_or_default()).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        format!("end of {}:\n{}", self.launch.log.display(), tail.join("\n"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Nobody is left to hear of a failure, and the kernel ends the server with this process at the latest.
        let _ = self.stop();
    }
}
