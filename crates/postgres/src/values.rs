//! Values on their way into statements and out of rows, in the few types that the tables have.
//!
//! Every driver through which a caller's own transaction can come binds and reads these, so that one set of statements
//! serves them all. PostgreSQL's text holds no NUL: it is written as an escape and read back as what it was.

use std::borrow::Cow;

use backstop_core::{JobId, Timestamp, WorkerId};
use uuid::Uuid;

use crate::error::Failure;

/// A parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `bigint`.
    Int(Option<i64>),
    /// `boolean`.
    Bool(bool),
    /// `text`.
    Text(Option<String>),
    /// `bytea`.
    Bytes(Vec<u8>),
    /// `uuid`.
    Id(Option<Uuid>),
    /// `bigint[]`.
    Ints(Vec<Option<i64>>),
    /// `boolean[]`.
    Bools(Vec<bool>),
    /// `text[]`.
    Texts(Vec<Option<String>>),
    /// `bytea[]`.
    Blobs(Vec<Vec<u8>>),
    /// `uuid[]`.
    Ids(Vec<Option<Uuid>>),
}

impl Value {
    /// A piece of text.
    pub(crate) fn text(text: impl AsRef<str>) -> Self {
        Self::Text(Some(escape(text.as_ref()).into_owned()))
    }

    /// A piece of text, if there is one.
    pub(crate) fn maybe_text(text: Option<impl AsRef<str>>) -> Self {
        text.map_or(Self::Text(None), Self::text)
    }

    /// A moment.
    pub(crate) const fn at(moment: Timestamp) -> Self {
        Self::Int(Some(moment.as_micros()))
    }

    /// A count of rows.
    pub(crate) fn count(number: usize) -> Self {
        Self::Int(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }

    /// A job.
    pub(crate) const fn job(id: JobId) -> Self {
        Self::Id(Some(id.as_uuid()))
    }

    /// A worker.
    pub(crate) const fn worker(id: WorkerId) -> Self {
        Self::Id(Some(id.as_uuid()))
    }

    /// Several jobs.
    pub(crate) fn jobs<'a>(ids: impl IntoIterator<Item = &'a JobId>) -> Self {
        Self::Ids(ids.into_iter().map(|id| Some(id.as_uuid())).collect())
    }

    /// Several numbers.
    pub(crate) fn ints(numbers: impl IntoIterator<Item = i64>) -> Self {
        Self::Ints(numbers.into_iter().map(Some).collect())
    }

    /// Several pieces of text.
    pub(crate) fn texts<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::Texts(texts.into_iter().map(|text| Some(escape(text.as_ref()).into_owned())).collect())
    }
}

/// What a row holds in one column.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// NULL.
    Null,
    /// Any integer type.
    Int(i64),
    /// `boolean`.
    Bool(bool),
    /// `text`, as it is stored.
    Text(String),
    /// `bytea`.
    Bytes(Vec<u8>),
    /// `uuid`.
    Id(Uuid),
    /// Several columns in one, which are NULL together for most rows.
    Several(Vec<Cell>),
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

    /// The id in a column, without reading on.
    pub(crate) fn peek_job(&self, column: usize) -> Option<JobId> {
        match self.cells.as_slice().get(column) {
            Some(Cell::Id(id)) => Some(JobId::from_uuid(*id)),
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
            other => self.odd("integer", &other),
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
        match self.next()? {
            Cell::Bool(truth) => Ok(truth),
            other => self.odd("boolean", &other),
        }
    }

    pub(crate) fn maybe_text(&mut self) -> Result<Option<String>, Failure> {
        match self.next()? {
            Cell::Null => Ok(None),
            Cell::Text(text) => Ok(Some(unescape(text))),
            other => self.odd("text", &other),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String, Failure> {
        match self.maybe_text()? {
            Some(text) => Ok(text),
            None => self.odd("text", &Cell::Null),
        }
    }

    pub(crate) fn maybe_bytes(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        match self.next()? {
            Cell::Null => Ok(None),
            Cell::Bytes(bytes) => Ok(Some(bytes)),
            other => self.odd("bytes", &other),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, Failure> {
        match self.maybe_bytes()? {
            Some(bytes) => Ok(bytes),
            None => self.odd("bytes", &Cell::Null),
        }
    }

    fn maybe_id(&mut self) -> Result<Option<Uuid>, Failure> {
        match self.next()? {
            Cell::Null => Ok(None),
            Cell::Id(id) => Ok(Some(id)),
            other => self.odd("id", &other),
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

    pub(crate) fn maybe_worker(&mut self) -> Result<Option<WorkerId>, Failure> {
        Ok(self.maybe_id()?.map(WorkerId::from_uuid))
    }

    pub(crate) fn worker(&mut self) -> Result<WorkerId, Failure> {
        match self.maybe_worker()? {
            Some(id) => Ok(id),
            None => self.odd("id", &Cell::Null),
        }
    }

    pub(crate) fn maybe_json<T: serde::de::DeserializeOwned>(&mut self) -> Result<Option<T>, Failure> {
        let Some(text) = self.maybe_text()? else { return Ok(None) };
        Ok(Some(serde_json::from_str(&text)?))
    }

    /// Several columns that came as one.
    pub(crate) fn maybe_several(&mut self) -> Result<Option<Self>, Failure> {
        match self.next()? {
            Cell::Null => Ok(None),
            Cell::Several(cells) => Ok(Some(Self::new(cells))),
            other => self.odd("row", &other),
        }
    }

    /// A word that one of the core's vocabularies knows.
    pub(crate) fn word<T: std::str::FromStr<Err: std::fmt::Display>>(&mut self) -> Result<T, Failure> {
        self.text()?.parse().map_err(|unknown: T::Err| Failure::Unreadable(unknown.to_string()))
    }
}

/// Marks an escape. It is a control character that hardly any text holds, so that almost all text is stored as it is.
const MARK: char = '\u{1a}';

pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    // Looks at every byte without stopping, which is many at a time: almost no text has one of these.
    if !text.bytes().fold(false, |found, byte| found | (byte == 0) | (byte == MARK as u8)) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\0' => escaped.extend([MARK, '0']),
            MARK => escaped.extend([MARK, '1']),
            other => escaped.push(other),
        }
    }
    Cow::Owned(escaped)
}

fn unescape(text: String) -> String {
    if !text.contains(MARK) {
        return text;
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != MARK {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('0') => plain.push('\0'),
            Some('1') => plain.push(MARK),
            // Not written by us: shown as it stands.
            other => plain.extend([MARK].into_iter().chain(other)),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_postgres_cannot_hold_comes_back() {
        // L20
        for text in ["", "plain", "a\0b", "\u{1a}", "\u{1a}0", "\0\u{1a}\0", "ends in \u{1a}"] {
            let stored = escape(text).into_owned();
            assert!(!stored.contains('\0'));
            assert_eq!(unescape(stored), text);
        }
        assert!(matches!(escape("plain"), Cow::Borrowed(_)));
    }
}
