//! The caller's transaction over the driver `diesel_async`.
//!
//! Diesel does not pass SQLSTATE codes on, so an error's meaning is taken from Diesel's own kinds where it has one.

use backstop_sql::{Cell, Dialect, Pending, Query, Row, Session, SqlFailure, Value};
use diesel::deserialize::{self, QueryableByName};
use diesel::pg::Pg;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::row::{Field as _, NamedRow, Row as DieselRow};
use diesel::sql_types::{Array, BigInt, Binary, Bool, Nullable, Text, Uuid};
use diesel_async::{AsyncPgConnection, RunQueryDsl};

use super::cell;
use crate::bind::escape;
use crate::dialect::PostgresDialect;
use crate::error::{NO_TRANSACTION, of_database};
use crate::schema::Schema;

/// A connection of the driver `diesel_async` inside a transaction.
pub struct InDiesel<'c> {
    connection: &'c mut AsyncPgConnection,
    schema: Schema,
}

impl<'c> InDiesel<'c> {
    /// The connection, for a store whose tables are in `schema`.
    pub const fn new(connection: &'c mut AsyncPgConnection, schema: Schema) -> Self {
        Self { connection, schema }
    }
}

impl Session for InDiesel<'_> {
    fn dialect(&self) -> &'static dyn Dialect {
        &PostgresDialect
    }

    fn run(&mut self, batch: Vec<Query>) -> Pending<'_, Vec<Vec<Row>>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(batch.len());
            for query in batch {
                let text = self.schema.text(&query.sql).into_owned();
                let bound = query.params.into_iter().fold(diesel::sql_query(text).into_boxed::<Pg>(), bind);
                let rows: Vec<Cells> = bound.load(self.connection).await.map_err(failure)?;
                answers.push(rows.into_iter().map(|Cells(cells)| Row::new(cells)).collect());
            }
            Ok(answers)
        })
    }
}

type Bound = BoxedSqlQuery<'static, Pg, SqlQuery>;

fn owned(text: &str) -> String {
    escape(text).into_owned()
}

fn bind(query: Bound, value: Value) -> Bound {
    match value {
        Value::Int(value) => query.bind::<Nullable<BigInt>, _>(value),
        Value::Bool(value) => query.bind::<Bool, _>(value),
        Value::Text(value) => query.bind::<Nullable<Text>, _>(value.as_deref().map(owned)),
        Value::Bytes(value) => query.bind::<Binary, _>(value),
        Value::Id(value) => query.bind::<Nullable<Uuid>, _>(value),
        Value::Ints(value) => query.bind::<Array<Nullable<BigInt>>, _>(value),
        Value::Bools(value) => query.bind::<Array<Bool>, _>(value),
        Value::Texts(value) => {
            let texts: Vec<Option<String>> = value.iter().map(|text| text.as_deref().map(owned)).collect();
            query.bind::<Array<Nullable<Text>>, _>(texts)
        }
        Value::Blobs(value) => query.bind::<Array<Binary>, _>(value),
        Value::Ids(value) => query.bind::<Array<Nullable<Uuid>>, _>(value),
    }
}

/// A row of any shape.
struct Cells(Vec<Cell>);

impl QueryableByName<Pg> for Cells {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> deserialize::Result<Self> {
        let cells = (0..row.field_count()).map(|column| {
            let field = DieselRow::get(row, column).ok_or_else(|| format!("a row has no column {column}"))?;
            match field.value() {
                None => Ok(Cell::Null),
                Some(value) => cell(value.get_oid().get(), value.as_bytes())
                    .map_err(|failure| format!("column {column}: {failure:?}").into()),
            }
        });
        cells.collect::<deserialize::Result<Vec<Cell>>>().map(Self)
    }
}

fn failure(error: DieselError) -> SqlFailure {
    let DieselError::DatabaseError(kind, words) = error else {
        return SqlFailure::Unreadable(error.to_string());
    };
    let code = match kind {
        DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand => {
            return SqlFailure::Lost(words.message().to_owned());
        }
        DatabaseErrorKind::UniqueViolation => "23505",
        DatabaseErrorKind::SerializationFailure => "40001",
        DatabaseErrorKind::ReadOnlyTransaction => "25006",
        DatabaseErrorKind::CheckViolation => "23514",
        DatabaseErrorKind::NotNullViolation => "23502",
        _ if words.message() == "deadlock detected" => "40P01",
        _ if words.message().starts_with("SAVEPOINT ") => NO_TRANSACTION,
        _ => "no SQLSTATE",
    };
    of_database(code, words.message(), words.constraint_name().or(words.table_name()))
}
