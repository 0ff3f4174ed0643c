//! Rows on their way into a statement, kept as columns: each is sent as one array, or once if all rows agree.
//!
//! Most columns of most rows are empty or hold the same in every row. Such a value is compared with what is there and
//! copied nowhere.

use serde::Serialize;
use uuid::Uuid;

use crate::error::Failure;
use crate::values::{Value, escape};

/// Columns of rows, filled row by row.
#[derive(Debug, Default)]
pub(crate) struct Columns(Vec<Column>);

/// One column of several rows.
#[derive(Debug)]
pub(crate) enum Column {
    /// So many rows, all with this value.
    Same(Value, usize),
    /// An array with the value of each row.
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

    /// Makes an array of it.
    fn spread(&mut self) {
        if let Self::Same(first, count) = self {
            let mut values = empty_array(first);
            (0..*count).for_each(|_| append(&mut values, first.clone()));
            *self = Self::Each(values);
        }
    }

    /// True when no row has a value.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Same(Value::Int(None) | Value::Text(None) | Value::Id(None), _))
    }
}

impl Columns {
    /// Begins a row: its values follow from the left, as many as in the first one.
    pub(crate) fn row(&mut self) -> Cells<'_> {
        Cells { columns: &mut self.0, at: 0 }
    }

    /// Adds a row: one value for each column, in order.
    pub(crate) fn push(&mut self, row: &[Value]) {
        let mut cells = self.row();
        for value in row {
            cells.add(|first| first == value, || value.clone());
        }
    }

    /// How many columns there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The columns. If there are several rows, one of them at least is an array: it says how many.
    pub(crate) fn into_columns(mut self) -> Vec<Column> {
        let alike = self.0.iter().all(|column| matches!(column, Column::Same(_, count) if *count > 1));
        if let Some(first) = self.0.first_mut().filter(|_| alike) {
            first.spread();
        }
        self.0
    }

    /// One array for each column.
    pub(crate) fn into_params(self) -> Vec<Value> {
        let array = |mut column: Column| {
            column.spread();
            match column {
                Column::Same(value, _) | Column::Each(value) => value,
            }
        };
        self.0.into_iter().map(array).collect()
    }
}

/// A row that is being written, from the left.
#[derive(Debug)]
pub(crate) struct Cells<'c> {
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

    /// `bigint`.
    pub(crate) fn maybe_int(&mut self, number: Option<i64>) -> &mut Self {
        self.add(|first| matches!(first, Value::Int(first) if *first == number), || Value::Int(number))
    }

    /// `bigint`, and never NULL.
    pub(crate) fn int(&mut self, number: impl Into<i64>) -> &mut Self {
        self.maybe_int(Some(number.into()))
    }

    /// `boolean`.
    pub(crate) fn bool(&mut self, truth: bool) -> &mut Self {
        self.add(|first| matches!(first, Value::Bool(first) if *first == truth), || Value::Bool(truth))
    }

    /// `uuid`.
    pub(crate) fn id(&mut self, id: Option<Uuid>) -> &mut Self {
        self.add(|first| matches!(first, Value::Id(first) if *first == id), || Value::Id(id))
    }

    /// `text`.
    pub(crate) fn text(&mut self, text: Option<&str>) -> &mut Self {
        let text = text.map(escape);
        let is_same =
            |first: &Value| matches!(first, Value::Text(first) if first.as_deref() == text.as_deref());
        self.add(is_same, || Value::Text(text.as_ref().map(|text| text.to_string())))
    }

    /// `text` that holds JSON.
    pub(crate) fn json<T: Serialize>(&mut self, value: Option<&T>) -> Result<&mut Self, Failure> {
        let text = value.map(serde_json::to_string).transpose()?;
        Ok(self.text(text.as_deref()))
    }
}

fn empty_array(value: &Value) -> Value {
    match value {
        Value::Int(_) | Value::Ints(_) => Value::Ints(Vec::new()),
        Value::Bool(_) | Value::Bools(_) => Value::Bools(Vec::new()),
        Value::Text(_) | Value::Texts(_) => Value::Texts(Vec::new()),
        Value::Bytes(_) | Value::Blobs(_) => Value::Blobs(Vec::new()),
        Value::Id(_) | Value::Ids(_) => Value::Ids(Vec::new()),
    }
}

fn append(column: &mut Value, value: Value) {
    match (column, value) {
        (Value::Ints(all), Value::Int(one)) => all.push(one),
        (Value::Bools(all), Value::Bool(one)) => all.push(one),
        (Value::Texts(all), Value::Text(one)) => all.push(one),
        (Value::Blobs(all), Value::Bytes(one)) => all.push(one),
        (Value::Ids(all), Value::Id(one)) => all.push(one),
        (column, value) => unreachable!("a column of {column:?} is given {value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_columns() {
        let mut columns = Columns::default();
        columns.push(&[Value::Int(Some(1)), Value::text("a")]);
        columns.push(&[Value::Int(None), Value::Text(None)]);
        let expected = [Value::Ints(vec![Some(1), None]), Value::Texts(vec![Some("a".to_owned()), None])];
        assert_eq!(columns.into_params(), expected);
    }

    #[test]
    fn a_row_that_is_written_is_the_row_that_is_pushed() {
        let id = Uuid::from_u128(7);
        let rows =
            [(Some(1), "a", true, Some(id)), (Some(1), "a\0", true, None), (None, "\u{1a}0", true, Some(id))];
        let (mut written, mut pushed) = (Columns::default(), Columns::default());
        for (number, text, truth, id) in rows {
            written.row().maybe_int(number).text(Some(text)).bool(truth).id(id);
            pushed.push(&[Value::Int(number), Value::text(text), Value::Bool(truth), Value::Id(id)]);
        }
        let (written, pushed) = (written.into_columns(), pushed.into_columns());
        assert_eq!(format!("{written:?}"), format!("{pushed:?}"));
        assert!(matches!(written[2], Column::Same(Value::Bool(true), 3)), "what all rows hold is kept once");
    }
}
