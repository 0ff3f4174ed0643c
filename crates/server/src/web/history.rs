//! The last hour of the kept counts, and the last day of failures, in the memory of this process: what the charts are
//! drawn from.
//!
//! The stores keep counts, not their past. A sample is a few counts per queue and incident, so an hour is small and
//! bounded whatever the store holds, and so is a day with a sample every five minutes. What was before this process
//! began, or while the store did not answer, is not known, and is a gap.

mod channels;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop::Timestamp;
use backstop_core::health::{WaitCounts, WaitsByQueue};
use backstop_store::{Incident, QueueView};

pub(super) use channels::ChannelSample;

/// How often a sample is taken.
pub(super) const EVERY: Duration = Duration::from_secs(5);

/// How far back samples are kept.
const HOUR: Duration = Duration::from_secs(3_600);

/// How much of it a chart shows: the shortest that holds all that is known, so that a server that has just begun does
/// not show an empty hour.
const WINDOWS: [Duration; 3] = [Duration::from_secs(300), Duration::from_secs(900), HOUR];

/// Samples that are further apart than this have a gap between them.
const GAP: Duration = Duration::from_secs(20);

/// Samples of waits and channels are taken less often.
const GAP_OF_WAITS: Duration = Duration::from_secs(40);

/// The same for a day: how far back, how often, and how far apart is a gap.
const DAY: Duration = Duration::from_secs(24 * 3_600);
const EVERY_OF_DAY: Duration = Duration::from_secs(300);
const GAP_OF_DAY: Duration = Duration::from_secs(900);

/// Points of a chart: of an hour, one for each half minute.
pub(super) const POINTS: usize = 120;

/// Queues and incidents of one sample; the fullest and the latest ones.
pub(super) const MOST_QUEUES: usize = 200;
pub(super) const MOST_INCIDENTS: usize = 50;

/// What is remembered of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct QueueCounts {
    pub(super) succeeded: u64,
    pub(super) canceled: u64,
    pub(super) failed: u64,
    pub(super) pending: u64,
    pub(super) running: u64,
    /// Jobs that have not ended, wherever they are.
    live: u64,
    pub(super) oldest_wait_ms: u64,
}

