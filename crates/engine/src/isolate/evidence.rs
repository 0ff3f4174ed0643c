//! What is known of a child that died: the evidence that its run keeps (C4).

use std::os::unix::process::ExitStatusExt as _;

use backstop_core::failure::{Cause, Failure};
use backstop_process::EndedProcess;

/// What an allocator of Rust says before it gives up.
pub(super) const ALLOCATION_FAILED: &str = "memory allocation of ";

const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;

/// What a child left behind.
#[derive(Debug, Default)]
pub(super) struct CrashEvidence {
    /// How its process ended; none when even that could not be learned.
    pub(super) ended: Option<EndedProcess>,
    /// The most memory that it was seen to use when the run began, in bytes.
    pub(super) memory_before: u64,
    /// The memory that it was allowed.
    pub(super) memory_limit: Option<u64>,
    /// True when it was killed for using more.
    pub(super) over_memory: bool,
    /// The last thing that it said.
    pub(super) last_line: Option<String>,
}

impl CrashEvidence {
    /// The failure of the run that the child died in.
    pub(super) fn failure(&self) -> Failure {
        Failure::new(Cause::Crash, format!("Crash::{}", self.what_killed_it()), self.message())
    }

    fn signal(&self) -> Option<i32> {
        self.ended.and_then(|ended| ended.status.signal())
    }

    /// True when it died because it asked for more memory than it may have, as far as that can be known.
    fn out_of_memory(&self) -> bool {
        let said_so = self.last_line.as_deref().is_some_and(|line| line.contains(ALLOCATION_FAILED));
        // SIGKILL alone says nothing: the kernel sends it when the machine is out of memory, and so can a person.
        self.over_memory || (self.signal() == Some(SIGABRT) && said_so)
    }

    /// The last word of the error's type: failures that were killed alike are one incident.
    fn what_killed_it(&self) -> String {
        if self.out_of_memory() {
            return "OutOfMemory".to_owned();
        }
        match (self.signal(), self.ended.and_then(|ended| ended.status.code())) {
            (Some(signal), _) => signal_name(signal),
            (None, Some(code)) => format!("Exit{code}"),
            (None, None) => "Lost".to_owned(),
        }
    }

    fn message(&self) -> String {
        let mut text = match (self.signal(), self.ended.and_then(|ended| ended.status.code())) {
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
        if self.signal() == Some(SIGXCPU) {
            text.push_str(", it had used up its processor time");
        }
        let peak = self.ended.map_or(0, |ended| ended.peak_memory).max(self.memory_before);
        if peak > 0 {
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
    use std::process::ExitStatus;

    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn evidence(raw: i32, last_line: Option<&str>) -> CrashEvidence {
        let ended = EndedProcess { status: ExitStatus::from_raw(raw), peak_memory: 12 * MIB };
        let last_line = last_line.map(str::to_owned);
        CrashEvidence {
            ended: Some(ended),
            memory_before: 0,
            memory_limit: Some(64 * MIB),
            over_memory: false,
            last_line,
        }
    }

    #[test]
    fn the_evidence_names_what_killed_a_process_its_memory_and_its_last_line() {
        // C4
        let spoke = Some("reading page 3");
        for (raw, line, error_type, message) in [
            (
                11,
                spoke,
                "Crash::SIGSEGV",
                "its process was killed by SIGSEGV (signal 11); peak memory 12 MiB; its last line: reading page 3",
            ),
            (6, None, "Crash::SIGABRT", "its process was killed by SIGABRT (signal 6); peak memory 12 MiB"),
            (
                6,
                Some("memory allocation of 1048576 bytes failed"),
                "Crash::OutOfMemory",
                "its process was killed by SIGABRT (signal 6), out of memory with a limit of 64 MiB; peak memory \
                 12 MiB; its last line: memory allocation of 1048576 bytes failed",
            ),
            (
                24,
                None,
                "Crash::SIGXCPU",
                "its process was killed by SIGXCPU (signal 24), it had used up its processor time; peak memory 12 MiB",
            ),
            (9, None, "Crash::SIGKILL", "its process was killed by SIGKILL (signal 9); peak memory 12 MiB"),
            (3 << 8, None, "Crash::Exit3", "its process exited with code 3; peak memory 12 MiB"),
            (0, None, "Crash::Exit0", "its process exited with code 0; peak memory 12 MiB"),
        ] {
            let failure = evidence(raw, line).failure();
            assert_eq!((&*failure.error_type, &*failure.message), (error_type, message));
            assert_eq!(failure.cause, Cause::Crash);
        }
        let over = CrashEvidence { over_memory: true, ..evidence(9, None) }.failure();
        assert_eq!(over.error_type, "Crash::OutOfMemory");
        let gone = CrashEvidence::default().failure();
        assert_eq!((&*gone.error_type, &*gone.message), ("Crash::Lost", "its process is gone"));
    }
}
