//! Rows on their way into a table: only what they hold is sent.
//!
//! Most columns of most batches are empty, or hold the same in every row: a plain job has no keys, tags or callbacks,
//! and the runs of one claim share their fence, worker and end. A column without a value is not mentioned, and one with
//! the same value in all rows is sent once.

use std::fmt::Write as _;

use backstop_sql::columns::{Column, Columns};
use backstop_sql::encode::{self, Table};
use backstop_sql::{Query, Value};

/// Rows on their way into a table, and what follows them.
#[derive(Debug)]
pub(crate) struct Insert {
    table: &'static Table,
    end: &'static str,
}

pub(crate) const JOBS: Insert = Insert { table: &encode::JOB, end: "" };
pub(crate) const READY: Insert = Insert { table: &encode::READY, end: "" };
pub(crate) const RECORDS: Insert = Insert {
    table: &encode::RECORD,
    // A column that is not mentioned is NULL in `excluded`, as it should be in the row.
    end: " ON CONFLICT (id) DO UPDATE SET status = excluded.status, run_at = excluded.run_at, \
         expires_at = excluded.expires_at, attempt = excluded.attempt, crashes = excluded.crashes, \
         deferrals = excluded.deferrals, runs = excluded.runs, redrives = excluded.redrives, fence = excluded.fence, \
         last_failed_run = excluded.last_failed_run, progress = excluded.progress, \
         paused_from = excluded.paused_from, finished_at = excluded.finished_at, reason = excluded.reason, \
         cancel_reason = excluded.cancel_reason, superseded_by = excluded.superseded_by, marks = excluded.marks",
};
pub(crate) const DONE: Insert = Insert { table: &encode::DONE, end: "" };
pub(crate) const ATTEMPTS: Insert = Insert { table: &encode::ATTEMPT, end: "" };
pub(crate) const TALLY: Insert = Insert { table: &encode::TALLY, end: "" };

impl Insert {
    /// The statement for these rows.
    pub(crate) fn query(&self, rows: Columns) -> Query {
        let (mut names, mut picked, mut arrays) = (String::new(), String::new(), String::new());
        let (mut params, mut aliases) = (Vec::new(), String::new());
        let Self { table: Table { name: table, .. }, end } = self;
        let columns = rows.into_columns();
        debug_assert_eq!(columns.len(), self.table.names().count(), "one value for each column of {table}");
        for (name, column) in self.table.names().zip(columns) {
            if column.is_empty() {
                continue;
            }
            let comma = if names.is_empty() { "" } else { ", " };
            let _ = write!(names, "{comma}{name}");
            let number = params.len() + 1;
            match column {
                Column::Same(value, _) => {
                    let _ = write!(picked, "{comma}${number}::{}", type_name(&value));
                    params.push(value);
                }
                Column::Each(values) => {
                    let comma_here = if arrays.is_empty() { "" } else { ", " };
                    let _ = write!(picked, "{comma}u.{name}");
                    let _ = write!(arrays, "{comma_here}${number}::{}", type_name(&values));
                    let _ = write!(aliases, "{comma_here}{name}");
                    params.push(values);
                }
            }
        }
        let from =
            if arrays.is_empty() { String::new() } else { format!(" FROM unnest({arrays}) u({aliases})") };
        Query::new(format!("INSERT INTO backstop.{table} ({names}) SELECT {picked}{from}{end}"), params)
    }
}

const fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Int(_) => "bigint",
        Value::Bool(_) => "boolean",
        Value::Text(_) => "text",
        Value::Bytes(_) => "bytea",
        Value::Id(_) => "uuid",
        Value::Ints(_) => "bigint[]",
        Value::Bools(_) => "boolean[]",
        Value::Texts(_) => "text[]",
        Value::Blobs(_) => "bytea[]",
        Value::Ids(_) => "uuid[]",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THINGS: Insert =
        Insert { table: &Table { name: "things", columns: "id, note, size" }, end: " END" };

    fn query(rows: &[(i64, Option<&str>, i64)]) -> (String, Vec<Value>) {
        let mut columns = Columns::default();
        for (id, note, size) in rows {
            columns.row().int(*id).maybe_text(*note).int(*size);
        }
        let query = THINGS.query(columns);
        (query.sql.into_owned(), query.params)
    }

    #[test]
    fn only_what_differs_is_sent_for_each_row() {
        let ints = |numbers: &[i64]| Value::Ints(numbers.iter().copied().map(Some).collect());
        let (text, params) = query(&[(1, None, 5), (2, None, 5), (3, None, 5)]);
        let expected = "INSERT INTO backstop.things (id, size) SELECT u.id, $2::bigint \
             FROM unnest($1::bigint[]) u(id) END";
        assert_eq!((text.as_str(), params), (expected, vec![ints(&[1, 2, 3]), Value::Int(Some(5))]));

        let (text, params) = query(&[(1, None, 5), (2, Some("x"), 5), (3, None, 6)]);
        let expected = "INSERT INTO backstop.things (id, note, size) SELECT u.id, u.note, u.size \
             FROM unnest($1::bigint[], $2::text[], $3::bigint[]) u(id, note, size) END";
        let notes = Value::Texts(vec![None, Some("x".to_owned()), None]);
        assert_eq!((text.as_str(), params), (expected, vec![ints(&[1, 2, 3]), notes, ints(&[5, 5, 6])]));
    }

    #[test]
    fn one_row_needs_no_array_and_equal_rows_stay_as_many_as_they_are() {
        let (text, params) = query(&[(1, Some("x"), 5)]);
        let expected =
            "INSERT INTO backstop.things (id, note, size) SELECT $1::bigint, $2::text, $3::bigint END";
        assert_eq!((text.as_str(), params.len()), (expected, 3));
        let (text, params) = query(&[(1, None, 5), (1, None, 5)]);
        let expected = "INSERT INTO backstop.things (id, size) SELECT u.id, $2::bigint \
             FROM unnest($1::bigint[]) u(id) END";
        assert_eq!((text.as_str(), &params[0]), (expected, &Value::Ints(vec![Some(1), Some(1)])));
    }
}
