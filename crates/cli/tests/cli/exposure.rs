//! What the programs of jobs see of the server that starts them: nothing of its environment.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::program::{Program, Ran, wait};

/// The user `nobody`.
const NOBODY: u32 = 65_534;
const SECRET: &str = "T0pSecretOfTheServer";

/// Tells whose child it is, what it reads of that one's environment and memory, and what of its own environment.
const SPY: &str = r#"#!/bin/sh
read_all() { cat "$1" 2> /dev/null | tr '\0' ' ' | tr -cd 'A-Za-z0-9_= '; }
maps=$(head -c 1 /proc/$PPID/maps 2> /dev/null | wc -c)
printf '{"parent":"%s","environ":"%s","maps":%s,"own":"%s"}' "$(cat /proc/$PPID/comm)" \
    "$(read_all /proc/$PPID/environ)" "$maps" "$(read_all /proc/$$/environ)"
"#;

/// A folder with a copy of the program that any user can start, because the original may be in somebody's home.
struct Place {
    program: Program,
    /// Who runs the server; nobody else but this process's own user when there is none.
    user: Option<u32>,
}

impl Place {
    fn new(user: Option<u32>, settings: &str) -> Self {
        let place = Self { program: Program::new(), user };
        let program = &place.program;
        std::fs::copy(env!("CARGO_BIN_EXE_backstop"), program.path("backstop")).expect("a copy");
        program.write("spy", SPY);
        for name in ["backstop", "spy"] {
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(program.path(name), mode).expect("it is ours");
        }
        let home = program.path("home");
        std::fs::create_dir(&home).expect("a folder");
        let allow = format!("[handlers.command]\nallow = ['{}']\n{settings}", place.spy());
        program.write("home/backstop.toml", &allow);
        chown(&home, user, user).expect("it is ours");
        place
    }

    fn spy(&self) -> String {
        let spy = self.program.path("spy").canonicalize().expect("a script");
        spy.to_str().expect("a plain path").to_owned()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.program.path("backstop"));
        command.args(args).current_dir(self.program.path("home")).env_clear().stdin(Stdio::null());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        wait(self.program.spawn(&mut self.command(args)))
    }

    /// Starts a server with a secret in its environment.
    fn serve(&self) -> (Child, impl BufRead) {
        let mut command = self.command(&["up", "--listen", "127.0.0.1:0"]);
        let mut child = self.program.spawn(command.env("DATABASE_PASSWORD", SECRET));
        let mut lines = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        while !line.contains("serving: press Ctrl-C to stop") {
            line.clear();
            assert!(lines.read_line(&mut line).expect("a line") > 0, "it ended before it served");
        }
        (child, lines)
    }

    /// What the spy saw.
    fn spied(&self) -> Value {
        let payload = format!("{{\"argv\": [\"{}\"]}}", self.spy());
        let (mut child, lines) = self.serve();
        let job = self.run(&["enqueue", "command", &payload]).exits(0).stdout.trim().to_owned();
        self.run(&["job", "wait", &job, "--timeout", "30s"]).exits(0);
        if we_are_root() {
            let path = format!("/proc/{}/environ", child.id());
            let all = std::fs::read(path).expect("root reads everything");
            assert!(String::from_utf8_lossy(&all).contains(SECRET), "there is a secret to be seen");
        }
        child.kill().expect("it was running");
        child.wait().expect("it ends");
        drop(lines);
        self.run(&["job", "show", &job, "--json"]).exits(0).json()["result"].clone()
    }
}

fn we_are_root() -> bool {
    std::fs::metadata("/proc/self").expect("a process of Linux").uid() == 0
}

#[test]
fn a_program_sees_nothing_of_the_server_s_environment() {
    // E4
    let mut places = Vec::new();
    if we_are_root() {
        places.push(("both are nobody", Place::new(Some(NOBODY), "")));
        places.push(("root and nobody", Place::new(None, &format!("user = {NOBODY}\n"))));
    } else {
        places.push(("the same user", Place::new(None, "")));
    }
    for (who, place) in places {
        let seen = place.spied();
        assert_eq!(seen["parent"], "backstop", "{who}: {seen}");
        assert_eq!((&seen["environ"], &seen["maps"]), (&"".into(), &0.into()), "{who}: {seen}");
        // Other processes of its user are as readable as ever, so it is the server that is closed.
        let own = seen["own"].as_str().expect("a text");
        assert!(own.contains("BACKSTOP_JOB=") && !own.contains("DATABASE_PASSWORD"), "{who}: {seen}");
    }
}
