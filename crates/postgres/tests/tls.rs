//! What is verified of a server, what is refused, and what `doctor` says of it, with certificates of our own.

mod place;

use backstop_postgres::{Options, PostgresStore};
use backstop_store::conformance::{StorePlace, connection_finding, refusal_text};
use backstop_store::{Error, Finding, InspectStore, Level};
use backstop_testbed::{DatabaseSettings, Folder, Postgres, TlsServer};
use place::InSchema;

/// The name in the certificate. No name server knows it: `hostaddr` says where the packets go.
const NAME: &str = "db.backstop.invalid";

async fn open(url: &str) -> Result<PostgresStore, Error> {
    PostgresStore::open(url, Options::default()).await
}

async fn connection(url: &str) -> Finding {
    connection_finding(&open(url).await.unwrap_or_else(|error| panic!("{url}: {error}"))).await
}

async fn refusal(url: &str) -> String {
    refusal_text(open(url).await)
}

/// A URL of the server under a name, and what follows.
fn url(server: &Postgres, name: &str, rest: &str) -> String {
    format!("postgres://backstop@{name}:{}/backstop?hostaddr=127.0.0.1&listen=off{rest}", server.port())
}

fn certified(label: &str) -> TlsServer<Postgres> {
    let names = format!("DNS:{NAME},IP:127.0.0.1");
    TlsServer::start(label, &names, Postgres::start).expect("a server of its own")
}

#[test]
fn a_server_is_verified_unless_the_url_says_otherwise() {
    let certified = certified("postgres-tls");
    let (server, ours, others) = (&certified.server, certified.trusted(), certified.not_trusted());
    InSchema::block_on(async {
        // Without a word: the host is not loopback by its name.
        let found = connection(&url(server, NAME, &ours)).await;
        assert_eq!(found.level, Level::Good, "{found:?}");
        assert!(found.message.starts_with("encrypted and verified (TLS, authority /"), "{found:?}");
        connection(&url(server, NAME, &format!("&sslmode=verify-full{ours}"))).await;
        connection(&url(server, "127.0.0.1", &format!("&sslmode=verify-full{ours}"))).await;

        for mode in ["", "&sslmode=verify-full", "&sslmode=verify-ca", "&sslmode=require"] {
            let text = refusal(&url(server, NAME, &format!("{mode}{others}"))).await;
            assert!(text.contains("certificate does not verify") && text.contains(NAME), "{text}");
            assert!(text.contains("sslrootcert=PATH") && text.contains("sslmode=require"), "{text}");
        }
        // Authorities of the machine know nothing of ours.
        let text = refusal(&url(server, NAME, "")).await;
        assert!(text.contains("sslrootcert=PATH"), "{text}");

        let other_name = "other.backstop.invalid";
        let text = refusal(&url(server, other_name, &ours)).await;
        assert!(text.contains("for another host") && text.contains(NAME), "{text}");
        assert!(text.contains(&format!("{other_name}:{}", server.port())), "{text}");
        assert!(text.contains("sslmode=verify-ca"), "{text}");
        let found = connection(&url(server, other_name, &format!("&sslmode=verify-ca{ours}"))).await;
        assert!(found.message.contains("verified but for the host name"), "{found:?}");
    });
}

#[test]
fn what_is_not_verified_is_said_by_the_doctor() {
    let TlsServer { server, .. } = &certified("postgres-unverified");
    InSchema::block_on(async {
        for (name, rest, level, words) in [
            (NAME, "&sslmode=require", Level::Warning, "encrypted, not verified (sslmode=require)"),
            // Whether it is encrypted is for the server to say, and only who reaches it directly can ask it.
            (
                "127.0.0.1",
                "&sslmode=prefer",
                Level::Good,
                "encrypted, not verified (sslmode=prefer, loopback)",
            ),
            ("127.0.0.1", "", Level::Good, "encrypted, not verified (loopback)"),
            ("127.0.0.1", "&sslmode=disable", Level::Good, "not encrypted (sslmode=disable, loopback)"),
            (NAME, "&sslmode=disable", Level::Warning, "not encrypted (sslmode=disable)"),
        ] {
            let found = connection(&url(server, name, rest)).await;
            assert_eq!((found.level, found.message.as_str()), (level, words));
            assert_eq!(found.hint.is_some(), level == Level::Warning, "{found:?}");
        }
    });
}

#[test]
fn a_server_without_tls_is_refused_where_it_must_be_encrypted() {
    let folder = Folder::new("postgres-plain").expect("a folder");
    let server = Postgres::start(DatabaseSettings::new(folder.join("server"))).expect("a server of its own");
    InSchema::block_on(async {
        for (name, rest) in [("127.0.0.1", "&sslmode=require"), (NAME, "&sslmode=require"), (NAME, "")] {
            let text = refusal(&url(&server, name, rest)).await;
            assert!(text.contains("offers no TLS") && text.contains(name), "{text}");
            assert!(text.contains("sslmode=disable"), "{text}");
        }
        for (rest, words) in
            [("", "not encrypted (loopback)"), ("&sslmode=prefer", "not encrypted (sslmode=")]
        {
            let found = connection(&url(&server, "127.0.0.1", rest)).await;
            assert!(found.message.starts_with(words), "{found:?}");
        }
        let missing = folder.join("missing.pem");
        let text = refusal(&url(&server, NAME, &format!("&sslrootcert={}", missing.display()))).await;
        assert!(text.contains("missing.pem") && text.contains("sslrootcert=PATH"), "{text}");
    });
}

#[test]
fn a_way_of_its_own_for_notices_is_looked_at_too() {
    let certified = certified("postgres-notices");
    let server = &certified.server;
    InSchema::block_on(async {
        let notices = url(server, NAME, "&sslmode=disable").replace('&', "%26").replace('?', "%3F");
        let main = url(server, NAME, &certified.trusted()).replace("&listen=off", "");
        let store = open(&format!("{main}&listen={notices}")).await.expect("opened");
        let findings = store.check().await.expect("checked");
        let found = findings.iter().find(|finding| finding.subject == "notices").expect("looked at");
        assert_eq!(
            (found.level, found.message.as_str()),
            (Level::Warning, "not encrypted (sslmode=disable)")
        );
        let unreadable = format!("{notices}%26sslrootcert=/missing.pem%26sslmode=verify-ca");
        let text = refusal(&format!("{main}&listen={unreadable}")).await;
        assert!(text.contains("missing.pem"), "{text}");
    });
}
