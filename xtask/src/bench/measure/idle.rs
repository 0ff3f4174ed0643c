//! What a worker costs that has nothing to do: processor time of its process, and statements at the server.

use std::thread;
use std::time::Duration;

use super::super::stage::EmptyStore;
use super::super::statements;
use super::{ContenderRun, LIMIT, MeasuredRound, phase, value, words};

pub(super) const NAMES: [&str; 2] = ["idle_busy", "idle_statements"];

/// How long a worker that has just started is given to come to rest, as its driver does.
const SETTLING: Duration = Duration::from_secs(3);

impl ContenderRun<'_> {
    pub(super) fn idle(&mut self) -> Vec<MeasuredRound> {
        self.say("nothing to do");
        phase(&NAMES, self.on_a_place(Self::watch))
    }

    fn watch(&mut self, place: &EmptyStore) -> Result<Vec<MeasuredRound>, String> {
        let driver = self.driver.ok_or("the floor has no worker")?;
        let (watch, stage) = (self.sizes.idle_seconds, &*self.stage);
        let words = words("idle", place, &[("watch", watch)]);
        let (answered, statements) = thread::scope(|scope| {
            let worker = scope.spawn(|| driver.run(&words, LIMIT));
            thread::sleep(SETTLING);
            let statements = statements::a_second(stage, place, Duration::from_secs(watch.into()));
            (worker.join(), statements)
        });
        let answer = answered.map_err(|_| "its driver could not be watched".to_owned())??.answer;
        let number = |name: &str| answer.number_at(name).ok_or_else(|| format!("its answer has no {name}"));
        let percent = 100.0 * number("busy_seconds")? / number("seconds")?;
        let mut found = vec![value("idle_busy", percent)];
        found.extend(statements?.map(|count| value("idle_statements", count)));
        Ok(found)
    }
}
