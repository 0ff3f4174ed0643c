//! Statements sent to the server: over connections of our own, or over whatever carries the caller's transaction.
//!
//! Our own connections send text with the values written into it, several statements in one packet. A batch of rows is
//! a different text for every number of rows, so preparing would cost a round trip that nothing gives back.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::future::Future;

use mysql_async::consts::ColumnType;
use mysql_async::prelude::Queryable;
use mysql_async::{Row as DriverRow, Value as DriverValue};

use crate::error::Failure;
use crate::values::{Cell, Row, Value};

/// A statement with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The text, on tables whose names begin with `backstop_`; a question mark stands for each parameter.
    pub sql: Cow<'static, str>,
    /// The parameters, in order.
    pub params: Vec<Value>,
}

impl Query {
    pub(crate) fn new(sql: impl Into<Cow<'static, str>>, params: Vec<Value>) -> Self {
        Self { sql: sql.into(), params }
    }

    /// A statement each of whose question marks stands for a list of values. An empty list contains nothing, as it
    /// should: it becomes a NULL, which equals nothing.
    pub(crate) fn listed(sql: &str, lists: Vec<Vec<Value>>) -> Self {
        let mut text =
            String::with_capacity(sql.len() + lists.iter().map(|list| list.len() * 2).sum::<usize>());
        let mut pieces = sql.split('?');
        text.push_str(pieces.next().unwrap_or_default());
        for (piece, list) in pieces.zip(&lists) {
            text.push_str(if list.is_empty() { "NULL" } else { "?" });
            (1..list.len()).for_each(|_| text.push_str(",?"));
            text.push_str(piece);
        }
        Self { sql: Cow::Owned(text), params: lists.into_iter().flatten().collect() }
    }
}

/// A statement about any number of rows: what stands before them, for each, between two of them, and after them.
#[derive(Debug)]
pub(crate) struct Bulk {
    pub(crate) head: &'static str,
    pub(crate) row: &'static str,
    pub(crate) between: &'static str,
    pub(crate) tail: &'static str,
}

/// Rows in one statement at most: their parameters must be fewer than 65,536 for drivers that bind them, and the
/// planner's work on a list of keys should not grow out of proportion.
const MOST_ROWS: usize = 500;
/// Characters in one statement, unless a single row has more.
const LONG_STATEMENT: usize = 256 * 1024;
/// Characters in one packet, unless a single statement has more: well below the smallest `max_allowed_packet`.
const LONG_PACKET: usize = 1024 * 1024;

impl Bulk {
    /// Adds the statements for rows, none when there are none.
    pub(crate) fn add(&self, out: &mut Vec<Query>, rows: Vec<Vec<Value>>) {
        let (mut text, mut params, mut count, mut length) = (String::new(), Vec::new(), 0, 0);
        for row in rows {
            let size: usize = row.iter().map(Value::length).sum();
            if count == MOST_ROWS || (count > 0 && length + size > LONG_STATEMENT) {
                self.end(out, std::mem::take(&mut text), std::mem::take(&mut params));
                (count, length) = (0, 0);
            }
            text.push_str(if count == 0 { self.head } else { self.between });
            text.push_str(self.row);
            params.extend(row);
            count += 1;
            length += size;
        }
        if count > 0 {
            self.end(out, text, params);
        }
    }

    fn end(&self, out: &mut Vec<Query>, mut text: String, params: Vec<Value>) {
        text.push_str(self.tail);
        out.push(Query::new(text, params));
    }
}

/// Something that runs statements in one transaction.
pub trait Session: Send {
    /// Runs statements in order, all of them in one go where the driver can, and answers their rows.
    fn run(&mut self, batch: Vec<Query>) -> impl Future<Output = Result<Vec<Vec<Row>>, Failure>> + Send;

    /// Runs one statement.
    fn one(&mut self, query: Query) -> impl Future<Output = Result<Vec<Row>, Failure>> + Send {
        async move { Ok(self.run(vec![query]).await?.pop().unwrap_or_default()) }
    }
}

/// Runs statements and answers the rows of all of them together.
pub(crate) async fn all(session: &mut impl Session, batch: Vec<Query>) -> Result<Vec<Row>, Failure> {
    if batch.is_empty() {
        return Ok(Vec::new());
    }
    Ok(session.run(batch).await?.into_iter().flatten().collect())
}

