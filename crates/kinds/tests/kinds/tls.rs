//! `http` over TLS: the name that was asked for is the one that is checked, although a checked address is connected to.

use std::sync::{Arc, Mutex};

use backstop::Cause;
use backstop_kinds::http::{ResolveFuture, Resolver};
use backstop_kinds::{Http, HttpSettings};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::server::{Request, answer, header, reply};
use crate::stage::Stage;

/// For `hook.test`, signed by itself, and used nowhere but here.
const CERTIFICATE: &str = "\
-----BEGIN CERTIFICATE-----
MIIBcjCCARigAwIBAgIBATAKBggqhkjOPQQDAjAeMRwwGgYDVQQDDBNiYWNrc3Rv
cCBraW5kcyB0ZXN0MCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAe
MRwwGgYDVQQDDBNiYWNrc3RvcCBraW5kcyB0ZXN0MFkwEwYHKoZIzj0CAQYIKoZI
zj0DAQcDQgAEX+xjSWUrB6dk312riT5FLLUkdqMRLKWSazIRK0RMi8HeHgRgxsIx
SNtcT+StACDnQ1sdGbfez0Z+cGiRx8ymT6NFMEMwFAYDVR0RBA0wC4IJaG9vay50
ZXN0MAwGA1UdEwEB/wQCMAAwHQYDVR0OBBYEFFe4zawP46unUDW/cSgX1xfQd4t9
MAoGCCqGSM49BAMCA0gAMEUCIQCV2pjsz1py4PHfpJfPwPckRXX3wTY22nwi2kKz
4jwDsgIgXs8ZJB4uVhraxFZoUq8Lk+AeZJBYLtXHJFqRlttjed8=
-----END CERTIFICATE-----
";
const KEY: &str = "\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgrbYzGj7dAOQ4Ooag
gpz7qwlAjYJL/oiimQZovPqOyB+hRANCAARf7GNJZSsHp2TfXauJPkUstSR2oxEs
pZJrMhErREyLwd4eBGDGwjFI21xP5K0AIOdDWx0Zt97PRn5waJHHzKZP
-----END PRIVATE KEY-----
";

struct ToLoopback;

impl Resolver for ToLoopback {
    fn resolve<'a>(&'a self, _: &'a str) -> ResolveFuture<'a> {
        Box::pin(async { Ok(vec!["127.0.0.1".parse().expect("an address")]) })
    }
}

fn certificate() -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).expect("a certificate")
}

fn trust() -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate()).expect("a certificate");
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

/// A server that answers by telling which name it was asked for; `path` `/down` leads to plain http.
async fn server(kept: Arc<Mutex<Vec<Request>>>, names: Arc<Mutex<Vec<String>>>) -> u16 {
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate()], key)
        .expect("they belong together");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            names.lock().expect("no panic").extend(stream.get_ref().1.server_name().map(str::to_owned));
            let script = Arc::new(move |request: &Request| match request.0.starts_with("GET /down") {
                true => reply("302 Found", &format!("location: http://hook.test:{port}/\r\n"), ""),
                false => reply("200 OK", "", "\"over tls\""),
            });
            answer(stream, script, kept.clone()).await;
        }
    });
    port
}

#[tokio::test]
async fn the_name_is_kept_and_checked_and_nothing_goes_down_to_http() {
    // E5
    let (kept, names) = <(Arc<Mutex<Vec<Request>>>, Arc<Mutex<Vec<String>>>)>::default();
    let port = server(kept.clone(), names.clone()).await;
    let settings = || HttpSettings::default().allow_private(true).ports([port]).resolver(ToLoopback);
    let trusting = Stage::requests(settings().trust(trust()).redirects(3).expect("few")).await;
    let get = |host: &str, path: &str| <Http>::new("GET", format!("https://{host}:{port}{path}"));
    let ran = trusting.run(get("hook.test", "/x")).await;
    assert_eq!(
        (ran.cause(), &ran.result()["body"]),
        (Cause::Succeeded, &"over tls".into()),
        "{}",
        ran.message()
    );
    assert_eq!(*names.lock().expect("no panic"), ["hook.test"]);
    let head = kept.lock().expect("no panic").remove(0).0;
    assert_eq!(header(&head, "host"), Some(format!("hook.test:{port}")));
    let ran = trusting.run(get("hook.test", "/down")).await;
    assert_eq!(ran.cause(), Cause::Permanent);
    assert!(ran.message().contains("redirects from https to http"), "{}", ran.message());
    let ran = trusting.run(get("other.test", "/")).await;
    assert_eq!(ran.cause(), Cause::Error, "the certificate is for another name");
    assert!(ran.message().contains("cannot encrypt the connection"), "{}", ran.message());
    let ran = Stage::requests(settings()).await.run(get("hook.test", "/")).await;
    assert_eq!(ran.cause(), Cause::Error, "this machine does not trust it");
    assert!(ran.message().contains("cannot encrypt the connection"), "{}", ran.message());
}
