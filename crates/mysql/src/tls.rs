//! Encryption of connections: the driver's, which is rustls with ring.
//!
//! The driver cannot verify an authority without the name of the host, so `verify-ca` is as strict as `verify-full`
//! here; and it does not go on without TLS by itself, so `prefer` asks the server once.

use backstop_store::encryption::{RequestedEncryption, SslMode, TransportEncryption, Unprotected};
use mysql_async::{Conn, DriverError, Error as DriverFailure, IoError, OptsBuilder, SslOpts};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, RootCertStore};

/// The driver's own settings, in whose place `sslmode` and `sslrootcert` are.
#[derive(Debug, Default)]
pub(crate) struct DriverSslSettings {
    require: Option<bool>,
    verify_ca: Option<bool>,
    verify_identity: Option<bool>,
}

impl DriverSslSettings {
    /// Takes a pair of the URL; false when it is about something else.
    pub(crate) fn take(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let slot = match name {
            "require_ssl" => &mut self.require,
            "verify_ca" => &mut self.verify_ca,
            "verify_identity" => &mut self.verify_identity,
            "built_in_roots" => {
                return Err(
                    "built_in_roots is not known: the authorities of this machine are trusted, or those in \
                     the file that sslrootcert=PATH names"
                        .to_owned(),
                );
            }
            _ => return Ok(false),
        };
        *slot = Some(value.parse().map_err(|_| format!("{name}={value:?} is neither true nor false"))?);
        Ok(true)
    }

    /// Says the same with `sslmode`.
    pub(crate) fn translate(&self, asked: &mut RequestedEncryption) -> Result<(), String> {
        let mode = match (self.require, self.verify_ca, self.verify_identity) {
            (None, None, None) => return Ok(()),
            (Some(false), _, _) => SslMode::Disable,
            (Some(true), Some(false), _) => SslMode::Require,
            (Some(true), _, _) => SslMode::VerifyFull,
            (None, _, _) => {
                return Err(
                    "verify_ca and verify_identity mean nothing without require_ssl; write sslmode=require \
                     to encrypt without verifying"
                        .to_owned(),
                );
            }
        };
        if asked.mode.is_some() {
            return Err("the URL has both sslmode and require_ssl; write sslmode only".to_owned());
        }
        asked.mode = Some(mode);
        Ok(())
    }
}

/// What the driver is told; none when nothing is encrypted.
pub(crate) fn options(encryption: &TransportEncryption) -> Result<Option<SslOpts>, String> {
    if CryptoProvider::get_default().is_none() {
        // The driver takes the default of the process, and panics in a program that has two and chose none.
        let _ = ring::default_provider().install_default();
    }
    let plain = SslOpts::default();
    Ok(match encryption.mode {
        SslMode::Disable => None,
        SslMode::Prefer | SslMode::Require => Some(plain.with_danger_accept_invalid_certs(true)),
        SslMode::VerifyCa | SslMode::VerifyFull => {
            let roots = roots(encryption)?.into_iter();
            let roots = roots.map(|root| root.as_ref().to_vec().into()).collect();
            Some(plain.with_disable_built_in_roots(true).with_root_certs(roots))
        }
    })
}

/// The authorities to trust, each of them one that the driver can read.
fn roots(encryption: &TransportEncryption) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut store = RootCertStore::empty();
    let roots = match &encryption.root {
        None => {
            let mut found = rustls_native_certs::load_native_certs().certs;
            found.retain(|root| store.add(root.clone()).is_ok());
            found
        }
        Some(path) => {
            let unreadable =
                |problem: &dyn std::fmt::Display| format!("cannot read {}: {problem}", path.display());
            let mut found = Vec::new();
            for root in CertificateDer::pem_file_iter(path).map_err(|problem| unreadable(&problem))? {
                let root = root.map_err(|problem| unreadable(&problem))?;
                store.add(root.clone()).map_err(|problem| unreadable(&problem))?;
                found.push(root);
            }
            found
        }
    };
    if roots.is_empty() {
        return Err("there is no certificate authority to trust".to_owned());
    }
    Ok(roots)
}

/// True when a server that should be asked for TLS has none. Any other problem is reported by the next connection.
pub(crate) async fn is_refused(opts: OptsBuilder) -> bool {
    match Conn::new(opts).await {
        Err(DriverFailure::Driver(DriverError::NoClientSslFlagFromServer)) => true,
        Ok(conn) => {
            let _ = conn.disconnect().await;
            false
        }
        Err(_) => false,
    }
}

/// What it means for protection that no connection could be made; none when it is about something else.
pub(crate) fn unprotected(error: &DriverFailure) -> Option<Unprotected> {
    let problem = match error {
        DriverFailure::Driver(DriverError::NoClientSslFlagFromServer) => return Some(Unprotected::no_tls()),
        DriverFailure::Io(IoError::Tls(problem)) => return Some(Unprotected::handshake(problem)),
        DriverFailure::Io(IoError::Io(problem)) => problem.get_ref()?.downcast_ref::<rustls::Error>()?,
        _ => return None,
    };
    Some(match problem {
        rustls::Error::InvalidCertificate(
            problem @ (CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }),
        ) => Unprotected::other_name(problem, SslMode::Require),
        rustls::Error::InvalidCertificate(problem) => Unprotected::certificate(problem),
        other => Unprotected::handshake(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_driver_go_on_to_mean_what_they_meant() {
        use SslMode::{Disable, Require, VerifyFull};
        for (pairs, mode) in [
            (&[][..], None),
            (&[("require_ssl", "true")], Some(VerifyFull)),
            (&[("require_ssl", "false")], Some(Disable)),
            (&[("require_ssl", "true"), ("verify_ca", "false")], Some(Require)),
            (&[("require_ssl", "true"), ("verify_identity", "false")], Some(VerifyFull)),
        ] {
            let (mut driver, mut asked) = (DriverSslSettings::default(), RequestedEncryption::default());
            for (name, value) in pairs {
                assert_eq!(driver.take(name, value), Ok(true), "{name}");
            }
            driver.translate(&mut asked).expect("all of them mean something");
            assert_eq!(asked.mode, mode, "{pairs:?}");
        }
        assert_eq!(DriverSslSettings::default().take("pool_max", "3"), Ok(false));
        assert!(DriverSslSettings::default().take("built_in_roots", "false").is_err());
        assert!(DriverSslSettings::default().take("require_ssl", "yes").is_err());
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        let mut driver = DriverSslSettings::default();
        driver.take("verify_ca", "false").expect("known");
        assert!(
            driver.translate(&mut RequestedEncryption::default()).is_err(),
            "it would verify all the same"
        );
        driver.take("require_ssl", "true").expect("known");
        let mut asked = RequestedEncryption { mode: Some(SslMode::Disable), root: None };
        assert!(driver.translate(&mut asked).is_err(), "one of them would be passed over");
    }
}
