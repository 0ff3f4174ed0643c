//! Two crashes between write and commit. Run it with: cargo run -p backstop-examples --example transaction_postgres URL
//!
//! One process opens an account and submits the job that books its first coin, in one transaction; another runs that
//! job and completes it in the transaction of its booking. Each dies once, after everything was written and before the
//! commit: nothing of it is left, and the next process does it all, once.

use std::process::Command;
use std::time::Duration;

use backstop::postgres::tokio_postgres::{Client, NoTls, connect};
use backstop::prelude::*;
use backstop::query::{JobFilter, PageRequest};

/// Where the tables are, and whether this process is one that dies.
#[derive(Clone)]
struct Bank {
    url: String,
    schema: String,
    dies: bool,
}

impl Bank {
    async fn engine(&self) -> JobResult<Backstop> {
        Ok(Backstop::open(&format!("{}?schema={}", self.url, self.schema)).await?)
    }

    /// The application's own connection: its tables are in the same database.
    async fn client(&self) -> JobResult<Client> {
        let (client, connection) = connect(&self.url, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute(&format!("SET search_path = {}", self.schema)).await?;
        Ok(client)
    }

    /// The moment before a commit.
    fn maybe_die(&self, what: &str) {
        if self.dies {
            println!("  {what}, and the process dies before the commit");
            std::process::abort();
        }
    }

    /// Opens an account, with the job that books its first coin.
    async fn open_account(&self) -> JobResult {
        let engine = self.engine().await?;
        let mut client = self.client().await?;
        let mut tx = client.transaction().await?;
        tx.execute("INSERT INTO account VALUES ('ada', 0)", &[]).await?;
        engine.enqueue(Book { owner: "ada".into() }).submit_in(&mut tx).await?;
        self.maybe_die("ada's account and her job are written");
        tx.commit().await?;
        Ok(())
    }

    /// Runs the job, once whoever held it is given up.
    async fn work(&self) -> JobResult {
        let engine = self.engine().await?;
        let quick = Duration::from_millis(300);
        let worker =
            engine.worker(self.clone()).register::<Book>().queue("default", 1).lease(quick).poll(quick);
        let job = engine.jobs(JobFilter::default(), PageRequest::first(1)).await?.items.remove(0).job.spec.id;
        let worker = worker.start().await?;
        engine.wait(job).await?;
        worker.stop().await;
        Ok(())
    }

    /// Runs a part of this example in a process of its own.
    fn process(&self, part: &str, end: &str) -> JobResult {
        let mut process = Command::new(std::env::current_exe()?);
        process.args([&self.url, &self.schema, part, end]).status()?;
        Ok(())
    }

    /// What is in the tables.
    async fn show(&self) -> JobResult<(i64, i64, Vec<String>)> {
        let sql = "SELECT count(*), coalesce(sum(coins), 0)::bigint FROM account";
        let row = self.client().await?.query_one(sql, &[]).await?;
        let views = self.engine().await?.jobs(JobFilter::default(), PageRequest::first(10)).await?.items;
        let shown = (row.get(0), row.get(1), views.iter().map(|view| view.state().to_string()).collect());
        println!("  accounts: {}, coins: {}, jobs: {:?}", shown.0, shown.1, shown.2);
        Ok(shown)
    }
}

/// Books the first coin, and ends the job by the same commit.
#[job]
async fn book(cx: JobContext<Bank>, owner: String) -> JobResult {
    let mut client = cx.app().client().await?;
    let mut tx = client.transaction().await?;
    tx.execute("UPDATE account SET coins = coins + 1 WHERE owner = $1", &[&owner]).await?;
    cx.complete_in(&mut tx, "booked").await?;
    cx.app().maybe_die("the coin is booked and the job completed");
    tx.commit().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> JobResult {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [url, schema, part, end] = &arguments[..] {
        let bank = Bank { url: url.clone(), schema: schema.clone(), dies: end == "dies" };
        return if part == "open" { bank.open_account().await } else { bank.work().await };
    }
    let url = arguments.into_iter().next().or_else(|| std::env::var("BACKSTOP_TEST_POSTGRES").ok());
    let url = url.ok_or("name a database: postgres://USER@HOST/DATABASE")?;
    let bank = Bank { url, schema: format!("example_{}", std::process::id()), dies: false };
    // Makes the schema and its tables; the application's own table is put beside them.
    drop(bank.engine().await?);
    let client = bank.client().await?;
    client.batch_execute("CREATE TABLE account (owner text, coins int)").await?;

    // L14: there is no account without its job, and no job without its account.
    bank.process("open", "dies")?;
    assert_eq!(bank.show().await?, (0, 0, vec![]));
    println!("the next process commits:");
    bank.process("open", "commits")?;
    assert_eq!(bank.show().await?, (1, 0, vec!["pending".to_owned()]));

    // L14: there is no coin without the job's end, so that no run books it twice.
    bank.process("work", "dies")?;
    assert_eq!(bank.show().await?, (1, 0, vec!["running".to_owned()]));
    println!("the next process takes the job back and commits:");
    bank.process("work", "commits")?;
    assert_eq!(bank.show().await?, (1, 1, vec!["succeeded".to_owned()]));

    client.batch_execute(&format!("DROP SCHEMA {} CASCADE", bank.schema)).await?;
    Ok(())
}
