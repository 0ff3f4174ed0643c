//! Plans as documents of the store: keys, reading, writing. What they mean is the core's; their items are in
//! `job_list`.

use backstop_core::Timestamp;
use backstop_core::job::PlanId;
use backstop_core::redrive::Plan;
use backstop_store::{Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect, WorkStore};

use super::mark;

/// Rows of a page.
const PAGE: usize = 1_000;

/// A plan as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct StoredPlan {
    pub(crate) plan: Plan,
    pub(crate) revision: i64,
    /// The store's clock when it was read.
    pub(crate) now: Timestamp,
}

/// How the keys of everything about a plan's jobs begin.
pub(crate) fn jobs_prefix(plan: &PlanId) -> String {
    format!("{plan}/")
}

/// The changes that file a plan, with its mark; `before` is the plan that they rest on.
pub(crate) fn edits(plan: &Plan, before: Option<(&Plan, i64)>) -> Vec<Edit> {
    let expect = before.map_or(Expect::Absent, |(_, revision)| Expect::Revision(revision));
    let edit = Edit { drawer: Drawer::Plans, key: plan.id.to_string(), expect, body: Some(text(plan)) };
    std::iter::once(edit).chain(mark::edits(before.map(|(plan, _)| plan), plan)).collect()
}

/// The text of a plan or an item.
pub(crate) fn text(document: &impl serde::Serialize) -> std::sync::Arc<str> {
    // Structs of texts, numbers and moments have no way to fail.
    serde_json::to_string(document).expect("plans and items are plain JSON").into()
}

/// Every plan; one that cannot be read is an error of its own.
pub(crate) async fn all(store: &dyn WorkStore) -> Result<Vec<Result<StoredPlan, StoreError>>, StoreError> {
    let mut plans = Vec::new();
    let mut range = DocumentRange::first(Drawer::Plans, PAGE);
    loop {
        let found = store.documents(range.clone()).await?;
        plans.extend(found.items.iter().map(|document| read_plan(store, document, found.now)));
        match found.items.last() {
            Some(last) if found.more => range = range.after(last.key.clone()),
            _ => return Ok(plans),
        }
    }
}

/// One plan, if it is there.
pub(crate) async fn one(store: &dyn WorkStore, id: &PlanId) -> Result<Option<StoredPlan>, StoreError> {
    // A longer id may begin with this one; the shorter key comes first.
    let found = store.documents(DocumentRange::first(Drawer::Plans, 1).under(id.as_str())).await?;
    let document = found.items.first().filter(|document| document.key == id.as_str());
    document.map(|document| read_plan(store, document, found.now)).transpose()
}

fn read_plan(store: &dyn WorkStore, document: &Document, now: Timestamp) -> Result<StoredPlan, StoreError> {
    Ok(StoredPlan { plan: read(store, "plan", document)?, revision: document.revision, now })
}

/// What a document says.
pub(crate) fn read<T: serde::de::DeserializeOwned>(
    store: &dyn WorkStore,
    what: &str,
    document: &Document,
) -> Result<T, StoreError> {
    serde_json::from_str(&document.body).map_err(|error| StoreError::Corrupt {
        location: store.info().location,
        problem: format!("the {what} {}: {error}", document.key),
    })
}
