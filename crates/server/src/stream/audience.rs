//! Subscribers that are sent the same events.
//!
//! An event is held against what they asked for once, not once for each of them, and whoever has nothing to read is not
//! woken: thousands of connections that wait for something rare cost as much as one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use backstop::{JobId, LoggedEvent};
use tokio::sync::Notify;

use super::filter::{EventFilter, visible};
use crate::access::Caller;

/// Those with the same rights and the same wishes.
#[derive(Debug)]
pub(crate) struct Audience {
    caller: Caller,
    filter: EventFilter,
    members: AtomicUsize,
    /// The number of the latest event that may be for them.
    latest: AtomicU64,
    /// True when they have not been told of it yet.
    stirred: AtomicBool,
    pub(super) news: Arc<Notify>,
}

impl Audience {
    pub(super) fn wants(&self, event: &LoggedEvent) -> bool {
        visible(&self.caller, event) && self.filter.wants(event)
    }

    /// The tenant whose form of an event they are sent.
    pub(super) fn tenant(&self) -> Option<&str> {
        self.caller.tenant()
    }

    /// The number of the latest event that may be for them, of those that came since there is such an audience.
    pub(super) fn latest(&self) -> u64 {
        self.latest.load(Ordering::Acquire)
    }

    fn stir(&self, seq: u64) {
        self.latest.store(seq, Ordering::Release);
        self.stirred.store(true, Ordering::Release);
    }
}

/// What makes two subscribers alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Wish {
    operates: bool,
    tenant: Option<String>,
    queues: Option<Vec<String>>,
    filter: EventFilter,
}

/// All audiences that have members.
#[derive(Debug, Default)]
pub(super) struct Audiences {
    all: HashMap<Wish, Arc<Audience>>,
    /// Of those, the ones that ask for one job: there may be as many as subscribers.
    by_job: HashMap<JobId, Vec<Arc<Audience>>>,
    /// And the ones that do not.
    broad: Vec<Arc<Audience>>,
}

impl Audiences {
    /// The audience of one more subscriber, which must [`Audiences::leave`] it.
    pub(super) fn join(&mut self, caller: Caller, filter: EventFilter) -> Arc<Audience> {
        let wish = Self::wish(&caller, &filter);
        let audience = self.all.get(&wish).cloned().unwrap_or_else(|| {
            let audience = Arc::new(Audience {
                caller,
                filter,
                members: AtomicUsize::new(0),
                latest: AtomicU64::new(0),
                stirred: AtomicBool::new(false),
                news: Arc::new(Notify::new()),
            });
            self.peers(&audience).push(audience.clone());
            self.all.insert(wish, audience.clone());
            audience
        });
        audience.members.fetch_add(1, Ordering::AcqRel);
        audience
    }

    /// One member is gone; the audience goes with the last.
    pub(super) fn leave(&mut self, audience: &Arc<Audience>) {
        if audience.members.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        self.peers(audience).retain(|other| !Arc::ptr_eq(other, audience));
        if let Some(job) = audience.filter.job
            && self.by_job.get(&job).is_some_and(Vec::is_empty)
        {
            self.by_job.remove(&job);
        }
        self.all.remove(&Self::wish(&audience.caller, &audience.filter));
    }

    /// Notes for whom an event is.
    pub(super) fn reporting(&self, event: &LoggedEvent) {
        let about = event.job.as_ref().and_then(|job| self.by_job.get(job));
        let wanting = self.broad.iter().chain(about.into_iter().flatten()).filter(|one| one.wants(event));
        wanting.for_each(|audience| audience.stir(event.seq));
    }

    /// Notes something that everybody has to know.
    pub(super) fn tell_all(&self, seq: u64) {
        self.all.values().for_each(|audience| audience.stir(seq));
    }

    /// How many subscribers have something to read that they were not told of.
    pub(super) fn stirred(&self) -> usize {
        let stirred = self.all.values().filter(|audience| audience.stirred.load(Ordering::Acquire));
        stirred.map(|audience| audience.members.load(Ordering::Acquire)).sum()
    }

    /// The bells of those, or of everybody. To be rung when nothing is locked: whoever is woken may leave at once.
    pub(super) fn bells(&self, everybody: bool) -> Vec<Arc<Notify>> {
        let told = |audience: &&Arc<Audience>| audience.stirred.swap(false, Ordering::AcqRel) || everybody;
        self.all.values().filter(told).map(|audience| audience.news.clone()).collect()
    }

    fn peers(&mut self, audience: &Audience) -> &mut Vec<Arc<Audience>> {
        match audience.filter.job {
            Some(job) => self.by_job.entry(job).or_default(),
            None => &mut self.broad,
        }
    }

    fn wish(caller: &Caller, filter: &EventFilter) -> Wish {
        let (tenant, queues, operates) = caller.view();
        Wish {
            operates,
            tenant: tenant.map(str::to_owned),
            queues: queues.map(<[String]>::to_vec),
            filter: filter.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(job: u128) -> EventFilter {
        EventFilter { job: Some(JobId::from_u128(job)), ..EventFilter::default() }
    }

    #[test]
    fn those_who_ask_for_the_same_are_one_audience_until_the_last_leaves() {
        let (mut audiences, caller) = (Audiences::default(), Caller::local("me"));
        let first = audiences.join(caller.clone(), EventFilter::default());
        let second = audiences.join(caller.clone(), EventFilter::default());
        let other = audiences.join(caller, about(1));
        assert!(Arc::ptr_eq(&first, &second) && !Arc::ptr_eq(&first, &other));
        audiences.tell_all(7);
        assert_eq!((audiences.stirred(), first.latest(), other.latest()), (3, 7, 7));
        audiences.leave(&second);
        assert_eq!((audiences.stirred(), audiences.all.len()), (2, 2));
        audiences.leave(&first);
        audiences.leave(&other);
        assert!(audiences.all.is_empty() && audiences.broad.is_empty() && audiences.by_job.is_empty());
    }

    #[test]
    fn rights_part_those_who_ask_for_the_same() {
        // E13
        let mut audiences = Audiences::default();
        let holder = |tenant: Option<&str>| {
            Caller::holder("t", std::collections::BTreeSet::new(), tenant.map(str::to_owned), None)
        };
        let (all, acme) = (holder(None), holder(Some("acme")));
        let (all, acme) =
            (audiences.join(all, EventFilter::default()), audiences.join(acme, EventFilter::default()));
        assert!(!Arc::ptr_eq(&all, &acme));
        assert_eq!((all.tenant(), acme.tenant()), (None, Some("acme")));
    }
}