impl QueueCounts {
    fn of(view: &QueueView, now: Timestamp) -> Self {
        let wait = view.oldest_due.map_or(Duration::ZERO, |due| now.since(due));
        Self {
            succeeded: view.succeeded,
            canceled: view.canceled,
            failed: view.failed,
            pending: view.pending,
            running: view.running,
            live: view.pending + view.waiting + view.running + view.paused_jobs,
            oldest_wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// How many jobs have ended since `from`. Counts are taken apart: a dead letter that is driven again leaves one and
    /// ends in another, and is no less an end for that. Where more are archived than end, nothing is known.
    fn ended_since(&self, from: &Self) -> Option<u64> {
        let canceled = self.canceled.checked_sub(from.canceled)?;
        Some(self.succeeded.checked_sub(from.succeeded)? + canceled + self.failed.saturating_sub(from.failed))
    }

    /// How many have come since `from`: submitted, or driven again. They have ended since, or are here.
    fn come_since(&self, from: &Self) -> Option<u64> {
        Some((self.ended_since(from)? + self.live).saturating_sub(from.live))
    }
}

/// What is remembered of an incident: since when it is known, and how often it has failed.
#[derive(Debug, Clone, Copy)]
struct FailureCount {
    first_seen: Timestamp,
    failures: u64,
}

/// The counts of one moment.
#[derive(Debug, Clone)]
struct CountSample {
    at: Timestamp,
    queues: HashMap<Arc<str>, QueueCounts>,
    /// True when there were no other queues: one that is in a later sample alone is new.
    has_all_queues: bool,
    /// By fingerprint.
    failures: HashMap<Arc<str>, FailureCount>,
}

/// The last hour.
#[derive(Debug, Default)]
pub(crate) struct CountHistory {
    samples: Mutex<VecDeque<CountSample>>,
    /// Failures alone, of a day.
    day: Mutex<VecDeque<CountSample>>,
    /// How long the jobs that were taken in the minute before had waited.
    waits: Mutex<VecDeque<(Timestamp, WaitsByQueue)>>,
    /// What passes beside the queues.
    channels: Mutex<VecDeque<ChannelSample>>,
}

/// A line of a chart: a value for each point, and none where nothing is known.
pub(super) type Line = Vec<Option<f64>>;

impl CountHistory {
    /// Takes a sample, and forgets what is older than an hour.
    pub(super) fn add(&self, now: Timestamp, mut queues: Vec<QueueView>, incidents: &[Incident]) {
        queues.sort_by_key(|view| std::cmp::Reverse(view.pending + view.running + view.failed));
        let has_all_queues = queues.len() <= MOST_QUEUES;
        queues.truncate(MOST_QUEUES);
        let counts = queues.iter().map(|view| (view.name.as_str().into(), QueueCounts::of(view, now)));
        let failures = incidents.iter().take(MOST_INCIDENTS);
        let failures = failures.map(|one| {
            let count = FailureCount { first_seen: one.first_seen, failures: one.failures };
            (one.fingerprint.to_string().into(), count)
        });
        let (queues, failures) = (counts.collect(), failures.collect());
        let sample = CountSample { at: now, queues, has_all_queues, failures };
        self.add_to_day(&sample);
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.retain(|one| one.at.after(HOUR) >= now && one.at < now);
        samples.push_back(sample);
    }

    /// Takes a sample of how long jobs have waited in the minute before, of the queues that took most.
    pub(super) fn add_waits(&self, now: Timestamp, waits: WaitsByQueue) {
        let mut busiest: Vec<(String, WaitCounts)> = waits.into_iter().collect();
        busiest.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.count()));
        busiest.truncate(MOST_QUEUES);
        let mut known = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(at, _)| at.after(HOUR) >= now && *at < now);
        known.push_back((now, busiest.into_iter().collect()));
    }

    fn add_to_day(&self, sample: &CountSample) {
        let mut day = self.day.lock().unwrap_or_else(PoisonError::into_inner);
        day.retain(|one| one.at.after(DAY) >= sample.at && one.at < sample.at);
        if day.back().is_none_or(|last| sample.at.since(last.at) >= EVERY_OF_DAY) {
            day.push_back(CountSample { queues: HashMap::new(), ..sample.clone() });
        }
    }

    /// Since when counts are known without a gap at the beginning; none before the first sample.
    pub(super) fn since(&self) -> Option<Timestamp> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).front().map(|one| one.at)
    }

    /// How far back charts go.
    pub(super) fn window(&self, now: Timestamp) -> Duration {
        let known = self.since().map_or(Duration::ZERO, |since| now.since(since));
        WINDOWS.into_iter().find(|window| known <= *window).unwrap_or(HOUR)
    }

    /// A value that goes up and down, added up over the queues that are seen.
    pub(super) fn level(
        &self,
        now: Timestamp,
        sees: impl Fn(&str) -> bool,
        pick: impl Fn(&QueueCounts) -> u64,
    ) -> Line {
        self.points(now, |_, sample| Some(float(sum(sample, &sees, &pick))))
    }

    /// The same, as the highest of the queues that are seen.
    pub(super) fn highest(
        &self,
        now: Timestamp,
        sees: impl Fn(&str) -> bool,
        pick: impl Fn(&QueueCounts) -> u64,
    ) -> Line {
        self.points(now, |_, sample| {
            let seen = sample.queues.iter().filter(|(name, _)| sees(name));
            Some(float(seen.map(|(_, counts)| pick(counts)).max().unwrap_or(0)))
        })
    }

    /// How fast jobs end, per second.
    pub(super) fn ended(&self, now: Timestamp, sees: impl Fn(&str) -> bool) -> Line {
        self.per_second(now, sees, QueueCounts::ended_since)
    }

    /// How fast jobs come, per second.
    pub(super) fn came(&self, now: Timestamp, sees: impl Fn(&str) -> bool) -> Line {
        self.per_second(now, sees, QueueCounts::come_since)
    }

    /// How fast something is counted up on the queues that are seen.
    fn per_second(
        &self,
        now: Timestamp,
        sees: impl Fn(&str) -> bool,
        counted: impl Fn(&QueueCounts, &QueueCounts) -> Option<u64>,
    ) -> Line {
        self.points(now, |before, sample| {
            let before = before?;
            let seconds = sample.at.since(before.at).as_secs_f64();
            (seconds > 0.0).then_some(())?;
            let mut sum = 0;
            for (name, to) in sample.queues.iter().filter(|(name, _)| sees(name)) {
                let from = match before.queues.get(name) {
                    Some(from) => *from,
                    None if before.has_all_queues => QueueCounts::default(),
                    // It was among those that are not remembered: all that it ever did is no news.
                    None => continue,
                };
                sum += counted(to, &from)?;
            }
            Some(float(sum) / seconds)
        })
    }

    /// How long so many of a hundred jobs had waited at most that were taken on the queues that are seen, in seconds.
    pub(super) fn waited(&self, now: Timestamp, sees: impl Fn(&str) -> bool, percent: u64) -> Line {
        let value = |_: Option<&WaitsByQueue>, sample: &WaitsByQueue| {
            let mut sum = WaitCounts::default();
            let seen = sample.iter().filter(|(name, _)| sees(name));
            seen.for_each(|(_, counts)| sum.add(counts));
            sum.percentile(percent).map(|wait| wait.as_secs_f64())
        };
        let window = self.window(now);
        let known = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        line(now, known.iter().map(|(at, waits)| (*at, waits)), (window, GAP_OF_WAITS), value)
    }

    /// How fast an incident fails, per second.
    pub(super) fn failures(&self, now: Timestamp, fingerprint: &str) -> Line {
        self.points(now, |before, sample| failing(before, sample, fingerprint))
    }

    /// The same over as much of a day as is known, and how much that is.
    pub(super) fn trend(&self, now: Timestamp, fingerprint: &str) -> (Duration, Line) {
        let day = self.day.lock().unwrap_or_else(PoisonError::into_inner);
        if day.front().is_none_or(|first| now.since(first.at) <= HOUR) {
            drop(day);
            return (self.window(now), self.failures(now, fingerprint));
        }
        let value = |before: Option<&CountSample>, sample: &CountSample| failing(before, sample, fingerprint);
        (DAY, line(now, day.iter().map(|one| (one.at, one)), (DAY, GAP_OF_DAY), value))
    }

    fn points(
        &self,
        now: Timestamp,
        value: impl Fn(Option<&CountSample>, &CountSample) -> Option<f64>,
    ) -> Line {
        let window = self.window(now);
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        line(now, samples.iter().map(|one| (one.at, one)), (window, GAP), value)
    }
}

