//! The caller's transaction over the drivers that can carry it (L14). A notice inside of it would make all commits of
//! the database wait for each other, so other processes hear of such jobs by their polling.

#[cfg(feature = "diesel-async")]
mod diesel_async;
mod driver;
#[cfg(feature = "sqlx")]
mod sqlx;

#[cfg(feature = "diesel-async")]
pub use self::diesel_async::InDiesel;
pub use self::driver::InTransaction;
#[cfg(feature = "sqlx")]
pub use self::sqlx::InSqlx;

/// Reads a value that another driver has received, by the id of its type.
#[cfg(any(feature = "diesel-async", feature = "sqlx"))]
fn cell(type_id: u32, raw: &[u8]) -> Result<backstop_sql::Cell, backstop_sql::SqlFailure> {
    use ::tokio_postgres::types::{FromSql, Type};

    use crate::bind::SqlCell;

    let unreadable =
        |problem: &dyn std::fmt::Display| backstop_sql::SqlFailure::Unreadable(format!("a value: {problem}"));
    let known = Type::from_oid(type_id).filter(<SqlCell as FromSql<'_>>::accepts);
    let known = known.ok_or_else(|| unreadable(&format!("no column of ours has the type {type_id}")))?;
    SqlCell::from_sql(&known, raw).map(|read| read.0).map_err(|problem| unreadable(&problem))
}
