//! The worker on the model store, in paused time: every way a run can end, and every way a worker can stop.

#[path = "runtime/fixture.rs"]
mod fixture;
#[path = "redrive/frail.rs"]
#[expect(dead_code, reason = "not every trouble is made here")]
mod frail;

#[path = "bulk/post.rs"]
mod post;

#[path = "runtime/archive.rs"]
mod archive;
#[path = "runtime/budget.rs"]
mod budget;
#[path = "runtime/bulk.rs"]
mod bulk;
#[path = "runtime/callbacks.rs"]
mod callbacks;
#[path = "runtime/circuits.rs"]
mod circuits;
#[path = "runtime/dependencies.rs"]
mod dependencies;
#[path = "runtime/endings.rs"]
mod endings;
#[path = "runtime/events.rs"]
mod events;
#[path = "runtime/explained.rs"]
mod explained;
#[path = "runtime/failures.rs"]
mod failures;
#[path = "runtime/health.rs"]
mod health;
#[path = "runtime/leases.rs"]
mod leases;
#[path = "runtime/limits.rs"]
mod limits;
#[path = "runtime/maintenance.rs"]
mod maintenance;
#[path = "runtime/own_dependencies.rs"]
mod own_dependencies;
#[path = "runtime/quarantine.rs"]
mod quarantine;
#[path = "runtime/queues.rs"]
mod queues;
#[path = "runtime/remote_failures.rs"]
mod remote_failures;
#[path = "runtime/rules.rs"]
mod rules;
#[path = "runtime/run_checks.rs"]
mod run_checks;
#[path = "runtime/schedules.rs"]
mod schedules;
#[path = "runtime/shutdown.rs"]
mod shutdown;
#[path = "runtime/steps.rs"]
mod steps;
#[path = "runtime/submit.rs"]
mod submit;
