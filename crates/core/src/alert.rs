//! What is told of a dead letter, beyond the event (D3).
//!
//! A raised alert is written into the store's outbox in the transaction of the death, and delivered later: a channel
//! that fails or is away never holds a job.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::envelope::envelope;
use crate::failure::TerminalReason;
use crate::id::JobId;
use crate::job::{FailureRecord, Record, StoredJob};
use crate::time::Timestamp;

/// One raised alert, waiting to be delivered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// When the job died.
    pub at: Timestamp,
    /// The job.
    pub job: JobId,
    /// Its kind.
    pub kind: String,
    /// Its queue.
    pub queue: String,
    /// Why it is dead.
    pub reason: TerminalReason,
    /// The failure's fingerprint, or the terminal reason of a job that no run killed.
    pub about: String,
    /// The error's type, if a run left one.
    pub error_type: Option<String>,
    /// The sanitized error, if a run left one.
    pub error: Option<String>,
    /// The dead letter as other systems read it (D1).
    pub envelope: Value,
}

impl Notice {
    /// The notice of a job whose record has just become a dead letter at `now`; none when the alert is suppressed or
    /// the record did not die then.
    #[must_use]
    pub fn of(
        job: &StoredJob,
        record: &Record,
        failure: Option<&FailureRecord>,
        code_version: Option<&str>,
        now: Timestamp,
    ) -> Option<Self> {
        let mark = record.alert().filter(|mark| mark.at == now && mark.suppressed == 0)?;
        Some(Self {
            at: now,
            job: job.spec.id,
            kind: job.spec.kind.to_string(),
            queue: job.spec.queue.to_string(),
            reason: record.reason?,
            about: mark.about.clone(),
            error_type: failure.map(|failure| failure.error_type.clone()),
            error: failure.map(|failure| failure.message.clone()),
            envelope: envelope(job, record, failure, code_version)?,
        })
    }

    /// Its key in the outbox: in the order of time, one per death.
    #[must_use]
    pub fn key(&self) -> String {
        // Shifted by the earliest moment, so that every key is a positive number of the same length.
        let micros = self.at.as_micros().saturating_sub(Timestamp::MIN.as_micros());
        format!("{micros:020}-{}", self.job)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::job::Spec;

    const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    fn expired(now: Timestamp) -> (StoredJob, Record) {
        let mut spec = Spec::new(JobId::from_u128(1), "work", "{}");
        spec.expires_at = Some(NOW);
        let mut record = Record::new(&spec, NOW);
        assert!(record.expire(&spec, now));
        (StoredJob { spec, created_at: NOW }, record)
    }

    #[test]
    fn a_death_makes_one_notice_and_nothing_else_does() {
        // D3
        let later = NOW.after(Duration::from_secs(1));
        let (job, record) = expired(later);
        let notice = Notice::of(&job, &record, None, None, later).expect("it died now");
        assert_eq!((notice.about.as_str(), notice.reason), ("expired", TerminalReason::Expired));
        assert_eq!(notice.envelope["terminalReason"], "expired");
        assert_eq!(
            Notice::of(&job, &record, None, None, later.after(Duration::from_secs(1))),
            None,
            "an old death"
        );
        let text = serde_json::to_string(&notice).unwrap();
        assert_eq!(serde_json::from_str::<Notice>(&text).unwrap(), notice);
    }

    #[test]
    fn a_suppressed_repeat_makes_no_notice() {
        // D3
        let later = NOW.after(Duration::from_secs(1));
        let (job, mut record) = expired(later);
        record.operate(&job, &crate::job::Operation::Retry, later).unwrap();
        record.expires_at = Some(NOW);
        let again = later.after(Duration::from_secs(5));
        assert!(record.expire(&job.spec, again));
        assert_eq!(record.alert().map(|mark| mark.suppressed), Some(1));
        assert_eq!(Notice::of(&job, &record, None, None, again), None);
    }

    #[test]
    fn keys_are_in_the_order_of_time() {
        let keys: Vec<String> = [Timestamp::MIN, Timestamp::EPOCH, NOW, Timestamp::MAX]
            .into_iter()
            .map(|at| {
                let later = NOW.after(Duration::from_secs(1));
                let (job, record) = expired(later);
                Notice { at, ..Notice::of(&job, &record, None, None, later).unwrap() }.key()
            })
            .collect();
        assert!(keys.is_sorted() && keys.iter().all(|key| key.len() == keys[0].len()), "{keys:?}");
    }
}
