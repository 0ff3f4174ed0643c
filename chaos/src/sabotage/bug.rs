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
    /// What every fourth report noted of ends in workflows and batches is removed before anybody has followed it up.
    EndLost,
    /// Steps of workflows may run before what they follow has ended.
    StepReleasedEarly,
    /// Fires of schedules are submitted once more, without their keys.
    FireTwice,
    /// Fires that were decided are answered and not stored.
    FireLost,
    /// No fire hears that the job of the one before it goes on.
    OverlapIgnored,
    /// Signals are answered and reach nobody.
    SignalLost,
}

impl Bug {
    /// All that show where jobs have nothing to do with each other.
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

    /// The others, which show in workflows, batches, schedules and signals, each with what the checker says of it.
    pub const OF_WORKFLOWS: [(Self, &'static str); 6] = [
        (Self::EndLost, "when all is over"),
        (Self::StepReleasedEarly, "before what it follows had ended"),
        (Self::FireTwice, "was submitted twice"),
        (Self::FireLost, "was never submitted"),
        (Self::OverlapIgnored, "went on"),
        (Self::SignalLost, "it is stuck in waiting"),
    ];

    /// The one with this name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let others = Self::OF_WORKFLOWS.map(|(bug, _)| bug);
        Self::ALL.into_iter().chain(others).find(|bug| format!("{bug:?}") == name)
    }
}
