//! Who may have a connection, so that no kind of call can take all of them.
//!
//! What keeps a worker alive, which is heartbeats and endings, has one that nobody else takes; all share the others.
//! What may last, which is what people ask, duties, and what waits for a lock, never has all of the others: a claim
//! finds one.

use std::time::Duration;

use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

/// What a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A worker's lease is renewed.
    Heartbeat,
    /// Runs start and end.
    Ending,
    /// Duties are led and done.
    Duty,
    /// Anything else that is short: it writes, or reads what the engine itself goes by.
    Work,
    /// New jobs come in. What is there already, which is claims above all, goes first: a crowd that submits would
    /// otherwise hold up the runs by which it finds room.
    Submit,
    /// Single jobs are looked up by their ids, which people do in crowds, and the engine at the ends of runs.
    Lookup,
    /// What people ask, which may last.
    Question,
}

/// How long what keeps a worker alive may take at most: well below any sensible lease.
const VITAL_DEADLINE: Duration = Duration::from_secs(10);

impl Class {
    /// True when it gives its connection back on meeting a lock, and tries again with patience.
    pub(crate) const fn hurries(self) -> bool {
        matches!(self, Self::Work | Self::Submit | Self::Lookup | Self::Ending | Self::Duty)
    }

    /// How long one call may take, of what is allowed at most.
    pub(crate) fn deadline(self, most: Duration) -> Duration {
        match self {
            Self::Heartbeat | Self::Ending | Self::Duty => most.min(VITAL_DEADLINE),
            Self::Work | Self::Submit | Self::Lookup | Self::Question => most,
        }
    }
}

/// The rights to hold connections.
#[derive(Debug)]
pub struct Access {
    general: Semaphore,
    /// Where those wait who come in crowds: of each crowd only one stands in the queue for a general one at a time.
    submits: Semaphore,
    lookups: Semaphore,
    /// Those of the general ones that may be held for long.
    lasting: Semaphore,
    questions: Semaphore,
    patient: Semaphore,
    duties: Semaphore,
    vital: Semaphore,
}

/// The right to hold a connection.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    _lasting: Option<[SemaphorePermit<'a>; 2]>,
    _connection: Option<SemaphorePermit<'a>>,
}

impl Access {
    /// Connections for what keeps a worker alive, beside those that all calls share.
    pub const OWN: usize = 1;

    /// For so many connections that all share.
    pub(crate) fn new(connections: usize) -> Self {
        let part = |share: usize| Semaphore::new((connections / share).max(1));
        Self {
            general: part(1),
            submits: Semaphore::new(1),
            lookups: Semaphore::new(1),
            lasting: Semaphore::new(connections.saturating_sub(1).max(1)),
            questions: part(2),
            patient: part(3),
            duties: part(3),
            vital: Semaphore::new(1),
        }
    }

    /// Waits for a connection's turn.
    pub(crate) async fn pass(&self, class: Class) -> Pass<'_> {
        let connection = match class {
            Class::Question => return self.lasting(&self.questions).await,
            Class::Duty => return self.lasting(&self.duties).await,
            Class::Work => self.general.acquire().await,
            Class::Submit => self.one_of(&self.submits).await,
            Class::Lookup => self.one_of(&self.lookups).await,
            Class::Heartbeat | Class::Ending => tokio::select! {
                biased;
                one = self.general.acquire() => one,
                one = self.vital.acquire() => one,
            },
        };
        Pass { _lasting: None, _connection: connection.ok() }
    }

    async fn one_of(&self, crowd: &Semaphore) -> Result<SemaphorePermit<'_>, AcquireError> {
        let _first = crowd.acquire().await?;
        self.general.acquire().await
    }

    /// Waits for the right to wait for a lock.
    pub(crate) async fn patient(&self) -> Pass<'_> {
        self.lasting(&self.patient).await
    }

    // Nobody closes them, so none of them fails.
    async fn lasting<'a>(&'a self, kind: &'a Semaphore) -> Pass<'a> {
        let of_kind = kind.acquire().await.ok();
        let lasting = self.lasting.acquire().await.ok();
        let connection = self.general.acquire().await.ok();
        Pass { _lasting: of_kind.zip(lasting).map(<[_; 2]>::from), _connection: connection }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn no_kind_of_call_takes_every_connection() {
        // What people ask, duties, and who waits for locks leave room for the others; these leave what heartbeats need.
        let access = Access::new(9);
        let now = |class| access.pass(class).now_or_never();
        let all = |class| std::iter::from_fn(|| now(class)).take(100).collect::<Vec<_>>();
        let (questions, duties) = (all(Class::Question), all(Class::Duty));
        let waiting: Vec<_> = std::iter::from_fn(|| access.patient().now_or_never()).take(100).collect();
        let work = all(Class::Work);
        assert_eq!((questions.len(), duties.len(), waiting.len(), work.len()), (4, 3, 1, 1));
        let beat = now(Class::Heartbeat);
        assert!(
            beat.is_some() && now(Class::Ending).is_none(),
            "what keeps a worker alive has one, and one only"
        );
        drop(work);
        assert!(
            now(Class::Question).is_none() && now(Class::Duty).is_none(),
            "they have their share already"
        );
        assert_eq!(all(Class::Ending).len(), 1, "what is free");
    }

    #[test]
    fn crowds_form_no_queue_before_others() {
        for class in [Class::Submit, Class::Lookup] {
            let access = Access::new(1);
            let first = access.pass(class).now_or_never();
            let mut crowd: Vec<_> = (0..8).map(|_| Box::pin(access.pass(class))).collect();
            let mut come_in = || crowd.iter_mut().filter_map(|one| one.now_or_never()).next();
            assert!(come_in().is_none());
            let others =
                [Class::Work, Class::Submit, Class::Lookup].into_iter().filter(|other| *other != class);
            let mut others: Vec<_> = others.map(|other| Box::pin(access.pass(other))).collect();
            assert!(others.iter_mut().all(|other| other.now_or_never().is_none()));
            drop(first);
            let second = come_in();
            assert!(second.is_some(), "one of them stood in the queue already");
            drop(second);
            for other in others {
                assert!(other.now_or_never().is_some(), "no other one of {class:?} did");
            }
        }
    }

    #[test]
    fn by_default_somebody_who_waits_and_somebody_who_asks_leave_one_for_work() {
        let access = Access::new(3);
        let now = |class| access.pass(class).now_or_never();
        let (question, waiting) = (now(Class::Question), access.patient().now_or_never());
        assert!(question.is_some() && waiting.is_some());
        assert!(now(Class::Duty).is_none(), "both of those that may be held for long are");
        let claim = now(Class::Work);
        assert!(claim.is_some() && now(Class::Work).is_none());
        assert!(now(Class::Heartbeat).is_some() && now(Class::Ending).is_some(), "in turn");
        drop(waiting);
        assert!(now(Class::Duty).is_some());
    }

    #[test]
    fn one_connection_is_enough_for_everybody_in_turn() {
        let access = Access::new(1);
        for class in [Class::Question, Class::Work, Class::Submit, Class::Lookup, Class::Ending, Class::Duty]
        {
            assert!(access.pass(class).now_or_never().is_some(), "{class:?}");
        }
        assert!(access.patient().now_or_never().is_some());
    }
}
