//! The audit log: who changed what over HTTP, when, from where, and what came of it.
//!
//! It is only ever added to: no route changes or removes a line of it. What comes within [`GATHER`] is one document and
//! one commit, and calls that are alike in it are one line with a count, so that a thousand submits a second cost ten
//! small writes. Calls that carry data (submits, and what workers say) do not wait for their line; all others are
//! answered only when theirs is stored. No payload and no token is ever in it.

mod writer;

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{Method, StatusCode, Uri};
use backstop::{Backstop, Loops, Timestamp};
use backstop_core::failure::redact::sanitize;
use backstop_store::{Document, DocumentRange, Drawer, Error as StoreError};
use serde::{Deserialize, Serialize};

use crate::access::{Caller, Tokens};
use crate::error::ApiError;
use writer::AuditWriter;

/// Characters of a path that are kept.
const PATH_CHARS: usize = 300;

/// Calls that carry data: many, and each with traces of its own in the store.
const DATA: [&str; 2] = ["/api/v1/jobs", "/api/v1/jobs/batch"];
const WORK: &str = "/api/v1/work/";

/// Documents that are read at once for a page.
const DOCUMENTS: usize = 20;

/// A call that has been let in or turned away.
#[derive(Debug)]
pub(crate) struct AuditedCall {
    caller: Caller,
    method: Method,
    route: Arc<str>,
    uri: Uri,
    client: Option<IpAddr>,
}

impl AuditedCall {
    pub(crate) fn new(caller: &Caller, parts: &Parts, route: &Arc<str>, client: Option<IpAddr>) -> Self {
        let (method, uri) = (parts.method.clone(), parts.uri.clone());
        Self { caller: caller.clone(), method, route: route.clone(), uri, client }
    }

    /// Who it turned out to be.
    pub(crate) fn is_by(&mut self, caller: &Caller) {
        self.caller = caller.clone();
    }

    /// Whoever is not let in could write anything into the path, and a line for each.
    fn shows_path(&self) -> bool {
        // A token in a path is a right: it is nobody's to read here.
        !is_data(&self.route) && self.caller.is_known() && !self.route.ends_with("{token}")
    }
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AuditEntry {
    pub(crate) at: Timestamp,
    pub(crate) who: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    pub(crate) method: String,
    pub(crate) route: String,
    pub(crate) path: String,
    pub(crate) status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<IpAddr>,
    /// Calls that were alike.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub(crate) count: u64,
    /// What is gone, in words, where maintenance retired something: then it was no call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) what: Option<String>,
}

const fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
const fn is_one(count: &u64) -> bool {
    *count == 1
}

impl AuditEntry {
    /// True when the call is told by the same line but for its moment, and for its path if that is kept.
    fn is_of(&self, done: &AuditedCall, status: StatusCode) -> bool {
        self.status == status.as_u16()
            && self.from == done.client
            && *self.route == *done.route
            && self.method == done.method.as_str()
            && self.who == done.caller.name()
            && self.tenant.as_deref() == done.caller.tenant()
    }
}

/// The log of one process.
#[derive(Debug)]
pub(crate) struct Audit {
    engine: Backstop,
    tokens: Tokens,
    writer: Arc<AuditWriter>,
}

impl Audit {
    pub(crate) fn new(engine: &Backstop, tokens: Tokens, loops: &Loops) -> Self {
        let writer = Arc::new(AuditWriter::new(engine.store().clone(), loops));
        Self { engine: engine.clone(), tokens, writer }
    }

    /// Writes a call down. Returns when it is stored, for calls that wait for it.
    pub(crate) async fn record(&self, done: &AuditedCall, status: StatusCode) -> Result<(), ApiError> {
        // What was refused has changed nothing, and whoever is refused shall not make others wait for the disk.
        let waits = !is_data(&done.route) && done.caller.is_known() && status.is_success();
        let at = self.tokens.now().await?;
        if !done.shows_path() {
            // The way of every submit: nothing is made when the same was told a moment ago.
            self.writer.add(|known| known.is_of(done, status), || self.line(done, status, at));
            return Ok(());
        }
        let line = self.line(done, status, at);
        let path = line.path.clone();
        let is_like = |known: &AuditEntry| known.is_of(done, status) && known.path == path;
        if !waits {
            self.writer.add(is_like, || line);
            return Ok(());
        }
        let shown = format!("{} {path} by {}: {}", line.method, line.who, line.status);
        if self.writer.add_and_wait(is_like, line).await {
            return Ok(());
        }
        tracing::error!(call = shown, "a call was made and the audit log could not be written");
        let message = "the call was made, and the audit log could not be written";
        let hint = "look at what became of it before you repeat it";
        Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "not_recorded", message).hint(hint).retry_after(1))
    }

    fn line(&self, done: &AuditedCall, status: StatusCode, at: Timestamp) -> AuditEntry {
        let path = match done.shows_path() {
            true => sanitize(&*self.engine.config().redactor, done.uri.path(), PATH_CHARS),
            false => done.route.to_string(),
        };
        AuditEntry {
            at,
            who: done.caller.name().to_owned(),
            tenant: done.caller.tenant().map(str::to_owned),
            method: done.method.to_string(),
            route: done.route.to_string(),
            path,
            status: status.as_u16(),
            from: done.client,
            count: 1,
            what: None,
        }
    }

    /// Stores what is not stored yet.
    pub(crate) async fn flush(&self) {
        self.writer.flush().await;
    }

    /// Lines, newest first, after the one that `after` names; with the place to read on from when there are more.
    pub(crate) async fn page(
        &self,
        after: Option<AuditPosition>,
        limit: usize,
    ) -> Result<(Vec<AuditEntry>, Option<AuditPosition>), StoreError> {
        let store = self.engine.store();
        let mut lines: Vec<(AuditEntry, AuditPosition)> = Vec::new();
        let mut last = after.as_ref().map(|place| place.key.clone());
        if let Some(place) = &after {
            let begun = store.documents(DocumentRange::first(Drawer::Audit, 1).under(&place.key)).await?;
            let begun = begun.items.iter().filter(|document| document.key == place.key);
            lines.extend(begun.flat_map(read).skip(place.skip));
        }
        // One more than asked for tells whether there are more.
        while lines.len() <= limit {
            let mut range = DocumentRange::first(Drawer::Audit, DOCUMENTS);
            range.after = last.take();
            let found = store.documents(range).await?;
            lines.extend(found.items.iter().flat_map(read));
            last = found.items.last().map(|document| document.key.clone());
            if !found.more {
                break;
            }
        }
        let more = lines.len() > limit;
        lines.truncate(limit);
        let next = lines.last().filter(|_| more).map(|(_, place)| place.clone());
        Ok((lines.into_iter().map(|(line, _)| line).collect(), next))
    }
}

/// Where a page ends: after so many lines of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuditPosition {
    pub(crate) key: String,
    pub(crate) skip: usize,
}

/// The lines of a document, newest first, each with the place after it.
fn read(document: &Document) -> Vec<(AuditEntry, AuditPosition)> {
    let lines = document.body.lines().rev().enumerate();
    let parsed = lines.filter_map(|(at, line)| {
        let told = serde_json::from_str(line).inspect_err(
            |error| tracing::warn!(key = document.key, %error, "a line of the audit log is unreadable"),
        );
        Some((told.ok()?, AuditPosition { key: document.key.clone(), skip: at + 1 }))
    });
    parsed.collect()
}

/// True for a method that may change something.
pub(crate) fn is_mutating(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn is_data(route: &str) -> bool {
    DATA.contains(&route) || route.starts_with(WORK)
}
