//! Counts the statements that reach a server, in a window of time and without those that ask for the count.

use std::thread;
use std::time::{Duration, Instant};

use backstop_testbed::{DatabaseSettings, Mariadb, Postgres, TestbedError};

use super::contender::ContenderStore;
use super::stage::{BenchServers, EmptyStore};

/// What PostgreSQL counts statements with. It is loaded for everybody and switched off until it is asked.
const LIBRARY: &str = "pg_stat_statements";

/// Starts PostgreSQL with its counter, or without it where that is not installed.
pub(crate) fn start_counting(settings: DatabaseSettings) -> Result<Postgres, TestbedError> {
    let with_counter = settings.clone().with("shared_preload_libraries", LIBRARY);
    let Ok(server) = Postgres::start(with_counter) else { return Postgres::start(settings) };
    // A setting of the command line could not be changed any more.
    server.psql_in("postgres", &format!("create extension if not exists {LIBRARY};"))?;
    track(&server, "none")?;
    Ok(server)
}

fn track(server: &Postgres, what: &str) -> Result<String, TestbedError> {
    server.psql_in(
        "postgres",
        &format!("alter system set {LIBRARY}.track = '{what}'; select pg_reload_conf();"),
    )
}

/// Statements a second in a place from now on, for so long; none where there is no server.
pub(crate) fn a_second(
    stage: &BenchServers,
    place: &EmptyStore,
    span: Duration,
) -> Result<Option<f64>, String> {
    let counted = match (place.store(), &stage.postgres, &stage.mariadb) {
        (ContenderStore::Postgres, Some(server), _) => by_postgres(server, &place.name, span),
        (ContenderStore::Mariadb, _, Some(server)) => by_mariadb(server, span),
        _ => {
            thread::sleep(span);
            return Ok(None);
        }
    };
    counted.map(Some)
}

/// The questions are asked in another database, which is not counted.
fn by_postgres(server: &Postgres, database: &str, span: Duration) -> Result<f64, String> {
    let words = |trouble: TestbedError| trouble.to_string();
    // What functions run inside was not sent by anybody.
    track(server, "top").map_err(words)?;
    server.psql_in("postgres", &format!("select {LIBRARY}_reset();")).map_err(words)?;
    let begin = Instant::now();
    thread::sleep(span);
    let sql = format!(
        "select coalesce(sum(calls), 0) from {LIBRARY} \
         where dbid = (select oid from pg_database where datname = '{database}')"
    );
    let said = server.psql_in("postgres", &sql).map_err(words)?;
    let seconds = begin.elapsed().as_secs_f64();
    track(server, "none").map_err(words)?;
    let calls: f64 = said.trim().parse().map_err(|_| format!("the server counted `{said}`"))?;
    Ok(calls / seconds)
}

/// Two looks in a row tell what a look costs.
fn by_mariadb(server: &Mariadb, span: Duration) -> Result<f64, String> {
    let look = || -> Result<f64, String> {
        let said =
            server.sql("show global status like 'Questions'").map_err(|trouble| trouble.to_string())?;
        let count = said.split_whitespace().next_back().and_then(|word| word.parse().ok());
        count.ok_or_else(|| format!("the server counted `{said}`"))
    };
    let (first, second, begin) = (look()?, look()?, Instant::now());
    thread::sleep(span);
    let third = look()?;
    let own = second - first;
    Ok(((third - second - own) / begin.elapsed().as_secs_f64()).max(0.0))
}
