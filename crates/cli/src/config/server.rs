//! `[server]`: where the API listens, who may call it, and how much it takes on.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use backstop_server::{Network, Rate, ServerLimits, ServerSettings, TokenGrant};
use serde_json::Value;

use super::read::{ConfigFault, FileValue, PlainValue};

/// Where the API listens when nothing is said.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7_700);

/// More than this of anything at once is a typing error.
const COUNT_MAX: u64 = 1_000_000;

/// What the file says of the server.
#[derive(Debug, Clone)]
pub(crate) struct ServerSection {
    pub(crate) listen: SocketAddr,
    /// Everything but the certificate, which only a server needs to be there.
    pub(crate) settings: ServerSettings,
    /// The files of the certificate and of its key.
    pub(crate) tls: Option<(PathBuf, PathBuf)>,
}

impl Default for ServerSection {
    fn default() -> Self {
        Self { listen: LISTEN, settings: ServerSettings::default(), tls: None }
    }
}

/// An address to listen on: `127.0.0.1:7700`, `[::1]:7700` or `localhost:7700`.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong = || {
        let shown = crate::output::brief(text, 60);
        format!(
            "`{shown}` is not an address to listen on: write 127.0.0.1:7700, or 0.0.0.0:7700 for every network"
        )
    };
    if let Some(port) = text.strip_prefix("localhost:") {
        return Ok((Ipv4Addr::LOCALHOST, port.parse().map_err(|_| wrong())?).into());
    }
    text.parse().map_err(|_| wrong())
}

/// What the file asks for.
pub(super) fn server(found: &[FileValue]) -> Result<ServerSection, ConfigFault> {
    let mut server = ServerSection::default();
    let (mut certificate, mut key, mut public) = (None, None, None);
    let (mut per_second, mut burst) = (1_000, 2_000);
    for one in found {
        let [section, name] = &one.path[..] else { continue };
        if section != "server" {
            continue;
        }
        match (name.as_str(), &one.value) {
            ("tls_cert", PlainValue::Text(file)) => certificate = Some((PathBuf::from(file), one)),
            ("tls_key", PlainValue::Text(file)) => key = Some((PathBuf::from(file), one)),
            ("public_url", PlainValue::Text(url)) => {
                let host = public_host(url).ok_or_else(|| {
                    let shown = crate::output::brief(url, 60);
                    let problem = format!(
                        "`{shown}` is not an address of a server: write https://jobs.example.com, or with a path"
                    );
                    fault(one, &problem)
                })?;
                public = Some((url.trim_end_matches('/').to_owned(), host.to_owned()));
            }
            ("rate_per_second", PlainValue::Count(calls)) => per_second = small(*calls, one)?,
            ("rate_burst", PlainValue::Count(calls)) => burst = small(*calls, one)?,
            (name, value) => take(&mut server, name, value, one)?,
        }
    }
    // Nothing a second means no limit: a token that may never call is one that is not made.
    server.settings.access.rate = (per_second > 0).then(|| Rate::per_second(per_second, burst));
    if let Some((url, host)) = public {
        server.settings.public_url = Some(url);
        server.settings.access.allowed_hosts.push(host);
    }
    server.tls = match (certificate, key) {
        (Some((certificate, _)), Some((key, _))) => Some((certificate, key)),
        (Some((_, one)), None) => {
            return Err(fault(one, "`server.tls_cert` needs `server.tls_key` beside it"));
        }
        (None, Some((_, one))) => {
            return Err(fault(one, "`server.tls_key` needs `server.tls_cert` beside it"));
        }
        (None, None) => None,
    };
    Ok(server)
}

