//! The caller's transaction over the driver `tokio_postgres`, and over pools that hand out its transactions.

use backstop_sql::{Dialect, Pending, Query, Row, Session};
use tokio_postgres::Transaction;

use crate::dialect::PostgresDialect;
use crate::schema::Schema;
use crate::session::DriverSession;

/// A transaction of the driver `tokio_postgres`.
pub struct InTransaction<'t, 'c> {
    transaction: &'t Transaction<'c>,
    schema: Schema,
}

impl<'t, 'c> InTransaction<'t, 'c> {
    /// The transaction, for a store whose tables are in `schema`.
    pub const fn new(transaction: &'t Transaction<'c>, schema: Schema) -> Self {
        Self { transaction, schema }
    }
}

impl Session for InTransaction<'_, '_> {
    fn dialect(&self) -> &'static dyn Dialect {
        &PostgresDialect
    }

    fn run(&mut self, batch: Vec<Query>) -> Pending<'_, Vec<Vec<Row>>> {
        Box::pin(async move {
            DriverSession { client: self.transaction.client(), schema: &self.schema }.send_all(&batch).await
        })
    }
}
