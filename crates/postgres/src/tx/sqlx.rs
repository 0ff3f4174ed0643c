//! The caller's transaction over the driver `sqlx`.

use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::{Arguments, AssertSqlSafe, Row as _, ValueRef as _};

use super::cell;
use crate::error::Failure;
use crate::session::{Query, Schema, Session};
use crate::values::{Cell, Row, Value};

/// A transaction of the driver `sqlx`: pass `&mut tx`, which is a connection inside a transaction.
pub struct InSqlx<'c> {
    connection: &'c mut PgConnection,
    schema: Schema,
}

impl<'c> InSqlx<'c> {
    /// The transaction, for a store whose tables are in `schema`.
    pub const fn new(connection: &'c mut PgConnection, schema: Schema) -> Self {
        Self { connection, schema }
    }
}

impl Session for InSqlx<'_> {
    async fn run(&mut self, batch: Vec<Query>) -> Result<Vec<Vec<Row>>, Failure> {
        let mut answers = Vec::with_capacity(batch.len());
        for query in batch {
            // Safe: our statements are constants, and a schema's name is one that needs no quotes.
            let text = AssertSqlSafe(self.schema.text(&query.sql).into_owned());
            // Not persistent: an unnamed statement works behind a pooler too.
            let query = sqlx::query_with(text, bind(query.params)?).persistent(false);
            let rows = query.fetch_all(&mut *self.connection).await?;
            answers.push(rows.iter().map(read).collect::<Result<Vec<Row>, Failure>>()?);
        }
        Ok(answers)
    }
}

fn bind(params: Vec<Value>) -> Result<PgArguments, Failure> {
    let mut arguments = PgArguments::default();
    for value in params {
        match value {
            Value::Int(value) => Arguments::add(&mut arguments, value),
            Value::Bool(value) => Arguments::add(&mut arguments, value),
            Value::Text(value) => Arguments::add(&mut arguments, value),
            Value::Bytes(value) => Arguments::add(&mut arguments, value),
            Value::Id(value) => Arguments::add(&mut arguments, value),
            Value::Ints(value) => Arguments::add(&mut arguments, value),
            Value::Bools(value) => Arguments::add(&mut arguments, value),
            Value::Texts(value) => Arguments::add(&mut arguments, value),
            Value::Blobs(value) => Arguments::add(&mut arguments, value),
            Value::Ids(value) => Arguments::add(&mut arguments, value),
        }
        .map_err(|problem| Failure::Unreadable(format!("a parameter: {problem}")))?;
    }
    Ok(arguments)
}

fn read(row: &PgRow) -> Result<Row, Failure> {
    let cells = (0..row.len()).map(|column| {
        let value = row.try_get_raw(column)?;
        if value.is_null() {
            return Ok(Cell::Null);
        }
        let unreadable = |problem| Failure::Unreadable(format!("column {column}: {problem}"));
        let oid = value.type_info().oid().map_or(0, |oid| oid.0);
        cell(oid, value.as_bytes().map_err(unreadable)?)
    });
    Ok(Row::new(cells.collect::<Result<Vec<Cell>, Failure>>()?))
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(database) => Self::from_database(
                &database.code().unwrap_or_default(),
                database.message(),
                database.constraint().or(database.table()),
            ),
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => {
                Self::Lost(error.to_string())
            }
            other => Self::Unreadable(other.to_string()),
        }
    }
}
