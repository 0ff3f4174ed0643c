//! Decides, in one walk over the text, which redaction passes are worth running.
//!
//! Most error messages hold nothing that even resembles a secret. One set of cheap patterns, each matching a
//! superset of what its pass looks for, lets those messages through at the price of a single scan.

use std::sync::LazyLock;

use regex::{RegexSet, SetMatches};

use super::spans::SecretRanges;
use super::{assignments, decoders, emails, headers, numbers, pem, tokens, urls};

type Pass = fn(&str, &mut SecretRanges);

/// Trigger pattern and pass. The order matters once: e-mail addresses come after URLs, whose user part ends
/// in the same sign.
const PASSES: [(&str, Pass); 11] = [
    (r"PRIVATE KEY", pem::mark),
    (r"://|@", urls::mark_userinfo),
    (urls::QUERY_KEYS, urls::mark_query_values),
    (urls::LOGIN_FLAGS, urls::mark_logins),
    (headers::NAMES, headers::mark),
    (assignments::KEYWORDS, assignments::mark),
    (tokens::PREFIXES, tokens::mark),
    (decoders::COMPLAINTS, decoders::mark),
    (r"@|%40", emails::mark),
    (r"[0-9]{13}|[0-9]{3}[ -][0-9]{3}", numbers::mark_cards),
    (r"(?i-u:[a-z][a-z][0-9][0-9][ -]?[a-z0-9]{4})", numbers::mark_ibans),
];

static TRIGGERS: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new(PASSES.iter().map(|(trigger, _)| trigger)).expect("the trigger patterns are constants")
});

/// The passes that one text calls for.
pub(super) struct RedactionPasses(SetMatches);

impl RedactionPasses {
    /// Looks at `text` once.
    pub(super) fn of(text: &str) -> Self {
        Self(TRIGGERS.matches(text))
    }

    /// Whether no built-in pass has anything to do.
    pub(super) fn is_quiet(&self) -> bool {
        !self.0.matched_any()
    }

    /// Runs the passes that were called for.
    pub(super) fn mark(&self, text: &str, spans: &mut SecretRanges) {
        for called in &self.0 {
            if let Some((_, pass)) = PASSES.get(called) {
                pass(text, spans);
            }
        }
    }
}
