//! Every change that the page can make, and the route of the API that makes it. There is no other way to change
//! anything from here.

use std::collections::HashMap;

use axum::http::StatusCode;
use backstop::State;
use serde_json::{Map, Value};

use super::call::PageProblem;

/// How a field of a form becomes a field of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum FieldSort {
    /// As it is.
    Text,
    /// A whole number.
    Number,
    /// True when it is there.
    Flag,
    /// Any JSON.
    Json,
    /// Words between commas.
    List,
}

/// A change.
#[derive(Debug)]
pub(super) struct PageAction {
    pub(super) name: &'static str,
    /// What makes it, such as `POST /api/v1/jobs/{id}/cancel`.
    pub(super) route: &'static str,
    /// What may be said with it. A dot leads into an object.
    fields: &'static [(&'static str, FieldSort)],
    /// What is said when it is done.
    done: &'static str,
    /// Where to go then, with a field of the answer in braces; back to where it was asked for unless given.
    pub(super) then: Option<&'static str>,
}

macro_rules! actions {
    ($(
        $id:ident $name:literal $method:ident $route:literal { $($field:literal: $sort:ident),* } $done:literal
        $(then $then:literal)?;
    )*)
        => {
        $(pub(super) const $id: PageAction = PageAction {
            name: $name,
            route: concat!(stringify!($method), " ", $route),
            fields: &[$(($field, FieldSort::$sort)),*],
            done: $done,
            then: actions!(@then $($then)?),
        };)*
        const ALL: &[&PageAction] = &[$(&$id),*];
    };
    (@then) => { None };
    (@then $then:literal) => { Some($then) };
}

