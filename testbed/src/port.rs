//! Loopback ports that stay ours while a server is down.
//!
//! A killed server must come back on the port that its clients know. The system gives ports of its own range to
//! outgoing connections at any time, so ours lie outside of it, and a locked file keeps other testbeds off.

use std::collections::hash_map::RandomState;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

use crate::trouble::TestbedError;

/// How many ports are tried before giving up.
const TRIES: usize = 200;

/// A reserved port; the reservation ends with this value or this process.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    _lock: File,
}

/// Finds a port that nobody uses and nobody reserved.
pub(crate) fn reserve() -> Result<Port, TestbedError> {
    let user = fs::metadata("/proc/self").map_err(TestbedError::io("cannot read /proc/self"))?.uid();
    let folder = std::env::temp_dir().join(format!("backstop-ports-{user}"));
    fs::create_dir_all(&folder).map_err(TestbedError::io(format!("cannot create {}", folder.display())))?;
    let range = quiet_range();
    for _ in 0..TRIES {
        let number = random_in(&range);
        let path = folder.join(number.to_string());
        let lock =
            File::create(&path).map_err(TestbedError::io(format!("cannot create {}", path.display())))?;
        if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
            return Ok(Port { number, _lock: lock });
        }
    }
    Err(TestbedError::new(format!(
        "no free port between {} and {} after {TRIES} tries; are servers of earlier runs still there?",
        range.start, range.end
    )))
}

/// Ports that outgoing connections do not use.
fn quiet_range() -> Range<u16> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let lowest = text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(32_768);
    if lowest > 16_000 { 15_000..lowest } else { 61_000..u16::MAX }
}

/// Two testbeds that start at the same moment should not try the same ports in the same order.
fn random_in(range: &Range<u16>) -> u16 {
    let seed = RandomState::new().build_hasher().finish();
    let offset = seed % u64::from(range.end - range.start);
    range.start + u16::try_from(offset).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_given_once() {
        let ports: Vec<Port> = (0..20).map(|_| reserve().unwrap()).collect();
        let mut numbers: Vec<u16> = ports.iter().map(|port| port.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 20);
    }
}