/// The name in the address of a server, without its port.
fn public_host(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let host = rest.split('/').next()?;
    let (name, port) = host.rsplit_once(':').filter(|_| !host.ends_with(']')).unwrap_or((host, "443"));
    let plain = url.bytes().all(|byte| byte.is_ascii_graphic() && !br#"?#@"'<>\"#.contains(&byte));
    (plain && !name.is_empty() && port.parse::<u16>().is_ok()).then_some(name)
}

fn take(
    server: &mut ServerSection,
    name: &str,
    value: &PlainValue,
    one: &FileValue,
) -> Result<(), ConfigFault> {
    let (access, limits) = (&mut server.settings.access, &mut server.settings.limits);
    match (name, value) {
        ("listen", PlainValue::Text(text)) => {
            server.listen = address(text).map_err(|problem| fault(one, &problem))?
        }
        ("tokens", PlainValue::Other(tokens)) => {
            access.tokens = grants(tokens).map_err(|problem| fault(one, &problem))?
        }
        ("allowed_hosts", PlainValue::Texts(hosts)) => access.allowed_hosts.clone_from(hosts),
        ("allowed_origins", PlainValue::Texts(origins)) => access.allowed_origins.clone_from(origins),
        ("trusted_proxies", PlainValue::Texts(proxies)) => {
            let parsed = proxies.iter().map(|proxy| proxy.parse::<Network>()).collect::<Result<_, _>>();
            access.trusted_proxies = parsed.map_err(|error| fault(one, &error.to_string()))?;
        }
        ("failed_logins_per_minute", PlainValue::Count(calls)) => {
            let calls = small(*calls, one)?.max(1);
            access.failed_logins = Rate::every(Duration::from_secs(60) / calls, calls);
        }
        (name, PlainValue::Count(count)) => {
            *bound(limits, name) = usize::try_from(small(*count, one)?).unwrap_or(usize::MAX)
        }
        _ => {}
    }
    Ok(())
}

fn bound<'a>(limits: &'a mut ServerLimits, name: &str) -> &'a mut usize {
    match name {
        "max_connections" => &mut limits.connections,
        "max_requests" => &mut limits.requests,
        "max_streams_per_token" => &mut limits.streams_each.token,
        "max_streams_per_tenant" => &mut limits.streams_each.tenant,
        "max_claims" => &mut limits.claims,
        "max_claims_per_token" => &mut limits.claims_each.token,
        "max_claims_per_tenant" => &mut limits.claims_each.tenant,
        _ => &mut limits.streams,
    }
}

fn small(count: u64, one: &FileValue) -> Result<u32, ConfigFault> {
    let fits = u32::try_from(count).ok().filter(|_| count <= COUNT_MAX);
    fits.ok_or_else(|| fault(one, &format!("{count} is too many, the limit is {COUNT_MAX}")))
}

/// The tokens of the file. What is wrong with one is told without a word of its hash.
fn grants(tokens: &Value) -> Result<Vec<TokenGrant>, String> {
    let form = "write { name = \"ci\", hash = \"sha256:...\", scopes = [\"submit\"] }";
    let tokens = tokens.as_array().ok_or_else(|| format!("`server.tokens` must be a list: {form}"))?;
    let mut names = BTreeSet::new();
    let mut grants = Vec::new();
    for (nth, token) in tokens.iter().enumerate() {
        let wrong = |problem: String| format!("token {} of `server.tokens`: {problem}; {form}", nth + 1);
        let grant: TokenGrant =
            serde_json::from_value(token.clone()).map_err(|error| wrong(error.to_string()))?;
        grant.validate().map_err(|error| wrong(error.to_string()))?;
        if !names.insert(grant.name.clone()) {
            return Err(wrong(format!("the name `{}` is taken by another one", grant.name)));
        }
        grants.push(grant);
    }
    Ok(grants)
}

fn fault(found: &FileValue, message: &str) -> ConfigFault {
    ConfigFault { place: found.place.clone(), key: found.path.join("."), message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::public_host;

    #[test]
    fn the_name_of_the_server_is_part_of_its_address() {
        // W10
        for (url, host) in [
            ("https://jobs.example.com", Some("jobs.example.com")),
            ("https://jobs.example.com/", Some("jobs.example.com")),
            ("http://10.0.0.7:7700/backstop", Some("10.0.0.7")),
            ("https://[::1]:7700", Some("[::1]")),
            ("https://[::1]", Some("[::1]")),
            ("jobs.example.com", None),
            ("ftp://jobs.example.com", None),
            ("https://", None),
            ("https://:443", None),
            ("https://jobs.example.com:https", None),
            ("https://jobs.example.com:70000", None),
            ("https://ann@jobs.example.com", None),
            ("https://jobs.example.com?x", None),
            ("https://jobs example.com", None),
        ] {
            assert_eq!(public_host(url), host, "{url}");
        }
    }
}
