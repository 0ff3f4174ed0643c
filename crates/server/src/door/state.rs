//! What the door remembers between requests: tokens, rates, the audit log, room.

use std::net::IpAddr;

use backstop::{Backstop, Loops};
use tokio_util::sync::CancellationToken;

use crate::access::throttle::Throttle;
use crate::access::{AccessSettings, Tokens};
use crate::audit::Audit;
use crate::limits::room::TenantNames;
use crate::limits::{RequestRoom, ServerLimits};

/// What the door remembers.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) tokens: Tokens,
    /// Requests by token.
    pub(crate) rates: Option<Throttle<String>>,
    /// Wrong tokens by address.
    pub(crate) failed_logins: Throttle<IpAddr>,
    pub(crate) audit: Audit,
    pub(crate) gates: RequestRoom,
    /// Queues and kinds of tenants.
    pub(crate) tenant_names: TenantNames,
    /// Cancelled when the server goes down: whoever waits for something to happen stops waiting.
    pub(crate) stopping: CancellationToken,
}

impl Door {
    pub(crate) fn new(
        engine: &Backstop,
        access: &AccessSettings,
        limits: &ServerLimits,
        loops: &Loops,
    ) -> Self {
        let tokens = Tokens::new(engine, &access.tokens);
        Self {
            audit: Audit::new(engine, tokens.clone(), loops),
            tokens,
            rates: access.rate.map(Throttle::new),
            failed_logins: Throttle::new(access.failed_logins),
            gates: RequestRoom::new(limits),
            tenant_names: TenantNames::default(),
            stopping: CancellationToken::new(),
        }
    }
}
