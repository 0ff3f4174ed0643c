//! Every command there is, by the program's own help, through a server: each one works, or says in one sentence that it
//! needs a store. None goes to a store behind the server's back.

use std::collections::BTreeSet;

use backstop::bridges::BridgeReport;
use backstop::handoffs::HandOff;

use crate::both::{Served, archive};
use crate::program::{Program, Ran, on_engine, played};

/// Commands that work on a store itself.
const STORE_ONLY: [&str; 3] = ["up", "migrate", "bench"];

/// They go on until they are stopped, and have tests of their own.
const ENDLESS: [&str; 2] = ["events", "work"];

/// Every other command, called in an order in which each finds what it needs. Words in capitals stand for what is
/// found on the way.
const LINES: [&str; 105] = [
    "enqueue mail --delay 1h",
    "job list",
    "job show WAITING",
    "job explain WAITING",
    "job attempts DEAD",
    "job logs DEAD",
    "job wait ARCHIVED",
    "job pause WAITING",
    "job resume WAITING",
    "job cancel WAITING",
    "job retry DEAD",
    "queue list",
    "queue pause mail",
    "queue resume mail",
    "enqueue mail --ordering-key k",
    "enqueue mail --dependency smtp-eu",
    "key list",
    "key skip k",
    "limit set slow --queue mail --rate 100/1m",
    "limit list",
    "limit delete slow",
    "workflow submit FLOW",
    "workflow list",
    "workflow list --status running --name order",
    "workflow show WORKFLOW",
    "workflow show WORKFLOW --svg -",
    "workflow show WORKFLOW --mermaid -",
    "workflow pause WORKFLOW",
    "workflow resume WORKFLOW",
    "workflow cancel WORKFLOW",
    "batch submit BUNCH",
    "batch list",
    "batch show BATCH",
    "batch pause BATCH",
    "batch resume BATCH",
    "batch cancel BATCH",
    "schedule set night --cron @daily --kind play --queue lab",
    "schedule list",
    "schedule show night",
    "schedule pause night",
    "schedule resume night",
    "schedule run night",
    "schedule backfill night --from 2026-01-01T00:00:00Z --to 2026-01-03T00:00:00Z",
    "schedule delete night",
    "signal send approved --payload {} --id s1",
    "signal list",
    "circuit open smtp --for 5min",
    "circuit list",
    "circuit show smtp",
    "circuit close smtp",
    "bridge list",
    "bridge show orders",
    "bridge pause orders",
    "bridge resume orders",
    "bridge test orders",
    "bridge invalid orders",
    "bridge remove gone --yes",
    "handoff list",
    "handoff show paid",
    "handoff retry paid",
    "handoff remove paid --yes",
    "dead list",
    "dead show LETTER",
    "dead export",
    "dead purge --kind play --dry-run",
    "archive list",
    "archive show ARCHIVED",
    "archive export",
    "archive prune --dry-run",
    "alert list",
    "incident list",
    "incident show INCIDENT",
    "incident ack INCIDENT",
    "incident fixed INCIDENT",
    "incident mute INCIDENT",
    "incident reopen INCIDENT",
    "reject list",
    "reject list --groups",
    "reject show GROUP",
    "reject export",
    "rule add r --text stolen --then permanent",
    "rule list",
    "rule test r",
    "rule disable r",
    "rule enable r",
    "rule remove r",
    "redrive plan --incident INCIDENT",
    "redrive list",
    "redrive start PLAN",
    "redrive show PLAN",
    "redrive pause PLAN",
    "redrive resume PLAN",
    "redrive cancel PLAN",
    "worker list",
    "doctor",
    "config init",
    "config check",
    "config reference",
    "audit",
    "completions bash",
    "token new --name ci --scope read --for-config",
    "token new --name root --scope admin",
    "token list",
    "token new --name next --scope read --expires 1d",
    "token revoke root",
];

/// What stands behind the words in capitals.
#[derive(Default)]
struct Found {
    words: Vec<(&'static str, String)>,
    token: String,
}

impl Found {
    fn filled(&self, line: &str) -> Vec<String> {
        let known = |word: &str| self.words.iter().find(|(name, _)| *name == word).map(|(_, id)| id.clone());
        line.split(' ').map(|word| known(word).unwrap_or_else(|| word.to_owned())).collect()
    }