/// Two lines as one; where only one is known, it is that one.
pub(super) fn added(one: &Line, other: &Line) -> Line {
    let both = one.iter().zip(other);
    both.map(|(one, other)| one.zip(*other).map(|(one, other)| one + other).or(*one).or(*other)).collect()
}

/// The points of a line over a window, of samples between which there may be gaps.
fn line<'s, S: 's>(
    now: Timestamp,
    samples: impl Iterator<Item = (Timestamp, &'s S)>,
    (window, gap): (Duration, Duration),
    value: impl Fn(Option<&S>, &S) -> Option<f64>,
) -> Line {
    let step = window / u32::try_from(POINTS).unwrap_or(1);
    let (mut sums, mut before) = (vec![(0.0, 0u32); POINTS], None::<(Timestamp, &S)>);
    for (at, sample) in samples {
        let near = before.filter(|(before, _)| at.since(*before) <= gap).map(|(_, before)| before);
        before = Some((at, sample));
        if let (Some(value), Some(place)) = (value(near, sample), place(now, at, step)) {
            sums[place].0 += value;
            sums[place].1 += 1;
        }
    }
    let known = sums.into_iter().map(|(sum, count)| (count > 0).then(|| sum / f64::from(count)));
    joined(known.collect(), step, gap)
}

/// How fast an incident fails between two samples. One that was not there before is new, or was not among the latest:
/// then what it did in between is not known.
fn failing(before: Option<&CountSample>, sample: &CountSample, fingerprint: &str) -> Option<f64> {
    let (before, to) = (before?, sample.failures.get(fingerprint)?);
    let from = match before.failures.get(fingerprint) {
        Some(from) => from.failures,
        None if to.first_seen >= before.at => 0,
        None => return None,
    };
    per_second(before, sample, from, to.failures)
}

fn sum(sample: &CountSample, sees: &impl Fn(&str) -> bool, pick: &impl Fn(&QueueCounts) -> u64) -> u64 {
    sample.queues.iter().filter(|(name, _)| sees(name)).map(|(_, counts)| pick(counts)).sum()
}

fn per_second(before: &CountSample, sample: &CountSample, from: u64, to: u64) -> Option<f64> {
    let seconds = sample.at.since(before.at).as_secs_f64();
    (seconds > 0.0).then_some(())?;
    to.checked_sub(from).map(|grown| float(grown) / seconds)
}

/// Fills the points between two samples that belong together: where points are closer than samples, that is no gap.
fn joined(mut points: Line, step: Duration, gap: Duration) -> Line {
    let most = usize::try_from(gap.as_millis() / step.as_millis().max(1)).unwrap_or(0);
    let mut last = None;
    for place in 0..points.len() {
        let Some(value) = points[place] else { continue };
        if let Some((before, was)) = last
            && place - before <= most
        {
            let step = (value - was) / float(u64::try_from(place - before).unwrap_or(1));
            let mut between = was;
            for point in &mut points[before + 1..place] {
                between += step;
                *point = Some(between);
            }
        }
        last = Some((place, value));
    }
    points
}

/// Which point of the chart a moment belongs to; none before it begins.
fn place(now: Timestamp, at: Timestamp, step: Duration) -> Option<usize> {
    let back = now.since(at);
    let steps = usize::try_from(back.as_millis() / step.as_millis()).ok()?;
    (POINTS - 1).checked_sub(steps)
}

fn float(count: u64) -> f64 {
    backstop::figures::float(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_800_000_000_000_000;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(START).after(Duration::from_secs(seconds))
    }

    fn queue(name: &str, succeeded: u64, pending: u64) -> QueueView {
        QueueView {
            name: name.to_owned(),
            paused: false,
            pause_note: None,
            pending,
            sharing: 0,
            waiting: 0,
            running: 0,
            paused_jobs: 0,
            succeeded,
            failed: 0,
            canceled: 0,
            oldest_due: None,
            workers: 1,
        }
    }

    fn incident(failures: u64, first_seen: Timestamp) -> Incident {
        Incident {
            fingerprint: "0011223344556677".parse().unwrap(),
            kind: "k".into(),
            error_type: "E".into(),
            message: "m".into(),
            failures,
            dead: 0,
            open: 0,
            first_seen,
            last_seen: first_seen,
            first_version: None,
            last_version: None,
            sample_job: backstop::JobId::from_u128(1),
            standing: backstop_core::incident::Standing::default(),
        }
    }

    #[test]
    fn rates_are_differences_and_what_is_not_known_is_a_gap() {
        let history = CountHistory::default();
        for step in 0..60 {
            history.add(at(step * 5), vec![queue("mail", step * 10, 7), queue("acme/mail", 0, 100)], &[]);
        }
        // Two minutes in which nobody looked.
        for step in 84..90 {
            history.add(at(step * 5), vec![queue("mail", step * 10, 9)], &[]);
        }
        let now = at(450);
        assert_eq!(history.window(now), Duration::from_secs(900), "as long as it needs");
        let rate = history.ended(now, |name| name == "mail");
        assert_eq!(rate.len(), POINTS);
        let known: Vec<usize> = (0..POINTS).filter(|place| rate[*place].is_some()).collect();
        assert!(known.iter().all(|place| (rate[*place].unwrap() - 2.0).abs() < 1e-9), "{rate:?}");
        assert_eq!(rate[0], None, "before the first sample nothing is known");
        assert!(known.windows(2).any(|pair| pair[1] > pair[0] + 2), "the gap is left out: {known:?}");
        let backlog = history.level(now, |name| name == "mail", |counts| counts.pending);
        assert_eq!(backlog[POINTS - 1], Some(9.0), "only what the visitor sees is added up");
        // A count that shrinks says nothing of how fast it grew.
        history.add(at(455), vec![queue("mail", 0, 9)], &[]);
        assert_eq!(history.ended(at(455), |_| true)[POINTS - 1], None);
    }

    #[test]
    fn what_comes_is_here_or_has_ended() {
        let history = CountHistory::default();
        for step in 0..20 {
            // Fifteen come and ten end in five seconds; five of those that end were dead and are driven again.
            let view = QueueView { failed: 500 - step * 5, ..queue("mail", step * 10, 100 + step * 5) };
            history.add(at(step * 5), vec![view], &[]);
        }
        let rate = history.came(at(95), |_| true);
        assert!(rate.iter().flatten().all(|rate| (rate - 3.0).abs() < 1e-9), "{rate:?}");
        assert!(rate.iter().any(Option::is_some));
        let ended = history.ended(at(95), |_| true);
        assert!(ended.iter().flatten().all(|rate| (rate - 2.0).abs() < 1e-9), "{ended:?}");
    }

    #[test]
    fn waits_are_those_of_the_queues_that_are_seen() {
        let waits = |millis: u64, jobs: usize| {
            let mut window = backstop_core::health::WaitWindow::default();
            (0..jobs).for_each(|_| window.note("q", Duration::from_millis(millis), at(0)));
            window.counts(at(0)).remove("q").unwrap()
        };
        let history = CountHistory::default();
        history.add(at(0), Vec::new(), &[]);
        for step in 0..6 {
            let sample = [("mail".to_owned(), waits(20, 98)), ("acme/mail".to_owned(), waits(4_000, 100))];
            history.add_waits(at(step * 15), sample.into());
        }
        let line = |percent, name: &str| history.waited(at(75), |one| one == name, percent);
        let known: Vec<f64> = line(99, "mail").into_iter().flatten().collect();
        assert!(known.len() > 20 && known.iter().all(|wait| *wait <= 0.025), "{known:?}");
        assert!(line(50, "acme/mail").into_iter().flatten().all(|wait| wait > 2.5));
        assert!(line(50, "nobody").iter().all(Option::is_none), "what is not known is no zero");
        let many = (0..1_000).map(|number| (format!("q{number}"), waits(1, 1))).collect();
        history.add_waits(at(90), many);
        assert_eq!(history.waits.lock().unwrap().back().unwrap().1.len(), MOST_QUEUES);
        history.add_waits(at(10_000), WaitsByQueue::new());
        assert_eq!(history.waits.lock().unwrap().len(), 1, "an hour is kept");
    }

    #[test]
    fn dead_letters_that_are_driven_again_end_once_more() {
        let history = CountHistory::default();
        for step in 0..20 {
            let view = QueueView { failed: 500 - step * 10, ..queue("mail", step * 10, 0) };
            history.add(at(step * 5), vec![view], &[]);
        }
        let rate = history.ended(at(95), |_| true);
        assert!(rate.iter().flatten().all(|rate| (rate - 2.0).abs() < 1e-9), "{rate:?}");
        assert!(rate.iter().any(Option::is_some));
    }

    #[test]
    fn what_was_not_remembered_before_is_no_news() {
        let history = CountHistory::default();
        let many = |count: usize| (0..count).map(|number| queue(&format!("q{number:03}"), 0, 9)).collect();
        let mut queues: Vec<QueueView> = many(MOST_QUEUES + 1);
        history.add(at(0), queues.clone(), &[]);
        // The last one was not among the fullest; now it is, with all that it has ever done.
        queues.last_mut().unwrap().succeeded = 1_000_000;
        queues.last_mut().unwrap().pending = 10_000;
        history.add(at(5), queues, &[]);
        assert_eq!(history.ended(at(5), |_| true)[POINTS - 1], Some(0.0));
        // An incident that comes back among the latest is the same; one that is new has failed since.
        let (old, new) = (incident(1_000, at(0)), Incident { first_seen: at(8), ..incident(10, at(0)) });
        history.add(at(10), Vec::new(), &[old]);
        assert_eq!(history.failures(at(10), "0011223344556677")[POINTS - 1], None);
        let history = CountHistory::default();
        history.add(at(5), Vec::new(), &[]);
        history.add(at(10), Vec::new(), &[new]);
        assert_eq!(history.failures(at(10), "0011223344556677")[POINTS - 1], Some(2.0));
    }

    #[test]
    fn it_never_holds_more_than_an_hour() {
        let history = CountHistory::default();
        for step in 0..2_000 {
            history.add(at(step * 5), vec![queue("mail", 0, 0)], &[]);
        }
        assert!(history.samples.lock().unwrap().len() <= 721);
        assert_eq!(history.day.lock().unwrap().len(), 34, "and a sample every five minutes of a day");
        assert_eq!(history.since(), Some(at(1_999 * 5 - 3_600)));
    }

    #[test]
    fn a_trend_goes_back_a_day_once_it_is_known() {
        let history = CountHistory::default();
        for minute in 0..30 {
            history.add(at(minute * 60), Vec::new(), &[incident(minute * 60, at(0))]);
        }
        assert_eq!(history.trend(at(1_800), "0011223344556677").0, HOUR, "no longer than what is known");
        for minute in 30..3_000 {
            history.add(at(minute * 60), Vec::new(), &[incident(minute * 60, at(0))]);
        }
        let (window, line) = history.trend(at(2_999 * 60), "0011223344556677");
        assert_eq!((window, line.len()), (DAY, POINTS));
        assert!(line.iter().flatten().all(|rate| (rate - 1.0).abs() < 1e-9), "{line:?}");
        assert!(line.iter().skip(2).all(Option::is_some), "{line:?}");
        assert!(history.day.lock().unwrap().len() <= 289);
    }
}
