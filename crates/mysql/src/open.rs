//! Finding the server: the URL, the pool of connections, and the tables.

use std::time::Duration;

use backstop_sql::access::Access;
use backstop_sql::open::{each_setting, take_setting, unusable, versions, without_password};
use backstop_sql::{Query, Session, SqlFailure, Value};
use backstop_store::encryption::{RequestedEncryption, SslMode, TransportEncryption, bare_host, is_loopback};
use backstop_store::{Error, Versions};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts};

use crate::backend::no_connection;
use crate::error::{is_there_already, of_driver};
use crate::options::Options;
use crate::prefix::Prefix;
use crate::schema;
use crate::session::DriverSession;
use crate::sql;
use crate::tls::{self, DriverSslSettings};

/// Where a store is, as its URL says.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// What the driver is told; of encryption only after [`protect`].
    pub(crate) opts: Opts,
    pub(crate) encryption: TransportEncryption,
    /// For people, without credentials.
    pub(crate) location: String,
}

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection that nobody uses is kept.
const KEEP_IDLE: Duration = Duration::from_secs(10);

/// Reads a URL; settings of ours in it go into `options`.
pub(crate) fn place(url: &str, options: &mut Options) -> Result<Place, Error> {
    let shown = without_password(url);
    let (mut asked, mut driver) = (RequestedEncryption::default(), DriverSslSettings::default());
    let (base, mut theirs) = each_setting(url, |name, value| {
        if name == "prefix" {
            options.prefix = Prefix::named(value)?;
            return Ok(true);
        }
        let own = (&mut options.connections, &mut options.deadline, &mut options.lock_wait);
        Ok(take_setting((name, value), own.0, own.1, own.2)?
            || asked.take(name, value)?
            || driver.take(name, value)?)
    })?;
    let contradicts = |problem: String| unusable(&shown, problem, "fix this part of the URL");
    driver.translate(&mut asked).map_err(contradicts)?;
    if !theirs.iter().any(|pair| pair.starts_with("prefer_socket=")) {
        // Behind a forwarded port the server's socket may be another server's on this machine.
        theirs.push("prefer_socket=false".to_owned());
    }
    let base =
        base.strip_prefix("mariadb://").map_or_else(|| base.to_owned(), |rest| format!("mysql://{rest}"));
    let opts = Opts::from_url(&format!("{base}?{}", theirs.join("&"))).map_err(|problem| {
        unusable(
            &shown,
            format!("the URL is wrong ({problem})"),
            "write mysql://USER:PASSWORD@HOST:PORT/DATABASE",
        )
    })?;
    if opts.db_name().is_none_or(str::is_empty) {
        return Err(unusable(
            &shown,
            "the URL names no database",
            "write mysql://USER:PASSWORD@HOST:PORT/DATABASE",
        ));
    }
    Ok(Place { location: location(&opts, &options.prefix), encryption: encryption(&opts, asked), opts })
}

fn encryption(opts: &Opts, asked: RequestedEncryption) -> TransportEncryption {
    if opts.socket().is_some() {
        // The driver encrypts nothing that does not leave the machine.
        return RequestedEncryption::default().decide(true, SslMode::Disable);
    }
    let mut decided = asked.decide(is_loopback(opts.ip_or_hostname()), SslMode::Disable);
    if decided.mode.verifies() {
        // See `tls`: the driver has nothing in between.
        decided.mode = SslMode::VerifyFull;
    }
    decided
}

/// Tells the driver how connections are protected. Where that is up to the server, it is asked.
pub(crate) async fn protect(mut place: Place) -> Result<Place, Error> {
    let ssl = tls::options(&place.encryption).map_err(|problem| {
        unusable(&place.location, problem, "name a PEM file with the authority in the URL: sslrootcert=PATH")
    })?;
    let host = bare_host(place.opts.ip_or_hostname()).to_owned();
    let with = |ssl| OptsBuilder::from_opts(place.opts.clone()).ip_or_hostname(host.clone()).ssl_opts(ssl);
    let mut opts = with(ssl);
    if place.encryption.mode == SslMode::Prefer {
        let refused = tokio::time::timeout(CONNECT_TIMEOUT, tls::is_refused(opts.clone())).await;
        if refused == Ok(true) {
            opts = with(None);
        }
    }
    place.opts = opts.into();
    Ok(place)
}

