//! Subscribers that are sent the same events.
//!
//! An event is held against what they asked for once, not once for each of them, and whoever has nothing to read is not
//! woken: thousands of connections that wait for something rare cost as much as one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use backstop::{Event, JobId};
use tokio::sync::Notify;

use super::filter::{Filter, visible};
use crate::access::Caller;

/// Those with the same rights and the same wishes.
#[derive(Debug)]
pub(crate) struct Circle {
    caller: Caller,
    filter: Filter,
    members: AtomicUsize,
    /// The number of the latest event that may be for them.
    latest: AtomicU64,
    /// True when they have not been told of it yet.
    stirred: AtomicBool,
    pub(super) news: Arc<Notify>,
}

impl Circle {
    pub(super) fn wants(&self, event: &Event) -> bool {
        visible(&self.caller, event) && self.filter.wants(event)
    }

    /// The tenant whose form of an event they are sent.
    pub(super) fn tenant(&self) -> Option<&str> {
        self.caller.tenant()
    }

    /// The number of the latest event that may be for them, of those that came since there is such a circle.
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
    filter: Filter,
}

/// All circles that have members.
#[derive(Debug, Default)]
pub(super) struct Circles {
    all: HashMap<Wish, Arc<Circle>>,
    /// Of those, the ones that ask for one job: there may be as many as subscribers.
    by_job: HashMap<JobId, Vec<Arc<Circle>>>,
    /// And the ones that do not.
    broad: Vec<Arc<Circle>>,
}

impl Circles {
    /// The circle of one more subscriber, which must [`Circles::leave`] it.
    pub(super) fn join(&mut self, caller: Caller, filter: Filter) -> Arc<Circle> {
        let wish = Self::wish(&caller, &filter);
        let circle = self.all.get(&wish).cloned().unwrap_or_else(|| {
            let circle = Arc::new(Circle {
                caller,
                filter,
                members: AtomicUsize::new(0),
                latest: AtomicU64::new(0),
                stirred: AtomicBool::new(false),
                news: Arc::new(Notify::new()),
            });
            self.peers(&circle).push(circle.clone());
            self.all.insert(wish, circle.clone());
            circle
        });
        circle.members.fetch_add(1, Ordering::AcqRel);
        circle
    }

    /// One member is gone; the circle goes with the last.
    pub(super) fn leave(&mut self, circle: &Arc<Circle>) {
        if circle.members.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        self.peers(circle).retain(|other| !Arc::ptr_eq(other, circle));
        if let Some(job) = circle.filter.job
            && self.by_job.get(&job).is_some_and(Vec::is_empty)
        {
            self.by_job.remove(&job);
        }
        self.all.remove(&Self::wish(&circle.caller, &circle.filter));
    }

    /// Notes for whom an event is.
    pub(super) fn tell(&self, event: &Event, seq: u64) {
        let about = event.job.as_ref().and_then(|job| self.by_job.get(&job.id));
        let wanting = self.broad.iter().chain(about.into_iter().flatten()).filter(|one| one.wants(event));
        wanting.for_each(|circle| circle.stir(seq));
    }

    /// Notes something that everybody has to know.
    pub(super) fn tell_all(&self, seq: u64) {
        self.all.values().for_each(|circle| circle.stir(seq));
    }

    /// How many subscribers have something to read that they were not told of.
    pub(super) fn stirred(&self) -> usize {
        let stirred = self.all.values().filter(|circle| circle.stirred.load(Ordering::Acquire));
        stirred.map(|circle| circle.members.load(Ordering::Acquire)).sum()
    }

    /// The bells of those, or of everybody. To be rung when nothing is locked: whoever is woken may leave at once.
    pub(super) fn bells(&self, everybody: bool) -> Vec<Arc<Notify>> {
        let told = |circle: &&Arc<Circle>| circle.stirred.swap(false, Ordering::AcqRel) || everybody;
        self.all.values().filter(told).map(|circle| circle.news.clone()).collect()
    }

    fn peers(&mut self, circle: &Circle) -> &mut Vec<Arc<Circle>> {
        match circle.filter.job {
            Some(job) => self.by_job.entry(job).or_default(),
            None => &mut self.broad,
        }
    }

    fn wish(caller: &Caller, filter: &Filter) -> Wish {
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

    fn about(job: u128) -> Filter {
        Filter { job: Some(JobId::from_u128(job)), ..Filter::default() }
    }

    #[test]
    fn those_who_ask_for_the_same_are_one_circle_until_the_last_leaves() {
        let (mut circles, caller) = (Circles::default(), Caller::local("me"));
        let first = circles.join(caller.clone(), Filter::default());
        let second = circles.join(caller.clone(), Filter::default());
        let other = circles.join(caller, about(1));
        assert!(Arc::ptr_eq(&first, &second) && !Arc::ptr_eq(&first, &other));
        circles.tell_all(7);
        assert_eq!((circles.stirred(), first.latest(), other.latest()), (3, 7, 7));
        circles.leave(&second);
        assert_eq!((circles.stirred(), circles.all.len()), (2, 2));
        circles.leave(&first);
        circles.leave(&other);
        assert!(circles.all.is_empty() && circles.broad.is_empty() && circles.by_job.is_empty());
    }

    #[test]
    fn rights_part_those_who_ask_for_the_same() {
        // E13
        let mut circles = Circles::default();
        let holder = |tenant: Option<&str>| {
            Caller::holder("t", std::collections::BTreeSet::new(), tenant.map(str::to_owned), None)
        };
        let (all, acme) = (holder(None), holder(Some("acme")));
        let (all, acme) = (circles.join(all, Filter::default()), circles.join(acme, Filter::default()));
        assert!(!Arc::ptr_eq(&all, &acme));
        assert_eq!((all.tenant(), acme.tenant()), (None, Some("acme")));
    }
}