actions! {
    INCIDENT_ACK "incident.ack" POST "/api/v1/incidents/{fingerprint}/ack" { "note": Text } "You look after it now.";
    INCIDENT_MUTE "incident.mute" POST "/api/v1/incidents/{fingerprint}/mute" { "note": Text }
    "It is muted: no alert will tell of it.";
    INCIDENT_REOPEN "incident.reopen" POST "/api/v1/incidents/{fingerprint}/reopen" { "note": Text }
    "It is open again.";
    INCIDENT_FIXED "incident.fixed" POST "/api/v1/incidents/{fingerprint}/fixed" { "version": Text, "note": Text }
    "It is marked as fixed.";
    REDRIVE_MAKE "redrive.make" POST "/api/v1/redrives" {
        "incident": Text, "kind": Text, "queue": Text, "tag": Text, "reason": Text,
        "finished_after": Text, "finished_before": Text, "all": Flag,
        "settings.canary": Number, "settings.batch": Number, "settings.per_second": Number,
        "settings.in_flight": Number, "settings.ceiling": Number, "settings.max_failures": Number,
        "needs": Text, "note": Text
    } "The plan is made. Nothing is driven before you start it." then "/redrives/{plan.id}";
    REDRIVE_START "redrive.start" POST "/api/v1/redrives/{id}/start" {} "The plan has started with its canary.";
    REDRIVE_PAUSE "redrive.pause" POST "/api/v1/redrives/{id}/pause" {} "The plan is paused.";
    REDRIVE_RESUME "redrive.resume" POST "/api/v1/redrives/{id}/resume" {} "The plan goes on.";
    REDRIVE_CANCEL "redrive.cancel" POST "/api/v1/redrives/{id}/cancel" {} "The plan is canceled.";
    JOB_CANCEL "job.cancel" POST "/api/v1/jobs/{id}/cancel" { "reason": Text } "The job is canceled.";
    JOB_PAUSE "job.pause" POST "/api/v1/jobs/{id}/pause" {} "The job is paused.";
    JOB_RESUME "job.resume" POST "/api/v1/jobs/{id}/resume" {} "The job goes on.";
    JOB_RETRY "job.retry" POST "/api/v1/jobs/{id}/retry" {} "The job is driven again, with all its attempts.";
    JOBS_CHANGE "jobs.change" POST "/api/v1/jobs/change" {
        "change": Text, "status": Text, "queue": Text, "kind": Text, "tag": Text, "business_key": Text, "reason": Text,
        "fingerprint": Text, "created_after": Text, "created_before": Text, "finished_after": Text,
        "finished_before": Text, "note": Text, "all": Flag, "expected": Number
    } "It is done. What is still here came later, or moved on meanwhile, or was beyond the 10,000 of one go.";
    DEAD_PURGE "dead.purge" POST "/api/v1/dead-letters/purge" {
        "queue": Text, "kind": Text, "tag": Text, "business_key": Text, "reason": Text, "fingerprint": Text,
        "created_after": Text, "created_before": Text, "finished_after": Text, "finished_before": Text, "all": Flag
    } "They are gone. What is still here came later, or moved on meanwhile, or was beyond the 500 of one go.";
    JOB_SUBMIT "job.submit" POST "/api/v1/jobs" {
        "kind": Text, "payload": Json, "queue": Text, "priority": Number, "delay_ms": Number, "max_retries": Number,
        "idempotency_key": Text, "business_key": Text, "ordering_key": Text, "tags": List, "params": Json,
        "run_at": Text, "expires_at": Text, "timeout_ms": Number, "limit_key": Text, "single_instance": Text,
        "correlation_id": Text
    } "The job is stored." then "/jobs/{id}";
    QUEUE_PAUSE "queue.pause" POST "/api/v1/queues/{name}/pause" { "note": Text } "The queue is paused.";
    QUEUE_RESUME "queue.resume" POST "/api/v1/queues/{name}/resume" {} "The queue goes on.";
    KEY_SKIP "key.skip" POST "/api/v1/ordering-keys/{key}/skip" {}
    "The blocking job is canceled; the ones behind it go on.";
    WORKFLOW_CANCEL "workflow.cancel" POST "/api/v1/workflows/{id}/cancel" { "reason": Text }
    "The workflow is canceled.";
    WORKFLOW_PAUSE "workflow.pause" POST "/api/v1/workflows/{id}/pause" {} "The workflow is paused.";
    WORKFLOW_RESUME "workflow.resume" POST "/api/v1/workflows/{id}/resume" {} "The workflow goes on.";
    BATCH_CANCEL "batch.cancel" POST "/api/v1/batches/{id}/cancel" { "reason": Text } "The batch is canceled.";
    BATCH_PAUSE "batch.pause" POST "/api/v1/batches/{id}/pause" {} "The batch is paused.";
    BATCH_RESUME "batch.resume" POST "/api/v1/batches/{id}/resume" {} "The batch goes on.";
    BATCH_SEAL "batch.seal" POST "/api/v1/batches/{id}/seal" {} "The batch is sealed: no more jobs are added.";
    SIGNAL_SEND "signal.send" POST "/api/v1/signals" { "key": Text, "payload": Json, "id": Text }
    "The signal is sent.";
    SCHEDULE_PAUSE "schedule.pause" POST "/api/v1/schedules/{name}/pause" {} "The schedule is paused.";
    SCHEDULE_RESUME "schedule.resume" POST "/api/v1/schedules/{name}/resume" {} "The schedule goes on.";
    SCHEDULE_DELETE "schedule.delete" DELETE "/api/v1/schedules/{name}" {}
    "The schedule is gone." then "/schedules";
    SCHEDULE_RUN "schedule.run" POST "/api/v1/schedules/{name}/run" {}
    "A job of the schedule is submitted." then "/jobs/{id}";
    SCHEDULE_BACKFILL "schedule.backfill" POST "/api/v1/schedules/{name}/backfill" { "from": Text, "to": Text }
    "Every fire time of that range has its job now.";
    BRIDGE_PAUSE "bridge.pause" POST "/api/v1/bridges/{name}/pause" {} "The bridge is paused within five seconds.";
    BRIDGE_RESUME "bridge.resume" POST "/api/v1/bridges/{name}/resume" {} "The bridge goes on within five seconds.";
    BRIDGE_DELETE "bridge.delete" DELETE "/api/v1/bridges/{name}" {}
    "The bridge is gone, with what waited for it." then "/bridges";
    INVALID_PURGE "invalid.purge" POST "/api/v1/bridges/{name}/invalid/purge" { "keys": Json }
    "The messages are gone.";
    CIRCUIT_OPEN "circuit.open" POST "/api/v1/circuits/{key}/open" { "for_ms": Number }
    "The circuit is open: its jobs wait.";
    CIRCUIT_CLOSE "circuit.close" POST "/api/v1/circuits/{key}/close" {} "The circuit is closed: its jobs go on.";
    HANDOFF_RETRY "handoff.retry" POST "/api/v1/handoffs/{name}/retry" {} "The hand-off goes on.";
    HANDOFF_DELETE "handoff.delete" DELETE "/api/v1/handoffs/{name}" {}
    "The hand-off is gone, with what waited for it.";
    ARCHIVE_PRUNE "archive.prune" POST "/api/v1/archive/prune" { "keep_ms": Number }
    "They are gone. What is still here came later, or was beyond the 500 of one go.";
    RULE_ENABLE "rule.enable" POST "/api/v1/rules/{id}/enable" {} "The rule is in force.";
    RULE_DISABLE "rule.disable" POST "/api/v1/rules/{id}/disable" {} "The rule is out of force.";
    RULE_DELETE "rule.delete" DELETE "/api/v1/rules/{id}" {} "The rule is gone.";
    TOKEN_REVOKE "token.revoke" DELETE "/api/v1/tokens/{name}" {} "The token is revoked, and its sessions have ended.";
    RULE_MAKE "rule.make" POST "/api/v1/rules" {
        "id": Text, "note": Text, "matches.kind": Text, "matches.queue": Text, "matches.error_type": Text,
        "matches.text": Text, "action": Json, "enabled": Json
    } "The rule is made." then "/rules";
    LIMIT_SET "limit.set" PUT "/api/v1/limits/{name}" {
        "queue": Text, "kind": Text, "by": Text, "concurrency": Number, "rate.count": Number, "rate.per_ms": Number,
        "permits": Number
    } "The limit is in force on every worker." then "/limits";
    WEBHOOK_DELETE "webhook.delete" DELETE "/api/v1/webhooks/{id}" {} "The webhook is gone.";
    LIMIT_DELETE "limit.delete" DELETE "/api/v1/limits/{name}" {} "The limit is gone.";
}

