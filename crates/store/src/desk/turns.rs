//! News in the order of commits, from transactions that end at the same time.
//!
//! A transaction draws its [`Turn`] while it still holds the locks on the rows it changed, so of two transactions about
//! one job the first to commit has the earlier turn. What they have to tell is passed on in the order of the turns
//! (V1), and each caller gets its answer only when its own news has been told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use backstop_core::event::Event;

/// Where turns are drawn.
#[derive(Debug, Default)]
pub struct Turns(Arc<Mutex<Line>>);

/// The turns that are out.
#[derive(Debug, Default)]
struct Line {
    next: u64,
    /// Every turn up to here has been told.
    told: u64,
    /// News of turns that wait for earlier ones.
    waiting: BTreeMap<u64, Vec<Event>>,
    wakers: Vec<Waker>,
}

/// A place in the order. Dropped without news (after a rollback) it lets the later ones pass.
#[derive(Debug)]
pub struct Turn {
    line: Arc<Mutex<Line>>,
    number: u64,
    settled: bool,
}

fn lock(line: &Mutex<Line>) -> MutexGuard<'_, Line> {
    // A panic while it was held can at worst have lost events of that transaction.
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Turns {
    /// Draws the next turn. To be called while the rows that the news is about are locked.
    #[must_use]
    pub fn draw(&self) -> Turn {
        let mut line = lock(&self.0);
        let number = line.next;
        line.next += 1;
        Turn { line: self.0.clone(), number, settled: false }
    }
}

impl Turn {
    /// Tells the news of a committed transaction when its turn has come, and answers when they have been told.
    ///
    /// `tell` must not draw turns itself; it is called with the news of other transactions too.
    pub async fn tell(mut self, events: Vec<Event>, tell: impl Fn(Vec<Event>) + Unpin) {
        self.settle(events, &tell);
        let (line, number) = (self.line.clone(), self.number);
        std::future::poll_fn(move |context| {
            let mut line = lock(&line);
            if line.told > number {
                return Poll::Ready(());
            }
            line.pass_on(&tell);
            if line.told > number {
                return Poll::Ready(());
            }
            line.wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn settle(&mut self, events: Vec<Event>, tell: &impl Fn(Vec<Event>)) {
        self.settled = true;
        let mut line = lock(&self.line);
        line.waiting.insert(self.number, events);
        line.pass_on(tell);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let mut line = lock(&self.line);
        line.waiting.insert(self.number, Vec::new());
        // Nobody to tell with here: those who wait are woken, and pass on what was held up.
        line.wakers.drain(..).for_each(Waker::wake);
    }
}

impl Line {
    /// Tells everything whose turn has come. Runs under the lock, so that no two tell at once.
    fn pass_on(&mut self, tell: &impl Fn(Vec<Event>)) {
        let before = self.told;
        while let Some(events) = self.waiting.remove(&self.told) {
            self.told += 1;
            if !events.is_empty() {
                tell(events);
            }
        }
        if self.told > before {
            self.wakers.drain(..).for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    use backstop_core::Timestamp;
    use backstop_core::event::What;

    use super::*;

    fn event(run: u32) -> Vec<Event> {
        vec![Event { at: Timestamp::EPOCH, node: None, job: None, what: What::Started { run } }]
    }

    #[test]
    fn news_is_told_in_the_order_of_the_turns() {
        // V1: the second commits first, the third is rolled back.
        let turns = Turns::default();
        let told = RefCell::new(Vec::new());
        let tell = |events: Vec<Event>| told.borrow_mut().extend(events);
        let (first, second, third, fourth) = (turns.draw(), turns.draw(), turns.draw(), turns.draw());
        let mut context = Context::from_waker(Waker::noop());
        let mut late = pin!(fourth.tell(event(4), tell));
        let mut early = pin!(second.tell(event(2), tell));
        assert!(late.as_mut().poll(&mut context).is_pending());
        assert!(early.as_mut().poll(&mut context).is_pending(), "the first is still under way");
        assert!(told.borrow().is_empty());
        assert!(pin!(first.tell(event(1), tell)).poll(&mut context).is_ready());
        assert_eq!(*told.borrow(), [event(1), event(2)].concat());
        assert!(early.poll(&mut context).is_ready());
        drop(third);
        assert!(late.poll(&mut context).is_ready());
        assert_eq!(*told.borrow(), [event(1), event(2), event(4)].concat());
    }
}
