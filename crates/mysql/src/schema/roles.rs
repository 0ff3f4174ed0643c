//! Roles with the least that each part of a deployment needs, as SQL that can be printed or applied.

use backstop_store::Error;

use super::tables;
use crate::open::place;
use crate::options::Options;
use crate::prefix::Prefix;

/// Tables that only a migration writes.
const FIXED: [&str; 1] = ["meta"];

/// What an enqueuer may do: submit; it cannot take a job, end one or remove one. The right to update is asked for by
/// locks on the job that holds a key, and by inserts that meet a row: the server wants it for every column it reads.
const ENQUEUER: [(&str, &[&str]); 3] = [
    (
        "SELECT",
        &[
            "meta",
            "lane",
            "job",
            "ready",
            "claim",
            "record",
            "done",
            "idempotency",
            "business",
            "archive",
            "purged",
            "tag",
            "tally",
            "depth",
        ],
    ),
    (
        "INSERT",
        &[
            "lane",
            "job",
            "ready",
            "tally",
            "tag",
            "idempotency",
            "business",
            "place",
            "line_change",
            "depth",
            "turn",
        ],
    ),
    ("UPDATE", &["lane", "tag", "ready", "record", "claim", "business", "depth"]),
];

/// The statements that make the roles of a store, or bring them up to date. Run them after `migrate`, as a user that
/// may grant.
///
/// Give a role to a user with `GRANT backstop_worker TO my_user` and make it the default with
/// `SET DEFAULT ROLE backstop_worker FOR my_user` (MySQL: `TO my_user`).
///
/// # Errors
/// [`Error::Unusable`] when the URL is wrong.
pub fn roles(url: &str) -> Result<Vec<String>, Error> {
    let mut options = Options::default();
    let found = place(url, &mut options)?;
    let database = found.opts.db_name().unwrap_or_default();
    Ok(statements(database, &options.prefix))
}

pub(crate) fn statements(database: &str, prefix: &Prefix) -> Vec<String> {
    let name = prefix.name();
    // A quote inside a quoted name is written twice.
    let database = database.replace('`', "``");
    let names: Vec<&str> = tables().iter().map(|table| table.name).collect();
    let mut all = Vec::new();
    let mut role = |role: &str, grants: Vec<(&str, &str)>| {
        all.push(format!("CREATE ROLE IF NOT EXISTS {name}{role}"));
        for (rights, table) in grants {
            let (table, column) =
                table.split_once(' ').map_or((table, ""), |(table, column)| (table, column));
            all.push(format!("GRANT {rights}{column} ON `{database}`.{name}{table} TO {name}{role}"));
        }
    };
    let writes = |read_only: &[&str]| -> Vec<(&str, &str)> {
        let rights = |table: &&str| if read_only.contains(table) { READ } else { WRITE };
        names.iter().map(|table| (rights(table), *table)).collect()
    };
    role("migrator", names.iter().map(|table| (MIGRATE, *table)).collect());
    role("server", writes(&FIXED));
    // A failure rule may pause a queue, so a worker writes what a server does.
    role("worker", writes(&FIXED));
    role(
        "enqueuer",
        ENQUEUER.iter().flat_map(|(right, on)| on.iter().map(|table| (*right, *table))).collect(),
    );
    role("reader", names.iter().map(|table| (READ, *table)).collect());
    all
}

const READ: &str = "SELECT";
const WRITE: &str = "SELECT, INSERT, UPDATE, DELETE";
const MIGRATE: &str = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_is_made_for_its_prefix() {
        let text = roles("mysql://me@db/app?prefix=jobs_").expect("a good URL").join(";\n");
        for role in ["migrator", "server", "worker", "enqueuer", "reader"] {
            assert!(text.contains(&format!("CREATE ROLE IF NOT EXISTS jobs_{role}")), "{text}");
        }
        assert!(text.contains("GRANT SELECT ON `app`.jobs_meta TO jobs_worker"), "{text}");
        assert!(text.contains("GRANT INSERT ON `app`.jobs_ready TO jobs_enqueuer"), "{text}");
        assert!(!text.contains("backstop"), "{text}");
    }
}
