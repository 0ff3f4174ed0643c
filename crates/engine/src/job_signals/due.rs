//! What has to be looked at when its moment has come: waits and kept signals whose time is up, waits whose jobs may
//! have been canceled, and signals whose sender died before it had looked for somebody who waits.
//!
//! All of them stand in one list in the order of time, so a look costs one page however many wait.

use backstop_core::Timestamp;
use backstop_core::job::SignalAnswer;
use backstop_store::{Amend, DocumentRange, Drawer, Edit, Error as StoreError, Expect};

use super::send::bring_on;
use super::stored::{self, SignalLook, StoredWait, parsed, remove, tenant_of, write};
use crate::error::OperateError;
use crate::loops::LoopHeartbeat;
use crate::parts::EngineParts;
use crate::run::write::refused_for_good;

/// What is looked at in one go.
const PAGE: usize = 500;

/// A wait whose moment has come: where it stands, what was read of it, and the look that ends with it.
type DueWait = (String, StoredWait, Edit);

/// Looks at everything whose moment has come. What cannot be read holds up nothing else (C7).
pub(crate) async fn look(parts: &EngineParts, heartbeat: Option<&LoopHeartbeat>) -> Result<(), StoreError> {
    let mut range = DocumentRange::first(Drawer::SignalTimes, PAGE);
    loop {
        let page = parts.store.documents(range.clone()).await?;
        range.after = page.items.last().map(|document| document.key.clone());
        let is_due = |key: &str| SignalLook::moment(key).is_some_and(|moment| moment <= page.now.as_micros());
        let (mut waits, mut later) = (Vec::new(), !page.more);
        for document in &page.items {
            if !is_due(&document.key) {
                later = true;
                break;
            }
            let this = remove(Drawer::SignalTimes, document.key.clone(), Expect::Any);
            match parsed::<SignalLook>(document) {
                Some(SignalLook::Wait { name, wait }) => waits.push((name, wait, this)),
                Some(SignalLook::Id(name)) => {
                    let edits = vec![this, remove(Drawer::SignalIds, name, Expect::Any)];
                    parts.store.amend(Amend { edits, ..Amend::default() }).await?;
                }
                Some(SignalLook::Signal(name)) => match look_at_signal(parts, name, this, page.now).await {
                    Err(error) if refused_for_good(&error) => {
                        tracing::error!(key = document.key, %error, "a kept signal cannot be brought on");
                    }
                    other => other?,
                },
                None => {}
            }
            heartbeat.into_iter().for_each(LoopHeartbeat::record);
        }
        look_at_waits(parts, waits, page.now).await?;
        if later {
            return Ok(());
        }
    }
}

/// A signal that nobody has looked at since it was kept goes on; one whose time is up is removed.
async fn look_at_signal(
    parts: &EngineParts,
    name: String,
    this: Edit,
    now: Timestamp,
) -> Result<(), StoreError> {
    let (found, _, count) = stored::read(&*parts.store, &name, tenant_of(&name)).await?;
    let Some((revision, signal)) =
        found.filter(|(_, signal)| this.key == SignalLook::Signal(name.clone()).put(signal.look_at).key)
    else {
        // It has moved on: this look was left behind.
        parts.store.amend(Amend { edits: vec![this], ..Amend::default() }).await?;
        return Ok(());
    };
    if signal.keep_until > now {
        return match bring_on(parts, &name, None).await {
            Ok(_) | Err(OperateError::Refused(_)) => Ok(()),
            Err(OperateError::Store(error)) => Err(error),
        };
    }
    let edits = vec![
        this,
        count.changed(tenant_of(&name), false),
        remove(Drawer::Signals, name, Expect::Revision(revision)),
    ];
    // When somebody takes it meanwhile, it was not too late.
    parts.store.amend(Amend { edits, ..Amend::default() }).await?;
    Ok(())
}

/// Looks at waits. One that the store refuses holds up none of the others (C7).
async fn look_at_waits(
    parts: &EngineParts,
    mut waits: Vec<DueWait>,
    now: Timestamp,
) -> Result<(), StoreError> {
    if waits.is_empty() {
        return Ok(());
    }
    match look_together(parts, &waits, now).await {
        Err(error) if refused_for_good(&error) => {}
        other => return other,
    }
    if let [(_, wait, _)] = &waits[..] {
        tracing::error!(job = %wait.job, "a wait for a signal is due, and the store refuses to write what follows");
        return Ok(());
    }
    let second = waits.split_off(waits.len() / 2);
    Box::pin(look_at_waits(parts, waits, now)).await?;
    Box::pin(look_at_waits(parts, second, now)).await
}

/// Tells jobs that the time is up; those that do not wait any more are left alone, and forgotten.
async fn look_together(parts: &EngineParts, waits: &[DueWait], now: Timestamp) -> Result<(), StoreError> {
    let names = waits.iter().map(|(name, ..)| (Drawer::SignalWaits, name.clone())).collect();
    let found = parts.store.named_documents(names).await?;
    let (mut amend, mut long) = (Amend::default(), Vec::new());
    for ((name, wait, this), document) in waits.iter().zip(found) {
        amend.edits.push(this.clone());
        let current =
            document.as_ref().filter(|document| parsed::<StoredWait>(document).as_ref() == Some(wait));
        let Some(expect) = current.map(|document| Expect::Revision(document.revision)) else { continue };
        if wait.until > now {
            long.push((name, wait, expect));
        } else {
            amend.edits.push(remove(Drawer::SignalWaits, name.clone(), expect));
            // A job waits once at a time, so it is named once.
            amend.operations.push(wait.answered(parts, &SignalAnswer::TimedOut)?);
        }
    }
    let jobs = parts.store.jobs(long.iter().map(|(_, wait, _)| wait.job).collect()).await?;
    for ((name, wait, expect), detail) in long.into_iter().zip(jobs) {
        if detail.is_some_and(|detail| wait.is_current(&detail.view.record)) {
            let wait = wait.clone().looked_at_after(now);
            amend.edits.push(write(Drawer::SignalWaits, name.clone(), expect, &wait));
            amend.edits.push(wait.put_look(name));
        } else {
            amend.edits.push(remove(Drawer::SignalWaits, name.clone(), expect));
        }
    }
    // A conflict leaves all of it for the next look.
    parts.store.amend(amend).await?;
    Ok(())
}
