//! Who takes part: the one list of all contenders.

/// One job engine on one kind of store, at the fastest settings that its own documentation names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    /// What `--only` calls it.
    pub(crate) name: &'static str,
    /// What tables call it.
    pub(crate) label: &'static str,
    pub(crate) store: ContenderStore,
    pub(crate) program: ContenderProgram,
    /// SQL that counts the jobs that are stored and not done, by which the driver's own count is checked.
    pub(crate) unfinished: Option<&'static str>,
}

/// Where a contender keeps its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContenderStore {
    Postgres,
    Mariadb,
    Sqlite,
    /// With the setting `appendfsync` that decides what a crash may cost.
    Redis(&'static str),
}

/// What drives a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContenderProgram {
    /// The driver of Backstop itself.
    Ours,
    /// Hand-written SQL run by pgbench, with nothing around it.
    Floor,
    /// A package of the workspace `bench/peers/rust`.
    Rust(&'static str),
    /// A file of `bench/peers/node`.
    Node(&'static str),
    /// A file of `bench/peers/python`.
    Python(&'static str),
}

impl Contender {
    /// The row of Backstop that this one is held against: the same kind of store, or PostgreSQL for a store that
    /// Backstop does not have.
    pub(crate) fn base(&self) -> &'static str {
        match self.store {
            ContenderStore::Sqlite => "backstop-sqlite",
            ContenderStore::Mariadb => "backstop-mariadb",
            ContenderStore::Postgres | ContenderStore::Redis(_) => "backstop-postgres",
        }
    }

    /// Whether it is Backstop, the only one whose failure path is measured.
    pub(crate) fn is_ours(&self) -> bool {
        self.program == ContenderProgram::Ours
    }

    /// Whether it is the floor, which has no handlers and so no latency and no memory of its own.
    pub(crate) fn is_floor(&self) -> bool {
        self.program == ContenderProgram::Floor
    }
}

const OURS: Option<&str> =
    Some("select (select count(*) from backstop.job) - (select count(*) from backstop.done)");

const PG_BOSS: Option<&str> =
    Some("select count(*) from pgboss.job where state < 'completed' and name = 'work'");

/// All contenders in the order of the tables.
pub(crate) const ALL: [Contender; 14] = [
    Contender {
        name: "backstop-postgres",
        label: "Backstop, PostgreSQL",
        store: ContenderStore::Postgres,
        program: ContenderProgram::Ours,
        unfinished: OURS,
    },
    Contender {
        name: "backstop-mariadb",
        label: "Backstop, MariaDB",
        store: ContenderStore::Mariadb,
        program: ContenderProgram::Ours,
        unfinished: None,
    },
    Contender {
        name: "backstop-sqlite",
        label: "Backstop, SQLite",
        store: ContenderStore::Sqlite,
        program: ContenderProgram::Ours,
        unfinished: None,
    },
    Contender {
        name: "floor",
        label: "floor: SQL by hand, PostgreSQL",
        store: ContenderStore::Postgres,
        program: ContenderProgram::Floor,
        unfinished: Some("select (select count(*) from job) - (select count(*) from done)"),
    },
    Contender {
        name: "graphile-worker",
        label: "graphile-worker",
        store: ContenderStore::Postgres,
        program: ContenderProgram::Node("graphile-worker"),
        unfinished: Some("select count(*) from graphile_worker._private_jobs"),
    },
    Contender {
        name: "pg-boss",
        label: "pg-boss, polling",
        store: ContenderStore::Postgres,
        program: ContenderProgram::Node("pg-boss"),
        unfinished: PG_BOSS,
    },
    Contender {
        name: "pg-boss-notify",
        label: "pg-boss, notify",
        store: ContenderStore::Postgres,
        program: ContenderProgram::Node("pg-boss-notify"),
        unfinished: PG_BOSS,
    },
    Contender {
        name: "awa",
        label: "awa",
        store: ContenderStore::Postgres,
        program: ContenderProgram::Rust("awa"),
        unfinished: None,
    },
    Contender {
        name: "apalis-postgres",
        label: "apalis-postgres",
        store: ContenderStore::Postgres,
        program: ContenderProgram::Rust("apalis-postgres"),
        unfinished: Some("select count(*) from apalis.jobs where status <> 'Done'"),
    },
    Contender {
        name: "underway",
        label: "underway",
        store: ContenderStore::Postgres,
        program: ContenderProgram::Rust("underway"),
        unfinished: Some("select count(*) from underway.task where state <> 'succeeded'"),
    },
    Contender {
        name: "procrastinate",
        label: "procrastinate",
        store: ContenderStore::Postgres,
        program: ContenderProgram::Python("procrastinate"),
        unfinished: Some("select count(*) from procrastinate_jobs where status <> 'succeeded'"),
    },
    Contender {
        name: "bullmq-everysec",
        label: "BullMQ, flushed every second",
        store: ContenderStore::Redis("everysec"),
        program: ContenderProgram::Node("bullmq"),
        unfinished: None,
    },
    Contender {
        name: "bullmq-always",
        label: "BullMQ, always flushed",
        store: ContenderStore::Redis("always"),
        program: ContenderProgram::Node("bullmq"),
        unfinished: None,
    },
    Contender {
        name: "apalis-sqlite",
        label: "apalis-sqlite",
        store: ContenderStore::Sqlite,
        program: ContenderProgram::Rust("apalis-sqlite"),
        unfinished: None,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_base_is_there() {
        for (at, contender) in ALL.iter().enumerate() {
            assert!(ALL[..at].iter().all(|other| other.name != contender.name), "{}", contender.name);
            assert!(ALL.iter().any(|base| base.name == contender.base()), "{}", contender.name);
        }
    }
}
