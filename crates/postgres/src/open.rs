//! Finding the server: the URL, encryption, and the pool of connections.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use backstop_store::Error;
use deadpool_postgres::{Manager, ManagerConfig, Pool, QueueMode, RecyclingMethod, Runtime};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::access::Access;
use crate::session::Schema;
use crate::store::{Listen, Options};
use crate::tls::{self, Encryption};

/// Where a store is, as its URL says.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) config: Config,
    pub(crate) encryption: Encryption,
    /// For people, without credentials.
    pub(crate) location: String,
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

fn unusable(location: &str, problem: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::Unusable { location: location.to_owned(), problem: problem.into(), hint: hint.into() }
}

/// Reads a URL; settings of ours in it go into `options`.
pub(crate) fn place(url: &str, options: &mut Options) -> Result<Place, Error> {
    let shown = without_password(url);
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let mut theirs = Vec::new();
    let mut encryption = Encryption::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let wrong = |problem: String| unusable(&shown, problem, "fix this part of the URL");
        match name {
            "schema" => options.schema = Schema::named(value).map_err(wrong)?,
            "connections" => {
                options.connections = usize::try_from(number(value).map_err(wrong)?).unwrap_or(1)
            }
            "deadline" => options.deadline = Duration::from_secs(number(value).map_err(wrong)?),
            "lock_wait" => options.lock_wait = Duration::from_secs(number(value).map_err(wrong)?),
            "listen" => options.listen = listen(value).map_err(wrong)?,
            "sslrootcert" => encryption.root = Some(decoded(value).into()),
            "sslmode" if value.starts_with("verify-") => {
                encryption.verify = true;
                theirs.push("sslmode=require".to_owned());
            }
            _ => theirs.push(pair.to_owned()),
        }
    }
    let text = if theirs.is_empty() { base.to_owned() } else { format!("{base}?{}", theirs.join("&")) };
    let mut config = Config::from_str(&text).map_err(|error| {
        let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        unusable(
            &shown,
            format!("the URL is wrong ({cause})"),
            "write postgres://USER:PASSWORD@HOST:PORT/DATABASE",
        )
    })?;
    if config.get_ssl_mode() == SslMode::Require {
        encryption.verify = true;
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT.min(options.deadline));
    }
    if config.get_application_name().is_none() {
        config.application_name("backstop");
    }
    // A server that vanished without a word is noticed.
    config.tcp_user_timeout(options.deadline).keepalives_idle(Duration::from_secs(30));
    Ok(Place { location: location(&config, &options.schema), config, encryption })
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

fn number(text: &str) -> Result<u64, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("{text:?} is not a positive number"))
}

fn listen(value: &str) -> Result<Listen, String> {
    match value {
        "on" => Ok(Listen::On),
        "off" => Ok(Listen::Off),
        url if url.starts_with("postgres") => Ok(Listen::At(decoded(url))),
        other => Err(format!("listen={other:?} is none of on, off or a URL")),
    }
}

/// A value of a URL with its escapes resolved.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (bytes[at], escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                plain.push(byte);
                at += 3;
            }
            (byte, _) => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

fn without_password(url: &str) -> String {
    let (base, _) = url.split_once('?').unwrap_or((url, ""));
    match (base.find("://"), base.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => {
            let user = base[scheme + 3..at].split(':').next().unwrap_or_default();
            format!("{}{user}{}", &base[..scheme + 3], &base[at..])
        }
        _ => base.to_owned(),
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
    tls::connector(&place.encryption)
        .map_err(|problem| unusable(&place.location, problem, "check sslrootcert in the URL"))
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
        Listen::At(url) => Ok(Some(Arc::new(place(url, &mut options.clone())?))),
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
    fn escapes_are_resolved() {
        assert_eq!(decoded("postgres%3A%2F%2Fh%2fd%%zz"), "postgres://h/d%%zz");
    }
}
