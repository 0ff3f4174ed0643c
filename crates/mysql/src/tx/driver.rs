//! The caller's transaction over the driver `mysql_async`.

use backstop_sql::{Dialect, Pending, Query, Row, Session};
use mysql_async::prelude::Queryable;

use crate::dialect::MysqlDialect;
use crate::prefix::Prefix;
use crate::session::DriverSession;

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
        &MysqlDialect
    }

    fn run(&mut self, batch: Vec<Query>) -> Pending<'_, Vec<Vec<Row>>> {
        Box::pin(
            async move { DriverSession { conn: self.transaction, prefix: &self.prefix }.run(batch).await },
        )
    }
}
