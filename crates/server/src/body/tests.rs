//! Tests of [`super`].

use super::*;
use axum::body::Body as Sent;
use axum::http::Method;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    #[serde(default)]
    name: Option<String>,
    #[serde(default, deserialize_with = "object")]
    inner: Option<Inner>,
    #[serde(default)]
    limit: Option<PageLimit>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Inner {
    #[serde(rename = "count")]
    _count: u32,
}

fn sent(content_type: Option<&str>, body: &str) -> Request {
    let mut request = Request::builder().method(Method::POST).uri("/");
    if let Some(content_type) = content_type {
        request = request.header(CONTENT_TYPE, content_type);
    }
    request.body(Sent::from(body.to_owned())).expect("a request")
}

async fn refused(content_type: Option<&str>, body: &str) -> (u16, &'static str, Value) {
    let read = <JsonBody<Wanted> as FromRequest<()>>::from_request(sent(content_type, body), &()).await;
    let error = read.err().unwrap_or_else(|| panic!("{body} was taken"));
    (error.status().as_u16(), error.code(), error.to_json()["details"]["field"].clone())
}

#[tokio::test]
async fn bodies_are_refused_by_what_is_wrong_with_them() {
    // E10
    let json = Some("application/json");
    for (content_type, body, status, code, field) in [
        (None, "{}", 415, "unsupported_media_type", Value::Null),
        (Some("text/plain"), "{}", 415, "unsupported_media_type", Value::Null),
        (Some("application/x-www-form-urlencoded"), "a=b", 415, "unsupported_media_type", Value::Null),
        (json, "", 400, "unreadable", Value::Null),
        (json, "{", 400, "unreadable", Value::Null),
        (json, "{} {}", 400, "unreadable", Value::Null),
        (json, "[]", 422, "invalid", Value::Null),
        (json, r#"{"nmae": "x"}"#, 422, "invalid", "nmae".into()),
        (json, r#"{"name": 3}"#, 422, "invalid", "name".into()),
        (json, r#"{"name": "a", "name": "b"}"#, 422, "invalid", "name".into()),
        (json, r#"{"inner": {"count": -1}}"#, 422, "invalid", "inner.count".into()),
        (json, r#"{"inner": [1]}"#, 422, "invalid", "inner".into()),
        (json, r#"{"inner": {"count": 1, "more": 2}}"#, 422, "invalid", "inner.more".into()),
        (json, r#"{"limit": 0}"#, 422, "invalid", "limit".into()),
        (json, r#"{"limit": 1001}"#, 422, "invalid", "limit".into()),
    ] {
        assert_eq!(refused(content_type, body).await, (status, code, field), "{body}");
    }
}

#[tokio::test]
async fn a_body_that_may_be_left_out_is_still_checked_when_it_is_there() {
    let read =
        async |request| <JsonBody<Wanted> as OptionalFromRequest<()>>::from_request(request, &()).await;
    assert!(read(sent(None, "")).await.expect("no body").is_none());
    assert!(read(sent(Some("application/json"), "")).await.expect("no body").is_none());
    let there = read(sent(Some("Application/JSON; charset=utf-8"), r#"{"name":"x"}"#)).await;
    assert_eq!(there.expect("fine").expect("there").0.name.as_deref(), Some("x"));
    let other = read(sent(Some("application/cloudevents+json"), r#"{"name":"y"}"#)).await;
    assert_eq!(other.expect("fine").expect("there").0.name.as_deref(), Some("y"));
    assert_eq!(read(sent(None, "{}")).await.expect_err("no type").status().as_u16(), 415);
    assert_eq!(read(sent(Some("application/json"), "no")).await.expect_err("no JSON").status().as_u16(), 400);
}

#[tokio::test]
async fn queries_are_refused_with_the_name_of_the_key() {
    let read = async |query: &str| {
        let request = Request::get(format!("/?{query}")).body(()).expect("a request");
        QueryParams::<Wanted>::from_request_parts(&mut request.into_parts().0, &()).await
    };
    let QueryParams(fine) = read("name=a%20b&limit=7").await.expect("fine");
    assert_eq!((fine.name.as_deref(), fine.limit.map(PageLimit::rows)), (Some("a b"), Some(7)));
    assert!(fine.inner.is_none());
    for (query, field) in
        [("lmit=3", "lmit"), ("limit=", "limit"), ("limit=0", "limit"), ("limit=x", "limit")]
    {
        let error = read(query).await.expect_err(query);
        assert_eq!((error.status().as_u16(), error.code()), (422, "invalid"), "{query}");
        assert_eq!(error.to_json()["details"]["field"], field, "{query}");
    }
}
