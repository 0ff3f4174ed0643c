//! The caller's transaction over the driver `sqlx`.
//!
//! Statements are sent as text with their values in place, as over our own connections: the server cannot prepare a
//! savepoint, and every number of rows would be another statement to prepare.

use backstop_sql::{Cell, Dialect, Pending, Query, Row, Session, SqlFailure};
use futures_util::TryStreamExt as _;
use sqlx::mysql::{MySqlConnection, MySqlDatabaseError, MySqlRow};
use sqlx::{AssertSqlSafe, Column as _, Either, Row as _, TypeInfo as _, ValueRef as _};

use crate::dialect::MysqlDialect;
use crate::error::of_database;
use crate::packet::{Packet, packets};
use crate::prefix::Prefix;

/// A transaction of the driver `sqlx`: pass `&mut tx`, which is a connection inside a transaction.
#[derive(Debug)]
pub struct InSqlx<'c> {
    connection: &'c mut MySqlConnection,
    prefix: Prefix,
}

impl<'c> InSqlx<'c> {
    /// The transaction, for a store whose tables begin with `prefix`.
    pub const fn new(connection: &'c mut MySqlConnection, prefix: Prefix) -> Self {
        Self { connection, prefix }
    }

    /// Sends one packet, and reads what each of its statements answers.
    async fn send(&mut self, packet: Packet) -> Result<Vec<Vec<Row>>, SqlFailure> {
        let (mut answers, mut rows) = (Vec::with_capacity(packet.statements), Vec::new());
        // Safe: the statements are constants, and values are written so that they cannot end their quotes.
        let query = sqlx::raw_sql(AssertSqlSafe(packet.text));
        let mut stream = query.fetch_many(&mut *self.connection);
        while let Some(step) = stream.try_next().await.map_err(failure)? {
            match step {
                Either::Left(_end) => answers.push(std::mem::take(&mut rows)),
                Either::Right(row) => rows.push(read(&row)?),
            }
        }
        Ok(answers)
    }
}

impl Session for InSqlx<'_> {
    fn dialect(&self) -> &'static dyn Dialect {
        &MysqlDialect
    }

    fn run(&mut self, batch: Vec<Query>) -> Pending<'_, Vec<Vec<Row>>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(batch.len());
            for packet in packets(&batch, &self.prefix).into_iter().filter(|packet| packet.statements > 0) {
                answers.extend(self.send(packet).await?);
            }
            Ok(answers)
        })
    }
}

fn read(row: &MySqlRow) -> Result<Row, SqlFailure> {
    let cells = row.columns().iter().map(|column| {
        let at = column.ordinal();
        if row.try_get_raw(at).map_err(failure)?.is_null() {
            return Ok(Cell::Null);
        }
        let name = column.type_info().name();
        if name == "BOOLEAN" || name.ends_with("INT") || name.ends_with("INT UNSIGNED") {
            return Ok(Cell::Int(row.try_get_unchecked(at).map_err(failure)?));
        }
        let bytes: Vec<u8> = row.try_get_unchecked(at).map_err(failure)?;
        if name != "DECIMAL" {
            return Ok(Cell::Bytes(bytes));
        }
        let number = std::str::from_utf8(&bytes).ok().and_then(|digits| digits.parse().ok());
        number.map(Cell::Int).ok_or_else(|| SqlFailure::Unreadable(format!("a number: {bytes:?}")))
    });
    Ok(Row::new(cells.collect::<Result<Vec<Cell>, SqlFailure>>()?))
}

fn failure(error: sqlx::Error) -> SqlFailure {
    match error {
        sqlx::Error::Database(database) => {
            let number = database.try_downcast_ref::<MySqlDatabaseError>().map_or(0, |own| own.number());
            of_database(number, database.message())
        }
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => {
            SqlFailure::Lost(error.to_string())
        }
        other => SqlFailure::Unreadable(other.to_string()),
    }
}
