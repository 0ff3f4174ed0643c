//! `backstop job show`: everything about one job.

use backstop::{JobId, Timestamp};
use backstop_core::job::JobJson;
use backstop_server::shape::ArchivedJob;
use serde_json::json;

use super::named::path;
use crate::app::App;
use crate::client::{Client, query};
use crate::output::figures::grouped;
use crate::output::paint::Colour;
use crate::output::span::{both, length};
use crate::output::table::Properties;
use crate::output::{brief_json, clean};
use crate::problem::Problem;

/// Characters of a payload or a result that a page shows; `--json` shows all.
const VALUE_CHARS: usize = 2_000;

pub(super) async fn run(id: JobId, reveal: bool, client: &Client, app: &App) -> Result<(), Problem> {
    let clear = query([("reveal", reveal.then(|| "true".to_owned()))]);
    let job: JobJson = match client.get(&path(id, &clear)).await {
        Ok(job) => job,
        Err(problem) if problem.is("archived") => return archived(id, &clear, client, app).await,
        Err(problem) => return Err(problem),
    };
    if app.out.json {
        return app.out.document(&job);
    }
    app.out.page(&page(app, &job, client.now().await?))?;
    app.out.note(&format!("\n`backstop job explain {id}` says why it is where it is and what happens next"));
    Ok(())
}

/// A job that ended longer ago than its retention has left the hot tables; what was known of it is still there (L16).
async fn archived(id: JobId, clear: &str, client: &Client, app: &App) -> Result<(), Problem> {
    let found: ArchivedJob = client.get(&format!("/api/v1/archive/{id}{clear}")).await?;
    if app.out.json {
        return app.out.document(&found.job);
    }
    let mut facts = Properties::default();
    facts.add("archived", both(client.now().await?, found.archived_at));
    let document = json!({ "job": found.job, "attempts": found.attempts });
    facts.add("document", brief_json(&document, VALUE_CHARS));
    let state = app.out.ink(Colour::of_state(found.status), found.status.as_str());
    app.out.page(&format!("{id} {state}\n\n{}", facts.page(&app.out)))?;
    app.out.note(&format!("\nit is archived: `backstop archive show {id}` shows all that is kept of it"));
    Ok(())
}

/// A job as a page.
pub(crate) fn page(app: &App, job: &JobJson, now: Timestamp) -> String {
    let state = app.out.ink(Colour::of_state(job.status), job.status.as_str());
    let title = app.out.ink(Colour::Bold, &clean(&job.kind));
    let mut facts = Properties::default();
    submitted(&mut facts, job);
    times(&mut facts, job, now);
    runs(&mut facts, job);
    ending(&mut facts, app, job);
    format!("{title} {} {state}\n\n{}", job.id, facts.page(&app.out))
}

fn submitted(facts: &mut Properties, job: &JobJson) {
    facts.text("queue", Some(&job.queue));
    facts.add("priority", job.priority.to_string());
    facts.add("version", job.version.to_string());
    facts.add("payload", brief_json(&job.payload, VALUE_CHARS));
    if job.params.as_object().is_none_or(|params| !params.is_empty()) {
        facts.add("params", brief_json(&job.params, VALUE_CHARS));
    }
    if !job.tags.is_empty() {
        facts.text("tags", Some(&job.tags.join(", ")));
    }
    facts.text("idempotency key", job.idempotency_key.as_deref());
    facts.text("business key", job.business_key.as_deref());
    facts.text("ordering key", job.ordering_key.as_deref());
    facts.text("limit key", job.limit_key.as_deref());
    facts.text("single instance", job.single_instance.as_deref());
    let permits: Vec<String> = job.permits.iter().map(|(pool, count)| format!("{count} of {pool}")).collect();
    if !permits.is_empty() {
        facts.text("permits", Some(&permits.join(", ")));
    }
    facts.text("dependency", job.dependency.as_deref());
    facts.text("correlation id", job.correlation_id.as_deref());
    if let Some(part) = &job.workflow {
        let step = part.node.as_ref().map_or_else(String::new, |step| format!(", step {}", clean(step)));
        facts.add("workflow", format!("{}{step}", part.id));
    }
    if let Some(fired) = &job.schedule {
        facts.add("schedule", format!("{}, to fire at {}", clean(&fired.name), fired.fire_time));
    }
    if let Some(parent) = job.callback_of {
        facts.add("callback of", parent.to_string());
    }
    if let Some(successor) = job.superseded_by {
        facts.add("superseded by", successor.to_string());
    }
}

