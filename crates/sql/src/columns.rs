//! Rows on their way into a statement, kept as columns: a column in which all rows agree is kept once.
//!
//! Most columns of most rows are empty or hold the same in every row. Such a value is compared with what is there and
//! copied nowhere.

use backstop_core::{JobId, Timestamp};
use serde::Serialize;
use uuid::Uuid;

use crate::failure::SqlFailure;
use crate::value::Value;

/// Columns of rows, filled row by row.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Columns {
    columns: Vec<Column>,
    rows: usize,
}

/// One column of several rows.
#[derive(Debug, PartialEq, Eq)]
pub enum Column {
    /// So many rows, all with this value.
    Same(Value, usize),
    /// A list with the value of each row.
    Each(Value),
}

impl Column {
    /// Counts one more row if its value is the one of all rows before; false otherwise.
    fn repeats(&mut self, is_same: impl FnOnce(&Value) -> bool) -> bool {
        match self {
            Self::Same(first, count) if is_same(first) => {
                *count += 1;
                true
            }
            _ => false,
        }
    }

    /// Adds the value of a row that does not repeat.
    fn put(&mut self, value: Value) {
        self.spread();
        if let Self::Each(values) = self {
            append(values, value);
        }
    }

    /// Makes a list of it.
    fn spread(&mut self) {
        if let Self::Same(first, count) = self {
            let mut values = empty_list(first);
            (0..*count).for_each(|_| append(&mut values, first.clone()));
            *self = Self::Each(values);
        }
    }

    /// True when no row has a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Same(Value::Int(None) | Value::Text(None) | Value::Id(None), _))
    }

    /// The value of each row, in order.
    pub fn into_values(self) -> Box<dyn Iterator<Item = Value>> {
        match self {
            Self::Same(value, count) => Box::new(std::iter::repeat_n(value, count)),
            Self::Each(Value::Ints(all)) => Box::new(all.into_iter().map(Value::Int)),
            Self::Each(Value::Bools(all)) => Box::new(all.into_iter().map(Value::Bool)),
            Self::Each(Value::Texts(all)) => Box::new(all.into_iter().map(Value::Text)),
            Self::Each(Value::Blobs(all)) => Box::new(all.into_iter().map(Value::Bytes)),
            Self::Each(Value::Ids(all)) => Box::new(all.into_iter().map(Value::Id)),
            Self::Each(one) => Box::new(std::iter::once(one)),
        }
    }
}

impl Columns {
    /// One column: a list with the value of each row.
    #[must_use]
    pub fn of(list: Value) -> Self {
        let rows = match &list {
            Value::Ints(all) => all.len(),
            Value::Bools(all) => all.len(),
            Value::Texts(all) => all.len(),
            Value::Blobs(all) => all.len(),
            Value::Ids(all) => all.len(),
            _ => 1,
        };
        Self { columns: vec![Column::Each(list)], rows }
    }

    /// Begins a row: its values follow from the left, as many as in the first one.
    pub fn row(&mut self) -> Cells<'_> {
        self.rows += 1;
        Cells { columns: &mut self.columns, at: 0 }
    }

    /// How many rows there are.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// The columns. If there are several rows, one of them at least is a list: it says how many.
    #[must_use]
    pub fn into_columns(mut self) -> Vec<Column> {
        let alike = self.columns.iter().all(|column| matches!(column, Column::Same(_, count) if *count > 1));
        if let Some(first) = self.columns.first_mut().filter(|_| alike) {
            first.spread();
        }
        self.columns
    }

    /// One list for each column.
    #[must_use]
    pub fn into_params(self) -> Vec<Value> {
        let list = |mut column: Column| {
            column.spread();
            match column {
                Column::Same(value, _) | Column::Each(value) => value,
            }
        };
        self.columns.into_iter().map(list).collect()
    }
}

/// A row that is being written, from the left.
#[derive(Debug)]
pub struct Cells<'c> {
    columns: &'c mut Vec<Column>,
    at: usize,
}

