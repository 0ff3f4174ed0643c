//! Writes the marks that re-drive plans should have and have not, by reading them all.

use std::collections::BTreeSet;

use backstop_store::{Amend, DocumentRange, Drawer, Error as StoreError, Term, WorkStore};

use crate::redrive::mark::{self, PAGE};
use crate::redrive::stored;

/// Marks that are written in one transaction.
const BATCH: usize = 500;

pub(super) async fn write_missing_marks(store: &dyn WorkStore, term: Term) -> Result<(), StoreError> {
    let known = keys(store).await?;
    let plans = stored::all(store).await?;
    // One that cannot be read is told of when it is meant to be stepped or shown.
    let wanted = plans.iter().flatten().filter_map(|stored| mark::key(&stored.plan));
    let missing: Vec<String> = wanted.filter(|key| !known.contains(key)).collect();
    for batch in missing.chunks(BATCH) {
        let edits = batch.iter().cloned().map(mark::written).collect();
        store.amend(Amend { term: Some(term), edits, ..Amend::default() }).await?;
    }
    Ok(())
}

async fn keys(store: &dyn WorkStore) -> Result<BTreeSet<String>, StoreError> {
    let (mut keys, mut range) = (BTreeSet::new(), DocumentRange::first(Drawer::PlanMarks, PAGE));
    loop {
        let found = store.documents(range.clone()).await?;
        let last = found.items.last().map(|last| last.key.clone());
        keys.extend(found.items.into_iter().map(|document| document.key));
        match last {
            Some(last) if found.more => range = range.after(last),
            _ => return Ok(keys),
        }
    }
}
