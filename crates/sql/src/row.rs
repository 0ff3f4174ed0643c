//! Rows on their way out of statements.
//!
//! One server tells truths, ids and text apart, another one has numbers and bytes only: both are read in the same way.

use std::fmt::Display;
use std::str::FromStr;

use backstop_core::job::Damage;
use backstop_core::{JobId, Timestamp, WorkerId};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::failure::SqlFailure;

/// What a row holds in one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// NULL.
    Null,
    /// Any integer type.
    Int(i64),
    /// A truth.
    Bool(bool),
    /// Text.
    Text(String),
    /// Bytes; where a server has no other type, also text and ids.
    Bytes(Vec<u8>),
    /// An id.
    Id(Uuid),
    /// Several columns in one, which are NULL together for most rows.
    Several(Vec<Cell>),
}

impl Cell {
    /// Its text, or none when it is NULL; why it has none otherwise.
    fn into_text(self) -> Result<Option<String>, String> {
        match self {
            Self::Null => Ok(None),
            Self::Text(text) => Ok(Some(text)),
            Self::Bytes(bytes) => {
                String::from_utf8(bytes).map(Some).map_err(|_| "it is not valid UTF-8".to_owned())
            }
            other => Err(format!("it does not hold text: {other:?}")),
        }
    }
}

/// A row, read from the left.
#[derive(Debug)]
pub struct Row {
    cells: std::vec::IntoIter<Cell>,
    column: usize,
}

/// Reads the next column; what cannot be read there is a failure.
impl Row {
    /// A row of these cells.
    #[must_use]
    pub fn new(cells: Vec<Cell>) -> Self {
        Self { cells: cells.into_iter(), column: 0 }
    }

    /// The integer in a column that is still to be read.
    #[must_use]
    pub fn peek_int(&self, column: usize) -> Option<i64> {
        match self.cells.as_slice().get(column) {
            Some(Cell::Int(number)) => Some(*number),
            _ => None,
        }
    }

    /// The job in a column that is still to be read.
    #[must_use]
    pub fn peek_job(&self, column: usize) -> Option<JobId> {
        match self.cells.as_slice().get(column) {
            Some(Cell::Id(id)) => Some(JobId::from_uuid(*id)),
            _ => None,
        }
    }

    fn next(&mut self) -> Result<Cell, SqlFailure> {
        self.column += 1;
        self.cells
            .next()
            .ok_or_else(|| SqlFailure::Unreadable(format!("a row has no column {}", self.column)))
    }

    fn odd<T>(&self, wanted: &str, cell: &Cell) -> Result<T, SqlFailure> {
        Err(SqlFailure::Unreadable(format!("column {} does not hold {wanted}: {cell:?}", self.column)))
    }

    /// Passes over columns.
    pub fn skip(&mut self, columns: usize) {
        self.column += columns;
        (0..columns).for_each(|_| drop(self.cells.next()));
    }

    /// An integer, or NULL.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`], as for all of these.
    pub fn maybe_int(&mut self) -> Result<Option<i64>, SqlFailure> {
        match self.next()? {
            Cell::Null => Ok(None),
            Cell::Int(number) => Ok(Some(number)),
            other => self.odd("integer", &other),
        }
    }

    /// An integer.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`].
    pub fn int(&mut self) -> Result<i64, SqlFailure> {
        match self.maybe_int()? {
            Some(number) => Ok(number),
            None => self.odd("integer", &Cell::Null),
        }
    }

    /// A count that fits what it counts.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`].
    pub fn number<T: TryFrom<i64>>(&mut self) -> Result<T, SqlFailure> {
        match self.maybe_number()? {
            Some(number) => Ok(number),
            None => self.odd("integer", &Cell::Null),
        }
    }

    /// A count that fits what it counts, or NULL.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`].
    pub fn maybe_number<T: TryFrom<i64>>(&mut self) -> Result<Option<T>, SqlFailure> {
        let Some(number) = self.maybe_int()? else { return Ok(None) };
        let fits = T::try_from(number);
        fits.map(Some).map_err(|_| SqlFailure::Unreadable(format!("column {}: {number}", self.column)))
    }

    /// What was counted of a job, or NULL; a count that cannot be is read as the nearest that can, so that a damaged
    /// row stops nobody else (C7).
    pub(crate) fn maybe_run_count(&mut self) -> Result<Option<u32>, SqlFailure> {
        Ok(self.maybe_int()?.map(|stored| u32::try_from(stored.max(0)).unwrap_or(u32::MAX)))
    }

