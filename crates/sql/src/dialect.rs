//! What a dialect of SQL is: how it says each statement, and the few words that others must know.

use backstop_core::JobId;
use backstop_store::JobFilter;
use backstop_store::sharing::FIRST_HEADS;
use backstop_store::show::SearchSpace;

use crate::statement::{Params, Request, Statement};
use crate::value::Query;

/// A dialect of SQL, as a server and its driver understand it. It knows no connection and never waits.
pub trait Dialect: Send + Sync {
    /// How a statement is said, in as many queries as it takes. Their rows together are the answer.
    fn queries(&self, statement: Statement, params: Params) -> Vec<Query>;

    /// The query for the ids of the jobs of a list, newest first.
    fn list(&self, listing: &Listing<'_>) -> Vec<Query>;

    /// The query that counts the jobs of a list by what they have in common: `lane, reason, fingerprint, count` and the
    /// lowest id of each group.
    fn survey(&self, listing: &Listing<'_>) -> Vec<Query>;

    /// Makes a read see what is committed by now, also in a transaction that sees an old state of the tables.
    fn see_newest(&self, query: &mut Query) {
        let _ = query;
    }

    /// How many jobs of each key [`Statement::FirstTurns`] reads at most: [`FIRST_HEADS`] or more.
    fn first_heads(&self) -> usize {
        FIRST_HEADS
    }

    /// The code with which the server answers [`Statement::Savepoint`] outside of a transaction.
    fn no_transaction(&self) -> &'static str;
}

/// A table from statements to how a dialect says them, as a function: it does not compile unless it knows all of them.
#[macro_export]
macro_rules! statement_table {
    ($(#[$about:meta])* $name:ident -> $form:ty { $($statement:ident => $forms:expr,)* }) => {
        $(#[$about])*
        const fn $name(statement: $crate::statement::Statement) -> &'static [$form] {
            match statement {
                $($crate::statement::Statement::$statement => $forms,)*
            }
        }
    };
}

/// Jobs that are wanted in the order of their ids, newest first.
#[derive(Debug, Clone, Copy)]
pub struct Listing<'a> {
    /// What must hold of them.
    pub filter: &'a JobFilter,
    /// What that means for lanes and states.
    pub scope: &'a SearchSpace,
    /// The jobs that workers hold, if it is those that are asked for.
    pub running: &'a [JobId],
    /// Only what follows this one.
    pub after: Option<JobId>,
    /// So many at most.
    pub limit: usize,
}

/// The queries of requests, and how many each of them takes.
pub(crate) fn translate(dialect: &dyn Dialect, requests: Vec<Request>) -> (Vec<Query>, Vec<usize>) {
    let (mut queries, mut counts) = (Vec::new(), Vec::with_capacity(requests.len()));
    for request in requests {
        let before = queries.len();
        match request {
            Request::Ask(_, Params::Rows(rows)) if rows.rows() == 0 => {}
            Request::Ask(statement, params) => queries.extend(dialect.queries(statement, params)),
            Request::Own(query) => queries.push(query),
        }
        counts.push(queries.len() - before);
    }
    (queries, counts)
}

/// The rows of each request, out of those of its queries.
pub(crate) fn gather<R>(answers: Vec<Vec<R>>, counts: &[usize]) -> Vec<Vec<R>> {
    let mut answers = answers.into_iter();
    counts.iter().map(|count| answers.by_ref().take(*count).flatten().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::gather;

    #[test]
    fn each_request_gets_the_rows_of_its_own_queries() {
        let answers = vec![vec![1], vec![2, 3], vec![], vec![4]];
        assert_eq!(gather(answers, &[1, 0, 3]), [vec![1], vec![], vec![2, 3, 4]]);
    }
}
