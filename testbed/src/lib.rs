//! Real database servers and brokers for tests: found on this machine, started on private ports, killed, started
//! again, stopped.
//!
//! Owns where the servers' programs are, how they are started and how they end. Must not know anything about Backstop's
//! stores, and needs nothing but the standard library, so that `cargo xtask` stays quick to build.
//!
//! Most tests share one server per kind, which `cargo xtask test` and `cargo xtask servers` start: see [`shared`].
//! A test that kills, promotes or cuts off its server starts its own:
//!
//! ```no_run
//! use backstop_testbed::{DatabaseSettings, Folder, Postgres};
//!
//! let folder = Folder::new("promotion")?;
//! let mut server = Postgres::start(DatabaseSettings::new(folder.path()).durable())?;
//! server.kill()?;
//! server.start_again()?;
//! assert_eq!(server.psql("select 1")?, "1");
//! # Ok::<(), backstop_testbed::TestbedError>(())
//! ```

mod account;
mod authority;
mod beanstalkd;
mod client;
mod clock;
mod daemon;
pub mod find;
mod folder;
mod mariadb;
mod moto;
mod nats;
mod pgbouncer;
mod port;
mod postgres;
mod proxy;
mod rabbitmq;
mod redis;
mod settings;
pub mod shared;
mod signals;
mod spawn;
mod standby;
mod tls;
mod trouble;

pub use authority::{Certificate, CertificateAuthority};
pub use beanstalkd::Beanstalkd;
pub use clock::SteppedClock;
pub use folder::Folder;
pub use mariadb::Mariadb;
pub use moto::Moto;
pub use nats::Nats;
pub use pgbouncer::Pgbouncer;
pub use postgres::Postgres;
pub use proxy::Proxy;
pub use rabbitmq::Rabbitmq;
pub use redis::Redis;
pub use settings::DatabaseSettings;
pub use tls::TlsServer;
pub use trouble::TestbedError;
