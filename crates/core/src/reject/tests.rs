//! Rejects: what makes one the same, when there are too many, and how they are counted.

use super::*;
use crate::failure::fingerprint::fingerprint;
use crate::job::{NoteError, Record, Remark, Spec};
use crate::{Fence, Lease, WorkerId};

const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

fn reject(item: &str, error: &str) -> Reject {
    Reject {
        fingerprint: fingerprint("import", "BadRow", error),
        item_fingerprint: item_fingerprint(item),
        scope: RejectScope::Item,
        step: None,
        error_type: "BadRow".to_owned(),
        error: error.to_owned(),
        count: 1,
        retries: 0,
        retry_limit: 0,
        r#final: true,
        item: None,
    }
}

fn batch(run: u32, rejects: Vec<Reject>) -> RejectBatch {
    RejectBatch {
        at: NOW,
        job: JobId::from_u128(1),
        queue: "acme/rows".into(),
        kind: "import".into(),
        run,
        attempt: 1,
        generation: 0,
        rejected: 2,
        seen: 10,
        rejects,
        kept_elsewhere: Vec::new(),
        behind: None,
    }
}

#[test]
fn a_batch_is_counted_once_by_whoever_holds_the_job() {
    // W9, L5
    let spec = Spec::new(JobId::from_u128(1), "import", "{}");
    let mut record = Record::new(&spec, NOW);
    let lease = Lease { job: spec.id, worker: WorkerId::from_u128(2), fence: Fence(3) };
    record.claim(lease.worker, lease.fence, NOW, true).expect("it is pending");
    let first = Remark::Rejects(batch(1, vec![reject("a", "no name"), reject("b", "no name")]));
    assert_eq!(record.note(&lease, &first), Ok(Some(0)));
    assert_eq!(record.note(&lease, &first), Ok(None), "an answer that was lost");
    let second = Remark::Rejects(batch(1, vec![reject("c", "no name")]));
    assert_eq!(record.note(&lease, &second), Ok(Some(1)));
    let counts = Remark::Rejects(RejectBatch { rejected: 5, ..batch(1, vec![]) });
    assert_eq!(record.note(&lease, &counts), Ok(None), "all of them are known");
    let tally = record.rejects().expect("there are some").clone();
    assert_eq!((tally.stored, tally.batches, tally.rejected, tally.seen), (3, 2, 5, 10));
    let late = RejectBatch { behind: Some(1), ..batch(1, vec![reject("d", "no name")]) };
    let before = record.clone();
    let refused = NoteError::MoreRejects { job: spec.id };
    assert_eq!(record.note(&lease, &Remark::Rejects(late)), Err(refused), "others were faster");
    assert_eq!(record, before);
    let again = RejectBatch { behind: Some(1), ..batch(1, vec![reject("c", "no name")]) };
    assert_eq!(record.note(&lease, &Remark::Rejects(again)), Ok(None), "it is the last one, and known");
    let elsewhere = RejectBatch { rejected: 6, kept_elsewhere: vec![7], ..batch(1, vec![]) };
    let elsewhere = Remark::Rejects(elsewhere);
    assert_eq!(record.note(&lease, &elsewhere), Ok(Some(2)), "it is known, and not stored");
    assert_eq!(record.note(&lease, &elsewhere), Ok(None), "an answer that was lost");
    let tally = record.rejects().expect("there are some").clone();
    assert_eq!((tally.stored, tally.batches, tally.rejected), (3, 3, 6));
    let before = record.clone();
    assert!(record.note(&Lease { fence: Fence(2), ..lease }, &second).is_err());
    assert_eq!(record, before);
}

#[test]
fn an_item_is_the_same_in_another_run_and_another_in_another_step() {
    // W9
    let one = reject("a", "no name");
    let text = Reject { error: "another text".to_owned(), ..one.clone() };
    assert_eq!(one.identity(), text.identity());
    let step = Reject { step: Some("load".to_owned()), ..one.clone() };
    let stream = Reject { scope: RejectScope::Stream, ..one.clone() };
    let other = reject("b", "no name");
    let all = [&one, &step, &stream, &other].map(Reject::identity);
    assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 4, "{all:?}");
}

