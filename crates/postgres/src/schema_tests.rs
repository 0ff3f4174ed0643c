//! A migration that is killed leaves the old version or the new one, whatever statement it was at.

use backstop_testbed::shared;
use tokio_postgres::{Client, NoTls};

use crate::schema::{MIGRATIONS, SCHEMA_MAKE};
use crate::session::Schema;
use crate::{Options, PostgresStore};

async fn connect() -> Client {
    let (client, connection) =
        tokio_postgres::connect(shared::postgres(), NoTls).await.expect("the server is there");
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn a_kill_at_every_statement_leaves_a_store_that_opens() {
    // L17
    let name = format!("killed_{}", std::process::id());
    let schema = Schema::named(&name).expect("a plain name");
    let statements: Vec<&str> = MIGRATIONS.iter().flat_map(|migration| migration.iter().copied()).collect();
    for kill_at in 0..=statements.len() {
        let migrator = connect().await;
        migrator.batch_execute("BEGIN").await.expect("begun");
        migrator.batch_execute(&format!("{SCHEMA_MAKE}{name}")).await.expect("made");
        for statement in &statements[..kill_at] {
            migrator.batch_execute(&schema.text(statement)).await.expect("applied");
        }
        // The connection goes without a word, as that of a killed process does.
        drop(migrator);
        let url = format!("{}?schema={name}&listen=off&connections=1", shared::postgres());
        let store = PostgresStore::open(&url, Options::default()).await.expect("it opens");
        assert_eq!(store.found_version(), None, "nothing of the killed migration is there");
        drop(store);
        connect().await.batch_execute(&format!("DROP SCHEMA {name} CASCADE")).await.expect("dropped");
    }
    println!("{} kills, one at each statement", statements.len() + 1);
}
