//! The certificate that the server shows, and its key.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

use super::error::ListenError;

/// A certificate with its key, ready to be shown. TLS 1.2 and 1.3 are spoken.
#[derive(Clone)]
pub struct TlsSettings {
    config: Arc<ServerConfig>,
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(…)")
    }
}

impl TlsSettings {
    /// Reads a chain of certificates and the key of the first one, both PEM.
    ///
    /// # Errors
    /// When a file cannot be read or holds something else, or the key is not the certificate's.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, ListenError> {
        let wrong =
            |file: &Path, problem: String| ListenError::Tls { file: file.display().to_string(), problem };
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| wrong(certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(wrong(certificate, "it holds no certificate in PEM form".to_owned()));
        }
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
        // Named, because a program that links another crypto provider too would make the default a guess.
        let mut config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
            .map_err(|error| wrong(key, format!("it does not fit {}: {error}", certificate.display())))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config) })
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.clone())
    }
}
