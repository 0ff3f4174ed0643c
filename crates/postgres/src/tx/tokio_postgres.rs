//! The caller's transaction over the driver `tokio_postgres`, and over pools that hand out its transactions.

use futures_util::future::join_all;
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use crate::error::Failure;
use crate::session::{Query, Schema, Session, read, type_of};
use crate::values::Row;

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

    async fn send(&self, query: &Query) -> Result<Vec<Row>, Failure> {
        let params: Vec<(&(dyn ToSql + Sync), Type)> =
            query.params.iter().map(|value| (value as &(dyn ToSql + Sync), type_of(value))).collect();
        let rows = self.transaction.query_typed(&self.schema.text(&query.sql), &params).await?;
        rows.iter().map(read).collect()
    }
}

impl Session for InTransaction<'_, '_> {
    async fn run(&mut self, batch: Vec<Query>) -> Result<Vec<Vec<Row>>, Failure> {
        let this = &*self;
        // Polled in order, so sent in order; the answers to all of them come back in one round trip.
        let answers = join_all(batch.iter().map(|query| this.send(query))).await;
        answers.into_iter().collect()
    }
}
