//! From a URL to a store.

use std::sync::Arc;

use backstop_store::{ModelStore, Store};

use crate::error::Error;

/// Opens the store that `url` names.
pub(crate) async fn open(url: &str) -> Result<Arc<dyn Store>, Error> {
    match url.split_once(':') {
        Some(("memory", _)) => Ok(Arc::new(ModelStore::default())),
        Some(("sqlite", rest)) => sqlite(url, rest).await,
        Some(("postgres" | "postgresql", _)) => postgres(url).await,
        Some(("mysql" | "mariadb", _)) => mysql(url).await,
        _ => Err(unknown(
            url,
            "write sqlite:FILE, postgres://HOST/DATABASE, mysql://HOST/DATABASE, or memory: for a test"
                .to_owned(),
        )),
    }
}

fn unknown(url: &str, problem: String) -> Error {
    // Whatever stands before an @ may be a password.
    let shown = url.rsplit_once('@').map_or(url, |(_, host)| host);
    Error::UnknownStore { url: shown.chars().take(200).collect(), problem }
}

#[cfg(feature = "sqlite")]
async fn sqlite(url: &str, rest: &str) -> Result<Arc<dyn Store>, Error> {
    let path = rest.strip_prefix("//").unwrap_or(rest).to_owned();
    if path.is_empty() {
        return Err(unknown(url, "the file name is missing: write sqlite:jobs.db".to_owned()));
    }
    let opened = tokio::task::spawn_blocking(move || {
        backstop_sqlite::SqliteStore::open(path, backstop_sqlite::Options::default())
    });
    let store = opened.await.map_err(|problem| unknown(url, problem.to_string()))??;
    Ok(Arc::new(store))
}

#[cfg(not(feature = "sqlite"))]
async fn sqlite(url: &str, _rest: &str) -> Result<Arc<dyn Store>, Error> {
    Err(unknown(url, "this build has no sqlite store: turn on the feature `sqlite`".to_owned()))
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str) -> Result<Arc<dyn Store>, Error> {
    let options = backstop_postgres::Options::default();
    Ok(Arc::new(backstop_postgres::PostgresStore::open(url, options).await?))
}

#[cfg(not(feature = "postgres"))]
async fn postgres(url: &str) -> Result<Arc<dyn Store>, Error> {
    Err(unknown(url, "this build has no PostgreSQL store: turn on the feature `postgres`".to_owned()))
}

#[cfg(feature = "mysql")]
async fn mysql(url: &str) -> Result<Arc<dyn Store>, Error> {
    let options = backstop_mysql::Options::default();
    Ok(Arc::new(backstop_mysql::MysqlStore::open(url, options).await?))
}

#[cfg(not(feature = "mysql"))]
async fn mysql(url: &str) -> Result<Arc<dyn Store>, Error> {
    Err(unknown(url, "this build has no MariaDB or MySQL store: turn on the feature `mysql`".to_owned()))
}
