//! Statements sent to PostgreSQL over connections of the driver `tokio_postgres`.

use backstop_sql::{Cell, Dialect, Pending, Query, Row, Session, SqlFailure};
use futures_util::future::join_all;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row as DriverRow};

use crate::bind::{SqlCell, SqlParam};
use crate::dialect::PostgresDialect;
use crate::error;
use crate::schema::Schema;

/// A connection of the driver `tokio_postgres`, in whatever transaction it is.
pub(crate) struct DriverSession<'c> {
    pub(crate) client: &'c Client,
    pub(crate) schema: &'c Schema,
}

impl Session for DriverSession<'_> {
    fn dialect(&self) -> &'static dyn Dialect {
        &PostgresDialect
    }

    fn run(&mut self, batch: Vec<Query>) -> Pending<'_, Vec<Vec<Row>>> {
        Box::pin(async move { self.send_all(&batch).await })
    }
}

impl DriverSession<'_> {
    /// Runs statements in order; the answers to all of them come back in one round trip.
    pub(crate) async fn send_all(&self, batch: &[Query]) -> Result<Vec<Vec<Row>>, SqlFailure> {
        // Polled in order, so sent in order.
        join_all(batch.iter().map(|query| self.send(query))).await.into_iter().collect()
    }

    /// Runs one statement, unnamed and in one round trip, so that it works behind a pooler too.
    async fn send(&self, query: &Query) -> Result<Vec<Row>, SqlFailure> {
        let bound: Vec<SqlParam<'_>> = query.params.iter().map(SqlParam).collect();
        let params: Vec<(&(dyn ToSql + Sync), Type)> =
            bound.iter().map(|value| (value as &(dyn ToSql + Sync), value.of_type())).collect();
        let rows = self.client.query_typed(&self.schema.text(&query.sql), &params).await;
        rows.map_err(error::of_driver)?.iter().map(read).collect()
    }
}

/// Reads a row of the driver.
fn read(row: &DriverRow) -> Result<Row, SqlFailure> {
    let cell = |column| row.try_get::<_, SqlCell>(column).map(|read| read.0).map_err(error::of_driver);
    Ok(Row::new((0..row.len()).map(cell).collect::<Result<Vec<Cell>, SqlFailure>>()?))
}
