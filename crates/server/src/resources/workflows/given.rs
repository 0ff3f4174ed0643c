//! Steps and jobs as they are sent, on their way into a workflow or a batch.

use std::fmt::Write as _;

use backstop::workflows::{Condition, WorkflowBuilder, predicate_kind};
use backstop::{Callback, Enqueue};
use backstop_core::workflow::ShapeNode;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;

use crate::access::Caller;
use crate::api::Api;
use crate::body::read_part;
use crate::error::ApiError;
use crate::resources::submit::{self, TraceParent};
use crate::shape::{CallbackJob, NodePart, SubmitJob};

/// A step as it was sent, added to its workflow.
pub(super) async fn add_node(
    api: &Api,
    caller: &Caller,
    trace: &TraceParent,
    flow: &mut WorkflowBuilder,
    text: &RawValue,
) -> Result<(), ApiError> {
    let fields: NodeFields<'_> = read_part("the step", text.get().as_bytes())?;
    let (own, job) = fields.split();
    let NodePart { name, after, join, when, payload_from } = read_part("the step", own.as_bytes())?;
    if let Condition::Predicate(predicate) = &when {
        submit::room_for(api, caller, [(None, &*predicate_kind(predicate))]).await?;
    }
    let job = prepared(api, caller, trace, &job).await?;
    let node = ShapeNode {
        name: name.into(),
        after: after.into_iter().map(Into::into).collect(),
        join,
        when,
        payload_from: payload_from.map(Into::into),
    };
    flow.node(node, job);
    Ok(())
}

/// A job of a workflow or a batch, from its text.
pub(super) async fn prepared(
    api: &Api,
    caller: &Caller,
    trace: &TraceParent,
    text: &str,
) -> Result<Enqueue, ApiError> {
    let mut job: SubmitJob<'_> = read_part("the job", text.as_bytes())?;
    trace.belongs(&mut job);
    submit::keys_are_own(api, caller, &mut job).await?;
    submit::has_room(api, caller, &job).await?;
    submit::prepare(api, caller, job)
}

/// The fields of a step, each as it was sent.
struct NodeFields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for NodeFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }
        Ok(Self(deserializer.deserialize_map(Fields)?))
    }
}

impl NodeFields<'_> {
    /// What the step says of itself, and what it says of its job: two objects.
    fn split(&self) -> (String, String) {
        let object = |own: bool| {
            let mut text = String::from("{");
            for (name, value) in &self.0 {
                if NodePart::FIELDS.contains(&name.as_str()) == own {
                    let comma = if text.len() > 1 { "," } else { "" };
                    let _ = write!(text, "{comma}{}:{value}", json!(name));
                }
            }
            text.push('}');
            text
        };
        (object(true), object(false))
    }
}

/// What follows when all of it has ended.
pub(super) async fn callbacks(
    api: &Api,
    caller: &Caller,
    on_success: Option<CallbackJob<'_>>,
    on_failure: Option<CallbackJob<'_>>,
) -> Result<(Option<Callback>, Option<Callback>), ApiError> {
    let both = [&on_success, &on_failure].into_iter().flatten();
    submit::room_for(api, caller, both.map(|job| (job.queue.as_deref(), &*job.kind))).await?;
    let callback = |job: Option<CallbackJob<'_>>| job.map(|job| submit::callback(caller, &job)).transpose();
    Ok((callback(on_success)?, callback(on_failure)?))
}
