//! Who may call, as it is configured.

use std::time::Duration;

use super::TokenGrant;
use super::peer::Network;
use super::rate::Rate;

/// Who may call. The default lets nobody in but this machine, as long as no token exists.
#[derive(Debug, Clone)]
pub struct AccessSettings {
    /// Tokens that stand in the configuration, beside those in the store. They cannot be revoked over HTTP.
    pub tokens: Vec<TokenGrant>,
    /// Names by which the server may be called, beside loopback ones and the address that was connected to.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may call it, beside its own. No CORS header is sent for them: this is for a proxy that
    /// passes a page's Origin on with another Host.
    pub allowed_origins: Vec<String>,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<Network>,
    /// Requests of one token; none for no limit.
    pub rate: Option<Rate>,
    /// Wrong tokens from one address.
    pub failed_logins: Rate,
}

impl Default for AccessSettings {
    fn default() -> Self {
        Self {
            tokens: Vec::new(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            trusted_proxies: Vec::new(),
            rate: Some(Rate::per_second(1_000, 2_000)),
            failed_logins: Rate::every(Duration::from_secs(6), 10),
        }
    }
}
