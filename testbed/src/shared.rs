//! The servers and programs that all tests share; `cargo xtask servers` starts them and says in variables where they
//! are.
//!
//! Tests of one run work at the same time on the same servers: each makes a database of its own.

use std::path::Path;
use std::sync::OnceLock;

/// The variable with the address of the shared PostgreSQL.
pub const POSTGRES: &str = "BACKSTOP_TEST_POSTGRES";

/// The variable with the address of the shared PostgreSQL behind a pooler in transaction mode.
pub const PGBOUNCER: &str = "BACKSTOP_TEST_PGBOUNCER";

/// The variable with the address of the shared MariaDB.
pub const MARIADB: &str = "BACKSTOP_TEST_MYSQL";

/// The variable with the program schemathesis, which checks HTTP APIs against their documents.
pub const SCHEMATHESIS: &str = "BACKSTOP_TEST_SCHEMATHESIS";

/// The variable with the program of moto that speaks like SQS.
pub const MOTO: &str = "BACKSTOP_TEST_MOTO";

/// The address of the shared PostgreSQL, such as `postgres://backstop@127.0.0.1:15432/backstop`.
///
/// # Panics
/// When the variable is not set: a test that needs a server must not pass without one.
pub fn postgres() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| address(POSTGRES))
}

/// The address of the shared PostgreSQL behind a pooler in transaction mode.
///
/// # Panics
/// When the variable is not set: a test that needs a server must not pass without one.
pub fn pgbouncer() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| address(PGBOUNCER))
}

/// The address of the shared MariaDB, such as `mysql://backstop@127.0.0.1:15433/backstop`.
///
/// # Panics
/// When the variable is not set: a test that needs a server must not pass without one.
pub fn mariadb() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| address(MARIADB))
}

/// The program schemathesis, in the version that the tests are written for.
///
/// # Panics
/// When the variable is not set: a test that needs it must not pass without it.
pub fn schemathesis() -> &'static Path {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    Path::new(PROGRAM.get_or_init(|| address(SCHEMATHESIS)))
}

/// The program of moto that speaks like SQS, in the version that the tests are written for.
///
/// # Panics
/// When the variable is not set: a test that needs it must not pass without it.
pub fn moto() -> &'static Path {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    Path::new(PROGRAM.get_or_init(|| address(MOTO)))
}

fn address(variable: &str) -> String {
    match std::env::var(variable) {
        Ok(address) if !address.is_empty() => address,
        _ => panic!(
            "{variable} is not set and this test needs what it names: \
             run `cargo xtask servers -- cargo nextest run -p {}`",
            std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "PACKAGE".to_owned())
        ),
    }
}
