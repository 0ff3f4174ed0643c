//! Gathering, sealing, telling and giving up, as tables over time.

use backstop_core::JobId;
use backstop_core::failure::TerminalReason;

use super::*;

const GAP: Duration = Duration::from_secs(60);

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(1_800_000_000_000_000).after(Duration::from_secs(seconds))
}

fn notice(number: u128, seconds: u64) -> Notice {
    Notice {
        at: at(seconds),
        job: JobId::from_u128(number),
        kind: "mail".into(),
        queue: "default".into(),
        reason: TerminalReason::RetryExhausted,
        about: "0123456789abcdef".into(),
        error_type: Some("Smtp".into()),
        error: Some("refused".into()),
        envelope: serde_json::json!({ "executionId": number.to_string() }),
    }
}

fn gathered(channel_log: &mut ChannelLog, numbers: std::ops::Range<u128>, seconds: u64) {
    for number in numbers {
        channel_log.gather(&notice(number, seconds), || format!("m{number}"));
    }
}

#[test]
fn the_first_death_is_told_at_once_and_later_ones_together() {
    // D3
    let mut channel_log = ChannelLog::default();
    gathered(&mut channel_log, 0..1, 0);
    assert!(channel_log.seal(at(0), GAP));
    assert_eq!(channel_log.due(at(0)).map(|message| (message.count, message.id.as_str())), Some((1, "m0")));
    channel_log.delivered(at(0));
    gathered(&mut channel_log, 1..2_000, 5);
    assert!(!channel_log.seal(at(59), GAP), "the gap is not over");
    assert_eq!(channel_log.wakes_at(at(59), GAP), Some(at(60)));
    assert!(channel_log.seal(at(60), GAP));
    let message = channel_log.due(at(60)).expect("sealed");
    assert_eq!((message.count, message.jobs.len(), message.id.as_str()), (1_999, JOBS, "m1"));
    assert_eq!((message.first_at, message.last_at), (at(5), at(5)));
    channel_log.delivered(at(60));
    let log = channel_log.shown("log".into());
    assert_eq!((log.told, log.suppressed, log.waiting), (2, 1_998, 0));
    assert!(!channel_log.is_open());
}

#[test]
fn a_sealed_message_never_changes() {
    // D3
    let mut channel_log = ChannelLog::default();
    gathered(&mut channel_log, 0..3, 0);
    assert!(channel_log.seal(at(1), GAP));
    let before = channel_log.due(at(1)).cloned();
    gathered(&mut channel_log, 3..9, 2);
    assert!(!channel_log.seal(at(500), GAP), "one is on its way");
    assert_eq!(channel_log.due(at(2)).cloned(), before);
    assert_eq!(channel_log.shown("log".into()).waiting, 9);
}

#[test]
fn failures_are_tried_again_later_each_time_up_to_an_hour() {
    // D3
    let mut channel_log = ChannelLog::default();
    gathered(&mut channel_log, 0..1, 0);
    channel_log.seal(at(0), GAP);
    let mut waits = Vec::new();
    for _ in 0..40 {
        channel_log.failed(at(0), "away".into());
        let next = channel_log.wakes_at(at(0), GAP).expect("it is tried again");
        assert!(
            channel_log.due(next.before(Duration::from_micros(1))).is_none()
                && channel_log.due(next).is_some()
        );
        waits.push(at(0).until(next).as_secs());
    }
    assert_eq!(&waits[..4], [5, 10, 20, 40]);
    assert!(waits[11..].iter().all(|wait| *wait == 3_600), "{waits:?}");
    let log = channel_log.shown("log".into());
    assert_eq!((log.failures, log.trouble.as_deref()), (40, Some("away")));
    channel_log.delivered(at(9));
    let log = channel_log.shown("log".into());
    assert_eq!((log.failures, log.next_try, log.trouble, log.told), (0, None, None, 1));
}

#[test]
fn what_is_a_day_old_is_dropped_and_counted() {
    // D3
    let day = TOO_LATE.as_secs();
    let mut channel_log = ChannelLog::default();
    gathered(&mut channel_log, 0..3, 0);
    channel_log.seal(at(0), GAP);
    channel_log.failed(at(0), "away".into());
    gathered(&mut channel_log, 3..5, 100);
    assert_eq!(channel_log.drop_stale(at(day - 1)), 0);
    assert_eq!(channel_log.drop_stale(at(day)), 3);
    assert!(channel_log.seal(at(day), GAP), "what came later goes on");
    assert_eq!(channel_log.due(at(day)).map(|message| message.count), Some(2), "and is due at once");
    assert_eq!(channel_log.drop_stale(at(day + 100)), 2);
    assert!(!channel_log.is_open());
    assert_eq!(channel_log.shown("log".into()).dropped, 5);
}

#[test]
fn a_muted_incident_is_counted_and_not_told() {
    // D3
    let mut channel_log = ChannelLog::default();
    assert!(!channel_log.mute(), "nothing waits");
    gathered(&mut channel_log, 0..3, 0);
    channel_log.seal(at(0), GAP);
    gathered(&mut channel_log, 3..5, 1);
    assert!(channel_log.mute());
    assert_eq!((channel_log.is_open(), channel_log.shown("log".into()).muted), (false, 5));
}

#[test]
fn accounts_go_round_and_old_ones_can_be_read() {
    let mut channel_log = ChannelLog::default();
    gathered(&mut channel_log, 0..3, 0);
    channel_log.seal(at(0), GAP);
    channel_log.failed(at(0), "away".into());
    let text = serde_json::to_string(&channel_log).expect("plain data");
    assert_eq!(serde_json::from_str::<ChannelLog>(&text).expect("its own text"), channel_log);
    assert_eq!(serde_json::from_str::<ChannelLog>("{}").expect("an empty log"), ChannelLog::default());
}
