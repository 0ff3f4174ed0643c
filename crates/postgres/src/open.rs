//! Finding the server: the URL, encryption, and the pool of connections.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use backstop_sql::access::Access;
use backstop_sql::open::{each_setting, take_setting, unusable, without_password};
use backstop_store::Error;
use backstop_store::encryption::{RequestedEncryption, SslMode, TransportEncryption, decoded, is_loopback};
use deadpool_postgres::{Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode as Driven};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::options::{Listen, Options};
use crate::schema::Schema;
use crate::tls;

/// Where a store is, as its URL says.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) config: Config,
    pub(crate) encryption: TransportEncryption,
    /// For people, without credentials.
    pub(crate) location: String,
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Reads a URL; settings of ours in it go into `options`.
pub(crate) fn place(url: &str, options: &mut Options) -> Result<Place, Error> {
    let shown = without_password(url);
    let mut asked = RequestedEncryption::default();
    let (base, theirs) = each_setting(url, |name, value| {
        match name {
            "schema" => options.schema = Schema::named(value)?,
            "listen" => options.listen = listen(value)?,
            _ => {
                let Options { connections, deadline, lock_wait, .. } = options;
                let taken = take_setting((name, value), connections, deadline, lock_wait)?;
                return Ok(taken || asked.take(name, value)?);
            }
        }
        Ok(true)
    })?;
    let text = if theirs.is_empty() { base.to_owned() } else { format!("{base}?{}", theirs.join("&")) };
    let mut config = Config::from_str(&text).map_err(|error| {
        let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        unusable(
            &shown,
            format!("the URL is wrong ({cause})"),
            "write postgres://USER:PASSWORD@HOST:PORT/DATABASE",
        )
    })?;
    let encryption = protect(&mut config, asked);
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT.min(options.deadline));
    }
    if config.get_application_name().is_none() {
        config.application_name("backstop");
    }
    // Detects a server that vanished without closing the connection.
    config.tcp_user_timeout(options.deadline).keepalives_idle(Duration::from_secs(30));
    Ok(Place { location: location(&config, &options.schema), config, encryption })
}

/// Decides how connections are protected, and tells the driver.
fn protect(config: &mut Config, mut asked: RequestedEncryption) -> TransportEncryption {
    // A list of words instead of a URL reaches the driver as it is.
    asked.mode = asked.mode.or(match config.get_ssl_mode() {
        Driven::Disable => Some(SslMode::Disable),
        Driven::Require => Some(SslMode::Require),
        _ => None,
    });
    let is_here = |host: &Host| match host {
        Host::Tcp(name) => is_loopback(name),
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
    // One host elsewhere is enough: any of them may be the one that answers.
    let is_local =
        hosts.iter().all(is_here) && addresses.iter().all(|address| address.to_canonical().is_loopback());
    let by_socket = addresses.is_empty() && !hosts.iter().any(|host| matches!(host, Host::Tcp(_)));
    let encryption = if by_socket {
        // The server speaks no TLS over a socket, so libpq does not ask for it either.
        RequestedEncryption::default().decide(true, SslMode::Disable)
    } else {
        asked.decide(is_local, SslMode::Prefer)
    };
    config.ssl_mode(match encryption.mode {
        SslMode::Disable => Driven::Disable,
        SslMode::Prefer => Driven::Prefer,
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => Driven::Require,
    });
    encryption
}

/// The schema that a URL names.
///
/// # Errors
/// [`Error::Unusable`] when the URL is wrong.
pub fn schema_of(url: &str) -> Result<Schema, Error> {
    let mut options = Options::default();
    place(url, &mut options)?;
    Ok(options.schema)
}

fn listen(value: &str) -> Result<Listen, String> {
    match value {
        "on" => Ok(Listen::On),
        "off" => Ok(Listen::Off),
        url if url.starts_with("postgres") => Ok(Listen::At(decoded(url))),
        other => Err(format!("listen={other:?} is neither on, off nor a URL")),
    }
}

fn location(config: &Config, schema: &Schema) -> String {
    let host = |host: &Host| match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(path) => path.display().to_string(),
    };
    let ports = config.get_ports();
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
            format!("{}:{port}", host(name))
        })
        .collect();
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    let schema =
        if *schema == Schema::default() { String::new() } else { format!("?schema={}", schema.name()) };
    format!("postgres://{}/{database}{schema}", hosts.join(","))
}

/// How connections are made.
pub(crate) fn connector(place: &Place) -> Result<MakeRustlsConnect, Error> {
    tls::connector(&place.encryption).map_err(|problem| {
        unusable(&place.location, problem, "name a PEM file with the authority in the URL: sslrootcert=PATH")
    })
}

