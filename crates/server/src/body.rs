//! What requests bring, read in one way: JSON bodies, queries, parts of the path. Whatever cannot be read is refused in
//! the one shape, with the name of the field. What the values mean is for the handlers.

use axum::extract::{FromRequest, FromRequestParts, OptionalFromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Collected};
use hyper::body::Bytes;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::error::Category;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::error::ApiError;

/// Characters of a reader's complaint that are repeated to the caller; it may quote what the caller sent.
const COMPLAINT_CHARS: usize = 300;

/// A JSON body that holds a `T`; `Option<Body<T>>` where it may be left out.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

/// The bytes of a JSON body, for handlers that read it without copies with [`read`].
#[derive(Debug)]
pub(crate) struct RawBody(pub(crate) Bytes);

/// The query as a `T`, whose fields are all optional and which refuses unknown ones.
#[derive(Debug)]
pub(crate) struct QueryParams<T>(pub(crate) T);

/// The parameters of the path.
#[derive(Debug)]
pub(crate) struct PathParams<T>(pub(crate) T);

/// How many rows a page has at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "u32")]
#[schema(minimum = 1, maximum = 1000, default = 50)]
#[schema(as = Limit)]
pub struct PageLimit(u32);

impl PageLimit {
    /// The most rows that one page has.
    pub const MOST: u32 = 1_000;

    /// As a count.
    #[must_use]
    pub fn rows(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl Default for PageLimit {
    fn default() -> Self {
        Self(50)
    }
}

impl TryFrom<u32> for PageLimit {
    type Error = String;

    fn try_from(rows: u32) -> Result<Self, String> {
        if (1..=Self::MOST).contains(&rows) {
            Ok(Self(rows))
        } else {
            Err(format!("{rows} is not between 1 and {}", Self::MOST))
        }
    }
}

/// Reads JSON as a `T` that may borrow from it.
///
/// # Errors
/// 400 when it is no JSON, 422 with the field when it is other JSON than expected.
pub(crate) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, ApiError> {
    read_part("the body", bytes)
}

/// The same for a part of a body that stands for itself, such as one item of many.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_part<'a, T: Deserialize<'a>>(what: &str, bytes: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(bytes).map(|Object(found)| found).map_err(|error| match error.classify() {
        Category::Data => {
            // Read once more, now keeping track of where it is: only a refused request pays for that.
            let mut reader = serde_json::Deserializer::from_slice(bytes);
            match serde_path_to_error::deserialize::<_, Object<T>>(&mut reader) {
                Err(error) => wrong_field(&error.path().to_string(), &error.inner().to_string()),
                Ok(_) => wrong_field(".", &error.to_string()),
            }
        }
        _ => not_readable(what, &error),
    })
}

/// Reads any JSON.
///
/// # Errors
/// 400 when it is none.
pub(crate) fn read_any(bytes: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(bytes).map_err(|error| not_readable("the body", &error))
}

fn not_readable(what: &str, error: &serde_json::Error) -> ApiError {
    ApiError::unreadable(format!("{what} is not valid JSON: {}", brief(&error.to_string())))
        .hint("send one JSON value, in UTF-8")
}

/// A `T` that was sent as an object: readers of structs would also take a list of its values in order, which no
/// description of the API allows.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectReader(std::marker::PhantomData)).map(Self)
    }
}

struct ObjectReader<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectReader<T> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// For `#[serde(deserialize_with)]` on a field that holds an object, which may be null.
///
/// # Errors
/// When it is anything else.
pub(crate) fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::<Object<T>>::deserialize(deserializer)?.map(|Object(found)| found))
}

/// The same for a list of objects.
///
/// # Errors
/// When it is anything else, or one of them is.
pub(crate) fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Vec::<Object<T>>::deserialize(deserializer)?.into_iter().map(|Object(found)| found).collect())
}

/// The same for JSON that is kept as it was written, `null` included.
///
/// # Errors
/// Those of the reader.
pub(crate) fn raw<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// A refusal of one field of a body or a query.
pub(crate) fn wrong_field(path: &str, problem: &str) -> ApiError {
    let field = match (path, named(problem)) {
        ("." | "?", name) => name.unwrap_or_default().to_owned(),
        (path, Some(name)) if path != name && !path.ends_with(&format!(".{name}")) => {
            format!("{path}.{name}")
        }
        (path, _) => path.to_owned(),
    };
    let (field, problem) = (brief(&field), brief(problem));
    let message = if field.is_empty() { problem } else { format!("{field} is invalid: {problem}") };
    ApiError::invalid(message)
        .hint("/api/v1/openapi.json says what each request takes")
        .details(if field.is_empty() { Value::Null } else { json!({ "field": field }) })
}

/// The field that a reader's complaint is about, where it says so itself.
fn named(problem: &str) -> Option<&str> {
    let complaints = ["unknown field `", "missing field `", "duplicate field `"];
    let rest = complaints.into_iter().find_map(|complaint| problem.strip_prefix(complaint))?;
    rest.split('`').next()
}

fn brief(text: &str) -> String {
    text.chars().take(COMPLAINT_CHARS).collect()
}

/// True for bodies that say that they are JSON, or something written in it, such as `application/cloudevents+json`: a
/// form on a stranger's page can send neither.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(said)) = headers.get(CONTENT_TYPE).map(|value| value.to_str()) else { return false };
    let essence = said.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let form = essence.strip_prefix("application/").unwrap_or_default();
    form == "json" || form.ends_with("+json")
}

/// The body, which the door has read and measured.
async fn bytes(request: Request) -> Result<Bytes, ApiError> {
    let whole = request.into_body().collect().await;
    whole
        .map(Collected::to_bytes)
        .map_err(|_| ApiError::unreadable("the body did not arrive whole").hint("send it again"))
}

fn not_json() -> ApiError {
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    ApiError::new(status, "unsupported_media_type", "the body does not say that it is JSON")
        .hint("send it with `Content-Type: application/json`")
}

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            return Err(not_json());
        }
        Ok(Self(bytes(request).await?))
    }
}

impl<S: Send + Sync> OptionalFromRequest<S> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Option<Self>, ApiError> {
        let json = is_json(request.headers());
        let bytes = bytes(request).await?;
        match (bytes.is_empty(), json) {
            (true, _) => Ok(None),
            (false, false) => Err(not_json()),
            (false, true) => Ok(Some(Self(bytes))),
        }
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let RawBody(bytes) = <RawBody as FromRequest<S>>::from_request(request, state).await?;
        Ok(Self(read(&bytes)?))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> OptionalFromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Option<Self>, ApiError> {
        let body = <RawBody as OptionalFromRequest<S>>::from_request(request, state).await?;
        body.map(|RawBody(bytes)| read(&bytes).map(Self)).transpose()
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let pairs = serde_urlencoded::Deserializer::new(form_urlencoded::parse(
            parts.uri.query().unwrap_or_default().as_bytes(),
        ));
        serde_path_to_error::deserialize(pairs)
            .map(Self)
            .map_err(|error| wrong_field(&error.path().to_string(), &error.inner().to_string()))
    }
}

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match axum::extract::Path::<T>::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(found)) => Ok(Self(found)),
            // A name that is no name names nothing.
            Err(_) => Err(ApiError::not_found("no_such_path", "there is nothing at this path")
                .hint("/api/v1/openapi.json lists every path")),
        }
    }
}

#[cfg(test)]
mod tests;
