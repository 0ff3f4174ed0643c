//! `backstop job show`: everything about one job.

use backstop::core::job::{JobDetail, JobView};
use backstop::{Backstop, JobId, Timestamp};

use crate::app::{App, no_such_job};
use crate::output::paint::Ink;
use crate::output::span::{both, length};
use crate::output::table::Facts;
use crate::output::{brief, brief_json, clean};
use crate::problem::Problem;

/// Characters of a payload or a result that a page shows; `--json` shows all.
const VALUE_CHARS: usize = 2_000;

pub(super) async fn run(id: JobId, reveal: bool, engine: &Backstop, app: &App) -> Result<(), Problem> {
    let Some(mut detail) = engine.job(id).await? else {
        return archived(id, reveal, engine, app).await;
    };
    // Whoever has the keys and asks for it sees what is sealed (E12).
    detail.view = if reveal { engine.revealed(&detail.view) } else { detail.view.masked(&engine.mask()) };
    if app.out.json {
        return app.out.document(&detail);
    }
    let now = engine.store().now().await?;
    app.out.page(&page(app, &detail, now))?;
    app.out.note(&format!("\n`backstop job explain {id}` says why it is where it is and what happens next"));
    Ok(())
}

/// A job that ended longer ago than its retention has left the hot tables; what was known of it is still there (L16).
async fn archived(id: JobId, reveal: bool, engine: &Backstop, app: &App) -> Result<(), Problem> {
    let found = engine.archived(id).await?.ok_or_else(|| no_such_job(id))?;
    let mut document: serde_json::Value = serde_json::from_str(&found.document).unwrap_or_default();
    if !reveal {
        engine.mask().document(&mut document);
    }
    if app.out.json {
        return app.out.document(&document["job"]);
    }
    let now = engine.store().now().await?;
    let mut facts = Facts::default();
    facts.add("archived", both(now, found.archived_at));
    let shown = if reveal { brief(&found.document, VALUE_CHARS) } else { brief_json(&document, VALUE_CHARS) };
    facts.add("document", shown);
    let state = app.out.ink(Ink::of_state(found.state), found.state.as_str());
    app.out.page(&format!("{id} {state}\n\n{}", facts.page(&app.out)))?;
    app.out.note(&format!("\nit is archived: `backstop archive show {id}` shows all that is kept of it"));
    Ok(())
}

fn page(app: &App, detail: &JobDetail, now: Timestamp) -> String {
    let view = &detail.view;
    let state = app.out.ink(Ink::of_state(view.state()), view.state().as_str());
    let title = app.out.ink(Ink::Bold, &clean(&view.job.spec.kind));
    let mut facts = Facts::default();
    submitted(&mut facts, view);
    times(&mut facts, view, now);
    runs(&mut facts, detail);
    ending(&mut facts, app, view);
    format!("{title} {} {state}\n\n{}", view.job.spec.id, facts.page(&app.out))
}

fn submitted(facts: &mut Facts, view: &JobView) {
    let (spec, record) = (&view.job.spec, &view.record);
    facts.text("queue", Some(&spec.queue));
    facts.add("priority", spec.priority.to_string());
    facts.add("version", spec.version.to_string());
    facts.add("payload", brief(&spec.payload, VALUE_CHARS));
    if let Some(params) = &spec.params {
        facts.add("params", brief(params, VALUE_CHARS));
    }
    if !spec.tags.is_empty() {
        facts.text("tags", Some(&spec.tags.join(", ")));
    }
    facts.text("idempotency key", spec.idempotency_key.as_deref());
    facts.text("business key", spec.business_key.as_deref());
    facts.text("correlation id", spec.correlation_id.as_deref());
    if let Some(parent) = spec.callback_of {
        facts.add("callback of", parent.to_string());
    }
    if let Some(successor) = record.superseded_by {
        facts.add("superseded by", successor.to_string());
    }
}

fn times(facts: &mut Facts, view: &JobView, now: Timestamp) {
    let record = &view.record;
    facts.add("stored", both(now, view.job.created_at));
    facts.add("due", both(now, record.run_at));
    for (name, moment) in
        [("started", view.started_at), ("ended", record.finished_at), ("must start by", record.expires_at)]
    {
        if let Some(moment) = moment {
            facts.add(name, both(now, moment));
        }
    }
    if let Some(hold) = &record.hold {
        facts.add("held by", format!("worker {} under fence {}", hold.worker, record.fence));
    }
}

fn runs(facts: &mut Facts, detail: &JobDetail) {
    let (policy, record) = (&detail.view.job.spec.policy, &detail.view.record);
    let causes: Vec<String> =
        detail.counters.iter().map(|(cause, count)| format!("{count} {cause}")).collect();
    let by_cause = if causes.is_empty() { String::new() } else { format!("  ({})", causes.join(", ")) };
    facts.add("runs", format!("{}{by_cause}", record.runs));
    facts.add("attempts charged", format!("{} of {}", record.attempt, u64::from(policy.max_retries) + 1));
    if record.crashes > 0 {
        facts.add("crashes", format!("{}, {} are forgiven", record.crashes, policy.max_crashes));
    }
    if record.redrives > 0 {
        facts.add("driven again", format!("{} times", record.redrives));
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
}

fn ending(facts: &mut Facts, app: &App, view: &JobView) {
    let record = &view.record;
    if let Some(progress) = &record.progress {
        facts.add("progress", format!("{}% {}", progress.percent, clean(&progress.note)));
    }
    if let Some(result) = &view.result {
        facts.add("result", brief(result, VALUE_CHARS));
    }
    if let Some(warning) = &view.warning {
        facts.add("warning", app.out.ink(Ink::Yellow, &clean(warning)));
    }
    if let Some(reason) = record.reason {
        facts
            .add("dead because", format!("{}: {}", app.out.ink(Ink::Red, reason.as_str()), reason.meaning()));
    }
    facts.text("canceled because", record.cancel_reason.as_deref());
    if let Some(failure) = &view.last_failure {
        facts.add("last error", format!("{}: {}", clean(&failure.error_type), clean(&failure.message)));
        facts.text("fingerprint", Some(failure.fingerprint.as_ref()));
    }
}
