//! Every bound, by name. A value over its limit is refused with the limit in the message (L20).

use std::time::Duration;

/// What a job, its keys and its output may measure at most.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a payload as JSON text. Larger inputs belong in an object store, with a reference here.
    pub payload_bytes: usize,
    /// Bytes of a result as JSON text; a larger one leaves the job succeeded, with a warning on it (L6).
    pub result_bytes: usize,
    /// Characters of a stored error text.
    pub error_chars: usize,
    /// Bytes of what one run logged or printed.
    pub output_bytes: usize,
    /// Characters of a kind or a queue name.
    pub name_chars: usize,
    /// Characters of an idempotency key, a business key or a correlation id.
    pub key_chars: usize,
    /// Tags of one job.
    pub tags: usize,
    /// Characters of one tag.
    pub tag_chars: usize,
    /// Bytes of the params object as JSON text.
    pub params_bytes: usize,
    /// Jobs in one submit.
    pub batch: usize,
    /// Rows in one page of any listing.
    pub page: usize,
    /// Most retries a job may ask for.
    pub retries: u32,
    /// Longest wait between two runs, whoever asks for it.
    pub delay: Duration,
    /// Queues that the tokens of one tenant may make (E13).
    pub queues_per_tenant: usize,
    /// Kinds of job that the tokens of one tenant may submit (E13).
    pub kinds_per_tenant: usize,
    /// Incidents of one tenant; failures of other sorts are gathered in one for each kind (E13).
    pub incidents_per_tenant: usize,
    /// Jobs of one tenant that may wait, in all its queues together; any number unless set (H12).
    pub max_depth_per_tenant: Option<u64>,
}

impl Limits {
    /// The first limit that is higher than stores can hold, with what was given and the most. Limits that the tables
    /// of the stores rest on can be lowered and not raised.
    #[must_use]
    pub fn beyond_stores(&self) -> Option<(&'static str, u64, u64)> {
        let most = Self::default();
        let count = |count: usize| count as u64;
        [
            ("name_chars", count(self.name_chars), count(most.name_chars)),
            ("key_chars", count(self.key_chars), count(most.key_chars)),
            ("tag_chars", count(self.tag_chars), count(most.tag_chars)),
            ("batch", count(self.batch), count(most.batch)),
            ("page", count(self.page), count(most.page)),
            ("retries", u64::from(self.retries), u64::from(most.retries)),
            ("delay", self.delay.as_secs(), most.delay.as_secs()),
        ]
        .into_iter()
        .find(|(_, given, most)| given > most)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            payload_bytes: 1024 * 1024,
            result_bytes: 64 * 1024,
            error_chars: 2_000,
            output_bytes: 64 * 1024,
            name_chars: 128,
            key_chars: 255,
            tags: 32,
            tag_chars: 128,
            params_bytes: 16 * 1024,
            batch: 10_000,
            page: 1_000,
            retries: 1_000_000,
            delay: Duration::from_secs(10 * 366 * 24 * 60 * 60),
            queues_per_tenant: 1_000,
            kinds_per_tenant: 1_000,
            incidents_per_tenant: 10_000,
            max_depth_per_tenant: None,
        }
    }
}