fn location(opts: &Opts, prefix: &Prefix) -> String {
    let at = match opts.socket() {
        Some(socket) => socket.to_owned(),
        None => format!("{}:{}", opts.ip_or_hostname(), opts.tcp_port()),
    };
    let database = opts.db_name().unwrap_or_default();
    let prefix =
        if *prefix == Prefix::default() { String::new() } else { format!("?prefix={}", prefix.name()) };
    format!("mysql://{at}/{database}{prefix}")
}

/// The pool of connections.
pub(crate) fn pool(place: &Place, options: &Options) -> Pool {
    let most = options.connections.max(1) + Access::OWN;
    // The lower bound is how many are kept although nobody uses them: none of them is opened before it is needed.
    let constraints = PoolConstraints::new(1, most).unwrap_or_default();
    // A connection comes back clean or not at all, see `backend`, so resetting it would be a round trip for nothing.
    let pool = PoolOpts::default()
        .with_constraints(constraints)
        .with_inactive_connection_ttl(KEEP_IDLE)
        .with_ttl_check_interval(KEEP_IDLE / 2)
        .with_reset_connection(false);
    let opts = OptsBuilder::from_opts(place.opts.clone())
        .pool_opts(pool)
        .setup(vec![sql::SETUP])
        // Detects a server that vanished without closing the connection.
        .tcp_keepalive(Some(Duration::from_secs(30)))
        .stmt_cache_size(0);
    Pool::new(opts)
}

/// Connects for the first time, and brings the tables to this program's version if it may. Answers the version that
/// was found.
pub(crate) async fn prepare(pool: &Pool, location: &str, options: &Options) -> Result<Option<i64>, Error> {
    let failed = |failure: SqlFailure| failure.into_error(location, false);
    let look = async {
        let mut conn = pool.get_conn().await.map_err(no_connection)?;
        let mut session = DriverSession { conn: &mut conn, prefix: &options.prefix };
        let found = version(&mut session, &options.prefix).await?;
        Ok::<_, SqlFailure>((conn, found))
    };
    let patience = CONNECT_TIMEOUT.min(options.deadline);
    let silent = || Err(SqlFailure::Unreachable("the server does not answer".to_owned()));
    let looked = tokio::time::timeout(patience, look).await;
    let (mut conn, found) = looked.unwrap_or_else(|_| silent()).map_err(failed)?;
    let version = found.map(|found| found.version);
    if Versions::accept(found, schema::newest(), location, options.migrate)? {
        return Ok(version);
    }
    let migrated = migrate(&mut conn, &options.prefix, location).await;
    if migrated.is_err() {
        // The lock goes with the connection; that it cannot be closed in order any more does not matter then.
        let _ = conn.disconnect().await;
    }
    migrated.map(|()| version)
}

/// Runs statements for which no store need be open.
pub(crate) async fn apply(place: Place, options: &Options, statements: Vec<String>) -> Result<(), Error> {
    let place = protect(place).await?;
    let failed = |failure: SqlFailure| failure.into_error(&place.location, false);
    let pool = pool(&place, options);
    let mut conn = pool.get_conn().await.map_err(|problem| failed(no_connection(problem)))?;
    for statement in statements {
        conn.query_drop(statement).await.map_err(|problem| failed(of_driver(problem)))?;
    }
    drop(conn);
    pool.disconnect().await.map_err(|problem| failed(of_driver(problem)))
}

async fn migrate(conn: &mut Conn, prefix: &Prefix, location: &str) -> Result<(), Error> {
    let failed = |failure: SqlFailure| failure.into_error(location, false);
    let mut session = DriverSession { conn, prefix };
    let name = || vec![Value::text(prefix.name())];
    let locked = session.one(Query::new(schema::LOCK, name())).await.map_err(failed)?;
    let got = locked.into_iter().next().map(|mut row| row.maybe_int()).transpose().map_err(failed)?;
    if got.flatten() != Some(1) {
        let problem =
            "another program has been migrating its tables for a minute; wait until it is done".to_owned();
        return Err(Error::Unavailable { location: location.to_owned(), problem, source: None });
    }
    apply_missing(&mut session, prefix, location).await?;
    session.one(Query::new(schema::UNLOCK, name())).await.map(drop).map_err(failed)
}

