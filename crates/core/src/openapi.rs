//! How values that are written by hand look in an OpenAPI document.

use std::borrow::Cow;

use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::id::{Fence, JobId, WorkerId, WorkflowId};
use crate::job::Priority;
use crate::time::Timestamp;

fn text(format: &str, says: &str, example: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::Custom(format.to_owned())))
        .description(Some(says))
        .examples([example])
        .into()
}

macro_rules! written_as {
    ($($type:ident $name:literal: $schema:expr,)*) => {$(
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                $schema
            }
        }

        impl ToSchema for $type {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed($name)
            }
        }
    )*};
}

written_as! {
    Timestamp "Timestamp": text("date-time", "A time, as in RFC 3339.", "2026-11-15T09:30:00Z"),
    JobId "JobId": text("uuid", "A job's identity.", "0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f"),
    WorkerId "WorkerId": text(
        "uuid",
        "One incarnation of a worker.",
        "0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f"
    ),
    WorkflowId "WorkflowId": text(
        "uuid",
        "The identity of a workflow or a batch.",
        "0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f"
    ),
    Fence "Fence": ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .description(Some("The number of one hold on a job."))
        .into(),
    Priority "Priority": ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(0))
        .maximum(Some(4))
        .description(Some("How urgent a job is: 0 lowest, 1 low, 2 normal, 3 high, 4 critical."))
        .into(),
}

mod patterns;
