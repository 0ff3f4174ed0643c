//! What stores on servers say of their connections, for the tests of their encryption.

use crate::{Error, Finding, InspectStore};

/// What `doctor` says of the connection of a store.
///
/// # Panics
/// When the check fails or says nothing of it.
pub async fn connection_finding(store: &impl InspectStore) -> Finding {
    let findings = store.check().await.expect("checked");
    findings.into_iter().find(|finding| finding.subject == "connection").expect("looked at")
}

/// The sentence with which a store was not opened, because its URL or its server is not usable.
///
/// # Panics
/// When it was opened, or was not for another reason.
pub fn refusal_text<S>(opened: Result<S, Error>) -> String {
    let error = opened.err().expect("the store was opened, and should have been refused");
    assert_eq!(error.code(), "store_unusable", "{error}");
    error.to_string()
}