/// The pool of connections.
pub(crate) fn pool(place: &Place, connector: MakeRustlsConnect, options: &Options) -> Result<Pool, Error> {
    let recycle = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(place.config.clone(), connector, recycle);
    Pool::builder(manager)
        .max_size(options.connections + Access::OWN)
        // The one that was used last has its plans and pages at hand.
        .queue_mode(QueueMode::Lifo)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(options.deadline))
        .create_timeout(Some(options.deadline))
        .build()
        .map_err(|problem| unusable(&place.location, problem.to_string(), "report this"))
}

/// Where notices are heard: at the store's own place, or at another URL that no pooler stands before.
pub(crate) fn listen_place(own: &Place, options: &Options) -> Result<Option<Arc<Place>>, Error> {
    match &options.listen {
        Listen::Off => Ok(None),
        Listen::On => Ok(Some(Arc::new(own.clone()))),
        Listen::At(url) => {
            let place = place(url, &mut options.clone())?;
            // An authority that cannot be read is said now, not by a listener that nobody waits for.
            connector(&place)?;
            Ok(Some(Arc::new(place)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_settings_are_taken_out_of_the_url() {
        let mut options = Options::default();
        let url = "postgres://me:secret@db:6000/app?schema=jobs&connections=3&listen=off&sslmode=disable";
        let place = place(url, &mut options).expect("a good URL");
        assert_eq!(place.location, "postgres://db:6000/app?schema=jobs");
        assert_eq!((options.connections, options.schema.name()), (3, "jobs"));
        assert_eq!(options.listen, Listen::Off);
    }

    #[test]
    fn a_wrong_url_is_refused_without_its_password() {
        // E10
        for url in [
            "postgres://me:secret@db:port/app",
            "postgres://me:secret@db/app?connections=none",
            "postgres://me:secret@db/app?schema=Bad Name",
            "postgres://me:secret@db/app?listen=maybe",
            "postgres://me:secret@db/app?no_such_option=1",
        ] {
            let text = place(url, &mut Options::default()).expect_err("a bad URL").to_string();
            assert!(!text.contains("secret"), "{text}");
            assert!(text.contains("postgres://me@db"), "{text}");
        }
    }

    #[test]
    fn what_is_not_loopback_is_verified_unless_the_url_says_otherwise() {
        for (rest, mode, driven) in [
            ("db/app", SslMode::VerifyFull, Driven::Require),
            ("127.0.0.1/app", SslMode::Prefer, Driven::Prefer),
            ("localhost:6432/app", SslMode::Prefer, Driven::Prefer),
            ("[::1]/app", SslMode::Prefer, Driven::Prefer),
            ("[::1],127.0.0.1/app", SslMode::Prefer, Driven::Prefer),
            ("127.0.0.1,db/app", SslMode::VerifyFull, Driven::Require),
            // The name is that of the certificate, the address is where the packets go.
            ("localhost/app?hostaddr=10.0.0.7", SslMode::VerifyFull, Driven::Require),
            ("db/app?sslmode=disable", SslMode::Disable, Driven::Disable),
            ("db/app?sslmode=prefer", SslMode::Prefer, Driven::Prefer),
            ("db/app?sslmode=require", SslMode::Require, Driven::Require),
            ("db/app?sslmode=require&sslrootcert=ca.pem", SslMode::VerifyCa, Driven::Require),
            ("127.0.0.1/app?sslmode=verify-ca", SslMode::VerifyCa, Driven::Require),
            ("127.0.0.1/app?sslrootcert=ca.pem", SslMode::VerifyFull, Driven::Require),
            ("%2Frun%2Fpostgresql/app", SslMode::Disable, Driven::Disable),
            ("%2Frun%2Fpostgresql/app?sslmode=verify-full", SslMode::Disable, Driven::Disable),
            ("%2Frun%2Fpostgresql,db/app", SslMode::VerifyFull, Driven::Require),
        ] {
            let url = format!("postgres://me@{rest}");
            let place = place(&url, &mut Options::default()).expect("a good URL");
            assert_eq!((place.encryption.mode, place.config.get_ssl_mode()), (mode, driven), "{url}");
        }
        let words = place("host=db user=me sslmode=disable", &mut Options::default()).expect("good words");
        assert_eq!(words.encryption.mode, SslMode::Disable);
        let text = place("postgres://me@db/app?sslmode=allow", &mut Options::default()).expect_err("unknown");
        assert!(text.to_string().contains("none of disable, prefer, require, verify-ca"), "{text}");
    }
}
