//! The caller's transaction over the drivers that can carry it (L14).

mod driver;
#[cfg(feature = "sqlx")]
mod sqlx;

pub use self::driver::InTransaction;
#[cfg(feature = "sqlx")]
pub use self::sqlx::InSqlx;
