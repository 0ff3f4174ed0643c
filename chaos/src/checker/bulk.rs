//! What bulk handlers did (W12).

use backstop::bulk::BulkJob;
use backstop::{Cause, State};

use super::kept::Kept;
use super::summary::{BulkFact, JournalSummary};
use crate::together::BulkCampaignJob;
use crate::work::CampaignJob;

/// A job that was answered is not called again in that run, one that fails every call was alone in the last one, one
/// that got no answer has failed, and no other is charged for either of them.
pub(super) fn check(kept: &Kept, summary: &JournalSummary, found: &mut Vec<String>) {
    let spec = &kept.view.job.spec;
    if *spec.kind != *<BulkCampaignJob as BulkJob>::KIND {
        return;
    }
    let number = serde_json::from_str::<CampaignJob>(&spec.payload).map_or(0, |job| job.number);
    let (never_works, forgotten) =
        (BulkCampaignJob::never_works(number), BulkCampaignJob::is_forgotten(number));
    let acts = summary.bulk.get(&spec.id);
    for row in &kept.rows {
        let acts = acts.and_then(|runs| runs.get(&row.number)).map_or(&[][..], Vec::as_slice);
        check_run(row.number, row.cause, acts, found);
        let last = acts.iter().rfind(|act| matches!(act, BulkFact::Called(_)));
        if never_works && row.cause.charges_attempt() && last != Some(&BulkFact::Called(1)) {
            found
                .push(format!("run {} has failed by what others did: its last call is {last:?}", row.number));
        }
    }
    if let Some(run) = acts.and_then(|runs| runs.keys().find(|run| **run > kept.view.record.runs)) {
        found.push(format!("a bulk handler was called with its run {run}, which was never counted (C5)"));
    }
    let charged = kept.rows.iter().filter(|row| row.cause.charges_attempt()).count();
    if charged != usize::from(never_works || forgotten) {
        found.push(format!("{charged} of its runs were charged"));
    }
    let ends = if never_works { State::Failed } else { State::Succeeded };
    if kept.view.record.state != ends {
        found.push(format!("it is {}, and should be {ends}", kept.view.record.state));
    }
}

/// One run as its handler and the ledger tell of it.
fn check_run(run: u32, cause: Cause, acts: &[BulkFact], found: &mut Vec<String>) {
    let answers = acts.iter().filter(|act| **act == BulkFact::Answered).count();
    if answers > 1 || (answers == 1 && acts.last() != Some(&BulkFact::Answered)) {
        found.push(format!("run {run} was answered, and called again: {acts:?}"));
    }
    if cause == Cause::Succeeded && answers == 0 {
        found.push(format!("run {run} has succeeded, and its bulk handler never said so"));
    }
    // Whoever dies may have answered before, which nobody heard.
    if cause.charges_attempt() && (acts.is_empty() || answers > 0) {
        found.push(format!("run {run} ended by {cause}, and its bulk handler did {acts:?}"));
    }
}
