//! The same commands with `--store` and with `--server`: the same answers for machines, and the same exit codes.

use serde_json::{Value, json};

use crate::both::Served;
use crate::program::{Program, Ran, played};

/// What differs between two runs of one command: moments, and the ids of what each makes.
const OWN: [&str; 7] = ["id", "at", "created_at", "changed_at", "began_at", "expires_at", "description"];

/// A program with a store and a server on it.
struct Both {
    server: Served,
    program: Program,
}

impl Both {
    fn played(endings: &[&str]) -> Self {
        let program = Program::new();
        played(&program, endings);
        Self { server: Served::of(&program), program }
    }

    fn here(&self, args: &[&str]) -> Ran {
        self.program.run(&[args, &["--json"]].concat())
    }

    fn there(&self, args: &[&str]) -> Ran {
        self.server.run(&self.program, &[args, &["--json"]].concat())
    }

    /// Runs a command in both ways; both end with this code and say the same. Answers what the server said.
    fn same(&self, code: i32, args: &[&str]) -> Value {
        let (here, there) = (self.here(args).exits(code), self.there(args).exits(code));
        self.alike(args, &here, &there)
    }

    /// Runs a command here and its like there, which concern two things that are alike.
    fn pair(&self, code: i32, here: &[&str], there: &[&str]) -> Value {
        let (ours, theirs) = (self.here(here).exits(code), self.there(there).exits(code));
        self.alike(here, &ours, &theirs)
    }

    fn alike(&self, args: &[&str], here: &Ran, there: &Ran) -> Value {
        let said = |ran: &Ran| if ran.stdout.trim().is_empty() { ran.error() } else { ran.json() };
        assert_eq!(without_own(said(here)), without_own(said(there)), "{args:?}");
        said(there)
    }
}

fn without_own(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (name, without_own(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_own).collect()),
        other => other,
    }
}

fn fingerprint(both: &Both, word: &str) -> String {
    let list = both.same(0, &["incident", "list"]);
    let items = list["items"].as_array().expect("items").clone();
    let one = items.iter().find(|one| one["message"].to_string().contains(word));
    one.expect("it was counted")["fingerprint"].as_str().expect("text").to_owned()
}

#[test]
fn incidents() {
    // D2
    let both = Both::played(&["permanent", "rain", "rain"]);
    let rain = fingerprint(&both, "rain");
    both.same(0, &["incident", "list", "--open", "--state", "new", "--limit", "1"]);
    let shown = both.same(0, &["incident", "show", &rain]);
    assert_eq!(shown["sample_jobs"].as_array().map(Vec::len), Some(2));
    both.same(0, &["incident", "ack", &rain, "--by", "ann", "--note", "at it"]);
    let fixed = both.same(0, &["incident", "fixed", &rain, "--in", "1.4.0"]);
    assert_eq!(fixed["fixed_in"], "1.4.0");
    both.same(0, &["incident", "mute", &rain]);
    both.same(0, &["incident", "reopen", &rain]);
    both.same(1, &["incident", "show", "0123456789abcdef"]);
    both.same(1, &["incident", "ack", "0123456789abcdef"]);
    both.same(2, &["incident", "fixed", &rain, "--in", " "]);
}

#[test]
fn rules() {
    // F18
    let both = Both::played(&["permanent", "rain"]);
    let stolen =
        |name: &'static str| ["rule", "add", name, "--text", "card is stolen", "--then", "permanent"];
    both.pair(0, &stolen("here"), &stolen("there"));
    both.same(1, &stolen("here"));
    both.same(2, &["rule", "add", "r", "--text", "(", "--then", "permanent"]);
    both.same(0, &["rule", "list"]);
    let tried = both.same(0, &["rule", "test", "here"]);
    assert_eq!(tried["matched"].as_array().map(Vec::len), Some(1));
    both.same(0, &["rule", "test", "--text", "it ended", "--most", "10"]);
    both.same(0, &["rule", "disable", "here"]);
    both.same(0, &["rule", "enable", "here"]);
    both.pair(0, &["rule", "remove", "here"], &["rule", "remove", "there"]);
    both.same(1, &["rule", "remove", "here"]);
}

