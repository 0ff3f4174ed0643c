//! Connections of our own: taken from a pool, and given back clean or not at all.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use backstop_sql::connection::{Backend, Batch, Patience};
use backstop_sql::{Dialect, Pending, Row, ServerConnection, SqlFailure};
use deadpool_postgres::{Object, PoolError};
use futures_util::future::join;

use crate::cancel;
use crate::dialect::PostgresDialect;
use crate::error;
use crate::session::DriverSession;
use crate::sql;
use crate::state::ServerState;

/// The pool of connections.
pub(crate) struct PostgresBackend(pub(crate) Arc<ServerState>);

impl Backend for PostgresBackend {
    fn dialect(&self) -> &'static dyn Dialect {
        &PostgresDialect
    }

    fn connect(&self) -> Pending<'_, Box<dyn ServerConnection>> {
        Box::pin(async move {
            let client = Some(self.0.pool.get().await.map_err(no_connection)?);
            Ok(Box::new(PooledConnection { state: self.0.clone(), client }) as Box<dyn ServerConnection>)
        })
    }

    fn tell_others(&self, queues: BTreeSet<Arc<str>>) {
        self.0.note_arrivals(queues);
    }

    fn patience(&self) -> Patience {
        Patience { short: Duration::from_millis(250), group: Duration::from_millis(50), waits: 1 }
    }
}

/// What it means that no connection could be had.
pub(crate) fn no_connection(problem: PoolError) -> SqlFailure {
    match problem {
        PoolError::Backend(error) => error::of_driver(error).while_connecting(),
        PoolError::Timeout(_) => SqlFailure::Slow("waiting for a connection"),
        other => SqlFailure::Unreachable(other.to_string()),
    }
}

/// A connection out of the pool.
struct PooledConnection {
    state: Arc<ServerState>,
    /// Gone once it is abandoned.
    client: Option<Object>,
}

impl ServerConnection for PooledConnection {
    fn send<'a>(&'a mut self, batch: Batch, sent: &'a mut bool) -> Pending<'a, Vec<Vec<Row>>> {
        Box::pin(async move {
            let Some(client) = self.client.as_deref() else { return Err(gone()) };
            let begin = batch.begin.map(|begin| sql::begin(begin.mode, begin.lock_wait));
            *sent |= batch.commit;
            let begun = async {
                match &begin {
                    Some(text) => client.batch_execute(text).await,
                    None => Ok(()),
                }
            };
            let ended = async { if batch.commit { client.batch_execute(sql::COMMIT).await } else { Ok(()) } };
            let session = DriverSession { client, schema: &self.state.schema };
            // Polled in this order, so sent in this order. After a failed statement the commit only rolls back.
            let (begun, (answers, ended)) = join(begun, join(session.send_all(&batch.queries), ended)).await;
            begun.map_err(error::of_driver)?;
            let answers = answers?;
            ended.map_err(error::of_driver)?;
            Ok(answers)
        })
    }

    fn roll_back(&mut self) -> Pending<'_, ()> {
        Box::pin(async move {
            match self.client.as_deref().filter(|client| !client.is_closed()) {
                Some(client) => client.batch_execute(sql::ROLLBACK).await.map_err(error::of_driver),
                None => Err(gone()),
            }
        })
    }

    fn abandon(mut self: Box<Self>) {
        if let Some(client) = self.client.take() {
            cancel::abandon(&self.state, client);
        }
    }
}

fn gone() -> SqlFailure {
    SqlFailure::Lost("the connection is gone".to_owned())
}
