//! The ways in which a store can be wrong.

/// One way to be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A stale end is applied to whoever holds the job now.
    FenceDropped,
    /// A worker whose lease has run out may still end its runs.
    ExpiredLeaseAccepted,
    /// Every fourth submit is answered and not stored.
    AckBeforeCommit,
    /// Every fourth end is answered and not stored.
    FinishLost,
    /// Every fourth end is stored, and answered as refused.
    FinishDenied,
    /// Running jobs are taken back without a look at their workers' leases.
    RescueById,
    /// What dead workers held is never found.
    OrphansIgnored,
    /// Crashes are charged as failures of the handler.
    CrashBlamed,
    /// Nobody looks for work, and hints are swallowed.
    NoPolling,
    /// Idempotency keys are thrown away.
    IdempotencyKeyIgnored,
    /// Business keys are thrown away.
    BusinessKeyIgnored,
    /// Ordering keys are thrown away.
    OrderingKeyIgnored,
    /// Every fourth submit is stored twice, under two ids.
    StoredTwice,
    /// Every fourth payload is another one.
    PayloadMixedUp,
    /// Delays are forgotten.
    DelayIgnored,
    /// Cancels are acknowledged and forgotten.
    CancelForgotten,
    /// A job that has succeeded is handed out again.
    SuccessRunAgain,
    /// A claim is given to two workers.
    HandedOutTwice,
    /// Every fourth claim keeps one of its jobs from the worker.
    ClaimLost,
    /// A run ends well when its job is claimed, and what comes of it later is ignored.
    AckEarly,
    /// Starts of prefetched jobs are not counted.
    StartNotCounted,
    /// Every hold has the same fence.
    FenceFrozen,
    /// Dead letters are tried again without end.
    BudgetIgnored,
    /// A retry loses its delay.
    RetryAtOnce,
    /// The counts of queues have drifted.
    CountsDrift,
    /// Every fourth success of a step is answered and not stored.
    StepLost,
    /// Jobs are handed out without what is stored of their steps.
    StepsForgotten,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 27] = [
        Self::FenceDropped,
        Self::ExpiredLeaseAccepted,
        Self::AckBeforeCommit,
        Self::FinishLost,
        Self::FinishDenied,
        Self::RescueById,
        Self::OrphansIgnored,
        Self::CrashBlamed,
        Self::NoPolling,
        Self::IdempotencyKeyIgnored,
        Self::BusinessKeyIgnored,
        Self::OrderingKeyIgnored,
        Self::StoredTwice,
        Self::PayloadMixedUp,
        Self::DelayIgnored,
        Self::CancelForgotten,
        Self::SuccessRunAgain,
        Self::HandedOutTwice,
        Self::ClaimLost,
        Self::AckEarly,
        Self::StartNotCounted,
        Self::FenceFrozen,
        Self::BudgetIgnored,
        Self::RetryAtOnce,
        Self::CountsDrift,
        Self::StepLost,
        Self::StepsForgotten,
    ];

    /// The one with this name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bug| format!("{bug:?}") == name)
    }
}
