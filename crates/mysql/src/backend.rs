//! Connections of our own: taken from a pool, and given back clean or not at all.

use std::sync::Arc;
use std::time::Duration;

use backstop_sql::connection::{Backend, Batch, Patience};
use backstop_sql::{Dialect, Pending, Query, Row, ServerConnection, SqlFailure};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::cancel;
use crate::dialect::MysqlDialect;
use crate::error::of_driver;
use crate::packet::packets;
use crate::session::send;
use crate::sql;
use crate::state::ServerState;

/// The pool of connections.
pub(crate) struct MysqlBackend(pub(crate) Arc<ServerState>);

impl Backend for MysqlBackend {
    fn dialect(&self) -> &'static dyn Dialect {
        &MysqlDialect
    }

    fn connect(&self) -> Pending<'_, Box<dyn ServerConnection>> {
        Box::pin(async move {
            let conn = self.0.pool.get_conn().await.map_err(no_connection)?;
            Ok(Box::new(PooledConnection { state: self.0.clone(), conn }) as Box<dyn ServerConnection>)
        })
    }

    /// Servers count in seconds. They do not say who holds a lock either: where many of our own transactions want the
    /// same key, each is short, and the last of them waits for all the others.
    fn patience(&self) -> Patience {
        let short = Duration::from_secs(1);
        Patience { short, group: short, waits: 3 }
    }
}

/// What it means that no connection could be had.
pub(crate) fn no_connection(problem: mysql_async::Error) -> SqlFailure {
    of_driver(problem).while_connecting()
}

/// A connection out of the pool.
struct PooledConnection {
    state: Arc<ServerState>,
    conn: Conn,
}

impl ServerConnection for PooledConnection {
    fn send<'a>(&'a mut self, batch: Batch, sent: &'a mut bool) -> Pending<'a, Vec<Vec<Row>>> {
        Box::pin(async move {
            let (own, plain) = (batch.queries.len(), |text: String| Query::new(text, Vec::new()));
            let begin = batch.begin.map(|begin| sql::begin(begin.mode, begin.lock_wait)).unwrap_or_default();
            let mut queries: Vec<Query> = begin.into_iter().map(plain).collect();
            let begun = queries.len();
            queries.extend(batch.queries);
            queries.extend(batch.commit.then(|| Query::new(sql::COMMIT, Vec::new())));
            let mut answers = Vec::with_capacity(queries.len());
            let mut packets = packets(&queries, &self.state.prefix).into_iter().peekable();
            while let Some(packet) = packets.next().filter(|packet| packet.statements > 0) {
                *sent |= batch.commit && packets.peek().is_none();
                answers.extend(send(&mut self.conn, packet).await?);
            }
            answers.drain(..begun);
            answers.truncate(own);
            Ok(answers)
        })
    }

    fn roll_back(&mut self) -> Pending<'_, ()> {
        Box::pin(async move { self.conn.query_drop(sql::ROLLBACK).await.map_err(of_driver) })
    }

    fn abandon(self: Box<Self>) {
        let Self { state, conn } = *self;
        cancel::abandon(&state, conn);
    }
}
