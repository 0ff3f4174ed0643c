//! Values on their way into statements and out of rows, in the two types that the tables have: numbers and bytes.
//!
//! Every driver through which a caller's own transaction can come binds and reads these, so that one set of statements
//! serves them all. Text is stored as its bytes, so no collation or character set of a server has a say in it.

use std::time::Duration;

use backstop_core::{JobId, Timestamp, WorkerId};
use uuid::Uuid;

use crate::error::Failure;

/// A parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `BIGINT`, and the smaller integer types.
    Int(Option<i64>),
    /// `VARBINARY`, `BINARY` and `LONGBLOB`.
    Bytes(Option<Vec<u8>>),
}

impl Value {
    /// NULL in a column of bytes.
    pub(crate) const NOTHING: Self = Self::Bytes(None);

    /// A piece of text.
    pub(crate) fn text(text: impl AsRef<str>) -> Self {
        Self::Bytes(Some(text.as_ref().as_bytes().to_vec()))
    }

    /// A piece of text, or NULL.
    pub(crate) fn maybe_text(text: Option<impl AsRef<str>>) -> Self {
        text.map_or(Self::NOTHING, Self::text)
    }

    /// Bytes.
    pub(crate) const fn bytes(bytes: Vec<u8>) -> Self {
        Self::Bytes(Some(bytes))
    }

    /// A number.
    pub(crate) fn int(number: impl Into<i64>) -> Self {
        Self::Int(Some(number.into()))
    }

    /// A moment.
    pub(crate) const fn at(moment: Timestamp) -> Self {
        Self::Int(Some(moment.as_micros()))
    }

    /// A moment, or NULL.
    pub(crate) fn maybe_at(moment: Option<Timestamp>) -> Self {
        Self::Int(moment.map(Timestamp::as_micros))
    }

    /// A span of time that is added to a moment. The sum stays far below what a `BIGINT` holds.
    pub(crate) fn span(span: Duration) -> Self {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Self::Int(Some(micros.min(Timestamp::MAX.as_micros())))
    }

    /// A count of rows.
    pub(crate) fn count(number: usize) -> Self {
        Self::Int(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }

    /// A job.
    pub(crate) fn job(id: JobId) -> Self {
        Self::bytes(id.as_bytes().to_vec())
    }

    /// A job, or NULL.
    pub(crate) fn maybe_job(id: Option<JobId>) -> Self {
        id.map_or(Self::NOTHING, Self::job)
    }

    /// A worker.
    pub(crate) fn worker(id: WorkerId) -> Self {
        Self::bytes(id.as_uuid().as_bytes().to_vec())
    }

    /// Several jobs, for a list.
    pub(crate) fn jobs<'a>(ids: impl IntoIterator<Item = &'a JobId>) -> Vec<Self> {
        ids.into_iter().copied().map(Self::job).collect()
    }

    /// Several pieces of text, for a list.
    pub(crate) fn texts<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Vec<Self> {
        texts.into_iter().map(Self::text).collect()
    }

    /// Several numbers, for a list.
    pub(crate) fn ints(numbers: impl IntoIterator<Item = i64>) -> Vec<Self> {
        numbers.into_iter().map(Self::int).collect()
    }

    /// About the number of characters it takes in the text of a statement.
    pub(crate) const fn length(&self) -> usize {
        match self {
            Self::Int(_) | Self::Bytes(None) => 20,
            Self::Bytes(Some(bytes)) => bytes.len() * 2 + 4,
        }
    }
}

/// What a row holds in one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// NULL.
    Null,
    /// Any integer type.
    Int(i64),
    /// Everything else.
    Bytes(Vec<u8>),
}

/// A row, read from the left.
#[derive(Debug)]
pub struct Row {
    cells: std::vec::IntoIter<Cell>,
    column: usize,
}

impl Row {
    /// A row of these cells.
    #[must_use]
    pub fn new(cells: Vec<Cell>) -> Self {
        Self { cells: cells.into_iter(), column: 0 }
    }

    /// The integer in a column that is still to be read.
    pub(crate) fn peek_int(&self, column: usize) -> Option<i64> {
        match self.cells.as_slice().get(column) {
            Some(Cell::Int(number)) => Some(*number),
            _ => None,
        }
    }

    fn next(&mut self) -> Result<Cell, Failure> {
        self.column += 1;
        self.cells.next().ok_or_else(|| Failure::Unreadable(format!("a row has no column {}", self.column)))
    }

    fn odd<T>(&self, wanted: &str, cell: &Cell) -> Result<T, Failure> {
        Err(Failure::Unreadable(format!("column {} does not hold {wanted}: {cell:?}", self.column)))
    }

    pub(crate) fn skip(&mut self, columns: usize) {
        self.column += columns;
        (0..columns).for_each(|_| drop(self.cells.next()));
    }

