//! Runs a driver: a program that does one phase with one engine and prints one line of JSON.
//!
//! Owns the child's life: it is watched for its peak of memory, and killed by its id when it takes too long.

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::json::Json;

/// How often the child is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// How much of a child's complaint becomes the reason of its absence.
const REASON: usize = 160;

/// How to call the driver of one contender.
#[derive(Clone, Debug)]
pub(crate) struct Driver {
    pub(crate) program: PathBuf,
    /// What comes before the phase, such as the file of a script.
    pub(crate) arguments: Vec<String>,
}

/// What a driver answered, and the most memory that it held.
#[derive(Clone, Debug)]
pub(crate) struct DriverReport {
    pub(crate) answer: Json,
    pub(crate) peak_bytes: Option<u64>,
}

impl Driver {
    /// Runs one phase. The error is the reason, in one line.
    pub(crate) fn run(&self, words: &[String], limit: Duration) -> Result<DriverReport, String> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).args(words).env("NODE_ENV", "production");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| format!("cannot start {}: {error}", self.program.display()))?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let (watched, said, complaint) = thread::scope(|scope| {
            let out = scope.spawn(move || all(out));
            let err = scope.spawn(move || all(err));
            let watched = watch(&mut child, limit);
            (watched, out.join().unwrap_or_default(), err.join().unwrap_or_default())
        });
        let (status, peak_bytes) = watched?;
        if !status.success() {
            return Err(reason(&complaint, status));
        }
        let line = said.lines().rev().find(|line| line.starts_with('{')).unwrap_or_default();
        let answer =
            Json::parse(line).map_err(|problem| format!("its answer is not valid JSON: {problem}"))?;
        Ok(DriverReport { answer, peak_bytes })
    }
}

fn all(from: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        // A pipe that breaks ends the text early; the exit code tells why.
        let _ = from.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits for the end of the child, or ends it at the limit.
fn watch(child: &mut Child, limit: Duration) -> Result<(ExitStatus, Option<u64>), String> {
    let begin = Instant::now();
    let mut peak = None;
    loop {
        // The system's own high-water mark: only what happens after the last look can be missed.
        peak = peak_bytes(child.id()).or(peak);
        match child.try_wait() {
            Ok(Some(status)) => return Ok((status, peak)),
            Ok(None) if begin.elapsed() < limit => thread::sleep(LOOK),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it took more than {} s", limit.as_secs()));
            }
            Err(error) => return Err(format!("cannot wait for it: {error}")),
        }
    }
}

fn peak_bytes(pid: u32) -> Option<u64> {
    parse_peak(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn parse_peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1_024)
}

/// The line of a complaint that most likely names the cause.
fn reason(complaint: &str, status: ExitStatus) -> String {
    let lines = || complaint.lines().map(str::trim).filter(|line| !line.is_empty());
    // Node shows the line of source that threw before it tells what was thrown.
    let named = lines().find(|line| line.contains("Error: ") || line.contains("error: "));
    let line = named.or_else(|| lines().next_back()).unwrap_or_default();
    let line: String = line.chars().take(REASON).collect();
    if line.is_empty() {
        format!("it ended with {status}")
    } else {
        format!("it ended with {status}: {line}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<DriverReport, String> {
        let driver = Driver { program: "sh".into(), arguments: vec!["-c".to_owned(), script.to_owned()] };
        driver.run(&["drain".to_owned()], limit)
    }

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn the_last_object_is_the_answer() {
        let answered = shell("echo noise; echo '{\"jobs\":3}'", PATIENCE).unwrap();
        assert_eq!(answered.answer.number_at("jobs"), Some(3.0));
    }

    #[test]
    fn a_failure_has_its_reason() {
        let reason =
            shell("echo 'throw new Error(x)' >&2; echo 'TypeError: no such thing' >&2; exit 3", PATIENCE)
                .unwrap_err();
        assert!(reason.contains("TypeError: no such thing"), "{reason}");
        assert!(shell("echo nothing", PATIENCE).unwrap_err().contains("not valid JSON"));
    }

    #[test]
    fn a_driver_that_hangs_is_ended() {
        let reason = shell("exec tail -f /dev/null", Duration::from_millis(50)).unwrap_err();
        assert!(reason.contains("more than"), "{reason}");
    }

    #[test]
    fn the_peak_of_memory_is_read() {
        assert_eq!(parse_peak("Name:\tx\nVmHWM:\t    2048 kB\n"), Some(2_097_152));
        assert_eq!(parse_peak("Name:\tx\n"), None);
    }
}
