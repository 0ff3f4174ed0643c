//! The servers of the comparison, empty places on them, and what the servers say about the work that was done.
//!
//! Every contender of a kind works on the same server with the same settings; every phase begins on an empty place.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use backstop_testbed::{DatabaseSettings, Mariadb, Postgres, Redis, TestbedError};

use super::contender::ContenderStore;
use super::statements;
use crate::error::TaskError;
use crate::servers::{self, ServerData};

/// How often a flush is timed.
const FLUSHES: u32 = 200;

/// The servers that this run needs. They stop, and their data goes away, with this value.
pub(crate) struct BenchServers {
    pub(crate) postgres: Option<Postgres>,
    pub(crate) mariadb: Option<Mariadb>,
    pub(crate) redis: Option<Redis>,
    places: u32,
    // The last field: removed after the servers have stopped.
    data: ServerData,
}

/// An empty place for one phase, or for a fill and the drain of it.
#[derive(Debug)]
pub(crate) struct EmptyStore {
    pub(crate) url: String,
    /// The name of the database, or the path of the file.
    pub(crate) name: String,
    store: ContenderStore,
}

impl EmptyStore {
    /// The kind of store that it is on.
    pub(crate) fn store(&self) -> ContenderStore {
        self.store
    }

    /// A place that is nowhere, for tests that only pass it on.
    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        Self { url: String::new(), name: String::new(), store: ContenderStore::Sqlite }
    }
}

/// What the server had written when it was asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WrittenBytes {
    pub(crate) log_bytes: Option<f64>,
    pub(crate) commits: Option<f64>,
}

impl WrittenBytes {
    /// What was written since then.
    pub(crate) fn since(self, before: Self) -> Self {
        let difference = |now: Option<f64>, then: Option<f64>| Some(now? - then?);
        Self {
            log_bytes: difference(self.log_bytes, before.log_bytes),
            commits: difference(self.commits, before.commits),
        }
    }
}

fn failed(trouble: &TestbedError) -> TaskError {
    TaskError::Failed(trouble.to_string())
}

impl BenchServers {
    /// Starts the servers for these stores: durable, with a gigabyte of memory each.
    pub(crate) fn start(stores: &[ContenderStore]) -> Result<Self, TaskError> {
        let data = ServerData::new("bench");
        let settings = |name: &str| DatabaseSettings::new(data.path().join(name)).durable();
        let wants = |wanted: fn(&ContenderStore) -> bool| stores.iter().any(wanted);
        let postgres = wants(|store| *store == ContenderStore::Postgres).then(|| {
            let settings = settings("postgres").with("shared_buffers", "1GB").with("max_wal_size", "8GB");
            statements::start_counting(settings).map_err(|trouble| failed(&trouble))
        });
        let mariadb = wants(|store| *store == ContenderStore::Mariadb).then(|| {
            let settings = settings("mariadb").with("innodb-buffer-pool-size", "1G");
            Mariadb::start(settings.with("innodb-log-file-size", "2G")).map_err(|trouble| failed(&trouble))
        });
        let redis = wants(|store| matches!(store, ContenderStore::Redis(_))).then(|| {
            // A rewrite of the file in the middle of a phase would be counted as the contender's own writing.
            let settings = settings("redis").with("auto-aof-rewrite-percentage", "0");
            Redis::start(&settings.with("maxmemory-policy", "noeviction")).map_err(|trouble| failed(&trouble))
        });
        let (postgres, mariadb, redis) = (postgres.transpose()?, mariadb.transpose()?, redis.transpose()?);
        fs::create_dir_all(data.path()).map_err(|error| {
            TaskError::Failed(format!("cannot create {}: {error}", data.path().display()))
        })?;
        Ok(Self { postgres, mariadb, redis, places: 0, data })
    }

    /// A new empty place.
    pub(crate) fn fresh(&mut self, store: ContenderStore) -> Result<EmptyStore, String> {
        self.places += 1;
        let name = format!("place_{}", self.places);
        let place = |url: String, name: String| EmptyStore { url, name, store };
        match (store, &self.postgres, &self.mariadb, &self.redis) {
            (ContenderStore::Postgres, Some(server), _, _) => {
                server.create_database(&name).map_err(|trouble| trouble.to_string())?;
                Ok(place(server.url_for(&name), name))
            }
            (ContenderStore::Mariadb, _, Some(server), _) => {
                server.create_database(&name).map_err(|trouble| trouble.to_string())?;
                Ok(place(server.url_for(&name), name))
            }
            (ContenderStore::Sqlite, ..) => {
                let path = self.data.path().join(&name).with_extension("db").display().to_string();
                Ok(place(format!("sqlite:{path}"), path))
            }
            (ContenderStore::Redis(flush), _, _, Some(server)) => {
                for order in [format!("CONFIG SET appendfsync {flush}"), "FLUSHALL".to_owned()] {
                    server.order(&order).map_err(|trouble| trouble.to_string())?;
                }
                Ok(place(server.url(), name))
            }
            _ => Err("its server was not started".to_owned()),
        }
    }

