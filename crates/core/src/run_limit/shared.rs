//! What is left of what jobs share, while one claim takes jobs: keys, names and pools (H5, H6).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{CountBy, RunBucket, RunLimit};
use crate::id::JobId;
use crate::job::{SharedResource, SharingNeeds, Spec, WaitDetail, WaitReason};
use crate::time::Timestamp;

/// What runs of one queue and kind hold of something shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedUse {
    /// Their queue.
    pub queue: Arc<str>,
    /// Their kind.
    pub kind: Arc<str>,
    /// How much of it: runs, or permits.
    pub amount: u64,
    /// One of the jobs that run.
    pub job: JobId,
}

/// Why a job finds no room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedHold {
    /// What kind of thing is missing.
    pub reason: WaitReason,
    /// Which one: the limit, the name or the pool.
    pub name: Arc<str>,
    /// When it goes on; none where a run has to end first.
    pub until: Option<Timestamp>,
    /// A job that has what is missing.
    pub holder: Option<JobId>,
}

impl From<SharedHold> for WaitDetail {
    fn from(hold: SharedHold) -> Self {
        let SharedHold { reason, name, until, holder } = hold;
        Self { reason, key: name.to_string(), holder, until, position: None }
    }
}

/// A job of which somebody asks whether there is room for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharingJob {
    /// Its queue.
    pub queue: Arc<str>,
    /// Its kind.
    pub kind: Arc<str>,
    /// What it needs.
    pub needs: SharingNeeds,
}

impl SharingJob {
    /// That of a job; none when it shares nothing.
    #[must_use]
    pub fn of(spec: &Spec) -> Option<Self> {
        let needs = spec.needs.as_deref()?.clone();
        Some(Self { queue: spec.queue.clone(), kind: spec.kind.clone(), needs })
    }
}

/// The bucket of a limit for one key.
pub type KeyBucket = (Arc<str>, Arc<str>);

/// What is left of what jobs share. It is locked: nobody else takes what is left.
#[derive(Debug, Clone)]
pub struct SharedRooms {
    now: Timestamp,
    limits: Vec<RunLimit>,
    used: HashMap<SharedResource, Vec<SharedUse>>,
    buckets: HashMap<KeyBucket, RunBucket>,
    spent: BTreeMap<KeyBucket, RunBucket>,
    held: Option<Timestamp>,
}

impl SharedRooms {
    /// With the limits that may be about it, what runs hold, and what the rates of keys have left.
    #[must_use]
    pub fn new(
        limits: impl IntoIterator<Item = RunLimit>,
        used: HashMap<SharedResource, Vec<SharedUse>>,
        buckets: HashMap<KeyBucket, RunBucket>,
        now: Timestamp,
    ) -> Self {
        let (spent, held) = (BTreeMap::new(), None);
        Self { now, limits: limits.into_iter().collect(), used, buckets, spent, held }
    }