#[test]
fn re_drive_plans() {
    // D4
    let both = Both::played(&["rain", "rain", "hail"]);
    both.same(3, &["redrive", "plan"]);
    both.same(3, &["redrive", "plan", "--kind", "other"]);
    both.same(3, &["redrive", "plan", "--incident", "0123456789abcdef"]);
    both.same(2, &["redrive", "plan", "--kind", "play", "--rate", "0"]);
    both.same(3, &["redrive", "start", "rd-00000000"]);
    both.same(0, &["redrive", "plan", "--kind", "play", "--dry-run"]);
    let plan = ["redrive", "plan", "--incident", &fingerprint(&both, "rain"), "--by", "ann"];
    let id = |ran: Ran| ran.exits(0).json()["plan"]["id"].as_str().expect("a plan").to_owned();
    let (ours, theirs) = (id(both.here(&plan)), id(both.there(&plan)));
    // The server steps both plans meanwhile, so how far each is may differ.
    let phases = |verb: &str| {
        let phase = |ran: Ran| ran.exits(0).json()["phase"].as_str().expect("a phase").to_owned();
        let args = |plan| ["redrive", verb, plan, "--by", "bob"];
        [phase(both.here(&args(&ours))), phase(both.there(&args(&theirs)))]
    };
    assert_eq!(phases("start"), ["canary"; 2]);
    assert_eq!(phases("pause"), ["paused"; 2]);
    assert!(phases("resume").iter().all(|phase| ["canary", "gate"].contains(&&**phase)));
    assert_eq!(phases("cancel"), ["canceled"; 2]);
    let again = (both.here(&["redrive", "resume", &ours]), both.there(&["redrive", "resume", &theirs]));
    assert_eq!((again.0.code, again.1.code), (3, 3));
    both.same(0, &["redrive", "list"]);
    both.same(0, &["redrive", "show", &ours]);
    both.same(0, &["redrive", "show", &ours, "--jobs", "--limit", "5"]);
    both.same(1, &["redrive", "show", &ours, "--watch"]);
}

#[test]
fn workers_and_the_doctor() {
    let both = Both::played(&["well"]);
    assert_eq!(both.same(0, &["worker", "list"])["items"], json!([]));
    let found = both.same(0, &["doctor"]);
    assert!(found["items"].as_array().is_some_and(|items| !items.is_empty()), "{found}");
}

#[test]
fn tokens() {
    // E13
    let both = Both::played(&["well"]);
    let wrong = |code: i32, args: &[&str]| both.same(code, &[&["token"], args].concat());
    wrong(2, &["new", "--name", "a b", "--scope", "read"]);
    wrong(2, &["new", "--name", "x", "--scope", "read", "--tenant", "A B"]);
    wrong(3, &["revoke", "nobody"]);
    assert_eq!(wrong(0, &["list"])["items"], json!([]));
    let made = both.there(&["token", "new", "--name", "root", "--scope", "admin"]).exits(0).json();
    let token = made["token"].as_str().expect("a token").to_owned();
    let there = |args: &[&str]| {
        let args = [&["token"], args, &["--json"]].concat();
        both.server.run_with(&both.program, &args, &[("BACKSTOP_TOKEN", &token)])
    };
    there(&["list"]).exits(0).says(&["root", "store"]);
    // A table needs a clock, and this token may not read the server's.
    let table = both.server.run_with(&both.program, &["token", "list"], &[("BACKSTOP_TOKEN", &token)]);
    table.exits(0).says(&["root", "live", "now"]);
    both.there(&["token", "list"]).exits(3).tells(&["unauthorized"]);
    let again = ["new", "--name", "root", "--scope", "read"];
    assert_eq!(there(&again).exits(3).error()["code"], "token_exists");
    assert_eq!(both.here(&[&["token"], &again[..]].concat()).exits(3).error()["code"], "token_exists");
    let new =
        ["new", "--name", "ci", "--scope", "read", "--tenant", "acme", "--queue", "mail", "--expires", "9d"];
    assert_eq!(there(&new).exits(0).json()["made"]["queues"], json!(["mail"]));
    assert_eq!(
        there(&["revoke", "ci"]).exits(0).json(),
        json!({ "name": "ci", "changed": true, "status": "revoked" })
    );
    // What the one has done the other sees, and who did it.
    let listed = both.here(&["token", "list"]).exits(0).json();
    assert_eq!(listed["items"][0]["revoked_by"], "root", "{listed}");
}

#[test]
fn tables_are_the_same_words() {
    let both = Both::played(&["permanent"]);
    for args in [
        &["incident", "list"][..],
        &["redrive", "list"],
        &["rule", "list"],
        &["worker", "list"],
        &["doctor"],
        &["token", "list"],
    ] {
        let words = |ran: Ran| {
            let plain = ran.exits(0).stdout.replace(|c: char| c.is_ascii_digit(), "");
            plain.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(words(both.program.run(args)), words(both.server.run(&both.program, args)), "{args:?}");
    }
}
