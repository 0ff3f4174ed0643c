//! What is known of a dependency besides its name.

use std::time::Duration;

use super::address::CheckAddress;

/// How often a dependency is checked that does not say.
const EVERY: Duration = Duration::from_secs(10);

/// The shortest time between two checks: more often is a load of its own.
const SHORTEST: Duration = Duration::from_millis(100);

/// How a dependency is checked (H1). One without any check is tried again after a pause.
///
/// ```
/// use std::time::Duration;
/// use backstop::{Config, DependencySettings};
///
/// let smtp = DependencySettings::default().check("tcp://mail.internal:25".parse()?).every(Duration::from_secs(5));
/// let config = Config::default().kind_dependency("send_email", "smtp").dependency("smtp", smtp);
/// # assert_eq!(config.dependencies["smtp"].every, Some(Duration::from_secs(5)));
/// # Ok::<(), backstop::CheckAddressError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DependencySettings {
    /// What to ask; it goes before a check in code.
    pub check: Option<CheckAddress>,
    /// How often; every 10 seconds unless set.
    pub every: Option<Duration>,
}

impl DependencySettings {
    /// What to ask.
    #[must_use]
    pub fn check(mut self, address: CheckAddress) -> Self {
        self.check = Some(address);
        self
    }

    /// How often.
    #[must_use]
    pub const fn every(mut self, span: Duration) -> Self {
        self.every = Some(span);
        self
    }

    pub(super) fn period(&self) -> Duration {
        self.every.unwrap_or(EVERY).max(SHORTEST)
    }
}
