//! How statements are said to MariaDB and MySQL: values stand in the text, so a batch of rows is a text of its own.

use backstop_sql::columns::{Column, Columns};
use backstop_sql::encode::Table;
use backstop_sql::statement::Params;
use backstop_sql::{Query, Value};

/// How a statement is said.
#[derive(Debug)]
pub(crate) enum StatementShape {
    /// Once: a list, or a column of rows, takes the place of its mark.
    Once(&'static str),
    /// Once for each row.
    Each(&'static str),
    /// As rarely as its rows allow.
    Rows(Bulk),
    /// The same for new rows of a table, without the columns that all of them leave empty, and what follows them.
    Insert(&'static Table, &'static str),
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

/// The queries for a statement that is said in these shapes. Rows are for one shape.
pub(crate) fn queries(shapes: &[StatementShape], params: Params) -> Vec<Query> {
    let rows = match params {
        Params::Values(values) => {
            let text = |shape: &StatementShape| match shape {
                StatementShape::Once(text) | StatementShape::Each(text) => {
                    Some(Query::new(*text, values.clone()))
                }
                StatementShape::Rows(_) | StatementShape::Insert(..) => None,
            };
            return shapes.iter().filter_map(text).collect();
        }
        Params::Rows(rows) => rows,
    };
    match shapes {
        [StatementShape::Once(text)] => vec![Query::new(*text, rows.into_params())],
        [StatementShape::Each(text)] => {
            each_row(rows.into_columns()).map(|row| Query::new(*text, row)).collect()
        }
        [StatementShape::Rows(bulk)] => bulk.queries(rows),
        [StatementShape::Insert(table, end)] => insert(table, end, rows),
        _ => Vec::new(),
    }
}

/// Rows out of their columns.
fn each_row(columns: Vec<Column>) -> impl Iterator<Item = Vec<Value>> {
    let mut columns: Vec<_> = columns.into_iter().map(Column::into_values).collect();
    std::iter::from_fn(move || columns.iter_mut().map(Iterator::next).collect::<Option<Vec<Value>>>())
}

/// New rows of a table: only the columns that one of them has a value in.
fn insert(table: &Table, end: &'static str, rows: Columns) -> Vec<Query> {
    let columns = table.names().zip(rows.into_columns()).filter(|(_, column)| !column.is_empty());
    let (names, columns): (Vec<&str>, Vec<Column>) = columns.unzip();
    let head = format!("{}{} ({}) VALUES ", crate::sql::INSERT_INTO, table.name, names.join(", "));
    let row = format!("({})", vec!["?"; names.len()].join(","));
    pack(each_row(columns), [&head, &row, ",", end])
}

impl Bulk {
    fn queries(&self, rows: Columns) -> Vec<Query> {
        // A number behind a mark names the column of the row; without numbers they follow each other.
        let numbered = self.row.split('?').skip(1).map(|rest| rest.get(..1)?.parse::<usize>().ok());
        let picks: Option<Vec<usize>> = numbered.collect();
        let Some(picks) = picks else {
            return pack(each_row(rows.into_columns()), [self.head, self.row, self.between, self.tail]);
        };
        let row: String = self.row.chars().filter(|c| !c.is_ascii_digit()).collect();
        let picked = |row: Vec<Value>| picks.iter().filter_map(|pick| row.get(pick - 1).cloned()).collect();
        pack(each_row(rows.into_columns()).map(picked), [self.head, &row, self.between, self.tail])
    }
}

/// The statements for rows, none when there are none.
fn pack(rows: impl Iterator<Item = Vec<Value>>, [head, each, between, tail]: [&str; 4]) -> Vec<Query> {
    let mut out = Vec::new();
    let (mut text, mut params, mut count, mut size) = (String::new(), Vec::new(), 0, 0);
    for row in rows {
        let row_size: usize = row.iter().map(length).sum();
        if count == MOST_ROWS || (count > 0 && size + row_size > LONG_STATEMENT) {
            out.push(Query::new(std::mem::take(&mut text) + tail, std::mem::take(&mut params)));
            (count, size) = (0, 0);
        }
        text.push_str(if count == 0 { head } else { between });
        text.push_str(each);
        params.extend(row);
        count += 1;
        size += row_size;
    }
    if count > 0 {
        out.push(Query::new(text + tail, params));
    }
    out
}

/// About the number of characters that a value takes in the text of a statement.
pub(crate) fn length(value: &Value) -> usize {
    match value {
        Value::Int(_) | Value::Bool(_) | Value::Text(None) | Value::Id(None) => 20,
        Value::Text(Some(text)) => text.len() * 2 + 4,
        Value::Bytes(bytes) => bytes.len() * 2 + 4,
        Value::Id(Some(_)) => 36,
        Value::Ints(all) => all.len() * 20,
        Value::Bools(all) => all.len() * 2,
        Value::Texts(all) => all.iter().flatten().map(|text| text.len() * 2 + 5).sum(),
        Value::Blobs(all) => all.iter().map(|bytes| bytes.len() * 2 + 5).sum(),
        Value::Ids(all) => all.len() * 37,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BULK: Bulk = Bulk { head: "INSERT INTO t VALUES ", row: "(?)", between: ",", tail: " END" };

    #[test]
    fn many_rows_are_cut_into_statements() {
        let rows = |count| Columns::of(Value::ints(0..count));
        assert!(BULK.queries(rows(0)).is_empty());
        let out = BULK.queries(rows(1_001));
        let sizes: Vec<usize> = out.iter().map(|query| query.params.len()).collect();
        assert_eq!(sizes, [500, 500, 1]);
        assert_eq!(out[2].sql, "INSERT INTO t VALUES (?) END");
        let large = Columns::of(Value::Blobs(vec![vec![0; 100_000]; 20]));
        assert_eq!(BULK.queries(large).len(), 20, "a row that is long has a statement to itself");
    }

    #[test]
    fn a_row_may_be_written_in_part() {
        let mut rows = Columns::default();
        rows.row().text("key").int(7).int(1);
        rows.row().text("other").int(8).int(1);
        let out = Bulk { row: "(?2,?3)", ..BULK }.queries(rows);
        assert_eq!(out[0].sql, "INSERT INTO t VALUES (?,?),(?,?) END");
        assert_eq!(out[0].params, [7, 1, 8, 1].map(Value::int));
    }

    #[test]
    fn what_no_row_holds_is_not_mentioned() {
        // E9
        let table = Table { name: "things", columns: "id, note, size" };
        let things = |note: Option<&str>| {
            let mut rows = Columns::default();
            rows.row().int(1).maybe_text(None).int(5);
            rows.row().int(2).maybe_text(note).int(5);
            insert(&table, "", rows)
        };
        assert_eq!(things(None)[0].sql, "INSERT INTO backstop_things (id, size) VALUES (?,?),(?,?)");
        assert_eq!(
            things(Some("x"))[0].sql,
            "INSERT INTO backstop_things (id, note, size) VALUES (?,?,?),(?,?,?)"
        );
    }
}
