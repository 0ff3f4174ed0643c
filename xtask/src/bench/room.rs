//! Whether the disk has room for a benchmark: millions of jobs are stored and kept, and a disk that fills up on the way
//! costs an hour.

use super::options::{CompareOptions, FigureFamily};
use super::peers;
use crate::error::TaskError;
use crate::process::CommandLine;

/// What the longest history and backlog take with their logs, about twice over.
const WANTED_GIB: u64 = 30;

const GIB: u64 = 1 << 30;

/// Refuses to begin what cannot succeed. Where nobody tells how much room there is, it is tried.
pub(crate) fn check(options: &CompareOptions) -> Result<(), TaskError> {
    if options.quick || !options.parts.contains(&FigureFamily::Flat) {
        return Ok(());
    }
    let folder = peers::folder();
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(&folder);
    let asked = CommandLine::new("df -Pk").with(&[there.display().to_string()]).output();
    match asked.ok().as_deref().and_then(free_bytes) {
        Some(free) if free < WANTED_GIB * GIB => Err(TaskError::Failed(format!(
            "{} has {} GiB free and the whole comparison wants {WANTED_GIB}: make room, or leave out the part that \
             fills it with `--parts rates,latency,failure,storm,idle`",
            there.display(),
            free / GIB,
        ))),
        _ => Ok(()),
    }
}

/// The free bytes that `df -Pk` tells: the fourth column of its second line, in KiB.
fn free_bytes(told: &str) -> Option<u64> {
    let free: u64 = told.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(free * 1024)
}

#[cfg(test)]
mod tests {
    use super::free_bytes;

    #[test]
    fn what_df_tells_is_read() {
        let told =
            "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda 263174212 45 48 48% /\n";
        assert_eq!(free_bytes(told), Some(48 * 1024));
        assert_eq!(free_bytes("df: nothing\n"), None);
    }
}
