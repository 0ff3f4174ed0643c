//! One file per view: what is asked of the API, and how the answer is drawn.

pub(super) mod alerts;
pub(super) mod archive;
pub(super) mod audit;
pub(super) mod bridges;
pub(super) mod circuits;
pub(super) mod incident;
pub(super) mod incidents;
pub(super) mod job;
pub(super) mod jobs;
pub(super) mod limits;
mod needs;
pub(super) mod overview;
pub(super) mod parked;
pub(super) mod queues;
pub(super) mod redrive;
pub(super) mod redrive_new;
pub(super) mod redrives;
pub(super) mod rejects;
pub(super) mod rules;
pub(super) mod schedules;
pub(super) mod signals;
pub(super) mod submit;
pub(super) mod tokens;
pub(super) mod webhooks;
pub(super) mod workers;
pub(super) mod workflow;
pub(super) mod workflows;
