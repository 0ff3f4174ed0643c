//! What concerns two PostgreSQL servers: a standby that follows its primary, and its promotion.

use std::path::PathBuf;

use crate::account;
use crate::client;
use crate::daemon::START_LIMIT;
use crate::postgres::{NAME, Postgres, data};
use crate::settings::DatabaseSettings;
use crate::signals::wait_until;
use crate::trouble::TestbedError;

/// The name under which a standby reports to its primary.
const STANDBY: &str = "standby";

impl Postgres {
    /// Copies this server into the folder and starts the copy as its standby, with the same settings, on a port of
    /// its own. A primary has one standby at a time.
    ///
    /// # Errors
    /// When the copy cannot be made or does not come up within a minute.
    pub fn standby(&self, folder: impl Into<PathBuf>) -> Result<Self, TestbedError> {
        let settings = DatabaseSettings { folder: folder.into(), ..self.settings.clone() };
        account::prepare(&settings.folder, self.account.as_ref())?;
        let source = format!("host=127.0.0.1 port={} user={NAME} application_name={STANDBY}", self.port());
        let program = self.programs.join("pg_basebackup");
        let mut command = account::command(program, self.account.as_ref(), false);
        command.args(["--no-sync", "-R", "-X", "stream", "-c", "fast", "-d", &source, "-D"]);
        command.arg(data(&settings.folder)).current_dir(&settings.folder);
        client::run(command, "")?;
        let standby = Self::launch(self.programs.clone(), self.account.clone(), settings)?;
        // The copy of a synchronous primary would, once promoted, wait for a standby of its own.
        standby.psql("alter system reset synchronous_standby_names; select pg_reload_conf()")?;
        Ok(standby)
    }

    /// Returns once the standby has applied everything that was committed here before the call.
    ///
    /// # Errors
    /// When that takes longer than a minute.
    pub fn wait_for_standby(&self) -> Result<(), TestbedError> {
        // A commit that waits for the local disk only: it flushes what a quick server still holds in memory.
        let flushed = self.psql(
            "set synchronous_commit = local; select pg_current_xact_id(); select pg_current_wal_flush_lsn()",
        )?;
        let position = flushed.lines().last().unwrap_or_default();
        self.wait_for_report(&format!("replay_lsn >= '{position}'"))
    }

    /// From now on a commit is confirmed only when the standby has it on disk too. The standby must be running.
    ///
    /// # Errors
    /// When this server is not durable, or the standby does not become synchronous within a minute.
    pub fn make_synchronous(&self) -> Result<(), TestbedError> {
        if !self.settings.durable {
            return Err(TestbedError::new(
                "a server that is not durable confirms commits before anyone has them; start it with `durable`",
            ));
        }
        self.psql(&format!(
            "alter system set synchronous_standby_names = '{STANDBY}'; select pg_reload_conf()"
        ))?;
        self.wait_for_report("sync_state = 'sync'")
    }

    /// Makes this standby a primary; returns when it accepts writes.
    ///
    /// # Errors
    /// When this server is no standby, or the promotion takes longer than a minute.
    pub fn promote(&self) -> Result<(), TestbedError> {
        let seconds = START_LIMIT.as_secs();
        match self.psql(&format!("select pg_promote(true, {seconds})"))?.as_str() {
            "t" => Ok(()),
            _ => Err(TestbedError::new(format!(
                "the standby was not promoted within {seconds} s; see its log"
            ))),
        }
    }

    /// Waits until the primary's view of its standby meets the condition.
    fn wait_for_report(&self, condition: &str) -> Result<(), TestbedError> {
        let question = format!(
            "select count(*) from pg_stat_replication \
             where application_name = '{STANDBY}' and state = 'streaming' and {condition}"
        );
        let mut answer = Ok(String::new());
        let met = wait_until(START_LIMIT, || {
            answer = self.psql(&question);
            answer.as_deref().map_or(true, |count| count != "0")
        });
        answer?;
        if met {
            return Ok(());
        }
        let seconds = START_LIMIT.as_secs();
        Err(TestbedError::new(format!(
            "the standby did not report `{condition}` within {seconds} s; see its log"
        )))
    }
}
