//! Names that are texts of a fixed form.

use std::borrow::Cow;

use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::failure::{Fingerprint, RuleId};
use crate::job::PlanId;
use crate::redrive::PlanPart;

fn pattern(pattern: &str, says: &str, example: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(pattern))
        .description(Some(says))
        .examples([example])
        .into()
}

written_as! {
    Fingerprint "Fingerprint": pattern("^[0-9a-f]{16}$", "The identity of an incident.", "9f86d081884c7d65"),
    PlanId "PlanId": pattern("^rd-[0-9a-f]{8,16}$", "The identity of a re-drive plan.", "rd-1f0c9a22"),
    RuleId "RuleId": pattern("^[a-z0-9_-]{1,64}$", "The name of a failure rule.", "stolen-cards"),
    PlanPart "PlanPart": pattern("^(canary|batch [0-9]+)$", "The part of a plan in which a job was driven.", "batch 2"),
}
