//! What is known of jobs and workers: filters, pages and views.
//!
//! ```
//! use backstop::prelude::*;
//! use backstop::query::{JobFilter, PageRequest};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> JobResult {
//! let engine = Backstop::open("memory:").await?;
//! engine.enqueue_raw("report", "{}").tag("nightly").submit().await?;
//! let nightly = JobFilter { tag: Some("nightly".into()), ..JobFilter::default() };
//! let page = engine.jobs(nightly, PageRequest::first(50)).await?;
//! assert_eq!(&*page.items[0].job.spec.kind, "report");
//! # Ok(()) }
//! ```

pub use backstop_core::explain::Explanation;
pub use backstop_core::failure::{Check, Decision};
pub use backstop_core::job::{
    Attempt, AttemptJson, FailureRecord, Header, JobDetail, JobJson, JobView, NewJob, Operated, Progress,
    Record, Spec, Start, StoredJob,
};
pub use backstop_core::{Fence, Lease};
pub use backstop_store::{
    Finding, JobFilter, Level, Page, PageRequest, Submitted, Survey, SurveyGroup, WorkerView,
};