    /// What was counted of a job; NULL where nothing was.
    pub(crate) fn run_count(&mut self) -> Result<u32, SqlFailure> {
        self.maybe_run_count().map(Option::unwrap_or_default)
    }

    /// A sum over jobs or rows; one below zero is read as zero.
    pub(crate) fn total(&mut self) -> Result<u64, SqlFailure> {
        Ok(u64::try_from(self.int()?).unwrap_or_default())
    }

    /// A moment.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`].
    pub fn moment(&mut self) -> Result<Timestamp, SqlFailure> {
        self.int().map(Timestamp::from_micros)
    }

    /// A moment, or NULL.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`].
    pub fn maybe_moment(&mut self) -> Result<Option<Timestamp>, SqlFailure> {
        Ok(self.maybe_int()?.map(Timestamp::from_micros))
    }

    /// A truth.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`].
    pub fn bool(&mut self) -> Result<bool, SqlFailure> {
        match self.next()? {
            Cell::Bool(truth) => Ok(truth),
            Cell::Int(number) => Ok(number != 0),
            other => self.odd("boolean", &other),
        }
    }

    /// Text, or NULL.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`].
    pub fn maybe_text(&mut self) -> Result<Option<String>, SqlFailure> {
        let text = self.next()?.into_text();
        text.map_err(|problem| SqlFailure::Unreadable(format!("column {}: {problem}", self.column)))
    }

    /// Text of a job, or NULL; what is no text is noted, so that the row stops nobody else (C7).
    pub(crate) fn noted_text(
        &mut self,
        name: &str,
        damage: &mut Damage,
    ) -> Result<Option<String>, SqlFailure> {
        Ok(self.next()?.into_text().unwrap_or_else(|problem| {
            damage.note(name, &problem);
            None
        }))
    }

    /// Text that a job can do without; none where it is no text.
    pub(crate) fn text_if_any(&mut self) -> Result<Option<String>, SqlFailure> {
        Ok(self.next()?.into_text().unwrap_or_default())
    }

    /// Text.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`].
    pub fn text(&mut self) -> Result<String, SqlFailure> {
        match self.maybe_text()? {
            Some(text) => Ok(text),
            None => self.odd("text", &Cell::Null),
        }
    }

    /// Bytes.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`].
    pub fn bytes(&mut self) -> Result<Vec<u8>, SqlFailure> {
        match self.next()? {
            Cell::Bytes(bytes) => Ok(bytes),
            other => self.odd("bytes", &other),
        }
    }

    fn maybe_id(&mut self) -> Result<Option<Uuid>, SqlFailure> {
        match self.next()? {
            Cell::Null => Ok(None),
            Cell::Id(id) => Ok(Some(id)),
            Cell::Bytes(bytes) => match Uuid::from_slice(&bytes) {
                Ok(id) => Ok(Some(id)),
                Err(_) => self.odd("id", &Cell::Bytes(bytes)),
            },
            other => self.odd("id", &other),
        }
    }

    /// A job, or NULL.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`].
    pub fn maybe_job(&mut self) -> Result<Option<JobId>, SqlFailure> {
        Ok(self.maybe_id()?.map(JobId::from_uuid))
    }

    /// A job.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`].
    pub fn job(&mut self) -> Result<JobId, SqlFailure> {
        match self.maybe_job()? {
            Some(id) => Ok(id),
            None => self.odd("id", &Cell::Null),
        }
    }

    /// A worker, or NULL.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`].
    pub fn maybe_worker(&mut self) -> Result<Option<WorkerId>, SqlFailure> {
        Ok(self.maybe_id()?.map(WorkerId::from_uuid))
    }

    /// A worker.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`].
    pub fn worker(&mut self) -> Result<WorkerId, SqlFailure> {
        match self.maybe_worker()? {
            Some(id) => Ok(id),
            None => self.odd("id", &Cell::Null),
        }
    }

    /// Text that holds JSON, or NULL.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`].
    pub fn maybe_json<T: DeserializeOwned>(&mut self) -> Result<Option<T>, SqlFailure> {
        let Some(text) = self.maybe_text()? else { return Ok(None) };
        Ok(Some(serde_json::from_str(&text)?))
    }

