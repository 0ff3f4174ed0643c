//! Hand-off to a receiver that shows a certificate of a private authority.

use backstop::Config;
use backstop_bridges::handoff::HandOffSettings;
use backstop_server::{ServerSettings, TlsSettings};
use backstop_testbed::{CertificateAuthority, Folder};

use crate::stage::{Receiver, Sender, until};
use crate::stores;

#[tokio::test]
async fn https_is_spoken_with_who_shows_a_certificate_of_the_named_authority() {
    // B7
    stores::in_memory(async |stores| {
        let folder = Folder::new("handoff-tls").expect("a folder");
        let (signer, other) = (folder.join("signer"), folder.join("other"));
        let authority = CertificateAuthority::new(&signer).expect("openssl");
        authority.certify("DNS:localhost").expect("openssl");
        let stranger = CertificateAuthority::new(&other).expect("openssl");
        let mut settings = ServerSettings::default();
        let shown = TlsSettings::load(&signer.join("server.pem"), &signer.join("server.key"));
        settings.tls = Some(shown.expect("a pair"));
        let receiver = Receiver::start(&stores.receiver, Config::default(), settings, 0).await;
        let token = receiver.token("sender", None).await;
        let to = format!("https://localhost:{}", receiver.address.port());
        let settings = || HandOffSettings::to(&to).token(&token);
        let sender = Sender::new(&stores.sender);
        for refused in [settings(), settings().trusting(stranger.file())] {
            let started = sender.start("paid", &refused).await;
            sender.pay(sender.order(1, 10)).await;
            let failed = async || Some(started.status()).filter(|status| status.failures > 0);
            let status = until("nobody is trusted by chance", failed).await;
            assert!(status.last_error.is_some_and(|why| why.contains("cannot connect")));
            started.stop().await;
        }
        let started = sender.start("paid", &settings().trusting(authority.file())).await;
        let made = async || Some(receiver.jobs("paid").await).filter(|jobs| jobs.len() == 2);
        until("both jobs are there", made).await;
        started.stop().await;
        sender.end(&["paid"]).await;
        receiver.stop().await;
    })
    .await;
}

#[test]
fn an_authority_is_for_encrypted_receivers() {
    let open = HandOffSettings::to("http://127.0.0.1:8686").trusting("ca.pem");
    let fault = open.check("paid").expect_err("refused").to_string();
    assert!(fault.contains("`tls_ca` is for https"), "{fault}");
}
