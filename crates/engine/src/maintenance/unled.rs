//! Whether somebody leads every duty: what readiness and `doctor` say of it (L17).

use std::time::Duration;

use backstop_store::{Duty, Error as StoreError, Finding, Level, Terms};

use super::upkeep::SELDOM;
use crate::engine::Backstop;

/// How long nobody may lead what has to be led all the time: any process that serves takes over much sooner.
const LONGEST: Duration = Duration::from_secs(30);

/// Whether one duty is led.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DutyHealth {
    /// Which duty.
    pub duty: Duty,
    /// How long nobody has led it: zero while somebody does, none when nobody ever did.
    pub unled: Option<Duration>,
    /// How long nobody may lead it.
    pub limit: Duration,
}

impl DutyHealth {
    /// False when nobody has led it for too long; `age` is how long the one who asks has been there, for a store that
    /// nobody ever led.
    #[must_use]
    pub fn is_ok(&self, age: Duration) -> bool {
        self.unled.unwrap_or(age) <= self.limit
    }
}

fn longest_unled(duty: Duty) -> Duration {
    let seldom = SELDOM.iter().find(|(one, _)| *one == duty).map(|(_, period)| *period * 2);
    LONGEST + seldom.unwrap_or_default()
}

impl Backstop {
    /// Whether each duty of maintenance is led by some process on this store (L17). Alerts count when this engine has
    /// somebody to tell.
    ///
    /// # Errors
    /// When the store is away.
    pub async fn duties(&self) -> Result<Vec<DutyHealth>, StoreError> {
        let terms = self.parts.store.terms().await?;
        let with_alerts = self.parts.config.has_alerts();
        let counted = Duty::ALL.into_iter().filter(|duty| *duty != Duty::Alert || with_alerts);
        Ok(counted.map(|duty| of(&terms, duty)).collect())
    }

    /// What `doctor` says of it. A store that nobody works on has nobody to lead, and that is no fault.
    pub(crate) async fn duties_found(&self) -> Result<Finding, StoreError> {
        let duties = self.duties().await?;
        let in_use = self.parts.store.workers().await?.iter().any(|worker| worker.live || worker.running > 0);
        Ok(finding(&duties, in_use))
    }
}

fn of(terms: &Terms, duty: Duty) -> DutyHealth {
    DutyHealth { duty, unled: terms.unled(duty), limit: longest_unled(duty) }
}

fn finding(duties: &[DutyHealth], in_use: bool) -> Finding {
    // What was never led is a fault only where somebody works.
    let never = if in_use { Duration::MAX } else { Duration::ZERO };
    let unled: Vec<&str> =
        duties.iter().filter(|one| !one.is_ok(never)).map(|one| one.duty.as_str()).collect();
    let subject = "maintenance".to_owned();
    if unled.is_empty() {
        let message = "every duty is led, or nobody works on this store".to_owned();
        return Finding { level: Level::Good, subject, message, hint: None };
    }
    let (level, effect) = if in_use {
        (Level::Bad, "workers are there, and jobs of those that die are not taken back")
    } else {
        (Level::Warning, "no process serves this store")
    };
    Finding {
        level,
        subject,
        message: format!("nobody leads {}: {effect}", unled.join(", ")),
        hint: Some(
            "run `backstop up`, with or without a worker; or start maintenance in a program".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn led(duty: Duty, unled: Option<u64>) -> DutyHealth {
        DutyHealth { duty, unled: unled.map(Duration::from_secs), limit: longest_unled(duty) }
    }

    #[test]
    fn what_nobody_leads_for_long_is_found_and_named() {
        // L17
        let table = [
            (led(Duty::Rescue, Some(0)), true, Level::Good),
            (led(Duty::Rescue, Some(30)), true, Level::Good),
            (led(Duty::Rescue, Some(31)), true, Level::Bad),
            (led(Duty::Rescue, Some(31)), false, Level::Warning),
            (led(Duty::Rescue, None), true, Level::Bad),
            (led(Duty::Rescue, None), false, Level::Good),
            (led(Duty::Archive, Some(600)), true, Level::Good),
            (led(Duty::Archive, Some(700)), true, Level::Bad),
        ];
        for (duty, in_use, level) in table {
            let found = finding(&[led(Duty::Expire, Some(0)), duty], in_use);
            assert_eq!(found.level, level, "{duty:?} {in_use}: {found:?}");
            let named = found.message.contains(duty.duty.as_str());
            assert_eq!(named, level != Level::Good, "{found:?}");
        }
    }
}
