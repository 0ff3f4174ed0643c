//! Encryption of connections: rustls with ring.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How the server's certificate is looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Encryption {
    /// True for `sslmode=require` and stricter: the certificate must be one we trust, for the name we asked for.
    pub(crate) verify: bool,
    /// Authorities to trust instead of the machine's own.
    pub(crate) root: Option<PathBuf>,
}

/// Makes connections as the URL asks for.
pub(crate) fn connector(encryption: &Encryption) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|problem| problem.to_string())?;
    let config = if encryption.verify {
        builder.with_root_certificates(roots(encryption)?).with_no_client_auth()
    } else {
        // sslmode=prefer promises nothing, also elsewhere: an attacker could simply refuse to encrypt.
        let anything = Arc::new(Unverified(provider));
        builder.dangerous().with_custom_certificate_verifier(anything).with_no_client_auth()
    };
    Ok(MakeRustlsConnect::new(config))
}

fn roots(encryption: &Encryption) -> Result<RootCertStore, String> {
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
        return Err("no certificate authority to trust; name one with sslrootcert".to_owned());
    }
    Ok(store)
}

/// Takes any certificate.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
