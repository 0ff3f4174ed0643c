//! What every command has at hand: its settings, its output, and the way to an open engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop::Backstop;
use backstop::mysql::{self, MysqlStore};
use backstop::postgres::{self, PostgresStore};
use backstop::sqlite::{Options, SqliteStore};

use crate::client::Client;
use crate::config::Settings;
use crate::config::settings::without_credentials;
use crate::output::CliOutput;
use crate::problem::Problem;

/// Settings and output of one run of the program.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) out: CliOutput,
    pub(crate) settings: Settings,
    /// True when log lines were asked for, which no redrawn view may overwrite.
    pub(crate) verbose: bool,
}

impl App {
    /// The API of the server, or of the store, which is created when it is not there.
    pub(crate) async fn client(&self) -> Result<Client, Problem> {
        Ok(self.client_and_engine().await?.0)
    }

    /// The same, with the engine that it uses when it is that of the store.
    pub(crate) async fn client_and_engine(&self) -> Result<(Client, Option<Backstop>), Problem> {
        if let Some(client) = self.there()? {
            return Ok((client, None));
        }
        let engine = self.open().await?;
        Ok((self.here(engine.clone()), Some(engine)))
    }

    /// The API of the server, or of the store for a look: one that is not there is not created.
    pub(crate) async fn looking(&self) -> Result<Client, Problem> {
        match self.there()? {
            Some(client) => Ok(client),
            None => Ok(self.here(self.look().await?)),
        }
    }

    fn here(&self, engine: Backstop) -> Client {
        Client::here(engine, &self.settings.server.settings.access.tokens, who(None))
    }

    fn there(&self) -> Result<Option<Client>, Problem> {
        let token = std::env::var("BACKSTOP_TOKEN").ok().filter(|token| !token.trim().is_empty());
        self.settings.remote.as_ref().map(|server| Client::there(server, token, who(None))).transpose()
    }

    /// Refuses a server to a command that works on a store itself.
    pub(crate) fn no_server(&self) -> Result<(), Problem> {
        if self.settings.remote.is_none() {
            return Ok(());
        }
        Err(Problem::usage("needs_a_store", "this command works on a store itself, not through a server")
            .hint("leave --server and BACKSTOP_SERVER out, and name the store with --store"))
    }

    /// Opens the store, and creates it when it is not there.
    pub(crate) async fn open(&self) -> Result<Backstop, Problem> {
        self.no_server()?;
        Ok(Backstop::open_with(&self.settings.store, self.settings.engine.clone()).await?)
    }

    /// Opens the store for a look: one that is not there is not created, and an older one is not changed.
    pub(crate) async fn look(&self) -> Result<Backstop, Problem> {
        self.no_server()?;
        if is_postgres(&self.settings.store) {
            let mut options = postgres::Options::default();
            options.migrate = false;
            let store = PostgresStore::open(&self.settings.store, options).await?;
            return Ok(Backstop::on(Arc::new(store), self.settings.engine.clone()));
        }
        if is_mysql(&self.settings.store) {
            let mut options = mysql::Options::default();
            options.migrate = false;
            let store = MysqlStore::open(&self.settings.store, options).await?;
            return Ok(Backstop::on(Arc::new(store), self.settings.engine.clone()));
        }
        let Some(path) = sqlite_path(&self.settings.store) else { return self.open().await };
        if !path.exists() {
            let message = format!(
                "there is no store at {} yet: `backstop up` or `backstop enqueue` creates it",
                without_credentials(&self.settings.store)
            );
            return Err(Problem::failed("no_store", message).hint("or name another with --store URL"));
        }
        let mut options = Options::default();
        (options.create, options.migrate) = (false, false);
        let opened = tokio::task::spawn_blocking(move || SqliteStore::open(path, options)).await;
        let store = opened.map_err(|problem| Problem::failed("store_failed", problem.to_string()))??;
        Ok(Backstop::on(Arc::new(store), self.settings.engine.clone()))
    }
}

/// True for the URL of a PostgreSQL store.
pub(crate) fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// True for the URL of a store on MariaDB or MySQL.
pub(crate) fn is_mysql(url: &str) -> bool {
    url.starts_with("mysql://") || url.starts_with("mariadb://")
}

/// The file of a `sqlite:` URL.
pub(crate) fn sqlite_path(url: &str) -> Option<PathBuf> {
    let rest = url.strip_prefix("sqlite:")?;
    let path = rest.strip_prefix("//").unwrap_or(rest);
    (!path.is_empty()).then(|| Path::new(path).to_owned())
}

/// Who does something, for the audit: as told, or the name the person is logged in with.
pub(crate) fn who(told: Option<String>) -> String {
    let known = || ["BACKSTOP_USER", "USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    told.or_else(known).filter(|name| !name.trim().is_empty()).unwrap_or_else(|| "somebody".to_owned())
}
