//! A session: something that runs statements of one dialect in one transaction.

use std::future::Future;
use std::pin::Pin;

use crate::dialect::{Dialect, gather, translate};
use crate::failure::SqlFailure;
use crate::row::Row;
use crate::statement::Request;
use crate::value::Query;

/// What is on its way. Boxed, so that everything above is built once for all servers and drivers.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, SqlFailure>> + Send + 'a>>;

/// Something that runs statements in one transaction: a connection of ours, or whatever carries the caller's.
pub trait Session: Send {
    /// The dialect of its server.
    fn dialect(&self) -> &'static dyn Dialect;

    /// Runs statements in order, all of them in one go where the driver can, and answers their rows.
    fn run(&mut self, batch: Vec<Query>) -> Pending<'_, Vec<Vec<Row>>>;

    /// Runs one statement.
    fn one(&mut self, query: Query) -> Pending<'_, Vec<Row>> {
        Box::pin(async move { Ok(self.run(vec![query]).await?.pop().unwrap_or_default()) })
    }

    /// Asks for something, and answers the rows.
    fn ask(&mut self, request: Request) -> Pending<'_, Vec<Row>> {
        let (queries, _) = translate(self.dialect(), vec![request]);
        Box::pin(async move {
            let answers = if queries.is_empty() { Vec::new() } else { self.run(queries).await? };
            Ok(answers.into_iter().flatten().collect())
        })
    }

    /// Asks for several things in one go, and answers the rows of each.
    fn ask_all(&mut self, requests: Vec<Request>) -> Pending<'_, Vec<Vec<Row>>> {
        let (queries, counts) = translate(self.dialect(), requests);
        Box::pin(async move {
            let answers = if queries.is_empty() { Vec::new() } else { self.run(queries).await? };
            Ok(gather(answers, &counts))
        })
    }
}

/// A session whose reads see what is committed by now, whatever the isolation of its transaction.
pub(crate) struct Newest<'s>(pub(crate) &'s mut dyn Session);

impl Session for Newest<'_> {
    fn dialect(&self) -> &'static dyn Dialect {
        self.0.dialect()
    }

    fn run(&mut self, mut batch: Vec<Query>) -> Pending<'_, Vec<Vec<Row>>> {
        let dialect = self.dialect();
        batch.iter_mut().for_each(|query| dialect.see_newest(query));
        self.0.run(batch)
    }
}
