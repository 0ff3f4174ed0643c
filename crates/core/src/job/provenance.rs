//! What travels with a job without being part of it: who vouches for it, which trace and which workflow it belongs to,
//! and which schedule made it.
//!
//! It must not decide whether a signature is right: see [`crate::signing`]. Stores keep it with what else
//! a job may have ([`super::JobExtras`]).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{FiredBy, PartOf};

/// The provenance of a job. Most jobs have none, and then a store keeps nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Provenance {
    /// Who vouches for what was submitted (E9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
    /// The trace it belongs to, as the `traceparent` of W3C Trace Context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Arc<str>>,
    /// Which fire of which schedule it is (W11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<FiredBy>,
    /// The workflow or batch that it is a part of (W1-W6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part_of: Option<PartOf>,
    /// What a store could not read of the job ([`super::Damage`]). Never written.
    #[serde(skip)]
    pub damage: Option<Arc<str>>,
}

/// A signature over everything about a job that never changes (E9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Which key made it.
    pub key: Arc<str>,
    /// What the key made of the job, in hexadecimal.
    pub mac: Arc<str>,
}

impl Provenance {
    /// True when it says nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.signature.is_none() && self.trace.is_none() && self.schedule.is_none() && self.part_of.is_none()
    }
}

/// Says whether `text` is a `traceparent` of W3C Trace Context: `00-<32 hex>-<16 hex>-<2 hex>`, in lower case, with
/// ids that are not zero. Later versions may go on after that with `-`.
#[must_use]
pub fn is_trace_parent(text: &str) -> bool {
    const LENGTH: usize = 55;
    let hex = |part: &str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let Some(known) = text.get(..LENGTH) else { return false };
    let mut parts = known.split('-');
    let (Some(version), Some(trace), Some(parent), Some(flags), None) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let set = |part: &str| hex(part) && part.bytes().any(|b| b != b'0');
    let rest = &text[LENGTH..];
    let ends_well = if version == "00" { rest.is_empty() } else { rest.is_empty() || rest.starts_with('-') };
    version.len() == 2
        && hex(version)
        && version != "ff"
        && trace.len() == 32
        && set(trace)
        && parent.len() == 16
        && set(parent)
        && flags.len() == 2
        && hex(flags)
        && ends_well
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_parent_has_one_form() {
        // V1
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let later = format!("cc{}-more", &good[2..]);
        for text in [good, &later, &format!("cc{}", &good[2..])] {
            assert!(is_trace_parent(text), "{text}");
        }
        for (text, why) in [
            (String::new(), "empty"),
            (good.to_uppercase(), "upper case"),
            (format!("{good}-more"), "version 0 ends there"),
            (format!("cc{}more", &good[2..]), "no separator"),
            (format!("ff{}", &good[2..]), "a forbidden version"),
            (good.replace('-', "_"), "other separators"),
            (format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), "no trace"),
            (format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", "0".repeat(16)), "no parent"),
            (good[..54].to_owned(), "too short"),
            (format!(" {}", &good[..54]), "whitespace"),
            ("00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7a-01".to_owned(), "shifted"),
            (format!("{}é", &good[..54]), "not ASCII"),
        ] {
            assert!(!is_trace_parent(&text), "{why}: {text}");
        }
    }
}
