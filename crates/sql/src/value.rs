//! Values on their way into statements, in the few types that the tables have.
//!
//! Every driver through which a caller's own transaction can come binds these, so that one set of statements serves
//! them all. How a dialect writes text that its server cannot hold is the dialect's business.

use std::borrow::Cow;
use std::time::Duration;

use backstop_core::{JobId, Timestamp, WorkerId};
use uuid::Uuid;

/// A parameter of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A number, or NULL.
    Int(Option<i64>),
    /// A truth.
    Bool(bool),
    /// Text, or NULL.
    Text(Option<String>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// The id of a job or a worker, or NULL.
    Id(Option<Uuid>),
    /// A list of numbers.
    Ints(Vec<Option<i64>>),
    /// A list of truths.
    Bools(Vec<bool>),
    /// A list of texts.
    Texts(Vec<Option<String>>),
    /// A list of bytes.
    Blobs(Vec<Vec<u8>>),
    /// A list of ids.
    Ids(Vec<Option<Uuid>>),
}

impl Value {
    /// A piece of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(Some(text.into()))
    }

    /// A piece of text, or NULL.
    pub fn maybe_text(text: Option<impl Into<String>>) -> Self {
        Self::Text(text.map(Into::into))
    }

    /// A number.
    pub fn int(number: impl Into<i64>) -> Self {
        Self::Int(Some(number.into()))
    }

    /// A moment.
    #[must_use]
    pub const fn at(moment: Timestamp) -> Self {
        Self::Int(Some(moment.as_micros()))
    }

    /// A moment, or NULL.
    #[must_use]
    pub fn maybe_at(moment: Option<Timestamp>) -> Self {
        Self::Int(moment.map(Timestamp::as_micros))
    }

    /// A span of time that is added to a moment. The sum stays far below what 64 bits hold.
    #[must_use]
    pub fn span(span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self::Int(Some(micros.min(Timestamp::MAX.as_micros())))
    }

    /// A count of rows.
    #[must_use]
    pub fn count(number: usize) -> Self {
        Self::Int(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }

    /// A job.
    #[must_use]
    pub const fn job(id: JobId) -> Self {
        Self::Id(Some(id.as_uuid()))
    }

    /// A job, or NULL.
    #[must_use]
    pub fn maybe_job(id: Option<JobId>) -> Self {
        Self::Id(id.map(|id| id.as_uuid()))
    }

    /// A worker.
    #[must_use]
    pub const fn worker(id: WorkerId) -> Self {
        Self::Id(Some(id.as_uuid()))
    }

    /// Several jobs.
    pub fn jobs<'a>(ids: impl IntoIterator<Item = &'a JobId>) -> Self {
        Self::Ids(ids.into_iter().map(|id| Some(id.as_uuid())).collect())
    }

    /// Several workers.
    pub fn workers<'a>(ids: impl IntoIterator<Item = &'a WorkerId>) -> Self {
        Self::Ids(ids.into_iter().map(|id| Some(id.as_uuid())).collect())
    }

    /// Several numbers.
    pub fn ints(numbers: impl IntoIterator<Item = i64>) -> Self {
        Self::Ints(numbers.into_iter().map(Some).collect())
    }

    /// Several pieces of text.
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::Texts(texts.into_iter().map(|text| Some(text.into())).collect())
    }
}

/// A statement with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The text, on the tables as they are named by default.
    pub sql: Cow<'static, str>,
    /// The parameters, in order.
    pub params: Vec<Value>,
}

impl Query {
    /// A statement with these parameters.
    pub fn new(sql: impl Into<Cow<'static, str>>, params: Vec<Value>) -> Self {
        Self { sql: sql.into(), params }
    }
}
