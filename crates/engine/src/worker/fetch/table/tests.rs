//! The table, row by row.

use super::*;

const LONGEST: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(30);
const FIRST_LOOK: Duration = Duration::from_millis(20);

fn state() -> FetchState {
    FetchState::new(LONGEST, LEASE, false, None)
}

/// A state in which work is expected, by a claim that was filled before.
fn expecting() -> FetchState {
    FetchState { work: Work::Expected, ..state() }
}

/// A claim that limits left no more room for.
fn held(taken: usize, asked: usize, now: Instant) -> FetchEvent {
    FetchEvent::Claimed { taken, asked, held_for: Some(Duration::MAX), notified: false, now }
}

#[test]
fn every_event_has_its_step() {
    // L2, L13, H2
    let now = Instant::now();
    let later = now + LONGEST * 7;
    let idle = FetchState { idle_until: Some(later), ..state() };
    let seen = FetchState { work: Work::Seen, ..state() };
    let doubting = FetchState { credible: false, ..state() };
    let ahead = FetchState { claims_ahead: true, ..expecting() };
    let searching = FetchState { searches: 3, next_search: Some(now), ..state() };
    let (afresh, go_on) = (FetchStep::Begin { afresh: true }, FetchStep::Begin { afresh: false });
    let began = FetchEvent::Began { ready: true, now };
    let nothing = |due_in| FetchEvent::Looked { found: Found::Nothing { due_in }, now };
    let (held_for, held) = (None, |taken, asked| held(taken, asked, now));
    let claimed = |taken, asked, notified| FetchEvent::Claimed { taken, asked, held_for, notified, now };
    let prepared = |asked| FetchEvent::Prepared { asked };
    let wait_until = |until| FetchStep::StandBy { until };
    let unready = FetchEvent::Began { ready: false, now };
    let soon = Duration::from_millis(3);
    let backlog = |filled| FetchEvent::WorkedOff { filled, notified: false };
    let rows = [
        ("a worker that is not ready claims nothing", &state(), unready, FetchStep::Pause),
        ("it prepares a claim", &state(), began, FetchStep::Prepare),
        ("after a lost answer it searches first", &searching, began, FetchStep::Search),
        ("it looks before it claims", &state(), prepared(2), FetchStep::Look),
        ("what is expected is claimed", &expecting(), prepared(2), FetchStep::Claim),
        ("what was seen is claimed", &seen, prepared(2), FetchStep::Claim),
        ("without room it waits for some", &expecting(), prepared(0), FetchStep::AwaitRoom),
        ("while idle nobody looks", &idle, prepared(1), wait_until(later)),
        ("and without room it waits", &idle, prepared(0), FetchStep::AwaitRoom),
        (
            "a look that finds work",
            &state(),
            FetchEvent::Looked { found: Found::Work, now },
            FetchStep::Claim,
        ),
        ("a look that finds none", &state(), nothing(None), wait_until(now + FIRST_LOOK)),
        ("it looks again when the next job is due", &state(), nothing(Some(soon)), wait_until(now + soon)),
        ("and not later than without one", &state(), nothing(Some(LEASE)), wait_until(now + FIRST_LOOK)),
        ("a notice that was for others", &expecting(), claimed(0, 2, false), afresh),
        ("work that somebody else has in hand", &seen, claimed(0, 2, false), go_on),
        ("limits have no room left", &seen, held(0, 2), go_on),
        ("limits left room for some", &expecting(), held(1, 2), go_on),
        ("a claim that took all there was", &expecting(), claimed(1, 2, false), afresh),
        ("a claim that was filled", &expecting(), claimed(2, 2, false), FetchStep::WorkOff),
        ("a claim ahead that was filled", &ahead, claimed(2, 2, false), FetchStep::AwaitRoom),
        ("a backlog at its end", &expecting(), backlog(false), afresh),
        ("a backlog without room", &expecting(), backlog(true), FetchStep::AwaitRoom),
        ("room for work that there is", &state(), FetchEvent::RoomCame, afresh),
        ("room while idle", &idle, FetchEvent::RoomCame, go_on),
        ("work that is due", &state(), FetchEvent::StoodBy(WaitResult::Due), afresh),
        ("work that was announced", &state(), FetchEvent::StoodBy(WaitResult::Notice), afresh),
        (
            "work that was handed over",
            &state(),
            FetchEvent::StoodBy(WaitResult::Served { until: later }),
            go_on,
        ),
        ("no work", &state(), FetchEvent::StoodBy(WaitResult::Nothing), afresh),
        ("a pause that is over", &doubting, FetchEvent::Rested, afresh),
        ("its lease ran out", &expecting(), FetchEvent::Failed(Fault::LeaseLost), FetchStep::Enlist),
        ("its last lease did", &expecting(), FetchEvent::Failed(Fault::OldLeaseLost), afresh),
        ("an answer was lost", &expecting(), FetchEvent::Failed(Fault::AnswerLost { now }), FetchStep::Pause),
        ("the store refused", &idle, FetchEvent::Failed(Fault::Refused), FetchStep::Pause),
    ];
    for (what, before, event, expected) in rows {
        assert_eq!(before.clone().next(event), expected, "{what}");
    }
}

#[test]
fn what_it_believes_after_each_event() {
    let now = Instant::now();
    let after = |before: FetchState, event: FetchEvent| {
        let mut state = before;
        state.next(event);
        (state.work, state.credible)
    };
    let doubting = || FetchState { credible: false, ..expecting() };
    let claimed = |taken, notified| FetchEvent::Claimed { taken, asked: 2, held_for: None, notified, now };
    assert_eq!(after(expecting(), claimed(0, false)), (Work::Unknown, false), "the notice was for others");
    assert_eq!(after(doubting(), claimed(1, true)), (Work::Expected, true), "what came meanwhile");
    assert_eq!(after(doubting(), claimed(1, false)), (Work::Unknown, true));
    assert_eq!(after(state(), FetchEvent::StoodBy(WaitResult::Notice)), (Work::Expected, true));
    assert_eq!(
        after(doubting(), FetchEvent::StoodBy(WaitResult::Notice)),
        (Work::Unknown, false),
        "it looks first"
    );
    assert_eq!(after(state(), FetchEvent::StoodBy(WaitResult::Due)), (Work::Seen, true));
    assert_eq!(after(state(), FetchEvent::Looked { found: Found::Work, now }), (Work::Seen, true));
    assert_eq!(after(expecting(), FetchEvent::Failed(Fault::Refused)), (Work::Unknown, true));
    assert_eq!(after(state(), FetchEvent::RoomCame), (Work::Expected, true));
}

#[test]
fn a_lost_answer_is_searched_for_three_times() {
    // L17
    let now = Instant::now();
    let mut state = FetchState::new(LONGEST, LEASE, false, Some(now));
    let mut moment = now;
    for _ in 0..3 {
        assert_eq!(state.next(FetchEvent::Began { ready: true, now: moment }), FetchStep::Search);
        state.next(FetchEvent::Searched { now: moment });
        assert_eq!(
            state.next(FetchEvent::Began { ready: true, now: moment }),
            FetchStep::Prepare,
            "not at once again"
        );
        moment += LEASE / 2;
    }
    assert_eq!(state.next(FetchEvent::Began { ready: true, now: moment + LEASE }), FetchStep::Prepare);
    state.next(FetchEvent::Failed(Fault::AnswerLost { now: moment }));
    assert_eq!(
        state.next(FetchEvent::Began { ready: true, now: moment }),
        FetchStep::Search,
        "and from the beginning"
    );
}
