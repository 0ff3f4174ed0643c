//! What is verified of a server, what is refused, and what `doctor` says of it, with certificates of our own.

mod place;

use backstop_mysql::{MysqlStore, Options};
use backstop_store::conformance::{StorePlace, connection_finding, refusal_text};
use backstop_store::{Error, Finding, Level};
use backstop_testbed::{DatabaseSettings, Folder, Mariadb, TlsServer};
use place::InDatabase;

/// Leads to this machine, and is not loopback by its name.
const ELSEWHERE: &str = "0.0.0.0";
const LOOPBACK: &str = "127.0.0.1";

async fn open(url: &str) -> Result<MysqlStore, Error> {
    MysqlStore::open(url, Options::default()).await
}

async fn connection(url: &str) -> Finding {
    connection_finding(&open(url).await.unwrap_or_else(|error| panic!("{url}: {error}"))).await
}

async fn refusal(url: &str) -> String {
    refusal_text(open(url).await)
}

/// A URL of the server under a name, and what follows.
fn url(server: &Mariadb, name: &str, rest: &str) -> String {
    format!("mysql://backstop@{name}:{}/backstop?connections=2{rest}", server.port())
}

fn certified(label: &str) -> TlsServer<Mariadb> {
    let names = format!("IP:{ELSEWHERE},IP:{LOOPBACK}");
    TlsServer::start(label, &names, Mariadb::start).expect("a server of its own")
}

#[test]
fn a_server_is_verified_unless_the_url_says_otherwise() {
    let certified = certified("mariadb-tls");
    let (server, ours, others) = (&certified.server, certified.trusted(), certified.not_trusted());
    InDatabase::block_on(async {
        for rest in ["", "&sslmode=verify-full", "&sslmode=verify-ca", "&require_ssl=true"] {
            for name in [ELSEWHERE, LOOPBACK] {
                let found = connection(&url(server, name, &format!("{rest}{ours}"))).await;
                assert_eq!(found.level, Level::Good, "{found:?}");
                assert!(found.message.starts_with("encrypted and verified (TLS, authority /"), "{found:?}");
            }
            let text = refusal(&url(server, ELSEWHERE, &format!("{rest}{others}"))).await;
            assert!(text.contains("certificate does not verify") && text.contains(ELSEWHERE), "{text}");
            assert!(text.contains("sslrootcert=PATH") && text.contains("sslmode=require"), "{text}");
            let text = refusal(&url(server, "localhost", &format!("{rest}{ours}"))).await;
            assert!(text.contains("for another host") && text.contains("localhost:"), "{text}");
            assert!(text.contains("sslmode=require"), "{text}");
        }
        // Authorities of the machine know nothing of ours.
        let text = refusal(&url(server, ELSEWHERE, "")).await;
        assert!(text.contains("sslrootcert=PATH"), "{text}");
    });
}

#[test]
fn what_is_not_verified_is_said_by_the_doctor() {
    let TlsServer { server, .. } = &certified("mariadb-unverified");
    InDatabase::block_on(async {
        for (name, rest, level, words) in [
            (ELSEWHERE, "&sslmode=require", Level::Warning, "encrypted, not verified (sslmode=require)"),
            (
                ELSEWHERE,
                "&require_ssl=true&verify_ca=false",
                Level::Warning,
                "encrypted, not verified (sslmode=",
            ),
            (ELSEWHERE, "&sslmode=prefer", Level::Warning, "encrypted, not verified (sslmode=prefer)"),
            (ELSEWHERE, "&sslmode=disable", Level::Warning, "not encrypted (sslmode=disable)"),
            (
                "localhost",
                "&sslmode=require",
                Level::Good,
                "encrypted, not verified (sslmode=require, loopback)",
            ),
            (LOOPBACK, "", Level::Good, "not encrypted (loopback)"),
        ] {
            let found = connection(&url(server, name, rest)).await;
            assert!(found.level == level && found.message.starts_with(words), "{found:?}");
            assert!(!found.message.contains("sees no TLS"), "both sides agree: {found:?}");
            assert_eq!(found.hint.is_some(), level == Level::Warning, "{found:?}");
        }
    });
}

#[test]
fn a_server_without_tls_is_refused_where_it_must_be_encrypted() {
    let folder = Folder::new("mariadb-plain").expect("a folder");
    let server = Mariadb::start(DatabaseSettings::new(folder.join("server"))).expect("a server of its own");
    InDatabase::block_on(async {
        for (name, rest) in [(LOOPBACK, "&sslmode=require"), (ELSEWHERE, "&sslmode=require"), (ELSEWHERE, "")]
        {
            let text = refusal(&url(&server, name, rest)).await;
            assert!(text.contains("offers no TLS") && text.contains(name), "{text}");
            assert!(text.contains("sslmode=disable"), "{text}");
        }
        for (rest, words) in [
            ("&sslmode=disable", "not encrypted (sslmode=disable)"),
            ("&sslmode=prefer", "not encrypted (sslmode=prefer)"),
        ] {
            let found = connection(&url(&server, ELSEWHERE, rest)).await;
            assert_eq!((found.level, found.message.as_str()), (Level::Warning, words));
        }
        let missing = folder.join("missing.pem");
        let text = refusal(&url(&server, ELSEWHERE, &format!("&sslrootcert={}", missing.display()))).await;
        assert!(text.contains("missing.pem") && text.contains("sslrootcert=PATH"), "{text}");
    });
}
