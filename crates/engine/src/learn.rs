//! The code of the pages in docs/learn that are about this crate, as doc tests. The page about transactions is in `tx`.

/// docs/learn/getting-started.md
#[doc = include_str!("../../../docs/learn/getting-started.md")]
pub struct GettingStarted;

/// docs/learn/jobs.md
#[doc = include_str!("../../../docs/learn/jobs.md")]
pub struct Jobs;

/// docs/learn/retries-and-failures.md
#[doc = include_str!("../../../docs/learn/retries-and-failures.md")]
pub struct RetriesAndFailures;

/// docs/learn/workers.md
#[doc = include_str!("../../../docs/learn/workers.md")]
pub struct Workers;

/// docs/learn/isolation.md
#[doc = include_str!("../../../docs/learn/isolation.md")]
pub struct IsolatedRuns;

/// docs/learn/workflows.md
#[doc = include_str!("../../../docs/learn/workflows.md")]
pub struct WorkflowsAndBatches;

/// docs/learn/signals.md
#[doc = include_str!("../../../docs/learn/signals.md")]
pub struct SignalsAndApprovals;

/// docs/learn/steps.md
#[doc = include_str!("../../../docs/learn/steps.md")]
pub struct DurableSteps;

/// docs/learn/bulk.md
#[doc = include_str!("../../../docs/learn/bulk.md")]
pub struct BulkHandlers;

/// docs/learn/page.md
#[doc = include_str!("../../../docs/learn/page.md")]
pub struct PageViews;

/// docs/learn/rejects.md
#[doc = include_str!("../../../docs/learn/rejects.md")]
pub struct RejectedItems;

/// docs/learn/schedules.md
#[doc = include_str!("../../../docs/learn/schedules.md")]
pub struct ScheduledJobs;
