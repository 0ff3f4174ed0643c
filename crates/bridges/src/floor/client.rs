//! What the loops of all brokers have in common.

use std::time::Duration;

use crate::broker::{BrokerAnswer, BrokerError};

/// Messages that are published before their confirms are waited for, and that are acknowledged together.
pub const FLOOR_BATCH: usize = 500;

/// The name of the queue's reader, where one has to have a name.
pub(super) const READER: &str = "floor";

/// What is measured of a broker. It begins when there is a connection.
pub(super) trait FloorClient: Send + Sync {
    fn make(&self) -> BrokerAnswer<'_, ()>;

    fn remove(&self) -> BrokerAnswer<'_, ()>;

    fn publish<'a>(&'a self, bodies: &'a [Vec<u8>]) -> BrokerAnswer<'a, Duration>;

    fn receive(&self, messages: usize) -> BrokerAnswer<'_, Duration>;
}

/// What went wrong, as the loops tell it.
#[allow(dead_code, reason = "not every broker needs it, and each can be left out")]
pub(super) fn failed(address: &str, problem: impl ToString) -> BrokerError {
    BrokerError::Unavailable { address: address.to_owned(), problem: problem.to_string() }
}
