//! What one channel was told of one incident, and what it is still to be told (D3). Pure: time comes in as a value.
//!
//! Deaths are gathered until the gap since the last message is over, and sealed then: from the first delivery on, the
//! content of a message and its id never change, so a repeat can be told from news.

use std::time::Duration;

use backstop_core::Timestamp;
use backstop_core::alert::Notice;
use backstop_core::circuit::{CircuitAlert, CircuitNotice};
use serde::{Deserialize, Serialize};

use super::{AlertLog, AlertMessage};

/// Jobs that a message names.
const JOBS: usize = 10;

/// What could not be told within this time is dropped: by then nobody needs to be woken.
pub(crate) const TOO_LATE: Duration = Duration::from_secs(24 * 60 * 60);

const BACKOFF_BASE: Duration = Duration::from_secs(5);
const BACKOFF_CAP: Duration = Duration::from_secs(60 * 60);

/// One channel's log of one incident.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ChannelLog {
    told: u64,
    told_at: Option<Timestamp>,
    suppressed: u64,
    muted: u64,
    dropped: u64,
    /// Deaths since the last message.
    gathering: Option<AlertMessage>,
    /// The message that is on its way.
    sealed: Option<AlertMessage>,
    failures: u32,
    next_try: Option<Timestamp>,
    trouble: Option<String>,
}

impl ChannelLog {
    /// Takes a death in; `id` becomes the identity of the message if it is the first of one.
    pub(crate) fn gather(&mut self, notice: &Notice, id: impl FnOnce() -> String) {
        match &mut self.gathering {
            Some(message) => {
                message.count += 1;
                message.last_at = message.last_at.max(notice.at);
                if message.jobs.len() < JOBS {
                    message.jobs.push(notice.job);
                }
            }
            None => self.gathering = Some(message(notice, id())),
        }
    }

    /// Takes in that a circuit opened or closed: the latest change is what a message tells.
    pub(crate) fn gather_circuit(&mut self, notice: &CircuitNotice, id: impl FnOnce() -> String) {
        let message = self.gathering.get_or_insert_with(|| of_circuit(notice, id()));
        message.count += 1;
        message.last_at = message.last_at.max(notice.at);
        message.error = Some(notice.circuit.sentence());
        message.circuit = Some(notice.circuit.clone());
    }

    /// Makes a message of what was gathered, unless the last one is less than `gap` ago or is still on its way. Answers
    /// whether it did.
    pub(crate) fn seal(&mut self, now: Timestamp, gap: Duration) -> bool {
        let too_soon = self.told_at.is_some_and(|at| now < at.after(gap));
        if too_soon || self.sealed.is_some() || self.gathering.is_none() {
            return false;
        }
        self.sealed = self.gathering.take();
        true
    }

    /// The message to deliver now, if there is one.
    pub(crate) fn due(&self, now: Timestamp) -> Option<&AlertMessage> {
        self.sealed.as_ref().filter(|_| self.next_try.is_none_or(|at| at <= now))
    }

    /// When there is something to do next; none when nothing waits.
    pub(crate) fn wakes_at(&self, now: Timestamp, gap: Duration) -> Option<Timestamp> {
        if self.sealed.is_some() {
            return Some(self.next_try.unwrap_or(now));
        }
        self.gathering.as_ref().map(|_| self.told_at.map_or(now, |at| at.after(gap)))
    }

    /// The message came through.
    pub(crate) fn delivered(&mut self, now: Timestamp) {
        if let Some(message) = self.sealed.take() {
            self.told += 1;
            self.suppressed += message.count.saturating_sub(1);
            self.told_at = Some(now);
        }
        self.forgive();
    }

    /// It did not: it is tried again, later each time.
    pub(crate) fn failed(&mut self, now: Timestamp, why: String) {
        self.failures = self.failures.saturating_add(1);
        let doubled = 1_u32.checked_shl(self.failures - 1).unwrap_or(u32::MAX);
        self.next_try = Some(now.after(BACKOFF_BASE.saturating_mul(doubled).min(BACKOFF_CAP)));
        self.trouble = Some(why);
    }

    /// Drops what nobody could be told in time, and says how many deaths that were.
    pub(crate) fn drop_stale(&mut self, now: Timestamp) -> u64 {
        let stale = |message: &AlertMessage| now.since(message.last_at) >= TOO_LATE;
        let mut dropped = 0;
        if let Some(message) = self.sealed.take_if(|message| stale(message)) {
            dropped += message.count;
            self.forgive();
        }
        dropped += self.gathering.take_if(|message| stale(message)).map_or(0, |message| message.count);
        self.dropped += dropped;
        dropped
    }

    /// Counts a death that is too old to be told.
    pub(crate) const fn count_dropped(&mut self) {
        self.dropped += 1;
    }

    /// Counts a death of which nobody wants to hear.
    pub(crate) const fn count_muted(&mut self) {
        self.muted += 1;
    }

    /// Takes back what waits, because nobody wants to hear of it any more. Answers whether anything did.
    pub(crate) fn mute(&mut self) -> bool {
        let waiting = self.waiting();
        self.muted += waiting;
        (self.gathering, self.sealed) = (None, None);
        self.forgive();
        waiting > 0
    }

    /// True when something waits to be told.
    pub(crate) const fn is_open(&self) -> bool {
        self.gathering.is_some() || self.sealed.is_some()
    }

    /// The log as others read it.
    pub(crate) fn shown(&self, channel: String) -> AlertLog {
        AlertLog {
            channel,
            told: self.told,
            told_at: self.told_at,
            suppressed: self.suppressed,
            muted: self.muted,
            dropped: self.dropped,
            waiting: self.waiting(),
            failures: self.failures,
            next_try: self.next_try,
            trouble: self.trouble.clone(),
        }
    }

    /// Failed deliveries in a row.
    pub(crate) const fn failures(&self) -> u32 {
        self.failures
    }

    fn waiting(&self) -> u64 {
        [&self.gathering, &self.sealed].into_iter().flatten().map(|message| message.count).sum()
    }

    fn forgive(&mut self) {
        (self.failures, self.next_try, self.trouble) = (0, None, None);
    }
}

fn message(notice: &Notice, id: String) -> AlertMessage {
    AlertMessage {
        id,
        incident: notice.about.clone(),
        kind: notice.kind.clone(),
        queue: notice.queue.clone(),
        reason: Some(notice.reason),
        error_type: notice.error_type.clone(),
        error: notice.error.clone(),
        count: 1,
        first_at: notice.at,
        last_at: notice.at,
        jobs: vec![notice.job],
        envelope: notice.envelope.clone(),
        circuit: None,
    }
}

/// A message about a circuit in which nothing has been counted yet.
fn of_circuit(notice: &CircuitNotice, id: String) -> AlertMessage {
    AlertMessage {
        id,
        incident: CircuitAlert::about(&notice.circuit.key),
        kind: String::new(),
        queue: String::new(),
        reason: None,
        error_type: None,
        error: None,
        count: 0,
        first_at: notice.at,
        last_at: notice.at,
        jobs: Vec::new(),
        envelope: serde_json::Value::Null,
        circuit: None,
    }
}

#[cfg(test)]
mod tests;
