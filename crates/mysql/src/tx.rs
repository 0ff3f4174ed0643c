//! The caller's transaction over the drivers that can carry it (L14).

use backstop_sql::{Dialect, Pending, Query, Row, Session};
use mysql_async::prelude::Queryable;

use crate::dialect::Mysql;
use crate::prefix::Prefix;
use crate::session::Wire;

#[cfg(feature = "sqlx")]
mod sqlx;

#[cfg(feature = "sqlx")]
pub use self::sqlx::InSqlx;

/// A transaction of the driver `mysql_async`: its `Transaction`, or a plain `Conn` on which one was begun.
#[derive(Debug)]
pub struct InTransaction<'t, Q> {
    transaction: &'t mut Q,
    prefix: Prefix,
}

impl<'t, Q: Queryable> InTransaction<'t, Q> {
    /// The transaction, for a store whose tables begin with `prefix`.
    pub const fn new(transaction: &'t mut Q, prefix: Prefix) -> Self {
        Self { transaction, prefix }
    }
}

impl<Q: Queryable> Session for InTransaction<'_, Q> {
    fn dialect(&self) -> &'static dyn Dialect {
        &Mysql
    }

    fn run(&mut self, batch: Vec<Query>) -> Pending<'_, Vec<Vec<Row>>> {
        Box::pin(async move { Wire { conn: self.transaction, prefix: &self.prefix }.run(batch).await })
    }
}
