//! What a lease token says, as bytes. Fields of a fixed size come first, texts follow with their lengths.

use std::sync::Arc;
use std::time::Duration;

use backstop::{CircuitPass, Grant, JobId, Timestamp, WorkerId};
use backstop_core::{Fence, Lease};

const VERSION: u8 = 1;

/// The bytes of a grant that belongs to a tenant.
pub(super) fn write(tenant: Option<&str>, grant: &Grant) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(96);
    bytes.push(VERSION);
    bytes.extend_from_slice(grant.lease.job.as_bytes());
    bytes.extend_from_slice(grant.lease.worker.as_bytes());
    bytes.extend_from_slice(&grant.lease.fence.0.to_be_bytes());
    bytes.extend_from_slice(&grant.claimed_at.as_micros().to_be_bytes());
    let term = u32::try_from(grant.term.as_millis()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(&term.to_be_bytes());
    bytes.extend_from_slice(&grant.batch.to_be_bytes());
    for text in [tenant, Some(&*grant.queue), grant.code_version.as_deref()] {
        write_text(&mut bytes, text);
    }
    // Most runs need nothing that has a circuit.
    if let Some(CircuitPass { generation, probe }) = grant.circuit {
        bytes.push(u8::from(probe));
        bytes.extend_from_slice(&generation.to_be_bytes());
    }
    bytes
}

/// A text with its length; a missing one has a mark that no length has.
fn write_text(bytes: &mut Vec<u8>, text: Option<&str>) {
    let length = text.map_or(MISSING, |text| u16::try_from(text.len()).unwrap_or(MISSING));
    bytes.extend_from_slice(&length.to_be_bytes());
    if length != MISSING {
        bytes.extend_from_slice(text.unwrap_or_default().as_bytes());
    }
}

const MISSING: u16 = u16::MAX;

/// The tenant and the grant that bytes say; none for bytes of another version or with anything too much or too little.
pub(super) fn read(bytes: &[u8]) -> Option<(Option<String>, Grant)> {
    let mut rest = Rest(bytes);
    if rest.fixed::<1>()? != [VERSION] {
        return None;
    }
    let lease = Lease {
        job: JobId::from_bytes(rest.fixed()?),
        worker: WorkerId::from_bytes(rest.fixed()?),
        fence: Fence(i64::from_be_bytes(rest.fixed()?)),
    };
    let claimed_at = Timestamp::from_micros(i64::from_be_bytes(rest.fixed()?));
    let term = Duration::from_millis(u32::from_be_bytes(rest.fixed()?).into());
    let batch = u32::from_be_bytes(rest.fixed()?);
    let tenant = rest.text()?.map(str::to_owned);
    let queue = rest.text()??.into();
    let code_version = rest.text()?.map(Arc::from);
    let circuit = if rest.0.is_empty() { None } else { Some(rest.pass()?) };
    let grant = Grant { lease, queue, claimed_at, term, batch, code_version, circuit };
    rest.0.is_empty().then_some((tenant, grant))
}

/// Bytes that were not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    fn pass(&mut self) -> Option<CircuitPass> {
        let [probe] = self.fixed()?;
        Some(CircuitPass { generation: u64::from_be_bytes(self.fixed()?), probe: probe == 1 })
    }

    fn text(&mut self) -> Option<Option<&'a str>> {
        let length = u16::from_be_bytes(self.fixed()?);
        if length == MISSING {
            return Some(None);
        }
        let (head, tail) = self.0.split_at_checked(length.into())?;
        self.0 = tail;
        std::str::from_utf8(head).ok().map(Some)
    }
}
