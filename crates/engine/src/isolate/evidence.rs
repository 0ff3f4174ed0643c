//! What is known of a process that died: the evidence that its runs keep (C4).

use backstop_core::failure::{Cause, Failure};

/// What an allocator of Rust says before it gives up.
pub(crate) const ALLOCATION_FAILED: &str = "memory allocation of ";

const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

/// What is known of the end of a process in which jobs ran (C4).
///
/// Whoever has started the process knows more of its end than its lease tells:
///
/// ```
/// # use backstop::prelude::*;
/// use backstop::CrashEvidence;
///
/// # #[tokio::main]
/// # async fn main() -> JobResult {
/// # let engine = Backstop::open("memory:").await?;
/// # let worker = backstop::worker_id();
/// let mut evidence = CrashEvidence::default();
/// evidence.signal = Some(11);
/// evidence.last_line = Some("reading page 3".to_owned());
/// let ended = engine.worker_died(worker, &evidence).await?;
/// assert_eq!(ended, 0, "it held no jobs");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CrashEvidence {
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// The code that it exited with.
    pub code: Option<i32>,
    /// The most memory that it had at any moment, in bytes.
    pub peak_memory: Option<u64>,
    /// The memory that it was allowed, in bytes.
    pub memory_limit: Option<u64>,
    /// True when it is known to have died because it wanted more memory than it could have.
    pub out_of_memory: bool,
    /// The last thing that it said.
    pub last_line: Option<String>,
}

impl CrashEvidence {
    /// The failure of a run that the process died in.
    pub(crate) fn failure(&self) -> Failure {
        Failure::new(Cause::Crash, format!("Crash::{}", self.what_killed_it()), self.message())
    }

    /// True when it died because it asked for more memory than it may have, as far as that can be known.
    fn out_of_memory(&self) -> bool {
        let said_so = self.last_line.as_deref().is_some_and(|line| line.contains(ALLOCATION_FAILED));
        // SIGKILL alone says nothing: the kernel sends it when the machine is out of memory, and so can a person.
        self.out_of_memory || (self.signal == Some(SIGABRT) && said_so)
    }

    /// The last word of the error's type: failures that were killed alike are one incident.
    fn what_killed_it(&self) -> String {
        if self.out_of_memory() {
            return "OutOfMemory".to_owned();
        }
        match (self.signal, self.code) {
            (Some(signal), _) => signal_name(signal),
            (None, Some(code)) => format!("Exit{code}"),
            (None, None) => "Lost".to_owned(),
        }
    }

    fn message(&self) -> String {
        let mut text = match (self.signal, self.code) {
            (Some(signal), _) => {
                format!("its process was killed by {} (signal {signal})", signal_name(signal))
            }
            (None, Some(code)) => format!("its process exited with code {code}"),
            (None, None) => "its process is gone".to_owned(),
        };
        if self.out_of_memory() {
            text.push_str(", out of memory");
            if let Some(limit) = self.memory_limit {
                text.push_str(&format!(" with a limit of {}", megabytes(limit)));
            }
        }
        if self.signal == Some(SIGXCPU) {
            text.push_str(", it had used up its processor time");
        }
        if let Some(peak) = self.peak_memory.filter(|peak| *peak > 0) {
            text.push_str(&format!("; peak memory {}", megabytes(peak)));
        }
        if let Some(line) = &self.last_line {
            text.push_str("; its last line: ");
            text.push_str(line);
        }
        text
    }
}

pub(super) fn megabytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1024 * 1024))
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        4 => "SIGILL",
        SIGABRT => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        SIGKILL => "SIGKILL",
        11 => "SIGSEGV",
        15 => "SIGTERM",
        SIGXCPU => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        other => return format!("Signal{other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn evidence(signal: Option<i32>, code: Option<i32>, last_line: Option<&str>) -> CrashEvidence {
        CrashEvidence {
            signal,
            code,
            peak_memory: Some(12 * MIB),
            memory_limit: Some(64 * MIB),
            out_of_memory: false,
            last_line: last_line.map(str::to_owned),
        }
    }

    #[test]
    fn the_evidence_names_what_killed_a_process_its_memory_and_its_last_line() {
        // C4
        let spoke = Some("reading page 3");
        for (signal, code, line, error_type, message) in [
            (
                Some(11),
                None,
                spoke,
                "Crash::SIGSEGV",
                "its process was killed by SIGSEGV (signal 11); peak memory 12 MiB; its last line: reading page 3",
            ),
            (
                Some(6),
                None,
                None,
                "Crash::SIGABRT",
                "its process was killed by SIGABRT (signal 6); peak memory 12 MiB",
            ),
            (
                Some(6),
                None,
                Some("memory allocation of 1048576 bytes failed"),
                "Crash::OutOfMemory",
                "its process was killed by SIGABRT (signal 6), out of memory with a limit of 64 MiB; peak memory \
                 12 MiB; its last line: memory allocation of 1048576 bytes failed",
            ),
            (
                Some(24),
                None,
                None,
                "Crash::SIGXCPU",
                "its process was killed by SIGXCPU (signal 24), it had used up its processor time; peak memory 12 MiB",
            ),
            (
                Some(9),
                None,
                None,
                "Crash::SIGKILL",
                "its process was killed by SIGKILL (signal 9); peak memory 12 MiB",
            ),
            (None, Some(3), None, "Crash::Exit3", "its process exited with code 3; peak memory 12 MiB"),
            (None, Some(0), None, "Crash::Exit0", "its process exited with code 0; peak memory 12 MiB"),
        ] {
            let failure = evidence(signal, code, line).failure();
            assert_eq!((&*failure.error_type, &*failure.message), (error_type, message));
            assert_eq!(failure.cause, Cause::Crash);
        }
        let over = CrashEvidence { out_of_memory: true, ..evidence(Some(9), None, None) }.failure();
        assert_eq!(over.error_type, "Crash::OutOfMemory");
        let gone = CrashEvidence::default().failure();
        assert_eq!((&*gone.error_type, &*gone.message), ("Crash::Lost", "its process is gone"));
    }
}
