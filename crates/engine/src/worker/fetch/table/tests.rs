//! The table, row by row.

use super::*;

const LONGEST: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(30);
const FIRST_LOOK: Duration = Duration::from_millis(20);

fn state() -> State {
    State::new(LONGEST, LEASE, false, None)
}

/// A state in which work is expected, by a claim that was filled before.
fn expecting() -> State {
    State { work: Work::Expected, ..state() }
}

#[test]
fn every_event_has_its_step() {
    // L2, L13, H2
    let now = Instant::now();
    let later = now + LONGEST * 7;
    let quiet = State { quiet_until: Some(later), ..state() };
    let seen = State { work: Work::Seen, ..state() };
    let doubting = State { credible: false, ..state() };
    let ahead = State { claims_ahead: true, ..expecting() };
    let searching = State { searches: 3, next_search: Some(now), ..state() };
    let (afresh, go_on) = (Step::Begin { afresh: true }, Step::Begin { afresh: false });
    let began = Event::Began { ready: true, now };
    let nothing = |due_in| Event::Looked { found: Found::Nothing { due_in }, now };
    let claimed = |taken, asked, notified| Event::Claimed { taken, asked, notified, now };
    let prepared = |asked| Event::Prepared { asked };
    let wait_until = |until| Step::StandBy { until };
    let unready = Event::Began { ready: false, now };
    let soon = Duration::from_millis(3);
    let backlog = |filled| Event::WorkedOff { filled, notified: false };
    let rows = [
        ("a worker that is not ready claims nothing", &state(), unready, Step::Pause),
        ("it prepares a claim", &state(), began, Step::Prepare),
        ("after a lost answer it searches first", &searching, began, Step::Search),
        ("it looks before it claims", &state(), prepared(2), Step::Look),
        ("what is expected is claimed", &expecting(), prepared(2), Step::Claim),
        ("what was seen is claimed", &seen, prepared(2), Step::Claim),
        ("without room it waits for some", &expecting(), prepared(0), Step::AwaitRoom),
        ("in a quiet time nobody looks", &quiet, prepared(1), wait_until(later)),
        ("and without room it waits", &quiet, prepared(0), Step::AwaitRoom),
        ("a look that finds work", &state(), Event::Looked { found: Found::Work, now }, Step::Claim),
        ("a look that finds none", &state(), nothing(None), wait_until(now + FIRST_LOOK)),
        ("it looks again when the next job is due", &state(), nothing(Some(soon)), wait_until(now + soon)),
        ("and not later than without one", &state(), nothing(Some(LEASE)), wait_until(now + FIRST_LOOK)),
        ("a notice that was for others", &expecting(), claimed(0, 2, false), afresh),
        ("work that somebody else has in hand", &seen, claimed(0, 2, false), go_on),
        ("a claim that took all there was", &expecting(), claimed(1, 2, false), afresh),
        ("a claim that was filled", &expecting(), claimed(2, 2, false), Step::WorkOff),
        ("a claim ahead that was filled", &ahead, claimed(2, 2, false), Step::AwaitRoom),
        ("a backlog at its end", &expecting(), backlog(false), afresh),
        ("a backlog without room", &expecting(), backlog(true), Step::AwaitRoom),
        ("room for work that there is", &state(), Event::RoomCame, afresh),
        ("room in a quiet time", &quiet, Event::RoomCame, go_on),
        ("work that is due", &state(), Event::StoodBy(Heard::Due), afresh),
        ("work that was announced", &state(), Event::StoodBy(Heard::Notice), afresh),
        ("work that was handed over", &state(), Event::StoodBy(Heard::Served { until: later }), go_on),
        ("no work", &state(), Event::StoodBy(Heard::Nothing), afresh),
        ("a pause that is over", &doubting, Event::Rested, afresh),
        ("its lease ran out", &expecting(), Event::Failed(Fault::LeaseLost), Step::Enlist),
        ("its last lease did", &expecting(), Event::Failed(Fault::OldLeaseLost), afresh),
        ("an answer was lost", &expecting(), Event::Failed(Fault::AnswerLost { now }), Step::Pause),
        ("the store refused", &quiet, Event::Failed(Fault::Refused), Step::Pause),
    ];
    for (what, before, event, expected) in rows {
        assert_eq!(before.clone().next(event), expected, "{what}");
    }
}

#[test]
fn what_it_believes_after_each_event() {
    let now = Instant::now();
    let after = |before: State, event: Event| {
        let mut state = before;
        state.next(event);
        (state.work, state.credible)
    };
    let doubting = || State { credible: false, ..expecting() };
    let claimed = |taken, notified| Event::Claimed { taken, asked: 2, notified, now };
    assert_eq!(after(expecting(), claimed(0, false)), (Work::Unknown, false), "the notice was for others");
    assert_eq!(after(doubting(), claimed(1, true)), (Work::Expected, true), "what came meanwhile");
    assert_eq!(after(doubting(), claimed(1, false)), (Work::Unknown, true));
    assert_eq!(after(state(), Event::StoodBy(Heard::Notice)), (Work::Expected, true));
    assert_eq!(after(doubting(), Event::StoodBy(Heard::Notice)), (Work::Unknown, false), "it looks first");
    assert_eq!(after(state(), Event::StoodBy(Heard::Due)), (Work::Seen, true));
    assert_eq!(after(state(), Event::Looked { found: Found::Work, now }), (Work::Seen, true));
    assert_eq!(after(expecting(), Event::Failed(Fault::Refused)), (Work::Unknown, true));
    assert_eq!(after(state(), Event::RoomCame), (Work::Expected, true));
}

#[test]
fn a_lost_answer_is_searched_for_three_times() {
    // L17
    let now = Instant::now();
    let mut state = State::new(LONGEST, LEASE, false, Some(now));
    let mut moment = now;
    for _ in 0..3 {
        assert_eq!(state.next(Event::Began { ready: true, now: moment }), Step::Search);
        state.next(Event::Searched { now: moment });
        assert_eq!(state.next(Event::Began { ready: true, now: moment }), Step::Prepare, "not at once again");
        moment += LEASE / 2;
    }
    assert_eq!(state.next(Event::Began { ready: true, now: moment + LEASE }), Step::Prepare);
    state.next(Event::Failed(Fault::AnswerLost { now: moment }));
    assert_eq!(state.next(Event::Began { ready: true, now: moment }), Step::Search, "and from the beginning");
}
