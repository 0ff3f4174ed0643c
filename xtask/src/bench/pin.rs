//! A transaction that is held open: PostgreSQL keeps every row that it could still see, however dead.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use backstop_testbed::find;

use super::stage::{BenchServers, EmptyStore};

/// How long the transaction may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// What the session is called, and what it does: nothing, with a snapshot taken.
const BEGIN: &str = "set application_name = 'pin';\nbegin isolation level repeatable read;\nselect 1;\n";

/// Counts the transactions of that kind that hold a snapshot.
const HELD: &str = "select count(*) from pg_stat_activity where datname = current_database() \
    and application_name = 'pin' and state = 'idle in transaction' and backend_xmin is not null";

/// An idle transaction in a database; its client is killed when this value goes away.
pub(crate) struct IdleTransaction(Child);

impl IdleTransaction {
    /// Begins the transaction, and returns when it holds its snapshot.
    pub(crate) fn hold(stage: &BenchServers, place: &EmptyStore) -> Result<Self, String> {
        let folder = find::postgres().ok_or("psql is not installed")?;
        let mut command = Command::new(folder.join("psql"));
        command.args(["-X", "-q", "-d", &place.url]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut pin = Self(command.spawn().map_err(|error| format!("cannot start psql: {error}"))?);
        // The pipe stays open in the child: its end would be the end of the session.
        let input = pin.0.stdin.as_mut().ok_or("psql has no standard input")?;
        let written = input.write_all(BEGIN.as_bytes()).and_then(|()| input.flush());
        written.map_err(|error| format!("cannot write to psql: {error}"))?;
        let begin = Instant::now();
        while !pin.is_held(stage, place) {
            if begin.elapsed() > PATIENCE {
                return Err("the transaction that is held open did not begin".to_owned());
            }
            thread::sleep(LOOK);
        }
        Ok(pin)
    }

    /// Whether the snapshot is still held: without it the figures would be of an ordinary run.
    pub(crate) fn is_held(&self, stage: &BenchServers, place: &EmptyStore) -> bool {
        stage.number(place, HELD) == Some(1.0)
    }
}

impl Drop for IdleTransaction {
    fn drop(&mut self) {
        // One that has ended already needs no end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