/// The names of our tables: what they begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(String);

/// The prefix that the statements are written for.
pub(crate) const DEFAULT_PREFIX: &str = "backstop_";

impl Prefix {
    /// A prefix.
    ///
    /// # Errors
    /// A sentence, when a table's name that begins with it would need quotes.
    pub fn named(name: &str) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase());
        if starts_well && name.chars().all(plain) && name.len() <= 40 {
            return Ok(Self(name.to_owned()));
        }
        Err(format!(
            "the prefix {name:?} is not a plain name: begin with a lowercase letter, then lowercase letters, digits \
             and _, at most 40"
        ))
    }

    /// The prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// A statement as it stands for this prefix.
    #[must_use]
    pub fn text<'a>(&self, sql: &'a str) -> Cow<'a, str> {
        if self.0 == DEFAULT_PREFIX {
            return Cow::Borrowed(sql);
        }
        Cow::Owned(sql.replace(DEFAULT_PREFIX, &self.0))
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self(DEFAULT_PREFIX.to_owned())
    }
}

/// Statements in the text of one packet, and how many they are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) text: String,
    pub(crate) statements: usize,
}

/// Writes statements into as few packets as they fit into.
pub(crate) fn packets(batch: &[Query], prefix: &Prefix) -> Vec<Packet> {
    let mut packets = vec![Packet::default()];
    for query in batch {
        let size = query.sql.len() + query.params.iter().map(Value::length).sum::<usize>();
        if packets.last().is_some_and(|last| last.statements > 0 && last.text.len() + size > LONG_PACKET) {
            packets.push(Packet::default());
        }
        if let Some(packet) = packets.last_mut() {
            if packet.statements > 0 {
                packet.text.push(';');
            }
            packet.statements += 1;
            write(&mut packet.text, &prefix.text(&query.sql), &query.params);
        }
    }
    packets
}

/// Writes a statement with its values in place.
fn write(out: &mut String, sql: &str, params: &[Value]) {
    let mut pieces = sql.split('?');
    out.push_str(pieces.next().unwrap_or_default());
    for (piece, value) in pieces.zip(params) {
        match value {
            Value::Int(None) | Value::Bytes(None) => out.push_str("NULL"),
            // Writing to a string does not fail.
            Value::Int(Some(number)) => drop(write!(out, "{number}")),
            Value::Bytes(Some(bytes)) => write_bytes(out, bytes),
        }
        out.push_str(piece);
    }
}

/// Writes bytes so that they mean the same in every character set and SQL mode: plain ones between quotes, all others
/// as hexadecimal digits.
fn write_bytes(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\'' | b'\\');
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && bytes.iter().all(plain) => {
            out.push_str("_binary'");
            out.push_str(text);
        }
        _ => {
            out.push_str("x'");
            for byte in bytes {
                out.push(char::from(DIGITS[usize::from(byte >> 4)]));
                out.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
        }
    }
    out.push('\'');
}

/// Sends one packet over a connection of the driver `mysql_async`, and reads what each of its statements answers.
pub(crate) async fn send(conn: &mut impl Queryable, packet: Packet) -> Result<Vec<Vec<Row>>, Failure> {
    let mut answers = Vec::with_capacity(packet.statements);
    let mut result = conn.query_iter(packet.text).await?;
    for _ in 0..packet.statements {
        let rows: Vec<DriverRow> = result.collect().await?;
        answers.push(rows.into_iter().map(read).collect::<Result<Vec<Row>, Failure>>()?);
    }
    result.drop_result().await?;
    Ok(answers)
}

/// A connection of the driver `mysql_async`, in whatever transaction it is.
pub(crate) struct Wire<'c, Q> {
    pub(crate) conn: &'c mut Q,
    pub(crate) prefix: &'c Prefix,
}

impl<Q: Queryable> Session for Wire<'_, Q> {
    async fn run(&mut self, batch: Vec<Query>) -> Result<Vec<Vec<Row>>, Failure> {
        let mut answers = Vec::with_capacity(batch.len());
        if batch.is_empty() {
            return Ok(answers);
        }
        for packet in packets(&batch, self.prefix) {
            answers.extend(send(self.conn, packet).await?);
        }
        Ok(answers)
    }
}

