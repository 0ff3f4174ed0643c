//! The kind `event`: publishes a named event to the subscribers of the worker's process (E6).
//!
//! It must not publish what no pattern allows; an empty list allows nothing.

use std::marker::PhantomData;

use backstop::{BoxError, Job, JobContext};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::SettingsError;
use crate::kinds::Kinds;
use crate::refusal::{PayloadRefusal, RefusalCode, brief, refused};

/// Longest name of an event.
const NAME_MAX: usize = 128;

/// Which events may be published.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventSettings {
    patterns: Vec<String>,
}

impl EventSettings {
    /// Allows a name, or with `*` as its last word every name that begins so: `orders.*` allows `orders.created` and
    /// `orders.item.added`, but not `orders`. `*` alone allows all.
    ///
    /// # Errors
    /// When it is no such pattern.
    pub fn allow(mut self, pattern: impl Into<String>) -> Result<Self, SettingsError> {
        let pattern = pattern.into();
        let plain = pattern.strip_suffix(".*").unwrap_or(&pattern);
        if pattern != "*" && !is_name(plain) {
            return Err(SettingsError::Pattern { pattern: brief(&pattern) });
        }
        self.patterns.push(pattern);
        Ok(self)
    }

    /// True when `name` may be published.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some("") => true,
            // The dot before the star stays, so that `orders.*` is not `ordersx`.
            Some(start) => name.strip_prefix(start).is_some_and(|rest| !rest.is_empty()),
            None => pattern == name,
        })
    }
}

/// Words of letters, digits, `_` and `-`, joined by dots.
fn is_name(text: &str) -> bool {
    let word = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    text.len() <= NAME_MAX && text.split('.').all(word)
}

/// A job that publishes an event. `C` is the worker's context.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "", deny_unknown_fields)]
pub struct Publish<C = Kinds> {
    /// The event's name: words joined by dots.
    pub name: String,
    /// What it says.
    #[serde(default)]
    pub data: Value,
    #[serde(skip)]
    context: PhantomData<fn() -> C>,
}

impl<C> Publish<C> {
    /// A job that publishes `data` under `name`.
    pub fn new(name: impl Into<String>, data: Value) -> Self {
        Self { name: name.into(), data, context: PhantomData }
    }

    fn admitted(&self, settings: &EventSettings) -> Result<(), PayloadRefusal> {
        let name = brief(&self.name);
        if !is_name(&self.name) {
            let told = format!(
                "`{name}` is not an event name: write up to {NAME_MAX} characters, words joined by dots"
            );
            return Err(PayloadRefusal::new(RefusalCode::EventNameInvalid, told));
        }
        if !settings.allows(&self.name) {
            let told =
                format!("event `{name}` may not be published: no pattern of handlers.event.allow allows it");
            return Err(PayloadRefusal::new(RefusalCode::EventNotAllowed, told));
        }
        Ok(())
    }
}

impl<C: AsRef<Kinds> + Send + Sync + 'static> Job for Publish<C> {
    const KIND: &'static str = "event";
    type Context = C;
    type Output = Result<(), BoxError>;

    async fn run(self, cx: JobContext<C>) -> Result<(), BoxError> {
        self.admitted(&cx.app().as_ref().event).map_err(refused)?;
        cx.publish(self.name, self.data).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_allow_what_they_say_and_nothing_by_default() {
        // E6
        let settings = EventSettings::default().allow("orders.*").and_then(|it| it.allow("ping"));
        let settings = settings.expect("good patterns");
        for name in ["orders.created", "orders.item.added", "ping"] {
            assert!(settings.allows(name) && !EventSettings::default().allows(name), "{name}");
        }
        for name in ["orders", "orders.", "ordersx.created", "Orders.created", "ping.pong", "pin", ""] {
            assert!(!settings.allows(name), "{name}");
        }
        assert!(EventSettings::default().allow("*").expect("a pattern").allows("anything.at.all"));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        // E6
        for pattern in ["", ".*", "orders*", "*.created", "a..b", "a b", "orders.*.x", "ä", "a.**"] {
            assert!(EventSettings::default().allow(pattern).is_err(), "{pattern}");
        }
    }
}
