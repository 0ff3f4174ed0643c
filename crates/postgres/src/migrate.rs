//! Bringing the tables to this program's version, by one program at a time.
//!
//! Owns the order of transactions, and who may go on when. What a migration does is the business of `schema`.

use std::time::Duration;

use backstop_sql::open::versions;
use backstop_sql::{Query, Session, SqlFailure, Value};
use backstop_store::{Error, Versions};
use deadpool_postgres::{Object, Pool};
use tokio_postgres::Client;

use crate::backend::no_connection;
use crate::error::of_driver;
use crate::options::Options;
use crate::schema;
use crate::schema::Schema;
use crate::session::DriverSession;
use crate::sql;

/// How often a program that waits for another one to migrate looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Connects for the first time, and brings the tables to this program's version if it may. Answers the version that
/// was found.
pub(crate) async fn prepare(pool: &Pool, location: &str, options: &Options) -> Result<Option<i64>, Error> {
    let failed = |failure: SqlFailure| failure.into_error(location, false);
    let look = async {
        let client = pool.get().await.map_err(no_connection)?;
        let mut session = DriverSession { client: &client, schema: &options.schema };
        let found = version(&mut session, &options.schema).await?;
        Ok::<_, SqlFailure>((client, found))
    };
    let looked = tokio::time::timeout(options.deadline, look).await;
    let (client, found) = looked.unwrap_or(Err(SqlFailure::Slow("opening it"))).map_err(failed)?;
    let version = found.map(|found| found.version);
    if Versions::accept(found, schema::newest(), location, options.migrate)? {
        return Ok(version);
    }
    // Dropped on the way, it takes its transaction with it.
    let client = Object::take(client);
    while let Next::Again = step(&client, pool, &options.schema, location).await? {}
    Ok(version)
}

/// What is left to do.
enum Next {
    /// Nothing.
    Done,
    /// Look again: what was done is committed.
    Again,
    /// A migration that must not be part of a transaction, and the version it leads to.
    Online(i64, &'static [&'static str]),
}

/// Does what fits into one transaction. Throughout it holds the lock that keeps others from migrating.
async fn step(client: &Client, pool: &Pool, names: &Schema, location: &str) -> Result<Next, Error> {
    let failed = |failure: SqlFailure| failure.into_error(location, false);
    begin(client, names).await.map_err(failed)?;
    let mut session = DriverSession { client, schema: names };
    let mut next = apply_missing(&mut session, names, location).await?;
    if let Next::Online(leads_to, statements) = next {
        client.batch_execute(sql::LET_GO).await.map_err(|error| failed(of_driver(error)))?;
        make_online(pool, names, statements).await.map_err(failed)?;
        save(&mut session, leads_to).await.map_err(failed)?;
        next = Next::Again;
    }
    client.batch_execute(sql::COMMIT).await.map_err(|error| failed(of_driver(error)))?;
    Ok(next)
}

/// Begins a transaction in which nobody else migrates.
async fn begin(client: &Client, names: &Schema) -> Result<(), SqlFailure> {
    loop {
        client.batch_execute(sql::BEGIN_MIGRATION).await.map_err(of_driver)?;
        let mut session = DriverSession { client, schema: names };
        let lock = Query::new(schema::MIGRATION_LOCK, vec![Value::text(names.name())]);
        let locked = session.one(lock).await?.into_iter().next().map(|mut row| row.bool()).transpose()?;
        if locked == Some(true) {
            return Ok(());
        }
        client.batch_execute(sql::ROLLBACK).await.map_err(of_driver)?;
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn apply_missing(session: &mut dyn Session, names: &Schema, location: &str) -> Result<Next, Error> {
    let failed = |failure: SqlFailure| failure.into_error(location, false);
    // Another process may have been here since it was looked at.
    let found = version(session, names).await.map_err(failed)?;
    if Versions::accept(found, schema::newest(), location, true)? {
        return Ok(Next::Done);
    }
    if found.is_none() {
        let there = Query::new(schema::SCHEMAS, vec![Value::text(names.name())]);
        if session.one(there).await.map_err(failed)?.is_empty() {
            // The name needs no quotes, see `Schema::named`.
            let make = format!("{}{}", schema::SCHEMA_MAKE, names.name());
            session.one(Query::new(make, Vec::new())).await.map_err(failed)?;
        }
    }
    let mut next = Next::Done;
    for (leads_to, statements) in schema::missing(found.map_or(0, |found| found.version)) {
        // New tables are empty, and nobody else knows them yet.
        if found.is_some() && schema::is_online(statements) {
            // It would wait for ever for what this transaction has changed.
            let first = matches!(next, Next::Done);
            return Ok(if first { Next::Online(leads_to, statements) } else { next });
        }
        for statement in statements {
            session.one(Query::new(*statement, Vec::new())).await.map_err(failed)?;
        }
        save(session, leads_to).await.map_err(failed)?;
        next = Next::Again;
    }
    Ok(next)
}

async fn save(session: &mut dyn Session, version: i64) -> Result<(), SqlFailure> {
    let versions = vec![Value::int(version), Value::int(schema::OLDEST)];
    session.one(Query::new(schema::VERSION_SAVE, versions)).await.map(drop)
}

/// Makes indexes beside everything that is going on, over a connection without a transaction.
async fn make_online(pool: &Pool, names: &Schema, statements: &[&str]) -> Result<(), SqlFailure> {
    let client = Object::take(pool.get().await.map_err(no_connection)?);
    let mut session = DriverSession { client: &client, schema: names };
    for statement in statements {
        let (name, create) = schema::online(statement);
        let asked = Query::new(schema::INDEX_VALID, vec![Value::text(names.name()), Value::text(name)]);
        match session.one(asked).await?.into_iter().next().map(|mut row| row.bool()).transpose()? {
            Some(true) => continue,
            Some(false) => {
                let drop = schema::drop_online(name);
                client.batch_execute(&names.text(&drop)).await.map_err(of_driver)?;
            }
            None => {}
        }
        client.batch_execute(&names.text(&create)).await.map_err(of_driver)?;
    }
    Ok(())
}

async fn version(session: &mut dyn Session, names: &Schema) -> Result<Option<Versions>, SqlFailure> {
    let tables = Query::new(schema::META_TABLES, vec![Value::text(names.name())]);
    versions(session, tables, Query::new(schema::VERSIONS, Vec::new())).await
}
