//! What a job shares with others while it runs: a key that limits count by, a name that runs once at a time, permits of
//! pools (H5, H6).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Spec;

/// Pools that one job can take permits of.
pub const MOST_POOLS: usize = 8;

/// Permits of one pool that one job can take.
pub const MOST_PERMITS: u32 = 1_000_000;

/// Parts a turn key: no key and no name may contain it.
const PART: char = '\u{1}';

/// What a job shares with others while it runs. Most jobs share nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharingNeeds {
    /// What limits by key count; such jobs take turns by it (H5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_key: Option<Arc<str>>,
    /// Of all jobs with this name one runs at a time (H6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single_instance: Option<Arc<str>>,
    /// Permits that a run holds, by the name of their pool (H5).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub permits: BTreeMap<Arc<str>, u32>,
}

/// Something that is counted while jobs run that need it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SharedResource {
    /// Runs of a limit key.
    Key(Arc<str>),
    /// The one run of a name.
    Instance(Arc<str>),
    /// Permits of a pool.
    Pool(Arc<str>),
}

impl SharedResource {
    /// As stores keep it.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Key(key) => format!("key {key}"),
            Self::Instance(name) => format!("instance {name}"),
            Self::Pool(name) => format!("pool {name}"),
        }
    }

    /// Reads what [`SharedResource::text`] wrote; none for anything else.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        let (what, name) = text.split_once(' ')?;
        match what {
            "key" => Some(Self::Key(name.into())),
            "instance" => Some(Self::Instance(name.into())),
            "pool" => Some(Self::Pool(name.into())),
            _ => None,
        }
    }
}

impl SharingNeeds {
    /// True when it shares nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.limit_key.is_none() && self.single_instance.is_none() && self.permits.is_empty()
    }

    /// All that a run of it is counted by, and how much of it it takes.
    pub fn shared(&self) -> impl Iterator<Item = (SharedResource, u32)> {
        let key = self.limit_key.iter().map(|key| (SharedResource::Key(key.clone()), 1));
        let instance = self.single_instance.iter().map(|name| (SharedResource::Instance(name.clone()), 1));
        let pools = self.permits.iter().map(|(pool, permits)| (SharedResource::Pool(pool.clone()), *permits));
        key.chain(instance).chain(pools)
    }

    /// Who takes turns with others: the limit key, or whatever else it shares.
    #[must_use]
    pub fn sharer(turn_key: &str) -> &str {
        match turn_key.split_once(PART) {
            Some((key, _)) if !key.is_empty() => key,
            _ => turn_key,
        }
    }

    /// Under what it waits: jobs with the same turn key need the same, so that one of them finds room when any does.
    #[must_use]
    pub fn turn_key(&self) -> String {
        let key = self.limit_key.as_deref().unwrap_or_default();
        if self.single_instance.is_none() && self.permits.is_empty() {
            return key.to_owned();
        }
        // Names may be long and many; two that meet by chance in 64 bits would wait for each other, and nothing else.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let rest = SharingNeeds { limit_key: None, ..self.clone() };
        for (shared, permits) in rest.shared() {
            for byte in shared.text().bytes().chain([0]).chain(permits.to_be_bytes()) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        format!("{key}{PART}{hash:016x}")
    }
}

impl Spec {
    /// Under what it waits among jobs that share; none when it shares nothing.
    #[must_use]
    pub fn turn_key(&self) -> Option<String> {
        self.needs.as_deref().map(SharingNeeds::turn_key)
    }

    /// The needs, to write something into them.
    pub fn needs_mut(&mut self) -> &mut SharingNeeds {
        self.needs.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(key: Option<&str>, instance: Option<&str>, permits: &[(&str, u32)]) -> SharingNeeds {
        SharingNeeds {
            limit_key: key.map(Into::into),
            single_instance: instance.map(Into::into),
            permits: permits.iter().map(|(pool, permits)| ((*pool).into(), *permits)).collect(),
        }
    }

    #[test]
    fn jobs_wait_together_when_and_only_when_they_need_the_same() {
        // H5, H6
        let all = [
            needs(Some("a"), None, &[]),
            needs(Some("b"), None, &[]),
            needs(Some("a"), Some("x"), &[]),
            needs(None, Some("x"), &[]),
            needs(None, Some("y"), &[]),
            needs(None, None, &[("gpu", 1)]),
            needs(None, None, &[("gpu", 2)]),
            needs(None, None, &[("gpu", 1), ("net", 1)]),
        ];
        for (place, one) in all.iter().enumerate() {
            for (other_place, other) in all.iter().enumerate() {
                assert_eq!(one.turn_key() == other.turn_key(), place == other_place, "{one:?} {other:?}");
            }
        }
        assert_eq!(SharingNeeds::sharer(&all[0].turn_key()), "a");
        assert_eq!(SharingNeeds::sharer(&all[2].turn_key()), "a", "whatever else its jobs need");
        assert_ne!(SharingNeeds::sharer(&all[3].turn_key()), SharingNeeds::sharer(&all[4].turn_key()));
    }

    #[test]
    fn what_is_shared_reads_back() {
        // H5, H6
        let needs = needs(Some("a b"), Some("nightly"), &[("gpu", 2)]);
        let shared: Vec<_> = needs.shared().collect();
        assert_eq!(shared.len(), 3);
        for (one, _) in shared {
            assert_eq!(SharedResource::from_text(&one.text()), Some(one));
        }
        assert_eq!(SharedResource::from_text("other x"), None);
    }
}