    pub(crate) fn maybe_int(&mut self) -> Result<Option<i64>, Failure> {
        match self.next()? {
            Cell::Null => Ok(None),
            Cell::Int(number) => Ok(Some(number)),
            other @ Cell::Bytes(_) => self.odd("integer", &other),
        }
    }

    pub(crate) fn int(&mut self) -> Result<i64, Failure> {
        match self.maybe_int()? {
            Some(number) => Ok(number),
            None => self.odd("integer", &Cell::Null),
        }
    }

    /// A count that fits what it counts.
    pub(crate) fn number<T: TryFrom<i64>>(&mut self) -> Result<T, Failure> {
        let number = self.int()?;
        T::try_from(number).map_err(|_| Failure::Unreadable(format!("column {}: {number}", self.column)))
    }

    pub(crate) fn maybe_number<T: TryFrom<i64>>(&mut self) -> Result<Option<T>, Failure> {
        let Some(number) = self.maybe_int()? else { return Ok(None) };
        let fits = T::try_from(number);
        fits.map(Some).map_err(|_| Failure::Unreadable(format!("column {}: {number}", self.column)))
    }

    pub(crate) fn moment(&mut self) -> Result<Timestamp, Failure> {
        self.int().map(Timestamp::from_micros)
    }

    pub(crate) fn maybe_moment(&mut self) -> Result<Option<Timestamp>, Failure> {
        Ok(self.maybe_int()?.map(Timestamp::from_micros))
    }

    pub(crate) fn bool(&mut self) -> Result<bool, Failure> {
        self.int().map(|number| number != 0)
    }

    pub(crate) fn maybe_bytes(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        match self.next()? {
            Cell::Null => Ok(None),
            Cell::Bytes(bytes) => Ok(Some(bytes)),
            other @ Cell::Int(_) => self.odd("bytes", &other),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, Failure> {
        match self.maybe_bytes()? {
            Some(bytes) => Ok(bytes),
            None => self.odd("bytes", &Cell::Null),
        }
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<String>, Failure> {
        let Some(bytes) = self.maybe_bytes()? else { return Ok(None) };
        let text = String::from_utf8(bytes);
        text.map(Some).map_err(|_| Failure::Unreadable(format!("column {} is not valid UTF-8", self.column)))
    }

    pub(crate) fn text(&mut self) -> Result<String, Failure> {
        match self.maybe_text()? {
            Some(text) => Ok(text),
            None => self.odd("text", &Cell::Null),
        }
    }

    fn maybe_id(&mut self) -> Result<Option<Uuid>, Failure> {
        let Some(bytes) = self.maybe_bytes()? else { return Ok(None) };
        match Uuid::from_slice(&bytes) {
            Ok(id) => Ok(Some(id)),
            Err(_) => self.odd("id", &Cell::Bytes(bytes)),
        }
    }

    pub(crate) fn maybe_job(&mut self) -> Result<Option<JobId>, Failure> {
        Ok(self.maybe_id()?.map(JobId::from_uuid))
    }

    pub(crate) fn job(&mut self) -> Result<JobId, Failure> {
        match self.maybe_job()? {
            Some(id) => Ok(id),
            None => self.odd("id", &Cell::Null),
        }
    }

    pub(crate) fn worker(&mut self) -> Result<WorkerId, Failure> {
        match self.maybe_id()? {
            Some(id) => Ok(WorkerId::from_uuid(id)),
            None => self.odd("id", &Cell::Null),
        }
    }

    pub(crate) fn maybe_json<T: serde::de::DeserializeOwned>(&mut self) -> Result<Option<T>, Failure> {
        let Some(text) = self.maybe_text()? else { return Ok(None) };
        Ok(Some(serde_json::from_str(&text)?))
    }

    /// A word that one of the core's vocabularies knows.
    pub(crate) fn word<T: std::str::FromStr<Err: std::fmt::Display>>(&mut self) -> Result<T, Failure> {
        self.text()?.parse().map_err(|unknown: T::Err| Failure::Unreadable(unknown.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_from_the_left() {
        let id = JobId::from_u128(7);
        let cells = vec![Cell::Int(1), Cell::Null, Cell::Bytes(b"a\0b".to_vec())];
        let mut row = Row::new(cells.into_iter().chain([Cell::Bytes(id.as_bytes().to_vec())]).collect());
        assert!(row.bool().expect("a truth"));
        assert_eq!(row.maybe_int().expect("none"), None);
        assert_eq!(row.text().expect("text"), "a\0b");
        assert_eq!(row.job().expect("an id"), id);
        assert!(row.int().is_err(), "there is no fifth column");
    }

    #[test]
    fn what_we_cannot_have_written_is_refused() {
        let row = || Row::new(vec![Cell::Bytes(vec![0xff]), Cell::Int(-1)]);
        assert!(row().text().is_err() && row().job().is_err() && row().int().is_err());
        let mut row = row();
        row.skip(1);
        assert!(row.number::<u32>().is_err());
    }
}
