//! Encryption of connections: rustls with ring.

use std::sync::Arc;

use backstop_store::encryption::{SslMode, TransportEncryption, Unprotected};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

/// What the driver says, in words only, when a server has no TLS and must have it.
const NO_TLS: &str = "server does not support TLS";

/// Makes connections as the URL asks for.
pub(crate) fn connector(encryption: &TransportEncryption) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|problem| problem.to_string())?;
    let config = match encryption.mode {
        SslMode::VerifyFull => builder.with_root_certificates(roots(encryption)?).with_no_client_auth(),
        mode => {
            let roots = if mode == SslMode::VerifyCa { Some(roots(encryption)?) } else { None };
            let any_name = Arc::new(AnyName { provider, roots });
            builder.dangerous().with_custom_certificate_verifier(any_name).with_no_client_auth()
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

/// What it means for protection that no connection could be made; none when it is about something else.
pub(crate) fn unprotected(error: &tokio_postgres::Error) -> Option<Unprotected> {
    let cause = std::error::Error::source(error)?;
    if cause.to_string() == NO_TLS {
        return Some(Unprotected::no_tls());
    }
    // An I/O error does not count what it wraps among its sources.
    let wrapped = cause.downcast_ref::<std::io::Error>()?.get_ref()?;
    Some(match wrapped.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(
            problem @ (CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }),
        ) => Unprotected::other_name(problem, SslMode::VerifyCa),
        rustls::Error::InvalidCertificate(problem) => Unprotected::certificate(problem),
        other => Unprotected::handshake(other),
    })
}

fn roots(encryption: &TransportEncryption) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    if let Some(path) = &encryption.root {
        let unreadable =
            |problem: &dyn std::fmt::Display| format!("cannot read {}: {problem}", path.display());
        for certificate in CertificateDer::pem_file_iter(path).map_err(|problem| unreadable(&problem))? {
            let certificate = certificate.map_err(|problem| unreadable(&problem))?;
            store.add(certificate).map_err(|problem| unreadable(&problem))?;
        }
    } else {
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if store.is_empty() {
        return Err("there is no certificate authority to trust".to_owned());
    }
    Ok(store)
}

/// Takes certificates for any host: of these authorities, or of anybody when there are none. Without authorities it
/// promises nothing, as libpq does not: whoever stands in between can show a certificate of their own.
#[derive(Debug)]
struct AnyName {
    provider: Arc<CryptoProvider>,
    roots: Option<RootCertStore>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let algorithms = self.provider.signature_verification_algorithms.all;
            let parsed = ParsedCertificate::try_from(certificate)?;
            verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
