//! What maintenance removes for good and held history leaves a line in the audit log, written before it goes.
//!
//! The lines have the shape of those that the server writes of calls, so that whoever reads the log finds both.

use backstop_core::Timestamp;
use backstop_store::{Drawer, Edit, Expect};
use serde::Serialize;

/// Who did it, and how: no token has such a name, and no call such a method.
const WHO: &str = "maintenance";
const METHOD: &str = "RETIRE";

/// One line.
#[derive(Debug, Serialize)]
pub(super) struct RetirementLine {
    at: Timestamp,
    who: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    method: &'static str,
    route: &'static str,
    path: String,
    status: u16,
    what: String,
}

impl RetirementLine {
    /// The line of something that was to be found under `route`, by its id.
    pub(super) fn of(route: &'static str, id: &str, what: String, at: Timestamp) -> Self {
        let path = route.replace("{id}", id);
        Self { at, who: WHO, tenant: None, method: METHOD, route, path, status: 200, what }
    }

    pub(super) fn tenant(mut self, tenant: Option<&str>) -> Self {
        self.tenant = tenant.map(str::to_owned);
        self
    }
}

/// The change that writes lines; `id` is what the first of them is about.
pub(super) fn edit(lines: &[RetirementLine], id: &str, now: Timestamp) -> Edit {
    // Structs of texts, numbers and moments have no way to fail.
    let text = |line| serde_json::to_string(line).expect("a line is plain JSON");
    let body = lines.iter().map(text).collect::<Vec<_>>().join("\n");
    // Readers of the log take such characters only for one of its keys.
    let id: String = id.chars().filter(|c| c.is_ascii_hexdigit() || *c == '-').collect();
    let key = format!("{}-{id}", Drawer::audit_moment(now));
    Edit { drawer: Drawer::Audit, key, expect: Expect::Any, body: Some(body.into()) }
}
