//! A job in the caller's own transaction. Run it with: cargo run -p backstop-examples --example transaction
//!
//! The account and the mail that welcomes it are written together: commit makes both, rollback leaves neither. There
//! is no moment in which one exists without the other, so nothing has to be made up for later.

use backstop::prelude::*;
use backstop::query::{JobFilter, PageRequest};
use backstop::sqlite::rusqlite::{Connection, Transaction, TransactionBehavior};
use backstop_examples::Scratch;

#[job]
async fn welcome(name: String) {
    println!("  mail: welcome, {name}");
}

/// Opens an account, with the job that welcomes its owner.
async fn open_account(engine: &Backstop, tx: &mut Transaction<'_>, name: &str) -> JobResult {
    tx.execute("INSERT INTO account (name) VALUES (?1)", [name])?;
    engine.enqueue(Welcome { name: name.to_owned() }).submit_in(tx).await?;
    Ok(())
}

/// Accounts and jobs that exist.
async fn count(engine: &Backstop, conn: &Connection) -> JobResult<(i64, usize)> {
    let accounts = conn.query_row("SELECT count(*) FROM account", [], |row| row.get(0))?;
    let jobs = engine.jobs(JobFilter::default(), PageRequest::first(100)).await?.items.len();
    println!("  {accounts} account, {jobs} job");
    Ok((accounts, jobs))
}

#[tokio::main]
async fn main() -> JobResult {
    let scratch = Scratch::new("transaction")?;
    let engine = Backstop::open(&scratch.store()).await?;
    // The application's tables live in the same file.
    let mut conn = Connection::open(scratch.path().join("jobs.db"))?;
    conn.execute_batch("CREATE TABLE account (name TEXT PRIMARY KEY)")?;

    println!("ada's account is rolled back:");
    let mut tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    open_account(&engine, &mut tx, "ada").await?;
    tx.rollback()?;
    // L14: rollback leaves no job.
    assert_eq!(count(&engine, &conn).await?, (0, 0));

    println!("bob's account is committed:");
    let mut tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    open_account(&engine, &mut tx, "bob").await?;
    tx.commit()?;
    // L14: commit makes the job.
    assert_eq!(count(&engine, &conn).await?, (1, 1));

    let worker = engine.worker(()).register::<Welcome>().queue("default", 1).inline()?;
    assert_eq!(worker.drain(10).await?.len(), 1);
    Ok(())
}