/// The action of this name.
pub(super) fn named(name: &str) -> Option<&'static PageAction> {
    ALL.iter().find(|action| action.name == name).copied()
}

/// What an address begins with that says that nothing was changed; how it is stands behind it.
pub(super) const SAME: &str = "same.";

/// What is said when an action is done, or when there was nothing to do. It stands in the address, where anybody can
/// write anything: only words that we know are shown.
pub(super) fn said(done: &str) -> Option<String> {
    let Some(status) = done.strip_prefix(SAME) else {
        return ALL.iter().find(|action| action.name == done).map(|action| action.done.to_owned());
    };
    let states = State::ALL.iter().map(ToString::to_string);
    let known = states.chain(["revoked", "removed"].map(str::to_owned));
    Some(match known.into_iter().find(|word| word == status) {
        Some(word) => format!("Nothing was changed: it is {word}."),
        None => "Nothing was changed: it was so already.".to_owned(),
    })
}

/// The fields of a form.
pub(super) struct PageFields(HashMap<String, String>);

impl PageFields {
    pub(super) fn read(body: &[u8]) -> Self {
        Self(
            form_urlencoded::parse(body)
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// What a field says; empty ones say nothing.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.trim().is_empty())
    }
}

/// The body of the call; none where there is nothing to say.
pub(super) fn body(action: &PageAction, form: &PageFields) -> Result<Option<Value>, PageProblem> {
    let mut body = Map::new();
    for (name, sort) in action.fields {
        let Some(text) = form.get(name) else { continue };
        let value = field(name, *sort, text)?;
        match name.split_once('.') {
            Some((object, name)) => {
                let inner = body.entry(object).or_insert_with(|| Value::Object(Map::new()));
                inner[name] = value;
            }
            None => {
                body.insert((*name).to_owned(), value);
            }
        }
    }
    Ok((!action.fields.is_empty() && !body.is_empty()).then_some(Value::Object(body)))
}

fn field(name: &str, sort: FieldSort, text: &str) -> Result<Value, PageProblem> {
    let wrong = |what: &str| {
        let message = format!("the field `{name}` is not {what}");
        PageProblem::new(StatusCode::UNPROCESSABLE_ENTITY, &message, "go back and correct it")
    };
    Ok(match sort {
        FieldSort::Text => Value::from(text.trim()),
        FieldSort::Number => Value::from(text.trim().parse::<u64>().map_err(|_| wrong("a whole number"))?),
        FieldSort::Flag => Value::from(true),
        FieldSort::Json => serde_json::from_str(text).map_err(|_| wrong("valid JSON"))?,
        FieldSort::List => {
            text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect::<Vec<_>>().into()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_is_a_route_of_the_api() {
        let routes: Vec<String> =
            crate::routes::table().into_iter().map(|one| format!("{} {}", one.method, one.path)).collect();
        for action in ALL {
            assert!(routes.iter().any(|route| route == action.route), "{}: {}", action.name, action.route);
            assert_eq!(ALL.iter().filter(|one| one.name == action.name).count(), 1, "{}", action.name);
        }
    }

    #[test]
    fn an_address_says_only_what_we_have_said() {
        assert_eq!(said("job.cancel").as_deref(), Some("The job is canceled."));
        assert_eq!(said("same.failed").as_deref(), Some("Nothing was changed: it is failed."));
        assert_eq!(said("same.<b>").as_deref(), Some("Nothing was changed: it was so already."));
        assert_eq!(said("you have won"), None);
    }

    #[test]
    fn a_form_becomes_the_body_that_the_api_takes() {
        let form = PageFields::read(b"incident=9f86d081884c7d65&settings.canary=2&kind=&note=+why+&all=");
        let body = body(&REDRIVE_MAKE, &form).unwrap().unwrap();
        assert_eq!(
            body,
            serde_json::json!({ "incident": "9f86d081884c7d65", "settings": { "canary": 2 }, "note": "why" })
        );
        let wrong = PageFields::read(b"settings.canary=two");
        assert!(super::body(&REDRIVE_MAKE, &wrong).is_err());
    }
}
