//! Every row of every table of a store as bytes, read by the database's own driver.
//!
//! Left out is what a job was given and what it gave back: both are kept as they are, for the handler needs them.

use backstop::mysql::mysql_async::prelude::Queryable;
use backstop::mysql::mysql_async::{Conn, Opts, Row, Value};
use backstop::postgres::tokio_postgres::{NoTls, SimpleQueryMessage, connect};
use backstop::sqlite::rusqlite::Connection;
use backstop::sqlite::rusqlite::types::ValueRef;
use backstop_testbed::shared;

use crate::location::{StoreKind, StoreLocation};

/// Columns that hold what a job was given and gave back.
const DATA: [&str; 2] = ["payload", "result"];

/// What was read.
#[derive(Debug, Default)]
pub struct StoreDump {
    /// Every value, one line each.
    pub bytes: Vec<u8>,
    /// How many tables there are.
    pub tables: usize,
    /// How many rows they have.
    pub rows: usize,
}

impl StoreDump {
    fn value(&mut self, column: &str, value: &[u8]) {
        if !DATA.contains(&column) {
            self.bytes.extend_from_slice(value);
            self.bytes.push(b'\n');
        }
    }
}

/// Reads all tables of the store.
///
/// # Panics
/// When they cannot be read.
pub async fn tables(location: &StoreLocation) -> StoreDump {
    match location.kind() {
        StoreKind::Sqlite => sqlite(location),
        StoreKind::Postgres => postgres(location.place("schema")).await,
        StoreKind::Mariadb => mariadb(location.place("prefix")).await,
    }
}

fn sqlite(location: &StoreLocation) -> StoreDump {
    let conn = Connection::open(location.folder().join("jobs.db")).expect("the file opens");
    let mut listed = conn.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").expect("a schema");
    let names = listed.query_map([], |row| row.get(0)).expect("tables");
    let names: Vec<String> = names.collect::<Result<_, _>>().expect("names");
    let mut dump = StoreDump { tables: names.len(), ..StoreDump::default() };
    for table in names {
        let mut read = conn.prepare(&format!("SELECT * FROM \"{table}\"")).expect("a table");
        let columns: Vec<String> = read.column_names().into_iter().map(str::to_owned).collect();
        let mut rows = read.query([]).expect("readable");
        while let Some(row) = rows.next().expect("readable") {
            dump.rows += 1;
            for (index, column) in columns.iter().enumerate() {
                match row.get_ref(index).expect("a value") {
                    ValueRef::Text(value) | ValueRef::Blob(value) => dump.value(column, value),
                    ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => {}
                }
            }
        }
    }
    dump
}

async fn postgres(schema: &str) -> StoreDump {
    let (client, connection) = connect(shared::postgres(), NoTls).await.expect("the server is there");
    let driver = tokio::spawn(connection);
    let columns = format!(
        "SELECT table_name, column_name, data_type FROM information_schema.columns \
         WHERE table_schema = '{schema}' ORDER BY table_name, ordinal_position"
    );
    let mut tables: Vec<(String, Vec<String>)> = Vec::new();
    for message in client.simple_query(&columns).await.expect("a catalogue") {
        let SimpleQueryMessage::Row(row) = message else { continue };
        let field = |index| row.get(index).unwrap_or_default();
        // Bytes would be printed as digits, in which no text can be found.
        let column = match field(2) {
            "bytea" => format!("encode(\"{0}\", 'escape') AS \"{0}\"", field(1)),
            _ => format!("\"{}\"", field(1)),
        };
        match tables.last_mut() {
            Some((table, columns)) if table == field(0) => columns.push(column),
            _ => tables.push((field(0).to_owned(), vec![column])),
        }
    }
    let mut dump = StoreDump { tables: tables.len(), ..StoreDump::default() };
    for (table, columns) in tables {
        let read = format!("SELECT {} FROM \"{schema}\".\"{table}\"", columns.join(", "));
        for message in client.simple_query(&read).await.expect("readable") {
            let SimpleQueryMessage::Row(row) = message else { continue };
            dump.rows += 1;
            for (index, column) in row.columns().iter().enumerate() {
                dump.value(column.name(), row.get(index).unwrap_or_default().as_bytes());
            }
        }
    }
    drop(client);
    let _ = driver.await;
    dump
}

async fn mariadb(prefix: &str) -> StoreDump {
    let options = Opts::from_url(shared::mariadb()).expect("a good address");
    let mut conn = Conn::new(options).await.expect("the server is there");
    let tables = format!(
        "SELECT table_name FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND LEFT(table_name, {}) = '{prefix}'",
        prefix.len()
    );
    let tables: Vec<String> = conn.query(tables).await.expect("a catalogue");
    let mut dump = StoreDump { tables: tables.len(), ..StoreDump::default() };
    for table in tables {
        let rows: Vec<Row> = conn.query(format!("SELECT * FROM `{table}`")).await.expect("readable");
        for row in rows {
            dump.rows += 1;
            for (index, column) in row.columns_ref().iter().enumerate() {
                if let Some(Value::Bytes(value)) = row.as_ref(index) {
                    dump.value(&column.name_str(), value);
                }
            }
        }
    }
    conn.disconnect().await.expect("the connection ends");
    dump
}
