//! Encrypted connections to real servers, whose certificates the tests have made: who is trusted, and who is not.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, stream};
use backstop::Config;
use backstop_bridges::{BridgeSettings, NewMessage, Source, SourceSettings};
use backstop_testbed::{CertificateAuthority, DatabaseSettings, Folder, Moto, Nats, Rabbitmq, Redis};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::stage::{TestEngine, broker, soon, times, until};

/// An authority that signed the certificate of a server, and one that did not.
struct Authorities {
    signer: CertificateAuthority,
    other: CertificateAuthority,
    folder: Folder,
}

impl Authorities {
    fn new() -> Self {
        let folder = Folder::new("bridge-tls").expect("a folder");
        let signer = CertificateAuthority::new(folder.join("signer")).expect("openssl");
        let other = CertificateAuthority::new(folder.join("other")).expect("openssl");
        Self { signer, other, folder }
    }

    fn certificate(&self) -> backstop_testbed::Certificate {
        self.signer.certify("DNS:localhost").expect("openssl")
    }
}

/// A message goes out and becomes a job over TLS; nobody is spoken to whose authority is not trusted.
async fn check(
    url: &str,
    queue: &str,
    authorities: &Authorities,
    change: fn(BridgeSettings) -> BridgeSettings,
) {
    let settings = || change(BridgeSettings::new(url, SourceSettings::new(queue, "charge")));
    let trusting = settings().trusting(authorities.signer.file());
    let mut session = soon("a session", broker(&trusting).connect()).await.expect("it is trusted");
    session.publish(queue, &[NewMessage::new(b"{}".to_vec())]).await.expect("confirmed");
    drop(session);
    let engine = TestEngine::new(Config::default()).await;
    let source = Source::new(&engine.engine, "orders", &trusting).expect("good settings").times(times());
    let handle = source.start();
    let status = until(&handle, |status| status.acked == 1).await;
    assert_eq!(status.admitted, 1);
    handle.stop().await;
    let no_file = settings().trusting(authorities.folder.join("no-such.pem"));
    let no_certificate = authorities.folder.join("empty.pem");
    std::fs::write(&no_certificate, "nothing").expect("a file");
    for (settings, told) in [
        (settings().trusting(authorities.other.file()), ""),
        (settings(), ""),
        (no_file, "no-such.pem cannot be used"),
        (settings().trusting(no_certificate), "there is no certificate in it"),
    ] {
        let refused = soon("a refusal", broker(&settings).connect()).await.err().expect("it is not trusted");
        assert!(refused.to_string().contains(told), "{refused}");
        assert!(!refused.to_string().contains("guest:guest"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_rabbitmq() {
    // B5
    let authorities = Authorities::new();
    let folder = authorities.folder.join("rabbitmq");
    let server = Rabbitmq::start_encrypted(folder, &authorities.certificate()).expect("a server");
    let connection = lapin::Connection::connect(&server.url(), lapin::ConnectionProperties::default())
        .await
        .expect("there");
    let channel = connection.create_channel().await.expect("there");
    let options = lapin::options::QueueDeclareOptions::durable();
    channel.queue_declare("orders".into(), options, Default::default()).await.expect("a new queue");
    check(&server.encrypted_url(), "orders", &authorities, |settings| settings).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_redis() {
    // B5
    let authorities = Authorities::new();
    let settings =
        DatabaseSettings::new(authorities.folder.join("redis")).certified(authorities.certificate());
    let server = Redis::start(&settings).expect("a server");
    server.order("XGROUP CREATE orders orders 0 MKSTREAM").expect("a stream");
    check(&server.encrypted_url(), "orders", &authorities, |settings| settings).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_nats() {
    // B5
    let authorities = Authorities::new();
    let folder = authorities.folder.join("nats");
    let server = Nats::start_encrypted(folder, &authorities.certificate()).expect("a server");
    let options = async_nats::ConnectOptions::new();
    let options = options.add_root_certificates(authorities.signer.file().to_path_buf());
    let client = options.connect(server.encrypted_url()).await.expect("there");
    let config = stream::Config {
        name: "orders".to_owned(),
        subjects: vec!["orders".to_owned()],
        ..stream::Config::default()
    };
    jetstream::new(client).create_stream(config).await.expect("a new stream");
    check(&server.encrypted_url(), "orders", &authorities, |settings| settings).await;
}

/// Asks for the queue `orders`: a bridge makes none.
async fn create_queue(port: u16, authorities: &Authorities) {
    let mut roots = RootCertStore::empty();
    let own = CertificateDer::from_pem_file(authorities.signer.file()).expect("a certificate");
    roots.add(own).expect("a certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config =
        config.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
    let connector = TlsConnector::from(Arc::new(config.with_no_client_auth()));
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.expect("there");
    let name = ServerName::try_from("localhost").expect("a name");
    let mut stream = connector.connect(name, stream).await.expect("it is trusted");
    let body = r#"{"QueueName":"orders"}"#;
    let request = format!(
        "POST / HTTP/1.1\r\nhost: localhost\r\nx-amz-target: AmazonSQS.CreateQueue\r\nconnection: close\r\n\
         authorization: AWS4-HMAC-SHA256 Credential=test/20200101/us-east-1/sqs/aws4_request, SignedHeaders=host, \
         Signature=0\r\n\
         content-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("there");
    let mut said = vec![0; 12];
    stream.read_exact(&mut said).await.expect("an answer");
    assert_eq!(String::from_utf8_lossy(&said), "HTTP/1.1 200");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_sqs() {
    // B5
    let authorities = Authorities::new();
    let server = Moto::start_encrypted(authorities.folder.join("moto"), &authorities.certificate());
    let server = server.expect("a server");
    let url = format!("sqs+https://localhost:{}", server.port());
    let change = |settings: BridgeSettings| {
        let mut settings = settings.keys("test", "test");
        settings.region = Some("us-east-1".to_owned());
        settings
    };
    create_queue(server.port(), &authorities).await;
    tokio::time::timeout(Duration::from_secs(60), check(&url, "orders", &authorities, change))
        .await
        .expect("soon");
}
