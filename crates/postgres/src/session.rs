//! Statements sent to PostgreSQL over connections of the driver `tokio_postgres`, and the names of our tables.

use std::borrow::Cow;

use backstop_sql::open::is_plain_name;
use backstop_sql::{Cell, Dialect, Pending, Query, Row, Session, SqlFailure};
use futures_util::future::join_all;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row as DriverRow};

use crate::bind::{SqlCell, SqlParam};
use crate::dialect::PostgresDialect;
use crate::error;

/// The names of our tables: the schema they are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema(String);

/// The schema that the statements are written for.
pub(crate) const DEFAULT_SCHEMA: &str = "backstop";

impl Schema {
    /// A schema by name.
    ///
    /// # Errors
    /// A sentence, when the name is none that needs no quotes.
    pub fn named(name: &str) -> Result<Self, String> {
        let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        if starts_well && is_plain_name(name, 50) {
            return Ok(Self(name.to_owned()));
        }
        Err(format!(
            "the schema {name:?} is not a valid name: use lowercase letters, digits and _, at most 50"
        ))
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// A statement as it stands for this schema.
    #[must_use]
    pub fn text<'a>(&self, sql: &'a str) -> Cow<'a, str> {
        if self.0 == DEFAULT_SCHEMA {
            return Cow::Borrowed(sql);
        }
        Cow::Owned(sql.replace("backstop.", &format!("{}.", self.0)))
    }
}

impl Default for Schema {
    fn default() -> Self {
        Self(DEFAULT_SCHEMA.to_owned())
    }
}

impl Schema {
    /// The schema that the location of an open store names, as [`backstop_store::StoreInfo`] tells it.
    #[must_use]
    pub fn of_location(location: &str) -> Self {
        let named = location.rsplit_once("?schema=").map(|(_, name)| Self::named(name));
        named.and_then(Result::ok).unwrap_or_default()
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_move_with_their_schema() {
        let sql = "SELECT 1 FROM backstop.job JOIN backstop.done USING (id)";
        assert_eq!(Schema::default().text(sql), sql);
        let other = Schema::named("jobs_2").expect("a plain name");
        assert_eq!(other.text(sql), "SELECT 1 FROM jobs_2.job JOIN jobs_2.done USING (id)");
    }

    #[test]
    fn names_that_need_quotes_are_refused() {
        // E10
        for name in ["", "Jobs", "a b", "x\"; DROP SCHEMA public", "1st", &"x".repeat(51)] {
            assert!(Schema::named(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_schema_is_found_in_a_stores_location() {
        assert_eq!(Schema::of_location("postgres://db:5432/app"), Schema::default());
        assert_eq!(Schema::of_location("postgres://a:1,b:2/app?schema=jobs_2").name(), "jobs_2");
    }
}
