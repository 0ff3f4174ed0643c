//! Removes what the rates of limits have left for keys that nobody has used for a while (H5): a bucket that is full
//! again is as good as none, and there is one for each key.

use std::time::Duration;

use backstop_store::{
    Amend, Document, DocumentRange, Drawer, Edit, Error as StoreError, Expect, Store, run_limits,
};

use super::BATCH;

/// Buckets that are removed in one transaction.
const TOGETHER: usize = 100;

/// How long a bucket is kept that is full again.
const KEPT: Duration = Duration::from_secs(60);

pub(super) async fn sweep(store: &dyn Store) -> Result<(), StoreError> {
    let mut range = DocumentRange::first(Drawer::KeyBuckets, BATCH);
    loop {
        let page = store.documents(range.clone()).await?;
        let is_full = |document: &&Document| {
            let full_at = run_limits::bucket(&document.body).as_nanos() / 1_000;
            full_at < page.now.as_micros().saturating_sub(i64::try_from(KEPT.as_micros()).unwrap_or(i64::MAX))
        };
        let edit = |document: &Document| Edit {
            drawer: Drawer::KeyBuckets,
            key: document.key.clone(),
            // One that is used meanwhile stays.
            expect: Expect::Revision(document.revision),
            body: None,
        };
        let full: Vec<Edit> = page.items.iter().filter(is_full).map(edit).collect();
        for edits in full.chunks(TOGETHER) {
            // Where one of them was used meanwhile, all of them stay until the next time.
            store.amend(Amend { edits: edits.to_vec(), ..Amend::default() }).await?;
        }
        match page.items.last().filter(|_| page.more) {
            Some(last) => range.after = Some(last.key.clone()),
            None => return Ok(()),
        }
    }
}
