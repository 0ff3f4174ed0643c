//! A certificate authority of a test's own, and certificates for servers.
//!
//! Owns how they are made, with the program `openssl`. Nothing of the machine's configuration goes into them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::account::{self, SystemUser};
use crate::trouble::TestbedError;
use crate::{client, find};

/// Signs certificates that are trusted by whoever trusts [`CertificateAuthority::file`].
#[derive(Debug)]
pub struct CertificateAuthority {
    folder: PathBuf,
    own: Certificate,
}

/// What a server shows to its clients, and the key to it.
#[derive(Clone, Debug)]
pub struct Certificate {
    file: PathBuf,
    key: PathBuf,
}

impl CertificateAuthority {
    /// Makes one, with its files in the folder.
    ///
    /// # Errors
    /// When `openssl` is not installed or refuses.
    pub fn new(folder: impl Into<PathBuf>) -> Result<Self, TestbedError> {
        let folder = folder.into();
        fs::create_dir_all(&folder)
            .map_err(TestbedError::io(format!("cannot create {}", folder.display())))?;
        let extensions = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign";
        let own = make(&folder, "authority", extensions, None)?;
        Ok(Self { folder, own })
    }

    /// The PEM file to trust.
    pub fn file(&self) -> &Path {
        &self.own.file
    }

    /// Signs a certificate for a server of these names, such as `DNS:localhost,IP:127.0.0.1`.
    ///
    /// # Errors
    /// When `openssl` refuses.
    pub fn certify(&self, names: &str) -> Result<Certificate, TestbedError> {
        let extensions = format!(
            "basicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\nsubjectAltName={names}"
        );
        make(&self.folder, "server", &extensions, Some(&self.own))
    }
}

impl Certificate {
    /// Copies both files into a server's folder, for its user alone: servers refuse keys that others can read. Answers
    /// where the certificate and the key are.
    pub(crate) fn give(
        &self,
        folder: &Path,
        account: Option<&SystemUser>,
    ) -> Result<[PathBuf; 2], TestbedError> {
        let give = |from: &Path, name: &str| {
            let to = folder.join(name);
            let cannot = format!("cannot make {}", to.display());
            fs::copy(from, &to).map_err(TestbedError::io(&cannot))?;
            fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).map_err(TestbedError::io(&cannot))?;
            account::give(&to, account)?;
            Ok(to)
        };
        Ok([give(&self.file, "server.pem")?, give(&self.key, "server.key")?])
    }
}

/// Makes a certificate that `signer` signs, or that signs itself.
fn make(
    folder: &Path,
    name: &str,
    extensions: &str,
    signer: Option<&Certificate>,
) -> Result<Certificate, TestbedError> {
    let made =
        Certificate { file: folder.join(format!("{name}.pem")), key: folder.join(format!("{name}.key")) };
    let settings = folder.join(format!("{name}.cnf"));
    let text = format!(
        "[req]\ndistinguished_name=subject\nx509_extensions=extensions\nprompt=no\n\
         [subject]\nCN=backstop {name}\n[extensions]\nsubjectKeyIdentifier=hash\n{extensions}\n"
    );
    fs::write(&settings, text).map_err(TestbedError::io(format!("cannot write {}", settings.display())))?;
    let mut command = Command::new(find::needed("openssl", "openssl")?);
    command.args(["req", "-x509", "-nodes", "-days", "3650", "-newkey", "ec"]);
    command.args(["-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    command.arg("-config").arg(&settings).arg("-keyout").arg(&made.key).arg("-out").arg(&made.file);
    if let Some(signer) = signer {
        command.arg("-CA").arg(&signer.file).arg("-CAkey").arg(&signer.key);
    }
    client::run(command, "")?;
    Ok(made)
}