impl Cells<'_> {
    /// Adds a value, which is only made when `is_same` denies that it is the one of all rows before.
    fn add(&mut self, is_same: impl FnOnce(&Value) -> bool, value: impl FnOnce() -> Value) -> &mut Self {
        match self.columns.get_mut(self.at) {
            None => self.columns.push(Column::Same(value(), 1)),
            Some(column) => {
                if !column.repeats(is_same) {
                    column.put(value());
                }
            }
        }
        self.at += 1;
        self
    }

    /// A number, or NULL.
    pub fn maybe_int(&mut self, number: Option<i64>) -> &mut Self {
        self.add(|first| matches!(first, Value::Int(first) if *first == number), || Value::Int(number))
    }

    /// A number.
    pub fn int(&mut self, number: impl Into<i64>) -> &mut Self {
        self.maybe_int(Some(number.into()))
    }

    /// A moment.
    pub fn at(&mut self, moment: Timestamp) -> &mut Self {
        self.int(moment.as_micros())
    }

    /// A moment, or NULL.
    pub fn maybe_at(&mut self, moment: Option<Timestamp>) -> &mut Self {
        self.maybe_int(moment.map(Timestamp::as_micros))
    }

    /// A truth.
    pub fn bool(&mut self, truth: bool) -> &mut Self {
        self.add(|first| matches!(first, Value::Bool(first) if *first == truth), || Value::Bool(truth))
    }

    /// An id, or NULL.
    pub fn id(&mut self, id: Option<Uuid>) -> &mut Self {
        self.add(|first| matches!(first, Value::Id(first) if *first == id), || Value::Id(id))
    }

    /// A job.
    pub fn job(&mut self, job: JobId) -> &mut Self {
        self.id(Some(job.as_uuid()))
    }

    /// Text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.maybe_text(Some(text))
    }

    /// Text, or NULL.
    pub fn maybe_text(&mut self, text: Option<&str>) -> &mut Self {
        let is_same = |first: &Value| matches!(first, Value::Text(first) if first.as_deref() == text);
        self.add(is_same, || Value::Text(text.map(ToOwned::to_owned)))
    }

    /// Text that holds JSON, or NULL.
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub fn json<T: Serialize>(&mut self, value: Option<&T>) -> Result<&mut Self, SqlFailure> {
        let text = value.map(serde_json::to_string).transpose()?;
        Ok(self.maybe_text(text.as_deref()))
    }

    /// Bytes.
    pub fn bytes(&mut self, bytes: Vec<u8>) -> &mut Self {
        let value = Value::Bytes(bytes);
        self.add(|first| *first == value, || value.clone())
    }
}

fn empty_list(value: &Value) -> Value {
    match value {
        Value::Int(_) | Value::Ints(_) => Value::Ints(Vec::new()),
        Value::Bool(_) | Value::Bools(_) => Value::Bools(Vec::new()),
        Value::Text(_) | Value::Texts(_) => Value::Texts(Vec::new()),
        Value::Bytes(_) | Value::Blobs(_) => Value::Blobs(Vec::new()),
        Value::Id(_) | Value::Ids(_) => Value::Ids(Vec::new()),
    }
}

fn append(list: &mut Value, value: Value) {
    match (list, value) {
        (Value::Ints(all), Value::Int(one)) => all.push(one),
        (Value::Bools(all), Value::Bool(one)) => all.push(one),
        (Value::Texts(all), Value::Text(one)) => all.push(one),
        (Value::Blobs(all), Value::Bytes(one)) => all.push(one),
        (Value::Ids(all), Value::Id(one)) => all.push(one),
        (list, value) => unreachable!("a list of {list:?} is given {value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn things(rows: &[(Option<i64>, Option<&str>, bool)]) -> Columns {
        let mut columns = Columns::default();
        for (number, text, truth) in rows {
            columns.row().maybe_int(*number).maybe_text(*text).bool(*truth);
        }
        columns
    }

    #[test]
    fn rows_become_columns_and_rows_again() {
        let rows = [(Some(1), Some("a"), true), (None, None, true), (Some(1), Some("a"), true)];
        assert_eq!(things(&rows).rows(), 3);
        let lists = things(&rows).into_params();
        let text = || Some("a".to_owned());
        assert_eq!(lists[0], Value::Ints(vec![Some(1), None, Some(1)]));
        assert_eq!(lists[1], Value::Texts(vec![text(), None, text()]));
        assert_eq!(lists[2], Value::Bools(vec![true; 3]));
        let columns = things(&rows).into_columns();
        assert_eq!(columns[2], Column::Same(Value::Bool(true), 3), "what all rows hold is kept once");
        let mut values = columns.into_iter().map(Column::into_values).collect::<Vec<_>>();
        let mut row = || values.iter_mut().filter_map(Iterator::next).collect::<Vec<Value>>();
        assert_eq!(row(), [Value::int(1), Value::text("a"), Value::Bool(true)]);
        assert_eq!(row(), [Value::Int(None), Value::Text(None), Value::Bool(true)]);
        assert_eq!(row().len(), 3);
        assert_eq!(row(), []);
    }

    #[test]
    fn equal_rows_stay_as_many_as_they_are() {
        let columns = things(&[(None, None, true), (None, None, true)]).into_columns();
        assert_eq!(columns[0], Column::Each(Value::Ints(vec![None, None])));
        assert!(columns[1].is_empty() && !columns[2].is_empty());
        assert_eq!(Columns::of(Value::ints([4, 5])).rows(), 2);
    }
}
