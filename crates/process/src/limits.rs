//! What a process may use.

use std::io;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// What a process may use. Limits are set from outside and hold for its children too, each for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ProcessLimits {
    /// Bytes of address space.
    pub memory_bytes: Option<u64>,
    /// Bytes of memory that it alone writes to: the heap and the stacks, not what is only reserved.
    pub data_bytes: Option<u64>,
    /// Seconds of processor time; the kernel kills what uses more, and that is a crash.
    pub cpu_seconds: Option<u64>,
    /// Open files.
    pub open_files: Option<u64>,
    /// Bytes of one written file; the kernel kills what writes more, and that is a crash.
    pub file_bytes: Option<u64>,
    /// Processes of the user it runs as, all together.
    pub processes: Option<u64>,
}

impl ProcessLimits {
    /// Sets them for a process that runs. One that has ended meanwhile is no error.
    ///
    /// # Errors
    /// When the kernel refuses one of them.
    pub fn apply(&self, process: Pid) -> io::Result<()> {
        let all = [
            (Resource::As, self.memory_bytes),
            (Resource::Data, self.data_bytes),
            (Resource::Cpu, self.cpu_seconds),
            (Resource::Nofile, self.open_files),
            (Resource::Fsize, self.file_bytes),
            (Resource::Nproc, self.processes),
        ];
        for (resource, most) in all {
            let Some(most) = most else { continue };
            set(process, resource, Rlimit { current: Some(most), maximum: Some(most) })?;
        }
        Ok(())
    }
}

/// Sets how many bytes of memory a process may write to from now on; it can be raised again.
///
/// # Errors
/// When the kernel refuses it.
pub fn soft_data_limit(process: Pid, bytes: Option<u64>) -> io::Result<()> {
    set(process, Resource::Data, Rlimit { current: bytes, maximum: None })
}

/// Sets how many seconds of processor time a process may have used in all; it can be raised again.
///
/// # Errors
/// When the kernel refuses it.
pub fn soft_cpu_limit(process: Pid, seconds: Option<u64>) -> io::Result<()> {
    set(process, Resource::Cpu, Rlimit { current: seconds, maximum: None })
}

fn set(process: Pid, resource: Resource, limit: Rlimit) -> io::Result<()> {
    match prlimit(Some(process), resource, limit) {
        // It has ended already.
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(problem) => Err(problem.into()),
    }
}
