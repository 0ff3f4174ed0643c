//! New identities: time-ordered, and ordered within one process also inside a millisecond.

use std::sync::Mutex;

use backstop_core::{JobId, WorkerId};
use uuid::{ContextV7, Timestamp, Uuid};

static ORDER: Mutex<ContextV7> = Mutex::new(ContextV7::new());

fn next() -> Uuid {
    let context = ORDER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    Uuid::new_v7(Timestamp::now(&*context))
}

/// A new job id, greater than every earlier one of this process.
#[must_use]
pub fn job_id() -> JobId {
    JobId::from_uuid(next())
}

/// A new worker id.
#[must_use]
pub fn worker_id() -> WorkerId {
    WorkerId::from_uuid(next())
}
