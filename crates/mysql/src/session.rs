//! Statements sent over connections of the driver `mysql_async`.

use backstop_sql::{Cell, Dialect, Pending, Query, Row, Session, SqlFailure};
use mysql_async::consts::ColumnType;
use mysql_async::prelude::Queryable;
use mysql_async::{Row as DriverRow, Value as DriverValue};

use crate::dialect::MysqlDialect;
use crate::error::of_driver;
use crate::packet::{Packet, packets};
use crate::prefix::Prefix;

/// Sends one packet, and reads what each of its statements answers.
pub(crate) async fn send(conn: &mut impl Queryable, packet: Packet) -> Result<Vec<Vec<Row>>, SqlFailure> {
    let mut answers = Vec::with_capacity(packet.statements);
    let mut result = conn.query_iter(packet.text).await.map_err(of_driver)?;
    for _ in 0..packet.statements {
        let rows: Vec<DriverRow> = result.collect().await.map_err(of_driver)?;
        answers.push(rows.into_iter().map(read).collect::<Result<Vec<Row>, SqlFailure>>()?);
    }
    result.drop_result().await.map_err(of_driver)?;
    Ok(answers)
}

/// A connection, in whatever transaction it is.
pub(crate) struct DriverSession<'c, Q> {
    pub(crate) conn: &'c mut Q,
    pub(crate) prefix: &'c Prefix,
}

impl<Q: Queryable> Session for DriverSession<'_, Q> {
    fn dialect(&self) -> &'static dyn Dialect {
        &MysqlDialect
    }

    fn run(&mut self, batch: Vec<Query>) -> Pending<'_, Vec<Vec<Row>>> {
        Box::pin(async move {
            let mut answers = Vec::with_capacity(batch.len());
            if batch.is_empty() {
                return Ok(answers);
            }
            for packet in packets(&batch, self.prefix) {
                answers.extend(send(self.conn, packet).await?);
            }
            Ok(answers)
        })
    }
}

/// Reads a row of the driver.
fn read(row: DriverRow) -> Result<Row, SqlFailure> {
    let columns = row.columns();
    let cells = columns.iter().zip(row.unwrap()).map(|(column, value)| cell(column.column_type(), value));
    Ok(Row::new(cells.collect::<Result<Vec<Cell>, SqlFailure>>()?))
}

fn cell(column: ColumnType, value: DriverValue) -> Result<Cell, SqlFailure> {
    match value {
        DriverValue::NULL => Ok(Cell::Null),
        DriverValue::Int(number) => Ok(Cell::Int(number)),
        DriverValue::Bytes(bytes) if is_number(column) => {
            let number = std::str::from_utf8(&bytes).ok().and_then(|digits| digits.parse().ok());
            number.map(Cell::Int).ok_or_else(|| SqlFailure::Unreadable(format!("a number: {bytes:?}")))
        }
        DriverValue::Bytes(bytes) => Ok(Cell::Bytes(bytes)),
        other => Err(SqlFailure::Unreadable(format!("a value of a type that no table has: {other:?}"))),
    }
}

const fn is_number(column: ColumnType) -> bool {
    matches!(
        column,
        ColumnType::MYSQL_TYPE_TINY
            | ColumnType::MYSQL_TYPE_SHORT
            | ColumnType::MYSQL_TYPE_INT24
            | ColumnType::MYSQL_TYPE_LONG
            | ColumnType::MYSQL_TYPE_LONGLONG
            | ColumnType::MYSQL_TYPE_NEWDECIMAL
    )
}