    /// Several columns that came as one, or NULL.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`].
    pub fn maybe_several(&mut self) -> Result<Option<Self>, SqlFailure> {
        match self.next()? {
            Cell::Null => Ok(None),
            Cell::Several(cells) => Ok(Some(Self::new(cells))),
            other => self.odd("row", &other),
        }
    }

    /// A value of one of the core's enums, by its name.
    ///
    /// # Errors
    /// [`SqlFailure::Unreadable`].
    pub fn word<T: FromStr<Err: Display>>(&mut self) -> Result<T, SqlFailure> {
        self.text()?.parse().map_err(|unknown: T::Err| SqlFailure::Unreadable(unknown.to_string()))
    }
}

/// The moment that a statement answered.
///
/// # Errors
/// [`SqlFailure::Unreadable`] when it answered none.
pub fn moment_of(rows: Vec<Row>) -> Result<Timestamp, SqlFailure> {
    rows.into_iter().next().ok_or_else(no_moment)?.moment()
}

/// What it means that a statement did not tell the moment.
#[must_use]
pub fn no_moment() -> SqlFailure {
    SqlFailure::Unreadable("the clock gave no answer".to_owned())
}

/// What the only row of an answer tells; none when there is no row.
///
/// # Errors
/// Those of `read`.
pub fn first<T>(
    rows: Vec<Row>,
    read: impl FnOnce(&mut Row) -> Result<T, SqlFailure>,
) -> Result<Option<T>, SqlFailure> {
    rows.into_iter().next().map(|mut row| read(&mut row)).transpose()
}

/// The jobs in the first column.
pub(crate) fn jobs<C: FromIterator<JobId>>(rows: Vec<Row>) -> Result<C, SqlFailure> {
    rows.into_iter().map(|mut row| row.job()).collect()
}

#[cfg(test)]
mod tests {
    use backstop_core::job::Spec;

    use super::*;

    #[test]
    fn a_row_is_read_from_the_left_whatever_types_its_server_has() {
        let id = JobId::from_u128(7);
        let typed = [Cell::Bool(true), Cell::Text("a\0b".to_owned()), Cell::Id(id.as_uuid())];
        let plain = [Cell::Int(1), Cell::Bytes(b"a\0b".to_vec()), Cell::Bytes(id.as_bytes().to_vec())];
        for [truth, text, job] in [typed, plain] {
            let mut row = Row::new(vec![truth, Cell::Null, text, job]);
            assert!(row.bool().expect("a truth"));
            assert_eq!(row.maybe_int().expect("none"), None);
            assert_eq!(row.text().expect("text"), "a\0b");
            assert_eq!(row.job().expect("an id"), id);
            assert!(row.int().is_err(), "there is no fifth column");
        }
    }

    #[test]
    fn what_we_cannot_have_written_is_refused() {
        let row = || Row::new(vec![Cell::Bytes(vec![0xff]), Cell::Int(-1)]);
        assert!(row().text().is_err() && row().job().is_err() && row().int().is_err());
        let mut row = row();
        row.skip(1);
        assert!(row.number::<u32>().is_err());
    }

    #[test]
    fn what_is_damaged_in_a_job_is_read_as_well_as_it_can_be() {
        // C7
        let bad = || Cell::Bytes(vec![0xff]);
        let counts = [-1, i64::from(u32::MAX) + 1, 7].map(Cell::Int);
        let mut row = Row::new([vec![Cell::Null, bad(), bad()], counts.to_vec(), vec![Cell::Null]].concat());
        let mut damage = Damage::default();
        assert_eq!(row.noted_text("params", &mut damage).expect("it is NULL"), None);
        assert_eq!(row.noted_text("payload", &mut damage).expect("it is noted"), None);
        assert_eq!(row.text_if_any().expect("it is left out"), None);
        let counted = [(); 4].map(|()| row.run_count().expect("a count"));
        assert_eq!(counted, [0, u32::MAX, 7, 0]);
        assert_eq!(Row::new(vec![Cell::Int(-3)]).total().expect("a sum"), 0);
        assert!(row.run_count().is_err() && row.text_if_any().is_err(), "there is no other column");
        let mut spec = Spec::new(JobId::from_u128(1), "work", "{}");
        damage.mark(&mut spec);
        let noted = spec.damage().expect("noted");
        assert_eq!(noted, "its stored `payload` cannot be read: it is not valid UTF-8");
    }
}
