//! Sessions of the page that people have ended before their time. The store keeps them until they would have ended by
//! themselves, so that a cookie that somebody kept is worth nothing on any node, and after a restart.
//!
//! This process knows what it ended at once, and what others ended within [`FRESH`].

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use backstop::Timestamp;
use backstop_store::{Amend, DocumentRange, Drawer, Edit, Error as StoreError, Expect, Store};
use tokio::time::Instant;

/// Sessions that are remembered; over it, those that would have ended first are forgotten.
const MOST: usize = 1_000;

/// How old the known sessions of the store may be: as old as the tokens.
const FRESH: Duration = Duration::from_secs(1);

/// Sessions that have ended by themselves and go with one that is added.
const SWEPT: usize = 100;

/// Where they are kept: by the moment at which they would have ended, and their number.
const SESSION: &str = "session/";

/// The numbers of ended sessions, each until it would have ended by itself.
#[derive(Debug, Default)]
pub(crate) struct EndedSessions {
    known: Mutex<HashMap<String, Timestamp>>,
    /// When the store was read last. One request reads, the others wait for it.
    read: tokio::sync::Mutex<Option<Instant>>,
}

fn key(number: &str, until: Timestamp) -> String {
    format!("{SESSION}{:019}/{number}", until.as_micros())
}

fn of_key(key: &str) -> Option<(Timestamp, &str)> {
    let (until, number) = key.strip_prefix(SESSION)?.split_once('/')?;
    Some((Timestamp::from_micros(until.parse().ok()?), number))
}

impl EndedSessions {
    /// Ends a session: here at once, and everywhere when it answers that it is stored.
    pub(super) async fn add(
        &self,
        store: &dyn Store,
        number: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.learn(now, [(until, number.to_owned())]);
        let oldest = DocumentRange::first(Drawer::Tokens, SWEPT).under(SESSION);
        let over = |key: &str| of_key(key).is_none_or(|(until, _)| until <= now);
        let gone = store.documents(oldest).await?.items.into_iter().filter(|one| over(&one.key));
        let edit = |key, body| Edit { drawer: Drawer::Tokens, key, expect: Expect::Any, body };
        let mut edits: Vec<Edit> = gone.map(|one| edit(one.key, None)).collect();
        edits.push(edit(key(number, until), Some("{}".into())));
        store.amend(Amend { edits, ..Amend::default() }).await.map(drop)
    }

    /// Whether a session was ended, here or elsewhere.
    pub(super) async fn has(
        &self,
        store: &dyn Store,
        number: &str,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        if self.knows(number) {
            return Ok(true);
        }
        let mut read = self.read.lock().await;
        if read.is_none_or(|at| at.elapsed() >= FRESH) {
            let asked = Instant::now();
            let latest = DocumentRange::last(Drawer::Tokens, MOST).under(SESSION);
            let found = store.documents(latest).await?.items;
            let ended = found.iter().filter_map(|one| of_key(&one.key));
            self.learn(now, ended.map(|(until, number)| (until, number.to_owned())));
            *read = Some(asked);
        }
        Ok(self.knows(number))
    }

    fn knows(&self, number: &str) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).contains_key(number)
    }

    fn learn(&self, now: Timestamp, ended: impl IntoIterator<Item = (Timestamp, String)>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, until| *until > now);
        known.extend(ended.into_iter().map(|(until, number)| (number, until)));
        while known.len() > MOST {
            let first = known.iter().min_by_key(|(_, until)| **until).map(|(number, _)| number.clone());
            let Some(first) = first else { break };
            known.remove(&first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_testing::TestEngine;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_node_ends_is_ended_on_all_and_after_a_restart() {
        let test = TestEngine::new();
        let store = test.store();
        let (here, there) = (EndedSessions::default(), EndedSessions::default());
        assert!(!there.has(&*store, "a", at(1)).await.unwrap());
        here.add(&*store, "a", at(10), at(1)).await.unwrap();
        assert!(here.has(&*store, "a", at(1)).await.unwrap(), "at once where it was ended");
        tokio::time::advance(FRESH).await;
        assert!(
            there.has(&*store, "a", at(2)).await.unwrap() && !there.has(&*store, "b", at(2)).await.unwrap()
        );
        assert!(EndedSessions::default().has(&*store, "a", at(3)).await.unwrap());
        here.add(&*store, "b", at(30), at(20)).await.unwrap();
        let kept = store.documents(DocumentRange::first(Drawer::Tokens, 10).under(SESSION)).await.unwrap();
        assert_eq!(kept.items.len(), 1, "what has ended by itself is forgotten");
    }

    #[test]
    fn it_never_remembers_more_than_it_may() {
        let ended = EndedSessions::default();
        let many = (0..i64::try_from(MOST).unwrap()).map(|number| (at(100 + number), number.to_string()));
        ended.learn(at(1), [(at(30), "b".to_owned())]);
        ended.learn(at(21), many);
        assert_eq!(ended.known.lock().unwrap().len(), MOST);
        assert!(!ended.knows("b") && ended.knows("0"), "the one that would have ended first has gone");
    }
}