async fn apply_missing(session: &mut dyn Session, prefix: &Prefix, location: &str) -> Result<(), Error> {
    let failed = |failure: SqlFailure| failure.into_error(location, false);
    // Another process may have been here since it was looked at.
    let found = version(session, prefix).await.map_err(failed)?;
    if Versions::accept(found, schema::newest(), location, true)? {
        return Ok(());
    }
    for migration in schema::steps(found.map_or(0, |found| found.version)) {
        for statement in migration {
            match session.one(statement).await {
                Err(failure) if is_there_already(&failure) => {}
                answered => drop(answered.map_err(failed)?),
            }
        }
    }
    Ok(())
}

async fn version(session: &mut dyn Session, prefix: &Prefix) -> Result<Option<Versions>, SqlFailure> {
    let name = Value::text(format!("{}meta", prefix.name()));
    let tables = Query::new(schema::META_TABLES, vec![name]);
    versions(session, tables, Query::new(schema::VERSIONS, Vec::new())).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_settings_are_taken_out_of_the_url() {
        for scheme in ["mysql", "mariadb"] {
            let mut options = Options::default();
            let url = format!("{scheme}://me:secret@db:6000/app?prefix=jobs_&connections=3&tcp_nodelay=true");
            let place = place(&url, &mut options).expect("a good URL");
            assert_eq!(place.location, "mysql://db:6000/app?prefix=jobs_");
            assert_eq!((options.connections, options.prefix.name()), (3, "jobs_"));
        }
    }

    #[test]
    fn what_is_not_loopback_is_verified_unless_the_url_says_otherwise() {
        for (rest, mode) in [
            ("db/app", SslMode::VerifyFull),
            ("127.0.0.1/app", SslMode::Disable),
            ("localhost:3307/app", SslMode::Disable),
            ("[::1]/app", SslMode::Disable),
            ("[fe80::1]/app", SslMode::VerifyFull),
            ("db/app?sslmode=disable", SslMode::Disable),
            ("db/app?sslmode=prefer", SslMode::Prefer),
            ("db/app?sslmode=require", SslMode::Require),
            ("db/app?sslmode=verify-ca", SslMode::VerifyFull),
            ("db/app?sslmode=require&sslrootcert=ca.pem", SslMode::VerifyFull),
            ("127.0.0.1/app?sslrootcert=ca.pem", SslMode::VerifyFull),
            ("db/app?require_ssl=true&verify_ca=false", SslMode::Require),
            ("db/app?require_ssl=false", SslMode::Disable),
            ("db/app?socket=%2Frun%2Fmysqld.sock", SslMode::Disable),
        ] {
            let place = place(&format!("mysql://me@{rest}"), &mut Options::default()).expect("a good URL");
            assert_eq!(place.encryption.mode, mode, "{rest}");
        }
        let text = place("mysql://me@db/app?sslmode=allow", &mut Options::default()).expect_err("unknown");
        assert!(text.to_string().contains("none of disable, prefer, require, verify-ca"), "{text}");
    }

    #[test]
    fn a_wrong_url_is_refused_without_its_password() {
        // E10
        for url in [
            "mysql://me:secret@db:port/app",
            "mysql://me:secret@db/app?connections=none",
            "mysql://me:secret@db/app?prefix=Bad Name",
            "mysql://me:secret@db/app?deadline=0",
            "mysql://me:secret@db/app?no_such_option=1",
            "mysql://me:secret@db",
        ] {
            let text = place(url, &mut Options::default()).expect_err("a bad URL").to_string();
            assert!(!text.contains("secret"), "{text}");
            assert!(text.contains("mysql://me@db"), "{text}");
        }
    }
}