    /// Removes a place, so that what is left of it does not slow the next.
    pub(crate) fn remove(&self, place: &EmptyStore) {
        // What cannot be removed goes away with the server's folder.
        match (place.store, &self.postgres, &self.mariadb) {
            (ContenderStore::Postgres, Some(server), _) => {
                let drop_it = format!("drop database \"{}\" with (force)", place.name);
                let _ = server.psql_in("postgres", &drop_it);
            }
            (ContenderStore::Mariadb, _, Some(server)) => {
                drop(server.sql(&format!("drop database `{}`", place.name)))
            }
            (ContenderStore::Sqlite, ..) => {
                for end in ["", "-wal", "-shm"] {
                    let _ = fs::remove_file(format!("{}{end}", place.name));
                }
            }
            _ => {}
        }
    }

    /// Puts everybody into the same state before a measured phase: what was written is on the disk, and PostgreSQL
    /// knows its tables, as it does on any server that has been up for a minute.
    pub(crate) fn settle(&self, place: &EmptyStore) -> Result<(), String> {
        self.prepare(place, "analyze; checkpoint;")
    }

    /// The same for a place that holds millions of jobs, and for what it is held against: PostgreSQL has also cleaned
    /// up, which it would otherwise begin at some moment of the measured phase.
    pub(crate) fn clean(&self, place: &EmptyStore) -> Result<(), String> {
        self.prepare(place, "vacuum analyze; checkpoint;")
    }

    fn prepare(&self, place: &EmptyStore, sql: &str) -> Result<(), String> {
        if let (ContenderStore::Postgres, Some(server)) = (place.store, &self.postgres) {
            server.psql_in(&place.name, sql).map_err(|trouble| trouble.to_string())?;
        }
        Ok(())
    }

    /// The answer of a query that gives one number.
    pub(crate) fn number(&self, place: &EmptyStore, sql: &str) -> Option<f64> {
        self.postgres.as_ref()?.psql_in(&place.name, sql).ok()?.trim().parse().ok()
    }

    /// What the server has written until now, asked from outside of the place so that the question is not counted.
    pub(crate) fn written(&self, place: &EmptyStore) -> WrittenBytes {
        match place.store {
            ContenderStore::Postgres => self.written_by_postgres(&place.name).unwrap_or_default(),
            ContenderStore::Mariadb => WrittenBytes { log_bytes: self.written_by_mariadb(), commits: None },
            ContenderStore::Redis(_) => WrittenBytes { log_bytes: self.written_by_redis(), commits: None },
            ContenderStore::Sqlite => WrittenBytes::default(),
        }
    }

    fn written_by_postgres(&self, database: &str) -> Option<WrittenBytes> {
        let sql = format!(
            "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0'), xact_commit from pg_stat_database \
             where datname = '{database}'"
        );
        let said = self.postgres.as_ref()?.psql_in("postgres", &sql).ok()?;
        let (bytes, commits) = said.trim().split_once('|')?;
        Some(WrittenBytes { log_bytes: bytes.parse().ok(), commits: commits.parse().ok() })
    }

    fn written_by_mariadb(&self) -> Option<f64> {
        let said = self.mariadb.as_ref()?.sql("show global status like 'Innodb_os_log_written'").ok()?;
        said.split_whitespace().next_back()?.parse().ok()
    }

    fn written_by_redis(&self) -> Option<f64> {
        let said = self.redis.as_ref()?.order("INFO persistence").ok()?;
        said.lines().find_map(|line| line.strip_prefix("aof_current_size:"))?.trim().parse().ok()
    }

    /// The versions of the servers, and how long the disk takes to flush, which decides much of all figures.
    pub(crate) fn describe(&self) -> Vec<(&'static str, String)> {
        let mut all = Vec::new();
        let postgres = self.postgres.as_ref().and_then(|server| server.psql("show server_version").ok());
        all.extend(postgres.map(|version| ("postgresql", version)));
        let mariadb = self.mariadb.as_ref().and_then(|server| server.sql("select version()").ok());
        all.extend(mariadb.map(|version| ("mariadb", version)));
        let redis = self.redis.as_ref().and_then(|server| server.order("INFO server").ok());
        let redis = redis.and_then(|said| {
            said.lines().find_map(|line| line.strip_prefix("redis_version:")).map(|it| it.trim().to_owned())
        });
        all.extend(redis.map(|version| ("redis", version)));
        let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
        all.push(("cores", cores.to_string()));
        all.extend(flush_micros(self.data.path()).map(|micros| ("flush_us", format!("{micros:.0}"))));
        all
    }
}

/// How long it takes to append 8 KiB to a file and flush it.
fn flush_micros(folder: &Path) -> Option<f64> {
    let path: PathBuf = folder.join("flush");
    let mut file = File::create(&path).ok()?;
    let began = Instant::now();
    for _ in 0..FLUSHES {
        file.write_all(&[7; 8_192]).ok()?;
        file.sync_data().ok()?;
    }
    let spent = began.elapsed();
    let _ = fs::remove_file(path);
    Some(spent.as_secs_f64() * 1e6 / f64::from(FLUSHES))
}

/// Removes what killed runs left behind.
pub(crate) fn sweep() {
    servers::sweep(&servers::base("bench"));
}
