//! Requests over TLS: to a server whose certificate is trusted, and to one whose is not.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::*;

/// For `localhost`, signed by itself, and used nowhere but here.
const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBRTCB7aADAgECAgEBMAoGCCqGSM49BAMCMBgxFjAUBgNVBAMMDWJhY2tzdG9w
IHRlc3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBgxFjAUBgNV
BAMMDWJhY2tzdG9wIHRlc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASQSRjQ
q31ck6DsJR6o0goenVxtAjrYnBJnXMnN35kTQTBspmSyVMrAfdeFsn1KL3EDcS9v
G5OYgtcw8RiK6RXuoyYwJDAUBgNVHREEDTALgglsb2NhbGhvc3QwDAYDVR0TAQH/
BAIwADAKBggqhkjOPQQDAgNHADBEAiBmHNzkajY/LvJXvX0h3i1Od90OXtxNvPLO
Wpi2BxDQ9wIgAsmjHT6RiqMLhkiXeAxjL7MJ0I7T7YWf/a8pOzsZ5s8=
-----END CERTIFICATE-----
";
const KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgwuibcCHY6ne99KeB
jxD3KznZ6wy+J/dSQaIxI4FfG9ChRANCAASQSRjQq31ck6DsJR6o0goenVxtAjrY
nBJnXMnN35kTQTBspmSyVMrAfdeFsn1KL3EDcS9vG5OYgtcw8RiK6RXu
-----END PRIVATE KEY-----
";

fn certificate() -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).expect("a certificate")
}

/// A server that answers one request with 202, and its port.
async fn server() -> u16 {
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate()], key)
        .expect("they belong together");
    let listener = TcpListener::bind("localhost:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a connection");
        let Ok(mut stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await else { return };
        let mut request = Vec::new();
        while !request.ends_with(b"\"test\"") {
            stream.read_buf(&mut request).await.expect("a request");
        }
        stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await.expect("read");
        stream.shutdown().await.expect("closed");
    });
    port
}

async fn posted(trusted: bool) -> Result<StatusCode, String> {
    let address: Uri = format!("https://localhost:{}/hook", server().await).parse().expect("a URL");
    let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a secret");
    let mut roots = RootCertStore::empty();
    if trusted {
        roots.add(certificate()).expect("a certificate");
    }
    post(&address, &[secret], "alert_1", "\"test\"".to_owned(), || trusting(roots)).await
}

#[tokio::test]
async fn a_trusted_server_is_talked_to_and_another_is_not() {
    // D3
    assert_eq!(posted(true).await, Ok(StatusCode::ACCEPTED));
    let refused = posted(false).await.expect_err("nobody vouches for it");
    assert!(refused.starts_with("cannot encrypt the connection: invalid peer certificate"), "{refused}");
}