    /// The limits that are locked while a job with these needs is taken, by their names, and the buckets that are read.
    /// One that needs a single instance waits for whoever looks at that name.
    pub fn buckets_of<'a>(
        limits: &'a [RunLimit],
        queue: &'a str,
        kind: &'a str,
        needs: &'a SharingNeeds,
    ) -> impl Iterator<Item = (&'a RunLimit, Arc<str>)> {
        let by_key = |limit: &&RunLimit| limit.by == CountBy::Key && limit.covers(queue, kind);
        let key = needs.limit_key.clone();
        limits.iter().filter(by_key).filter_map(move |limit| Some((limit, key.clone()?)))
    }

    fn amount(&self, shared: &SharedResource, counts: impl Fn(&SharedUse) -> bool) -> u64 {
        let used = self.used.get(shared).map(Vec::as_slice).unwrap_or_default();
        used.iter().filter(|one| counts(one)).map(|one| one.amount).sum()
    }

    fn bucket(&self, limit: &RunLimit, key: &Arc<str>) -> RunBucket {
        let of = (limit.name.clone(), key.clone());
        self.spent.get(&of).or_else(|| self.buckets.get(&of)).copied().unwrap_or_default()
    }

    /// Held until a run ends.
    fn held(&self, reason: WaitReason, name: &Arc<str>, shared: &SharedResource) -> SharedHold {
        let holder = self.used.get(shared).and_then(|used| used.first()).map(|one| one.job);
        SharedHold { reason, name: name.clone(), until: None, holder }
    }

    /// What keeps a job with these needs from starting; none when there is room for it.
    #[must_use]
    pub fn hold(&self, queue: &str, kind: &str, needs: &SharingNeeds) -> Option<SharedHold> {
        for (limit, key) in Self::buckets_of(&self.limits, queue, kind, needs) {
            let shared = SharedResource::Key(key.clone());
            let running = || self.amount(&shared, |one| limit.covers(&one.queue, &one.kind));
            if limit.concurrency.is_some_and(|most| running() >= most) {
                return Some(self.held(WaitReason::Concurrency, &limit.name, &shared));
            }
            if let Some(rate) = limit.rate {
                let bucket = self.bucket(limit, &key);
                if bucket.left(rate, self.now) == 0 {
                    let (reason, name) = (WaitReason::Rate, limit.name.clone());
                    let until = Some(bucket.next_start(rate, self.now));
                    return Some(SharedHold { reason, name, until, holder: None });
                }
            }
        }
        for (shared, amount) in needs.shared() {
            match &shared {
                SharedResource::Instance(name) if self.amount(&shared, |_| true) > 0 => {
                    return Some(self.held(WaitReason::SingleInstance, name, &shared));
                }
                SharedResource::Pool(name) => {
                    // A pool that nobody has made has no permits: what was meant to be kept apart stays apart.
                    let pool =
                        self.limits.iter().find(|limit| limit.permits.is_some() && limit.name == *name);
                    let most = pool.and_then(|limit| limit.permits).unwrap_or_default();
                    if self.amount(&shared, |_| true) + u64::from(amount) > u64::from(most) {
                        return Some(self.held(WaitReason::Permits, name, &shared));
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Notes that a job found no room.
    pub fn note_held(&mut self, hold: &SharedHold) {
        self.note_held_until(hold.until.unwrap_or(Timestamp::MAX));
    }

    /// Notes that a job found no room until then.
    pub fn note_held_until(&mut self, until: Timestamp) {
        self.held = Some(self.held.map_or(until, |earlier| earlier.min(until)));
    }

    /// Notes that a job was taken.
    pub fn take(&mut self, queue: &Arc<str>, kind: &Arc<str>, needs: &SharingNeeds, job: JobId) {
        let limits = std::mem::take(&mut self.limits);
        for (limit, key) in Self::buckets_of(&limits, queue, kind, needs) {
            if let Some(rate) = limit.rate {
                let bucket = self.bucket(limit, &key).spend(rate, self.now, 1);
                self.spent.insert((limit.name.clone(), key), bucket);
            }
        }
        self.limits = limits;
        for (shared, amount) in needs.shared() {
            let (queue, kind, amount) = (queue.clone(), kind.clone(), amount.into());
            let held = SharedUse { queue, kind, amount, job };
            self.used.entry(shared).or_default().push(held);
        }
    }

    /// How many jobs of a key may start when its turn comes.
    #[must_use]
    pub fn weight(&self, queue: &str, kind: &str, needs: &SharingNeeds) -> u32 {
        let weight = |(limit, key): (&RunLimit, Arc<str>)| limit.weights.get(&key).copied();
        Self::buckets_of(&self.limits, queue, kind, needs).find_map(weight).unwrap_or(1)
    }

    /// The buckets that were taken from, as they are now.
    #[must_use]
    pub const fn spent(&self) -> &BTreeMap<KeyBucket, RunBucket> {
        &self.spent
    }

    /// When something that had no room lets another job start; none when all found room.
    #[must_use]
    pub const fn held_until(&self) -> Option<Timestamp> {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::RunRate;
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
    const JOB: JobId = JobId::from_u128(7);

    fn key(key: &str) -> SharingNeeds {
        SharingNeeds { limit_key: Some(key.into()), ..SharingNeeds::default() }
    }

    fn by_key(name: &str) -> RunLimit {
        RunLimit { by: CountBy::Key, ..RunLimit::new(name) }
    }

    fn rooms(limits: Vec<RunLimit>) -> SharedRooms {
        SharedRooms::new(limits, HashMap::new(), HashMap::new(), NOW)
    }

    #[test]
    fn each_key_has_room_of_its_own() {
        // H5
        let limit = RunLimit { concurrency: Some(2), queue: Some("mail".into()), ..by_key("two") };
        let mut rooms = rooms(vec![limit]);
        let (mail, web, kind): (Arc<str>, Arc<str>, Arc<str>) = ("mail".into(), "web".into(), "send".into());
        for _ in 0..2 {
            assert_eq!(rooms.hold(&mail, &kind, &key("a")), None);
            rooms.take(&mail, &kind, &key("a"), JOB);
        }
        let hold = rooms.hold(&mail, &kind, &key("a")).expect("two of two run");
        assert_eq!((hold.reason, &*hold.name, hold.until), (WaitReason::Concurrency, "two", None));
        assert_eq!(rooms.hold(&mail, &kind, &key("b")), None, "another key");
        assert_eq!(rooms.hold(&web, &kind, &key("a")), None, "another queue");
        assert_eq!(rooms.hold(&mail, &kind, &SharingNeeds::default()), None, "no key");
    }

    #[test]
    fn each_key_has_a_bucket_of_its_own() {
        // H5
        let rate = RunRate { count: 1, per: Duration::from_secs(1) };
        let mut rooms = rooms(vec![RunLimit { rate: Some(rate), ..by_key("slow") }]);
        let (queue, kind): (Arc<str>, Arc<str>) = ("mail".into(), "send".into());
        rooms.take(&queue, &kind, &key("a"), JOB);
        let hold = rooms.hold(&queue, &kind, &key("a")).expect("its start is used");
        assert_eq!((hold.reason, hold.until), (WaitReason::Rate, Some(NOW.after(Duration::from_secs(1)))));
        assert_eq!(rooms.hold(&queue, &kind, &key("b")), None);
        assert_eq!(rooms.spent().len(), 1, "only what was taken from is written");
        rooms.note_held(&hold);
        assert_eq!(rooms.held_until(), hold.until);
    }

    #[test]
    fn one_run_of_a_name_and_no_more_permits_than_a_pool_has() {
        // H5, H6
        let mut rooms = rooms(vec![RunLimit { permits: Some(3), ..RunLimit::new("gpu") }]);
        let (queue, kind): (Arc<str>, Arc<str>) = ("q".into(), "k".into());
        let single = SharingNeeds { single_instance: Some("nightly".into()), ..SharingNeeds::default() };
        let gpus =
            |count| SharingNeeds { permits: [("gpu".into(), count)].into(), ..SharingNeeds::default() };
        let lost = SharingNeeds { permits: [("typo".into(), 1)].into(), ..SharingNeeds::default() };
        let reason = |rooms: &SharedRooms, needs: &SharingNeeds| {
            rooms.hold(&queue, &kind, needs).map(|hold| hold.reason)
        };
        assert_eq!(reason(&rooms, &single), None);
        rooms.take(&queue, &kind, &single, JOB);
        assert_eq!(reason(&rooms, &single), Some(WaitReason::SingleInstance));
        assert_eq!(rooms.hold(&queue, &kind, &single).and_then(|hold| hold.holder), Some(JOB));
        rooms.take(&queue, &kind, &gpus(2), JOB);
        assert_eq!((reason(&rooms, &gpus(1)), reason(&rooms, &gpus(2))), (None, Some(WaitReason::Permits)));
        assert_eq!(reason(&rooms, &lost), Some(WaitReason::Permits), "a pool that is not there");
    }
}