fn times(facts: &mut Properties, job: &JobJson, now: Timestamp) {
    facts.add("stored", both(now, job.created_at));
    facts.add("due", both(now, job.run_at));
    for (name, moment) in
        [("started", job.started_at), ("ended", job.finished_at), ("must start by", job.expires_at)]
    {
        if let Some(moment) = moment {
            facts.add(name, both(now, moment));
        }
    }
    if let Some(worker) = &job.worker {
        facts.add("held by", format!("worker {worker} under fence {}", job.fence));
    }
}

fn runs(facts: &mut Properties, job: &JobJson) {
    let policy = &job.policy;
    let counters = job.counters.iter().flatten();
    let causes: Vec<String> = counters.map(|(cause, count)| format!("{count} {cause}")).collect();
    let by_cause = if causes.is_empty() { String::new() } else { format!("  ({})", causes.join(", ")) };
    facts.add("runs", format!("{}{by_cause}", job.runs));
    facts.add("attempts charged", format!("{} of {}", job.attempt, u64::from(policy.max_retries) + 1));
    if job.crashes > 0 {
        facts.add("crashes", format!("{}, {} are forgiven", job.crashes, policy.max_crashes));
    }
    if job.redrives > 0 {
        facts.add("driven again", format!("{} times", job.redrives));
    }
    let backoff = &policy.backoff;
    let growth = format!("{:?}", backoff.growth).to_lowercase();
    let waits =
        format!("from {} to {}, jitter {}", length(backoff.base), length(backoff.cap), backoff.jitter);
    facts.add("backoff", format!("{growth} {waits}"));
    if let Some(timeout) = policy.timeout {
        facts.add("timeout", length(timeout));
    }
    if let Some(wait) = policy.max_wait {
        facts.add("longest wait", length(wait));
    }
    if let Some(most) = policy.max_deferral {
        facts.add("longest deferral", length(most));
    }
}

fn ending(facts: &mut Properties, app: &App, job: &JobJson) {
    if let Some(progress) = &job.progress {
        facts.add("progress", format!("{}% {}", progress.percent, clean(&progress.note)));
    }
    if let Some(result) = &job.result {
        facts.add("result", brief_json(result, VALUE_CHARS));
    }
    if let Some(warning) = &job.warning {
        facts.add("warning", app.out.ink(Colour::Yellow, &clean(warning)));
    }
    if let Some(reason) = job.terminal_reason {
        facts.add(
            "dead because",
            format!("{}: {}", app.out.ink(Colour::Red, reason.as_str()), reason.meaning()),
        );
    }
    facts.text("canceled because", job.cancel_reason.as_deref());
    if let Some(rejects) = &job.rejects {
        let of = if rejects.seen == 0 { String::new() } else { format!(" of {}", grouped(rejects.seen)) };
        let told = format!("{}{of} items in run {}", grouped(rejects.rejected), rejects.run);
        facts.add(
            "rejected",
            format!("{told}, {} stored: backstop reject list --job {}", rejects.stored, job.id),
        );
    }
    for step in &job.steps {
        facts.text("step", Some(&step.sentence()));
    }
    if let (Some(kind), Some(message)) = (&job.error_type, &job.last_error) {
        facts.add("last error", format!("{}: {}", clean(kind), clean(message)));
        facts.text("fingerprint", job.fingerprint.as_deref());
    }
}
