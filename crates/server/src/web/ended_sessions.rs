//! Sessions of the page that people have ended before their time. It is this process's own, and lost with it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use backstop::Timestamp;

/// Sessions that are remembered; over it, those that would have ended first are forgotten.
const MOST: usize = 10_000;

/// The numbers of ended sessions, each until it would have ended by itself.
#[derive(Debug, Default)]
pub(crate) struct EndedSessions {
    known: Mutex<HashMap<String, Timestamp>>,
}

impl EndedSessions {
    pub(super) fn add(&self, number: &str, until: Timestamp, now: Timestamp) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, until| *until > now);
        if known.len() >= MOST
            && let Some(first) =
                known.iter().min_by_key(|(_, until)| **until).map(|(number, _)| number.clone())
        {
            known.remove(&first);
        }
        known.insert(number.to_owned(), until);
    }

    pub(super) fn has(&self, number: &str) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).contains_key(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_remembers_until_they_would_have_ended_and_never_more_than_it_may() {
        let at = |second: i64| Timestamp::from_micros(second * 1_000_000);
        let ended = EndedSessions::default();
        ended.add("a", at(10), at(1));
        assert!(ended.has("a") && !ended.has("b"));
        ended.add("b", at(30), at(20));
        assert!(!ended.has("a") && ended.has("b"), "what has ended by itself is forgotten");
        for number in 0..i64::try_from(MOST).unwrap() {
            ended.add(&number.to_string(), at(100 + number), at(21));
        }
        assert_eq!(ended.known.lock().unwrap().len(), MOST);
        assert!(!ended.has("b") && ended.has("0"), "the one that would have ended first has gone");
    }
}
