//! Identities: jobs, workers, fences, leases. Ids are made outside and passed in.

mod prefix;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use prefix::{JobIdPrefix, ParsePrefixError};

/// A job's identity: a UUID that sorts by creation time when it is made as version 7.
///
/// The submitter makes it, not the store, so a submit whose acknowledgement was lost can be sent again
/// without becoming a second job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(Uuid);

/// One incarnation of a worker: a process that restarts is a new worker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(Uuid);

/// A workflow's or a batch's identity (W1-W6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkflowId(Uuid);

macro_rules! uuid_identity {
    ($name:ident, $what:literal) => {
        impl $name {
            /// Takes a UUID as this identity.
            #[must_use]
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// Takes 16 bytes in network order.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }

            /// Takes a plain number; handy in tests, where ids should be readable.
            #[must_use]
            pub const fn from_u128(number: u128) -> Self {
                Self(Uuid::from_u128(number))
            }

            /// The 16 bytes in network order, as stores keep them.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// The UUID itself.
            #[must_use]
            pub const fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0.as_hyphenated(), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                Uuid::parse_str(text).map(Self).map_err(|_| ParseIdError { what: $what })
            }
        }
    };
}

uuid_identity!(JobId, "job id");
uuid_identity!(WorkerId, "worker id");
uuid_identity!(WorkflowId, "workflow id");

impl JobId {
    /// The id of the callback job that `self` fires for `role`.
    ///
    /// It follows from the parent, so that however often an ending is reported, one callback exists.
    #[must_use]
    pub fn callback(&self, role: &str, redrives: u32) -> Self {
        use sha2::{Digest, Sha256};
        let mut hash = Sha256::new();
        hash.update(self.as_bytes());
        hash.update(redrives.to_be_bytes());
        hash.update(role.as_bytes());
        let digest: [u8; 32] = hash.finalize().into();
        let mut bytes = [0u8; 16];
        bytes.copy_from_slice(&digest[..16]);
        // The leading 48 bits stay the parent's time, so the callback sorts beside its parent.
        bytes[..6].copy_from_slice(&self.as_bytes()[..6]);
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }
}

impl WorkerId {
    /// The id of whoever goes by `name` within `realm`: the same on every node and at every time.
    ///
    /// It is for rows that only say that somebody is there. What is held needs an id of its own for each incarnation.
    #[must_use]
    pub fn named(realm: &str, name: &str) -> Self {
        use sha2::{Digest, Sha256};
        let mut hash = Sha256::new();
        // Lengths first: no two pairs of texts are one text.
        for part in [realm, name] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let digest: [u8; 32] = hash.finalize().into();
        let mut bytes = [0u8; 16];
        bytes.copy_from_slice(&digest[..16]);
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }
}

/// A text that is no id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a {what}: expected a UUID such as 0190b8a2-7c1e-7d3a-9f00-5c1b2a3d4e5f")]
pub struct ParseIdError {
    what: &'static str,
}

/// The number of one hold on a job. Later holds have greater numbers, in every store, for ever (L5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub i64);

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The right to write about one run of one job. Every such write shows it; a stale one changes nothing (L5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// The job that is held.
    pub job: JobId,
    /// Who holds it.
    pub worker: WorkerId,
    /// Which hold this is.
    pub fence: Fence,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_id_in_each_realm() {
        // E7
        assert_eq!(WorkerId::named("acme", "w1"), WorkerId::named("acme", "w1"));
        for (realm, name) in [("acme", "w2"), ("", "w1"), ("acm", "ew1"), ("acmew1", ""), ("w1", "acme")] {
            assert_ne!(WorkerId::named("acme", "w1"), WorkerId::named(realm, name), "{realm} {name}");
        }
    }
}