/// Reads a row of the driver.
fn read(row: DriverRow) -> Result<Row, Failure> {
    let columns = row.columns();
    let cells = columns.iter().zip(row.unwrap()).map(|(column, value)| cell(column.column_type(), value));
    Ok(Row::new(cells.collect::<Result<Vec<Cell>, Failure>>()?))
}

fn cell(column: ColumnType, value: DriverValue) -> Result<Cell, Failure> {
    match value {
        DriverValue::NULL => Ok(Cell::Null),
        DriverValue::Int(number) => Ok(Cell::Int(number)),
        DriverValue::Bytes(bytes) if is_number(column) => {
            let number = std::str::from_utf8(&bytes).ok().and_then(|digits| digits.parse().ok());
            number.map(Cell::Int).ok_or_else(|| Failure::Unreadable(format!("a number: {bytes:?}")))
        }
        DriverValue::Bytes(bytes) => Ok(Cell::Bytes(bytes)),
        other => Err(Failure::Unreadable(format!("a value of a type that no table has: {other:?}"))),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_move_with_their_prefix() {
        let sql = "SELECT 1 FROM backstop_job JOIN backstop_done USING (id)";
        assert_eq!(Prefix::default().text(sql), sql);
        let other = Prefix::named("jobs2_").expect("a plain name");
        assert_eq!(other.text(sql), "SELECT 1 FROM jobs2_job JOIN jobs2_done USING (id)");
    }

    #[test]
    fn names_that_need_quotes_are_refused() {
        // E10
        for name in ["", "Jobs", "a b", "x`; DROP TABLE y", "1st", "_x", &"x".repeat(41)] {
            assert!(Prefix::named(name).is_err(), "{name}");
        }
    }

    #[test]
    fn values_cannot_end_their_quotes() {
        // L20
        let values = ["it's", "a\\", "?;--", "", "\0", "ä", "plain {}"].map(Value::text);
        let query =
            Query::new("SELECT ?, ?, ?, ?, ?, ?, ?, ?", values.into_iter().chain([Value::int(-3)]).collect());
        let packets = packets(&[query], &Prefix::default());
        let expected =
            "SELECT x'69742773', x'615c', _binary'?;--', x'', x'00', x'c3a4', _binary'plain {}', -3";
        assert_eq!(packets, [Packet { text: expected.to_owned(), statements: 1 }]);
    }

    #[test]
    fn lists_take_the_place_of_their_mark() {
        let query = Query::listed(
            "a IN (?) AND b IN (?) AND c < ?",
            vec![Value::ints([1, 2, 3]), Vec::new(), vec![Value::int(9)]],
        );
        assert_eq!(query.sql, "a IN (?,?,?) AND b IN (NULL) AND c < ?");
        assert_eq!(query.params, Value::ints([1, 2, 3, 9]));
    }

    #[test]
    fn many_rows_are_cut_into_statements_and_packets() {
        let bulk = Bulk { head: "INSERT INTO t VALUES ", row: "(?)", between: ",", tail: " END" };
        let mut out = Vec::new();
        bulk.add(&mut out, Vec::new());
        assert!(out.is_empty());
        bulk.add(&mut out, Value::ints(0..1_001).into_iter().map(|value| vec![value]).collect());
        let sizes: Vec<usize> = out.iter().map(|query| query.params.len()).collect();
        assert_eq!(sizes, [500, 500, 1]);
        assert_eq!(out[2].sql, "INSERT INTO t VALUES (?) END");
        let large = || vec![Value::bytes(vec![0; 100_000])];
        let mut out = Vec::new();
        bulk.add(&mut out, (0..20).map(|_| large()).collect());
        assert_eq!(out.len(), 20, "a row that is long has a statement to itself");
        let packets = packets(&out, &Prefix::default());
        assert_eq!(packets.iter().map(|packet| packet.statements).sum::<usize>(), 20);
        assert!(packets.len() > 2 && packets.iter().all(|packet| packet.text.len() <= LONG_PACKET));
    }
}
