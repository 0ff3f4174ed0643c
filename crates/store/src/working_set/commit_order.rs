//! News about one job in the order of its commits, from transactions that end at the same time.
//!
//! A transaction draws its [`Turn`] while it still holds the locks on the jobs it changed, so of two transactions about
//! one job the first to commit has the earlier turn. News about a job is passed on in the order of the turns that name
//! it (V1), and each caller gets its answer only when its own news has been told. Transactions about different jobs
//! never wait for each other here, and whoever has nothing to tell waits for nobody.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use backstop_core::JobId;
use backstop_core::event::Event;

/// Where turns are drawn.
#[derive(Debug, Default)]
pub struct CommitOrder(Arc<Mutex<Waiting>>);

/// The turns that are out.
#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    turns: BTreeMap<u64, WaitingTurn>,
    /// For each job the turns that name it, the earliest first.
    jobs: HashMap<JobId, VecDeque<u64>>,
}

/// A turn that has not been told.
#[derive(Debug, Default)]
struct WaitingTurn {
    jobs: BTreeSet<JobId>,
    /// Of so many of its jobs an earlier turn is out.
    behind: usize,
    news: Option<News>,
    waker: Option<Waker>,
}

/// Tells the news of one transaction.
struct News(Box<dyn FnOnce() + Send>);

impl fmt::Debug for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("News")
    }
}

/// A place in the order. Dropped without news (after a rollback) it lets the later ones pass.
#[derive(Debug)]
pub struct Turn {
    waiting: Arc<Mutex<Waiting>>,
    /// None when it is about no job, and after its news was handed over.
    number: Option<u64>,
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    // A panic while it was held can at worst have lost events of that transaction.
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CommitOrder {
    /// Draws the next turn for a transaction that has these events to tell.
    #[must_use]
    pub fn draw_for(&self, events: &[Event]) -> Turn {
        self.draw(events.iter().filter_map(|event| event.job.as_ref().map(|job| job.id)))
    }

    /// Draws the next turn about these jobs. To be called while their rows are locked, or while nobody can know them.
    #[must_use]
    pub fn draw(&self, about: impl IntoIterator<Item = JobId>) -> Turn {
        let jobs: BTreeSet<JobId> = about.into_iter().collect();
        let number = (!jobs.is_empty()).then(|| lock(&self.0).add(jobs));
        Turn { waiting: self.0.clone(), number }
    }
}

impl Turn {
    /// Hands over the news of a committed transaction. They are told as soon as its turn has come, also when nobody
    /// waits for the answer, which comes when they have been told.
    ///
    /// `news` must not draw turns itself: it may be called while others do.
    pub fn tell(
        mut self,
        news: impl FnOnce() + Send + 'static,
    ) -> impl Future<Output = ()> + Send + Sync + 'static {
        let number = self.number.take();
        match number {
            Some(number) => lock(&self.waiting).settle(number, News(Box::new(news))),
            None => news(),
        }
        let waiting = self.waiting.clone();
        std::future::poll_fn(move |context| {
            let Some(number) = number else { return Poll::Ready(()) };
            match lock(&waiting).turns.get_mut(&number) {
                Some(turn) => {
                    turn.waker = Some(context.waker().clone());
                    Poll::Pending
                }
                None => Poll::Ready(()),
            }
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            lock(&self.waiting).remove(number);
        }
    }
}

impl Waiting {
    fn add(&mut self, jobs: BTreeSet<JobId>) -> u64 {
        let number = self.next;
        self.next += 1;
        let mut behind = 0;
        for job in &jobs {
            let queue = self.jobs.entry(*job).or_default();
            behind += usize::from(!queue.is_empty());
            queue.push_back(number);
        }
        self.turns.insert(number, WaitingTurn { jobs, behind, news: None, waker: None });
        number
    }

    fn settle(&mut self, number: u64, news: News) {
        let Some(turn) = self.turns.get_mut(&number) else { return };
        turn.news = Some(news);
        if turn.behind == 0 {
            self.remove(number);
        }
    }

    /// Tells the news of a turn, if it has any, and of those that have only waited for it. Runs under the lock, so that
    /// no two tell at once.
    fn remove(&mut self, number: u64) {
        let mut free = VecDeque::from([number]);
        while let Some(number) = free.pop_front() {
            let Some(turn) = self.turns.remove(&number) else { continue };
            if let Some(News(tell)) = turn.news {
                tell();
            }
            if let Some(waker) = turn.waker {
                waker.wake();
            }
            for job in turn.jobs {
                free.extend(self.leave(job, number));
            }
        }
    }

    /// Takes a turn out of the order of a job; answers the next one, when that has news and waits for nobody now.
    fn leave(&mut self, job: JobId, number: u64) -> Option<u64> {
        let queue = self.jobs.get_mut(&job)?;
        let was_first = queue.front() == Some(&number);
        queue.retain(|turn| *turn != number);
        let next = queue.front().copied();
        if next.is_none() {
            self.jobs.remove(&job);
        }
        let turn = self.turns.get_mut(&next.filter(|_| was_first)?)?;
        turn.behind -= 1;
        next.filter(|_| turn.behind == 0 && turn.news.is_some())
    }
}

#[cfg(test)]
mod tests;
