//! The caller's transaction over the driver `sqlx`.

use backstop_sql::{Cell, Dialect, Pending, Query, Row, Session, SqlFailure, Value};
use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::{Arguments, AssertSqlSafe, Row as _, ValueRef as _};

use super::cell;
use crate::bind::escape;
use crate::dialect::PostgresDialect;
use crate::error::of_database;
use crate::schema::Schema;

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
    fn dialect(&self) -> &'static dyn Dialect {
        &PostgresDialect
    }

    fn run(&mut self, batch: Vec<Query>) -> Pending<'_, Vec<Vec<Row>>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(batch.len());
            for query in batch {
                // Safe: our statements are constants, and a schema's name is one that needs no quotes.
                let text = AssertSqlSafe(self.schema.text(&query.sql).into_owned());
                // Not persistent: an unnamed statement works behind a pooler too.
                let query = sqlx::query_with(text, bind(query.params)?).persistent(false);
                let rows = query.fetch_all(&mut *self.connection).await.map_err(failure)?;
                answers.push(rows.iter().map(read).collect::<Result<Vec<Row>, SqlFailure>>()?);
            }
            Ok(answers)
        })
    }
}

fn bind(params: Vec<Value>) -> Result<PgArguments, SqlFailure> {
    let mut arguments = PgArguments::default();
    for value in params {
        match value {
            Value::Int(value) => Arguments::add(&mut arguments, value),
            Value::Bool(value) => Arguments::add(&mut arguments, value),
            Value::Text(value) => {
                Arguments::add(&mut arguments, value.as_deref().map(|text| escape(text).into_owned()))
            }
            Value::Bytes(value) => Arguments::add(&mut arguments, value),
            Value::Id(value) => Arguments::add(&mut arguments, value),
            Value::Ints(value) => Arguments::add(&mut arguments, value),
            Value::Bools(value) => Arguments::add(&mut arguments, value),
            Value::Texts(value) => {
                let escaped = |text: &Option<String>| text.as_deref().map(|text| escape(text).into_owned());
                Arguments::add(&mut arguments, value.iter().map(escaped).collect::<Vec<_>>())
            }
            Value::Blobs(value) => Arguments::add(&mut arguments, value),
            Value::Ids(value) => Arguments::add(&mut arguments, value),
        }
        .map_err(|problem| SqlFailure::Unreadable(format!("a parameter: {problem}")))?;
    }
    Ok(arguments)
}

fn read(row: &PgRow) -> Result<Row, SqlFailure> {
    let cells = (0..row.len()).map(|column| {
        let value = row.try_get_raw(column).map_err(failure)?;
        if value.is_null() {
            return Ok(Cell::Null);
        }
        let unreadable = |problem| SqlFailure::Unreadable(format!("column {column}: {problem}"));
        let oid = value.type_info().oid().map_or(0, |oid| oid.0);
        cell(oid, value.as_bytes().map_err(unreadable)?)
    });
    Ok(Row::new(cells.collect::<Result<Vec<Cell>, SqlFailure>>()?))
}

fn failure(error: sqlx::Error) -> SqlFailure {
    match error {
        sqlx::Error::Database(database) => of_database(
            &database.code().unwrap_or_default(),
            database.message(),
            database.constraint().or(database.table()),
        ),
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => {
            SqlFailure::Lost(error.to_string())
        }
        other => SqlFailure::Unreadable(other.to_string()),
    }
}
