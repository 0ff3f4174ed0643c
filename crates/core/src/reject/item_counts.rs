//! Items of one run that look the same.

use std::collections::HashMap;

use super::{Reject, item_fingerprint};

/// How often items that look the same were met in one run. It tells them apart: sixty empty rows are sixty items. Who
/// gives an item a key says itself which it is.
#[derive(Debug, Default)]
pub struct ItemCounts(HashMap<u64, u32>);

impl ItemCounts {
    /// Gives the second item that looks like another one a name of its own, and so on. Another run that meets as many
    /// of them gives them the same names, so that each counts once.
    pub fn tell_apart(&mut self, reject: &mut Reject) {
        let met = self.0.entry(reject.identity()).or_default();
        *met = met.saturating_add(1);
        if *met > 1 {
            reject.item_fingerprint = item_fingerprint(&format!("{}/{met}", reject.item_fingerprint));
        }
    }
}
