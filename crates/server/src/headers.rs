//! The headers of every answer: what a browser may do with it, which is next to nothing.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::response::Response;

/// Nothing may be loaded, run or framed: the API answers data, not pages.
const NOTHING: &str = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// What every answer carries, whatever its handler says.
const ALWAYS: [(HeaderName, &str); 3] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// What it carries unless its handler says otherwise: a page brings policies of its own and may let itself be kept.
const USUALLY: [(HeaderName, &str); 3] =
    [(CONTENT_SECURITY_POLICY, NOTHING), (CACHE_CONTROL, "no-store"), (REFERRER_POLICY, "no-referrer")];

/// Adds them.
pub(crate) fn add(response: &mut Response) {
    let headers = response.headers_mut();
    // Once: a map that grows with each of them is copied three times.
    headers.reserve(ALWAYS.len() + USUALLY.len());
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in USUALLY {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    #[test]
    fn a_page_keeps_its_own_policy_and_nothing_else() {
        let mut response = Response::builder()
            .header(CONTENT_SECURITY_POLICY, "default-src 'self'")
            .header(X_CONTENT_TYPE_OPTIONS, "sniff")
            .body(Body::empty())
            .expect("a response");
        add(&mut response);
        assert_eq!(response.headers()[CONTENT_SECURITY_POLICY], "default-src 'self'");
        assert_eq!(response.headers()[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        assert!(!NOTHING.contains("unsafe"));
    }
}
