//! Where the kind `http` may go, and for how long. Public addresses only, until more is opened.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use backstop::standard_webhooks::Secret;
use hyper::Method;
use tokio_rustls::rustls::ClientConfig;

use super::address::{AddressClass, AddressRange, class, plain};
use super::resolve::{Resolver, SystemResolver};
use super::target::Host;
use crate::error::SettingsError;
use crate::refusal::brief;

/// The methods that there are (E5).
pub(super) const METHODS: [Method; 7] =
    [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD, Method::OPTIONS];

/// Where the configuration has these settings, unless somebody else's are meant.
const SECTION: &str = "handlers.http";

/// Ports that web servers have; any other is more likely a database.
const PORTS: [u16; 4] = [80, 443, 8080, 8443];
const CONNECT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(30);
/// Redirects that may be followed at most.
const REDIRECTS_MAX: u8 = 5;
/// Secrets that may be valid at once under one name: the one in use, and those that go in and out.
const SECRETS_MAX: usize = 5;

/// Secrets, and the hosts that know them.
#[derive(Clone)]
pub(super) struct HttpSigning {
    pub(super) secrets: Vec<Secret>,
    hosts: Vec<String>,
}

impl HttpSigning {
    /// True when this host may be sent what these secrets sign.
    pub(super) fn is_for(&self, host: &Host) -> bool {
        let shown = host.shown();
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(&shown))
    }
}

/// What the kind `http` may do.
#[derive(Clone)]
pub struct HttpSettings {
    pub(super) section: &'static str,
    allow_private: bool,
    hosts: Vec<String>,
    networks: Vec<AddressRange>,
    pub(super) ports: Vec<u16>,
    pub(super) methods: Vec<Method>,
    pub(super) redirects: u8,
    pub(super) redirects_carry: bool,
    pub(super) connect_timeout: Duration,
    pub(super) timeout: Duration,
    pub(super) secrets: BTreeMap<String, HttpSigning>,
    pub(super) resolver: Arc<dyn Resolver>,
    pub(super) trust: Option<Arc<ClientConfig>>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            section: SECTION,
            allow_private: false,
            hosts: Vec::new(),
            networks: Vec::new(),
            ports: PORTS.to_vec(),
            methods: METHODS.to_vec(),
            redirects: 0,
            redirects_carry: false,
            connect_timeout: CONNECT,
            timeout: TIMEOUT,
            secrets: BTreeMap::new(),
            resolver: Arc::new(SystemResolver),
            trust: None,
        }
    }
}

impl std::fmt::Debug for HttpSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpSettings")
            .field("allow_private", &self.allow_private)
            .field("hosts", &self.hosts)
            .field("networks", &self.networks)
            .field("ports", &self.ports)
            .field("methods", &self.methods)
            .field("redirects", &self.redirects)
            .field("redirects_carry", &self.redirects_carry)
            .field("connect_timeout", &self.connect_timeout)
            .field("timeout", &self.timeout)
            .field("secrets", &self.secrets.keys())
            .finish_non_exhaustive()
    }
}

impl HttpSettings {
    /// The section of the configuration that refusals name, for settings that are not those of the kind `http`.
    #[must_use]
    pub const fn section(mut self, section: &'static str) -> Self {
        self.section = section;
        self
    }

    /// Opens loopback and private networks. Addresses at which clouds hand out credentials stay closed.
    #[must_use]
    pub const fn allow_private(mut self, allow: bool) -> Self {
        self.allow_private = allow;
        self
    }

    /// Opens one target inside: a host name, which may then lead to private addresses, or an address or network, which
    /// is then open whatever it is for.
    ///
    /// # Errors
    /// When it is none of them.
    pub fn allow(mut self, target: &str) -> Result<Self, SettingsError> {
        if let Some(network) = AddressRange::parse(target) {
            self.networks.push(network);
            return Ok(self);
        }
        match super::target::Target::parse(&format!("http://{target}/")).map(|read| (read.port, read.host)) {
            Ok((80, Host::Name(name))) if name.eq_ignore_ascii_case(target) => self.hosts.push(name),
            _ => return Err(SettingsError::Target { target: brief(target) }),
        }
        Ok(self)
    }

    /// The ports that may be connected to; 80, 443, 8080 and 8443 by default.
    #[must_use]
    pub fn ports(mut self, ports: impl IntoIterator<Item = u16>) -> Self {
        self.ports = ports.into_iter().collect();
        self
    }