#[test]
fn keys_begin_with_the_tenant_and_the_job() {
    // W9, E13
    assert_eq!(batch(1, vec![]).key(7), format!("acme/{}/000007", JobId::from_u128(1)));
    let own = RejectBatch { queue: "rows".into(), ..batch(1, vec![]) };
    assert_eq!(own.key(0), format!("default/{}/000000", JobId::from_u128(1)));
}

#[test]
fn too_many_are_told_by_number_at_once_and_by_share_at_the_end() {
    // W9
    let number = RejectLimit::NONE.most(2);
    let percent = |percent: f64| RejectLimit::NONE.percent(percent).expect("a percentage");
    let share = percent(10.0);
    for (limit, rejected, seen, ended, over) in [
        (RejectLimit::NONE, 1_000, 1_000, true, false),
        (number, 2, 0, true, false),
        (number, 3, 0, false, true),
        (RejectLimit::NONE.most(0), 0, 5, true, false),
        (RejectLimit::NONE.most(0), 1, 5, false, true),
        (share, 1, 1, false, false),
        (share, 1, 1, true, true),
        (share, 10, 100, true, false),
        (share, 11, 100, true, true),
        (share, 1, 0, true, true),
        (percent(0.5), 1, 200, true, false),
        (percent(0.5), 1, 199, true, true),
        (percent(0.4), 1, 200, true, true),
        (percent(0.0), 1, u64::MAX, true, true),
        (percent(100.0), u64::MAX, 0, true, false),
        (percent(0.07), 7, 10_000, true, false),
        (percent(0.07), 8, 10_000, true, true),
        (percent(0.0001), 1, 1_000_000, true, false),
        (percent(0.0001), 1, 999_999, true, true),
        // Counts that a float cannot tell apart.
        (percent(50.0), 1 << 61, 1 << 62, true, false),
        (percent(50.0), (1 << 61) + 1, 1 << 62, true, true),
        (share.or(number), 3, 1_000, false, true),
    ] {
        let found = limit.exceeded(rejected, seen, ended);
        assert_eq!(found.is_some(), over, "{limit:?} {rejected} of {seen}: {found:?}");
    }
}

#[test]
fn a_percentage_has_fractions_and_is_shown_as_it_was_given() {
    // W9
    for (given, shown) in [
        (0.0, Some("0")),
        (-0.0, Some("0")),
        (0.5, Some("0.5")),
        (0.1, Some("0.1")),
        (0.07, Some("0.07")),
        (33.3333, Some("33.3333")),
        (99.9999, Some("99.9999")),
        (5.0, Some("5")),
        (100.0, Some("100")),
        (100.000_1, None),
        (101.0, None),
        (-0.000_1, None),
        (-1.0, None),
        (0.000_05, None),
        (33.333_33, None),
        (f64::NAN, None),
        (f64::INFINITY, None),
        (f64::NEG_INFINITY, None),
    ] {
        let percent = RejectPercent::try_from(given).ok();
        assert_eq!(percent.map(|percent| percent.to_string()).as_deref(), shown, "{given}");
    }
    let told = RejectLimit::NONE.percent(100.5).expect_err("more than all");
    assert!(told.to_string().starts_with("100.5 is not a percentage: give a number from 0 to 100"), "{told}");
    let half = RejectLimit::NONE.percent(0.5).expect("a percentage").exceeded(2, 300, true);
    assert_eq!(half.as_deref(), Some("the run has rejected 2 of 300 items; its limit is 0.5 percent"));
}

#[test]
fn groups_are_counted_up_and_down() {
    // W9
    let all =
        batch(1, vec![reject("a", "row 1 has no name"), reject("b", "row 2 has no name"), reject("c", "x")]);
    let counts = all.by_group();
    assert_eq!(counts.len(), 2, "they group as failures do");
    let first = &all.rejects[0];
    let mut group = RejectGroup::first(&all, first);
    group.add(&all, counts[&first.fingerprint]);
    let later = RejectBatch { at: Timestamp::from_micros(NOW.as_micros() + 1), ..all.clone() };
    group.add(&later, 5);
    assert_eq!((group.items, group.stored), (7, 7));
    assert_eq!((group.first_seen, group.last_seen), (NOW, later.at));
    assert!(group.remove(5));
    assert_eq!((group.items, group.stored), (7, 2));
    assert!(!group.remove(2), "nothing of it is left");
}
