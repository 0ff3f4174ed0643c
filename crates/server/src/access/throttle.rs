//! Who has called how often: the memory beside [`Rate`]. It is this process's own and lost with it.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::rate::Rate;

/// Callers that are remembered at most. Those who come when all of them are busy share one rate.
const MOST: usize = 10_000;

/// One rate for each caller.
#[derive(Debug)]
pub(crate) struct Throttle<K> {
    rate: Rate,
    born: Instant,
    paid: Mutex<Paid<K>>,
}

#[derive(Debug)]
struct Paid<K> {
    known: HashMap<K, Duration>,
    /// For those who find no room.
    crowd: Option<Duration>,
}

impl<K: Eq + Hash> Throttle<K> {
    pub(crate) fn new(rate: Rate) -> Self {
        let paid = Mutex::new(Paid { known: HashMap::new(), crowd: None });
        Self { rate, born: Instant::now(), paid }
    }

    /// Counts a call.
    ///
    /// # Errors
    /// How long to wait.
    pub(crate) fn admit(&self, caller: K) -> Result<(), Duration> {
        let now = self.born.elapsed();
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        if paid.known.len() >= MOST && !paid.known.contains_key(&caller) {
            // Whoever has rested since is as good as unknown.
            paid.known.retain(|_, until| *until > now);
        }
        if paid.known.len() >= MOST && !paid.known.contains_key(&caller) {
            paid.crowd = Some(self.rate.admit(paid.crowd, now)?);
            return Ok(());
        }
        let until = self.rate.admit(paid.known.get(&caller).copied(), now)?;
        paid.known.insert(caller, until);
        Ok(())
    }
}

/// The address under which a machine is counted: of IPv6 the network, for a machine has the rest of it to choose from.
pub(crate) fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(network.into())
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn callers_are_counted_apart_and_a_crowd_together() {
        let throttle = Throttle::new(Rate::every(Duration::from_secs(1), 2));
        for _ in 0..2 {
            assert_eq!((throttle.admit(1), throttle.admit(2)), (Ok(()), Ok(())));
        }
        assert!(throttle.admit(1).is_err());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(throttle.admit(1), Ok(()));
        for caller in 3..MOST + 1 {
            assert_eq!(throttle.admit(caller), Ok(()), "{caller}");
        }
        let strangers: Vec<bool> = (0..10).map(|nth| throttle.admit(20_000 + nth).is_ok()).collect();
        assert_eq!(strangers.iter().filter(|admitted| **admitted).count(), 2);
        assert!(throttle.paid.lock().unwrap().known.len() <= MOST);
        // After a rest there is room again.
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(throttle.admit(30_000), Ok(()));
        assert_eq!(throttle.paid.lock().unwrap().known.len(), 1);
    }

    #[test]
    fn a_machine_counts_once_whatever_address_of_its_network_it_uses() {
        let counted = |text: &str| counted_as(text.parse().expect("an address")).to_string();
        assert_eq!(counted("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(counted("192.0.2.7"), "192.0.2.7");
        assert_eq!(counted("::ffff:192.0.2.7"), "192.0.2.7");
    }
}
