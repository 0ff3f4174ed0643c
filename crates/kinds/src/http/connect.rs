//! A connection to an address that was checked. The name is resolved once, every address is checked, and one of those
//! is connected to: an answer that changes in between changes nothing.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use backstop::BoxError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::address::plain;
use super::settings::HttpSettings;
use super::target::{Host, Target};
use crate::refusal::{PayloadRefusal, RefusalCode, refused};

/// A failure without a mark: it is tried again by the job's backoff.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct HttpFailed(pub(super) String);

/// A connection, encrypted or not.
pub(super) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Connection for S {}

/// Connects within the time that the settings give.
pub(super) async fn connect(
    target: &Target,
    settings: &HttpSettings,
) -> Result<Box<dyn Connection>, BoxError> {
    if let Some(refusal) = closed(target, settings) {
        return Err(refused(refusal));
    }
    let limit = settings.connect_timeout;
    match tokio::time::timeout(limit, connect_now(target, settings)).await {
        Ok(connected) => connected,
        Err(_) => Err(failed(target, &format!("no connection within {limit:?}"))),
    }
}

/// Why a target is closed whatever its name leads to; none when only its addresses can tell.
pub(super) fn closed(target: &Target, settings: &HttpSettings) -> Option<PayloadRefusal> {
    if !settings.ports.contains(&target.port) {
        let section = settings.section;
        let told = format!("port {} may not be connected to: {section}.ports does not list it", target.port);
        return Some(PayloadRefusal::new(RefusalCode::HttpPortNotAllowed, told));
    }
    match &target.host {
        Host::Address(address) if !settings.opens(&target.host, *address) => {
            Some(not_public(target, settings))
        }
        _ => None,
    }
}

fn not_public(target: &Target, settings: &HttpSettings) -> PayloadRefusal {
    let (host, section) = (target.host.shown(), settings.section);
    let told = format!(
        "`{host}` does not lead to public addresses only: list it in {section}.allow if that is intended"
    );
    PayloadRefusal::new(RefusalCode::HttpAddressNotPublic, told)
}

async fn connect_now(target: &Target, settings: &HttpSettings) -> Result<Box<dyn Connection>, BoxError> {
    let addresses = checked(target, settings).await?;
    let stream = any_of(&addresses, target).await?;
    if !target.encrypted {
        return Ok(Box::new(stream));
    }
    let name = match &target.host {
        Host::Name(name) => {
            ServerName::try_from(name.clone()).map_err(|problem| failed(target, &problem.to_string()))?
        }
        Host::Address(address) => ServerName::from(*address),
    };
    let trust = match &settings.trust {
        Some(trust) => trust.clone(),
        None => machine().map_err(|problem| failed(target, &problem))?,
    };
    let stream = TlsConnector::from(trust)
        .connect(name, stream)
        .await
        .map_err(|problem| failed(target, &format!("cannot encrypt the connection: {problem}")))?;
    Ok(Box::new(stream))
}

/// All addresses of the host, each of them open to jobs.
async fn checked(target: &Target, settings: &HttpSettings) -> Result<Vec<IpAddr>, BoxError> {
    let addresses = match &target.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => {
            let found = settings.resolver.resolve(name).await;
            found.map_err(|problem| failed(target, &format!("the host was not found: {problem}")))?
        }
    };
    if addresses.is_empty() {
        return Err(failed(target, "the host has no address"));
    }
    // One address that is closed closes all: whoever mixes them hopes that another check takes the other one.
    if addresses.iter().any(|address| !settings.opens(&target.host, *address)) {
        return Err(refused(not_public(target, settings)));
    }
    Ok(addresses)
}

async fn any_of(addresses: &[IpAddr], target: &Target) -> Result<TcpStream, BoxError> {
    let mut last = String::new();
    for address in addresses {
        match TcpStream::connect((plain(*address), target.port)).await {
            Ok(stream) => return Ok(stream),
            Err(problem) => last = problem.to_string(),
        }
    }
    Err(failed(target, &format!("cannot connect: {last}")))
}

/// A failure of the network, which is tried again.
pub(super) fn failed(target: &Target, problem: &str) -> BoxError {
    HttpFailed(format!("`{}`: {problem}", target.host.shown())).into()
}

/// What this machine trusts, read once: that takes longer than a request.
fn machine() -> Result<Arc<ClientConfig>, String> {
    static READ: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    READ.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(|problem| problem.to_string())?;
        Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
    })
    .clone()
}
