//! The floor: hand-written SQL with full history, run by pgbench on the server that the engines work on.
//!
//! It answers as a driver does. The planner is held to index scans, because right after a bulk load it knows nothing
//! and guesses; no engine gets that help, so the floor is what the tables allow, not what is easy to reach.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use backstop_testbed::find;

use super::json::Json;
use super::stage::{BenchServers, EmptyStore};
use crate::process::repository_root;

/// Jobs of one batch of the bulk enqueue, as every driver has it.
const BATCH: u32 = 1_000;

/// Jobs of one claim; `bench/floor/drain.sql` says the same.
const CLAIM: u32 = 500;

/// Clients of the batches and of the drain: one for each core of a small machine.
const CLIENTS: u32 = 2;

const PLANS: &str = "-c enable_seqscan=off -c enable_bitmapscan=off -c enable_sort=off \
    -c plan_cache_mode=force_generic_plan -c jit=off";

/// The version of pgbench.
pub(crate) fn version() -> Result<String, String> {
    let said = Command::new(pgbench()?).arg("--version").output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    Ok(text.split_whitespace().nth(2).unwrap_or_default().to_owned())
}

/// Makes the tables.
pub(crate) fn setup(stage: &BenchServers, place: &EmptyStore) -> Result<(), String> {
    let sql = read("tables.sql")?;
    let server = stage.postgres.as_ref().ok_or("its server was not started")?;
    server.psql_in(&place.name, &sql).map(drop).map_err(|trouble| trouble.to_string())
}

/// Stores the jobs, one statement for each thousand.
pub(crate) fn enqueue_bulk(place: &EmptyStore, folder: &Path, jobs: u32) -> Result<Json, String> {
    let script = enqueue_script(BATCH)?;
    let calls = jobs.div_ceil(BATCH * CLIENTS);
    answer(place, folder, &script, Load { clients: CLIENTS, calls, jobs_a_call: BATCH, jobs: None })
}

/// Stores jobs one at a time.
pub(crate) fn enqueue_single(
    place: &EmptyStore,
    folder: &Path,
    jobs: u32,
    clients: u32,
) -> Result<Json, String> {
    let load = Load { clients, calls: jobs / clients, jobs_a_call: 1, jobs: None };
    answer(place, folder, &enqueue_script(1)?, load)
}

/// Claims and finishes all jobs.
pub(crate) fn drain(place: &EmptyStore, folder: &Path, jobs: u32) -> Result<Json, String> {
    // A claim that comes beside another's locks may be short: a few more see to the rest.
    let calls = jobs.div_ceil(CLAIM * CLIENTS) + 1;
    answer(
        place,
        folder,
        &read("drain.sql")?,
        Load { clients: CLIENTS, calls, jobs_a_call: CLAIM, jobs: Some(jobs) },
    )
}

/// What pgbench is asked to do.
struct Load {
    clients: u32,
    /// Calls of the script by each client.
    calls: u32,
    jobs_a_call: u32,
    /// How many jobs there are, where the last calls find none.
    jobs: Option<u32>,
}

fn enqueue_script(count: u32) -> Result<String, String> {
    let payload = format!("'{{\"sent\":0,\"filling\":\"{}\"}}'", "x".repeat(170));
    let payloads = vec![payload; usize::try_from(count).unwrap_or_default()];
    Ok(read("enqueue.sql")?.replace("{payloads}", &format!("array[{}]", payloads.join(","))))
}

fn answer(place: &EmptyStore, folder: &Path, script: &str, load: Load) -> Result<Json, String> {
    let file = folder.join("floor.sql");
    // pgbench reads one statement over several lines, but comments only in front of it.
    let lines: Vec<&str> = script.lines().filter(|line| !line.starts_with("--")).collect();
    fs::write(&file, lines.join("\n") + "\n").map_err(|error| format!("cannot write the script: {error}"))?;
    let mut command = Command::new(pgbench()?);
    let threads = load.clients.min(CLIENTS);
    for (option, number) in [("-c", load.clients), ("-j", threads), ("-t", load.calls)] {
        command.args([option, &number.to_string()]);
    }
    command.args(["-n", "-f"]).arg(&file).arg(&place.url).env("PGOPTIONS", PLANS);
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("cannot run pgbench: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let rate = calls_a_second(&said).filter(|_| output.status.success()).ok_or_else(|| {
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        complaint.lines().find(|line| line.contains("rror")).unwrap_or("pgbench failed").to_owned()
    })?;
    let calls = f64::from(load.clients * load.calls);
    let jobs = load.jobs.unwrap_or(load.clients * load.calls * load.jobs_a_call);
    Ok(Json::object([("jobs", Json::number(f64::from(jobs))), ("seconds", Json::number(calls / rate))]))
}

/// The rate without the time that the connections took.
fn calls_a_second(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.strip_prefix("tps = "))?;
    line.split_whitespace().next()?.parse().ok()
}

fn read(name: &str) -> Result<String, String> {
    let path = repository_root().join("bench/floor").join(name);
    fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn pgbench() -> Result<PathBuf, String> {
    let beside = find::postgres().map(|folder| folder.join("pgbench")).filter(|file| file.is_file());
    beside.or_else(|| find::program("pgbench")).ok_or_else(|| "pgbench is not installed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_pgbench_is_read() {
        let said = "latency average = 1.2 ms\ntps = 1234.5 (without initial connection time)\n";
        assert_eq!(calls_a_second(said), Some(1_234.5));
        assert_eq!(calls_a_second("nothing"), None);
    }

    #[test]
    fn the_script_carries_as_many_payloads_as_a_batch_has_jobs() {
        assert_eq!(enqueue_script(3).unwrap().matches("filling").count(), 3);
        assert!(read("drain.sql").unwrap().contains(&format!("LIMIT {CLAIM} ")));
    }
}
