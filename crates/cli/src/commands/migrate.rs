//! `backstop migrate`: creates the store, or brings it up to this version, and its roles if asked.

use backstop::{mysql, postgres};
use clap::Args;
use serde_json::json;

use crate::app::{App, is_mysql, is_postgres, sqlite_path};
use crate::output::clean;
use crate::problem::{Exit, Problem};

/// What `backstop migrate` takes.
#[derive(Debug, Args)]
pub(crate) struct MigrateOptions {
    /// Print the SQL of least-privilege roles (migrator, server, worker, enqueuer, reader); change nothing.
    #[arg(long, conflicts_with = "roles")]
    print_roles: bool,
    /// Create or update these roles too.
    #[arg(long)]
    roles: bool,
}

pub(crate) async fn run(app: &App, asked: &MigrateOptions) -> Result<Exit, Problem> {
    app.no_server()?;
    let on_server = is_postgres(&app.settings.store) || is_mysql(&app.settings.store);
    if (asked.print_roles || asked.roles) && !on_server {
        let message = "roles belong to a database server, and this store is not one";
        let hint = "name one with --store postgres://HOST/DATABASE or --store mysql://HOST/DATABASE";
        return Err(Problem::failed("no_roles", message).hint(hint));
    }
    if asked.print_roles && is_mysql(&app.settings.store) {
        let statements = mysql::roles(&app.settings.store)?;
        app.out.page(&format!("{};", statements.join(";\n")))?;
        return Ok(Exit::Done);
    }
    if asked.print_roles {
        let schema = postgres::schema_of(&app.settings.store)?;
        app.out.page(postgres::roles(&schema).trim_end())?;
        return Ok(Exit::Done);
    }
    if is_postgres(&app.settings.store) {
        return on_postgres(app, asked.roles).await;
    }
    if is_mysql(&app.settings.store) {
        let store = mysql::MysqlStore::open(&app.settings.store, mysql::Options::default()).await?;
        if asked.roles {
            mysql::MysqlStore::apply_roles(&app.settings.store).await?;
        }
        let info = backstop_store::WorkStore::info(&store);
        return tell(app, info.backend, &info.location, store.found_version().is_none());
    }
    let existed = sqlite_path(&app.settings.store).is_some_and(|path| path.exists());
    // Opening is migrating: every store checks its version first and refuses one that is newer than this program.
    let engine = app.open().await?;
    let info = engine.store().info();
    tell(app, info.backend, &info.location, !existed)
}

async fn on_postgres(app: &App, roles: bool) -> Result<Exit, Problem> {
    let options = postgres::Options::default();
    let store = postgres::PostgresStore::open(&app.settings.store, options).await?;
    if roles {
        store.apply_roles().await?;
    }
    let info = backstop_store::WorkStore::info(&store);
    tell(app, info.backend, &info.location, store.found_version().is_none())
}

fn tell(app: &App, backend: &str, location: &str, created: bool) -> Result<Exit, Problem> {
    if app.out.json {
        app.out.document(&json!({ "backend": backend, "location": location, "created": created }))?;
    } else {
        let did = if created { "was created" } else { "is up to date" };
        app.out.page(&format!("the {backend} store {} {did}", clean(location)))?;
    }
    Ok(Exit::Done)
}
