//! The fires of one schedule: every one that was decided has its job, and where a fire waits for the job of the one
//! before it, that job had ended.

use std::collections::BTreeMap;
use std::time::Duration;

use backstop::Timestamp;
use backstop::schedules::{Misfire, Overlap, PassReason, ScheduleView};

/// A job ends by a clock that was read before its end is seen; as in `job`, this is more than lies in between.
const CLOCK_ORDER: Duration = Duration::from_secs(1);

/// The job of a fire.
#[derive(Debug, Clone, Copy)]
pub(super) struct FiredJob {
    /// When it was stored.
    pub(super) created: Timestamp,
    /// When it ended; none when it has not.
    pub(super) ended: Option<Timestamp>,
}

/// Adds what is wrong with the fires of a schedule, given its jobs by their fire times.
pub(super) fn check(view: &ScheduleView, jobs: &BTreeMap<Timestamp, FiredJob>, problems: &mut Vec<String>) {
    problems.extend(lost(view, jobs).into_iter().map(|fire| format!("{fire} was never submitted")));
    if view.schedule.overlap == Overlap::Allow {
        return;
    }
    for ((earlier, before), (later, job)) in jobs.iter().zip(jobs.iter().skip(1)) {
        if before.ended.is_none_or(|end| end > job.created) {
            problems.push(format!("{later} was submitted while the job of {earlier} went on"));
        }
    }
}

/// The fires that were decided and have no job, if what is missed may not be passed over. The state says up to where
/// all are decided, so the last ones count too, also when there is no job at all.
fn lost(view: &ScheduleView, jobs: &BTreeMap<Timestamp, FiredJob>) -> Vec<Timestamp> {
    let state = &view.state;
    let (Misfire::CatchUp(_), Ok(times)) =
        (view.schedule.misfire, view.schedule.timing.fire_times(state.anchor))
    else {
        return Vec::new();
    };
    let decided = times.between(state.anchor, state.decided);
    decided.filter(|fire| !jobs.contains_key(fire) && !is_excused(view, jobs, *fire)).collect()
}

/// True when it is right that a fire which was decided has no job.
fn is_excused(view: &ScheduleView, jobs: &BTreeMap<Timestamp, FiredJob>, fire: Timestamp) -> bool {
    match view.schedule.overlap {
        Overlap::Allow => false,
        // It was passed over because the job of the fire before it went on.
        Overlap::Skip => {
            let before = jobs.range(..fire).next_back();
            before.is_some_and(|(_, job)| job.ended.is_none_or(|end| end.after(CLOCK_ORDER) > fire))
        }
        // It still waits, or too many did.
        Overlap::Queue => {
            let full = view.state.passed.filter(|passed| passed.reason == PassReason::QueueFull);
            view.state.queued.contains(&fire) || full.is_some_and(|passed| fire <= passed.fire_time)
        }
    }
}

#[cfg(test)]
mod tests {
    use backstop::JobId;
    use backstop::schedules::{PassedFire, Schedule, ScheduleOwner, ScheduleState, Timing};
    use backstop_core::job::{NewJob, Spec};

    use super::*;

    const fn second(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    /// A schedule that fires every second, of which four fires are decided.
    fn view(overlap: Overlap) -> ScheduleView {
        let job = NewJob::new(Spec::new(JobId::from_u128(1), "toil", "{}"));
        let mut schedule = Schedule::new(Timing::every(Duration::from_secs(1)), job);
        (schedule.misfire, schedule.overlap) = (Misfire::CatchUp(100), overlap);
        let mut state = ScheduleState::new(second(0));
        state.decided = second(4);
        let (name, owner, now) = ("planted".to_owned(), ScheduleOwner::Api, second(4));
        ScheduleView { name, schedule, owner, state, upcoming: Vec::new(), now }
    }

    /// Jobs by the seconds of their fire times, created and ended at these seconds.
    fn jobs(fires: &[(i64, i64, Option<i64>)]) -> BTreeMap<Timestamp, FiredJob> {
        let job = |(fire, created, ended): &(i64, i64, Option<i64>)| {
            let job = FiredJob { created: second(*created), ended: ended.map(second) };
            (second(*fire), job)
        };
        fires.iter().map(job).collect()
    }

    fn problems(view: &ScheduleView, fires: &[(i64, i64, Option<i64>)]) -> Vec<String> {
        let mut problems = Vec::new();
        check(view, &jobs(fires), &mut problems);
        problems
    }

    #[test]
    fn a_lost_fire_is_found_wherever_it_stood() {
        let view = view(Overlap::Allow);
        let all = [1, 2, 3, 4].map(|fire| (fire, fire, Some(fire)));
        assert!(problems(&view, &all).is_empty());
        for (place, (fire, ..)) in all.iter().enumerate() {
            let mut fires = all.to_vec();
            fires.remove(place);
            let expected = format!("{} was never submitted", second(*fire));
            assert_eq!(problems(&view, &fires), [expected]);
        }
        assert_eq!(problems(&view, &[]).len(), 4, "a schedule without a job is looked at too");
    }

    #[test]
    fn a_fire_is_passed_over_only_while_the_job_before_it_goes_on() {
        let view = view(Overlap::Skip);
        assert!(problems(&view, &[(1, 1, Some(3)), (4, 4, Some(4))]).is_empty());
        assert!(problems(&view, &[(1, 1, Some(4))]).is_empty());
        let expected = format!("{} was never submitted", second(4));
        assert_eq!(problems(&view, &[(1, 1, Some(3))]), [expected]);
        assert_eq!(problems(&view, &[]).len(), 4, "nothing was there to wait for");
    }

    #[test]
    fn a_fire_that_waits_is_not_lost_and_one_that_does_not_is() {
        let mut view = view(Overlap::Queue);
        let fires = [(1, 1, Some(2)), (2, 2, Some(4))];
        assert_eq!(problems(&view, &fires).len(), 2);
        view.state.queued = vec![second(3), second(4)];
        assert!(problems(&view, &fires).is_empty());
        view.state.queued.pop();
        assert_eq!(problems(&view, &fires).len(), 1);
        view.state.passed = Some(PassedFire { fire_time: second(4), reason: PassReason::QueueFull });
        assert!(problems(&view, &fires).is_empty());
    }

    #[test]
    fn a_fire_that_did_not_wait_for_the_job_before_it_is_found() {
        let fires = [(1, 1, Some(3)), (2, 2, Some(4)), (3, 5, Some(5)), (4, 5, Some(6))];
        let expected = format!("{} was submitted while the job of {} went on", second(2), second(1));
        assert_eq!(problems(&view(Overlap::Queue), &fires), [expected]);
        assert!(problems(&view(Overlap::Allow), &fires).is_empty());
        let open = [(1, 1, None), (2, 2, Some(4)), (3, 5, Some(5)), (4, 5, Some(6))];
        assert_eq!(problems(&view(Overlap::Queue), &open).len(), 1, "one that has not ended goes on");
    }
}
