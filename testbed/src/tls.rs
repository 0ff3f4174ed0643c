//! A server of a test's own that speaks TLS, for tests of what clients verify.

use crate::authority::CertificateAuthority;
use crate::folder::Folder;
use crate::settings::DatabaseSettings;
use crate::trouble::TestbedError;

/// A server with a certificate, the authority that signed it, and one that did not.
#[derive(Debug)]
pub struct TlsServer<S> {
    // Dropped in this order: the server stops before its folder goes.
    /// The server.
    pub server: S,
    signer: CertificateAuthority,
    other: CertificateAuthority,
    _folder: Folder,
}

impl<S> TlsServer<S> {
    /// Starts a server, such as by `Postgres::start`, with a certificate for these names: `DNS:localhost,IP:127.0.0.1`.
    ///
    /// # Errors
    /// When `openssl` refuses, or the server does not start.
    pub fn start(
        label: &str,
        names: &str,
        start: impl FnOnce(DatabaseSettings) -> Result<S, TestbedError>,
    ) -> Result<Self, TestbedError> {
        let folder = Folder::new(label)?;
        let signer = CertificateAuthority::new(folder.join("signer"))?;
        let other = CertificateAuthority::new(folder.join("other"))?;
        let server = start(DatabaseSettings::new(folder.join("server")).certified(signer.certify(names)?))?;
        Ok(Self { server, signer, other, _folder: folder })
    }

    /// The part of a URL by which a client trusts the authority that signed the certificate.
    pub fn trusted(&self) -> String {
        root(&self.signer)
    }

    /// The same for the authority that did not.
    pub fn not_trusted(&self) -> String {
        root(&self.other)
    }
}

fn root(authority: &CertificateAuthority) -> String {
    format!("&sslrootcert={}", authority.file().display())
}
