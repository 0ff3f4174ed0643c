//! A graph of one step, many behind it, and one behind all of those (W6).

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop::prelude::*;
use serde_json::{Value, json};

use crate::journal::{Journal, JournalEntry};
use crate::work::CampaignJob;

/// How the many end: all of them succeed, some of them after a failure or a snooze.
const ENDS: [u64; 9] = [0, 1, 3, 4, 5, 6, 7, 8, 9];

/// Gets the results of many, and succeeds only when it has all of them.
#[derive(Debug, Serialize, Deserialize)]
pub struct JoinJob {
    /// How many steps it follows.
    pub parents: u64,
}

impl JoinJob {
    /// The name of one of the many.
    #[must_use]
    pub fn parent(place: u64) -> String {
        format!("parent {place}")
    }

    /// What it returns.
    #[must_use]
    pub fn ends(place: u64) -> u64 {
        ENDS[usize::try_from(place).unwrap_or(0) % ENDS.len()]
    }

    /// Its job, which is among those from `first` on.
    #[must_use]
    pub fn job(first: u64, place: u64) -> CampaignJob {
        CampaignJob { number: first + 10 * place + Self::ends(place) }
    }

    /// What it returns: the sum of what it was given.
    ///
    /// # Errors
    /// When something is missing, wrong, or too much.
    pub fn sum(&self, inputs: &BTreeMap<String, Value>) -> Result<u64, String> {
        let mut sum = 0;
        for place in 0..self.parents {
            let (name, ends) = (Self::parent(place), Self::ends(place));
            if inputs.get(&name).and_then(Value::as_u64) != Some(ends) {
                return Err(format!("`{name}` returned {ends}, and it was given {:?}", inputs.get(&name)));
            }
            sum += ends;
        }
        match inputs.len() as u64 == self.parents {
            true => Ok(sum),
            false => Err(format!("it follows {} steps and was given {}", self.parents, inputs.len())),
        }
    }

    /// The same in a remote worker; none when this is another job.
    #[must_use]
    pub fn remotely(claimed: &Value) -> Option<Value> {
        let job: Self = serde_json::from_value(claimed["payload"].clone()).ok()?;
        let inputs = serde_json::from_value(claimed["inputs"].clone()).unwrap_or_default();
        Some(match job.sum(&inputs) {
            Ok(sum) => json!({ "type": "succeeded", "result": sum }),
            Err(message) => json!({ "type": "failed", "class": "permanent", "message": message }),
        })
    }
}

impl Job for JoinJob {
    const KIND: &'static str = "join";
    type Context = Arc<Journal>;
    type Output = JobResult<u64>;

    async fn run(self, cx: JobContext<Arc<Journal>>) -> JobResult<u64> {
        let (lease, run) = (cx.lease(), cx.run_number());
        cx.app().write(JournalEntry::Began { lease, run });
        let answer = self.sum(cx.inputs()).map_err(Outcome::permanent);
        cx.app().write(JournalEntry::Ended { lease, run });
        Ok(answer?)
    }
}