    /// Keeps what later lines need of an answer.
    fn keep(&mut self, line: &str, ran: &Ran) {
        let text = |pointer: &str| {
            let document = ran.json();
            let found = document.pointer(pointer).and_then(|value| value.as_str());
            found.unwrap_or_else(|| panic!("no {pointer} in {document}")).to_owned()
        };
        match line {
            "enqueue mail --delay 1h" => self.words.push(("WAITING", text("/id"))),
            "workflow submit FLOW" => self.words.push(("WORKFLOW", text("/id"))),
            "batch submit BUNCH" => self.words.push(("BATCH", text("/id"))),
            "incident list" => self.words.push(("INCIDENT", text("/items/0/fingerprint"))),
            "reject list --groups" => self.words.push(("GROUP", text("/items/0/fingerprint"))),
            "redrive plan --incident INCIDENT" => self.words.push(("PLAN", text("/plan/id"))),
            "token new --name root --scope admin" => self.token = text("/token"),
            _ => {}
        }
    }
}

/// The commands that a help lists.
fn listed(program: &Program, group: &[&str]) -> Vec<String> {
    let help = program.run(&[group, &["--help"]].concat()).exits(0).stdout;
    let (begin, end) = if group.is_empty() { ("Run:", "`backstop help COMMAND`") } else { ("Commands:", "") };
    let commands = help.lines().skip_while(|line| *line != begin).skip(1);
    let commands =
        commands.take_while(|line| if end.is_empty() { !line.is_empty() } else { !line.starts_with(end) });
    // What goes on on a second line is set in deeper.
    let names = commands.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let names = names.map(|line| line.split(' ').next().unwrap_or_default().to_owned());
    names.filter(|name| name != "help").collect()
}

/// Every command that does something.
fn every(program: &Program) -> BTreeSet<String> {
    let mut every = BTreeSet::new();
    for group in listed(program, &[]) {
        let below = listed(program, &[&group]);
        if below.is_empty() {
            every.insert(group);
        } else {
            every.extend(below.into_iter().map(|command| format!("{group} {command}")));
        }
    }
    every
}

#[test]
fn every_command_works_through_a_server_or_says_that_it_needs_a_store() {
    let (home, elsewhere) = (Program::new(), Program::new());
    played(&home, &["rejects"]);
    let archived = played(&home, &["well"])[0].to_string();
    archive(&home);
    let dead = played(&home, &["permanent", "rain"]);
    on_engine(&home, async |engine| {
        let paid = HandOff::new("paid", "https://warehouse.example");
        engine.handoffs().set(&paid).await.expect("set");
        let mut reporter = engine.bridges().reporter();
        let gone = [BridgeReport::new("gone", "redis://127.0.0.1")];
        reporter.tell(&gone).await.expect("told");
        reporter.end(&gone).await.expect("told");
    });
    let served = Served::of(&home);
    let every = every(&elsewhere);
    let mut tried: BTreeSet<String> = STORE_ONLY.into_iter().chain(ENDLESS).map(str::to_owned).collect();
    elsewhere.write("flow.json", r#"{"name": "order", "nodes": [{"name": "a", "kind": "mail"}]}"#);
    elsewhere.write("bunch.json", r#"{"name": "letters", "jobs": [{"kind": "mail"}]}"#);
    let words = [
        ("ARCHIVED", archived),
        ("DEAD", dead[0].to_string()),
        ("LETTER", dead[1].to_string()),
        ("FLOW", "flow.json".to_owned()),
        ("BUNCH", "bunch.json".to_owned()),
    ];
    let mut found = Found { words: words.into(), ..Found::default() };
    for line in LINES {
        let command = every.iter().find(|command| format!("{line} ").starts_with(&format!("{command} ")));
        tried.insert(command.unwrap_or_else(|| panic!("there is no command for `{line}`")).clone());
        let args = found.filled(line);
        let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
        args.push("--json");
        let ran = served.run_with(&elsewhere, &args, &[("BACKSTOP_TOKEN", &found.token)]);
        assert_eq!(ran.code, 0, "`{line}` through a server\n{}\n{}", ran.stdout, ran.stderr);
        found.keep(line, &ran);
    }
    for command in STORE_ONLY {
        let error = served.run(&elsewhere, &[command, "--json"]).exits(2).error();
        assert_eq!(error["code"], "needs_a_store", "{command}: {error}");
        let told = error["message"].as_str().expect("words");
        assert!(!told.contains(['\n', '.']), "`{command}` refuses in more than a sentence: {told}");
    }
    assert_eq!(tried, every, "a command that this test does not try");
    assert!(!elsewhere.has("backstop.db"), "a command went to a store");
}