    /// The methods that may be used; all that there are by default.
    ///
    /// # Errors
    /// When one is not known.
    pub fn methods(mut self, methods: &[impl AsRef<str>]) -> Result<Self, SettingsError> {
        let known = |method: &str| METHODS.into_iter().find(|known| known.as_str() == method);
        let read =
            |method: &str| known(method).ok_or_else(|| SettingsError::Method { method: brief(method) });
        self.methods = methods.iter().map(|method| read(method.as_ref())).collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// How many redirects are followed; none by default, 5 at most.
    ///
    /// # Errors
    /// When it is more.
    pub fn redirects(mut self, redirects: u64) -> Result<Self, SettingsError> {
        let allowed = u8::try_from(redirects).ok().filter(|redirects| *redirects <= REDIRECTS_MAX);
        self.redirects = allowed.ok_or(SettingsError::Redirects { given: redirects })?;
        Ok(self)
    }

    /// Whether a redirect to another host takes the headers and the body of the job along; by default it takes nothing,
    /// and one that would need the body is not followed. Signatures, `Authorization` and `Cookie` never go along.
    #[must_use]
    pub const fn redirects_carry(mut self, carry: bool) -> Self {
        self.redirects_carry = carry;
        self
    }

    /// How long a connection may take to come about; 5 s by default.
    ///
    /// # Errors
    /// When it is zero.
    pub fn connect_timeout(mut self, timeout: Duration) -> Result<Self, SettingsError> {
        if timeout.is_zero() {
            return Err(SettingsError::Zero { name: "connect_timeout" });
        }
        self.connect_timeout = timeout;
        Ok(self)
    }

    /// How long all of a request may take, redirects with it; a payload may ask for less. 30 s by default.
    ///
    /// # Errors
    /// When it is zero.
    pub fn timeout(mut self, timeout: Duration) -> Result<Self, SettingsError> {
        if timeout.is_zero() {
            return Err(SettingsError::Zero { name: "timeout" });
        }
        self.timeout = timeout;
        Ok(self)
    }

    /// Secrets that requests to these hosts are signed with when their payload names them. Those named `default` sign
    /// requests to their hosts whose payload names none. While a secret is being changed, give both.
    ///
    /// A secret is shared with somebody, and whoever may submit jobs chooses addresses and bodies: what is signed goes
    /// to those who share it and to nobody else, or it could be sent on to them as if it came from here.
    ///
    /// # Errors
    /// When one is no secret, or there is no host.
    pub fn secret(
        mut self,
        name: &str,
        secrets: &[impl AsRef<str>],
        hosts: &[impl AsRef<str>],
    ) -> Result<Self, SettingsError> {
        let wrong = || SettingsError::Secret { name: brief(name) };
        let read = secrets.iter().map(|secret| Secret::parse(secret.as_ref()).ok_or_else(wrong));
        let secrets: Vec<Secret> = read.collect::<Result<_, _>>()?;
        if !(1..=SECRETS_MAX).contains(&secrets.len()) {
            return Err(wrong());
        }
        let named = |host: &str| {
            let target = super::target::Target::parse(&format!("https://{host}/")).ok()?;
            Some(target.host.shown()).filter(|shown| shown.eq_ignore_ascii_case(host))
        };
        let hosts: Option<Vec<String>> = hosts.iter().map(|host| named(host.as_ref())).collect();
        let hosts = hosts.filter(|hosts| !hosts.is_empty());
        let hosts = hosts.ok_or_else(|| SettingsError::SecretHosts { name: brief(name) })?;
        self.secrets.insert(name.to_owned(), HttpSigning { secrets, hosts });
        Ok(self)
    }

    /// Another way to find the addresses of hosts.
    #[must_use]
    pub fn resolver(mut self, resolver: impl Resolver + 'static) -> Self {
        self.resolver = Arc::new(resolver);
        self
    }

    /// Other certificates to trust than the machine's.
    #[must_use]
    pub fn trust(mut self, trust: Arc<ClientConfig>) -> Self {
        self.trust = Some(trust);
        self
    }

    /// True when this host may be talked to at this address.
    pub(super) fn opens(&self, host: &Host, address: IpAddr) -> bool {
        let address = plain(address);
        if self.networks.iter().any(|network| network.holds(address)) {
            return true;
        }
        let listed = matches!(host, Host::Name(name) if self.hosts.contains(name));
        match class(address) {
            AddressClass::Public => true,
            AddressClass::Private => self.allow_private || listed,
            AddressClass::Metadata | AddressClass::Special => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opens(settings: &HttpSettings, host: &str, address: &str) -> bool {
        settings.opens(&Host::Name(host.to_owned()), address.parse().expect(address))
    }

    #[test]
    fn what_is_opened_is_open_and_metadata_only_by_a_list() {
        // E5
        let closed = HttpSettings::default();
        let private = HttpSettings::default().allow_private(true);
        let listed = HttpSettings::default().allow("in.example").and_then(|it| it.allow("169.254.169.0/24"));
        let listed = listed.expect("targets");
        assert!(opens(&closed, "a", "8.8.8.8") && !opens(&closed, "a", "127.0.0.1"));
        assert!(opens(&private, "a", "::ffff:127.0.0.1") && !opens(&private, "a", "169.254.169.254"));
        assert!(!opens(&private, "a", "::ffff:169.254.169.254") && !opens(&private, "a", "fd00:ec2::254"));
        assert!(opens(&listed, "in.example", "10.0.0.1") && !opens(&listed, "out.example", "10.0.0.1"));
        assert!(opens(&listed, "a", "169.254.169.254") && !opens(&listed, "in.example", "169.254.170.2"));
        assert!(!opens(&private, "a", "0.0.0.0") && !opens(&private, "a", "64:ff9b::7f00:1"));
    }

    #[test]
    fn what_is_no_target_is_refused() {
        // E5
        for target in ["", "*", "*.example", "a/b", "a:80", "http://a", "10.0.0", "a@b", "10.0.0.0/99"] {
            assert!(HttpSettings::default().allow(target).is_err(), "{target}");
        }
        assert!(HttpSettings::default().methods(&["GET", "TRACE"]).is_err());
        assert!(HttpSettings::default().redirects(6).is_err());
        assert!(HttpSettings::default().secret("default", &["whsec_x"], &["a.example"]).is_err());
        let secret = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];
        for hosts in [&[][..], &["*"], &["a.example", "https://a.example"], &["a.example:443"], &["a b"]] {
            assert!(HttpSettings::default().secret("default", &secret, hosts).is_err(), "{hosts:?}");
        }
    }
}
