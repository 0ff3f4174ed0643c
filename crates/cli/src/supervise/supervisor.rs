//! Who is started and who is stopped.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use backstop::{Backstop, Timestamp};
use backstop_core::scale::{QueueLoad, Restarts, ScaleSettings, Scaler};
use backstop_server::shape::QueueScale;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::backlog::{Backlog, BacklogLook, BacklogLooks};
use super::deaths::CrashReports;
use super::notice::SupervisorNotice;
use super::process::{ProcessEnd, WorkerProcess, at};
use super::program::WorkerProgram;
use super::roll::Roll;
use crate::app::App;
use crate::client::Client;
use crate::output::figures::grouped;
use crate::output::span::length;
use crate::problem::{Exit, Problem};

/// How much longer than its grace period a process may take to stop: it has the same one, and hands its runs back when
/// that is over.
const HAND_BACK: Duration = Duration::from_secs(5);

/// What the supervisor is told by signals, from the moment this exists.
#[derive(Debug)]
pub(crate) struct SupervisorSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Stop,
    Roll,
}

impl SupervisorSignals {
    /// Listens from now on.
    pub(crate) fn listen() -> Result<Self, Problem> {
        let cannot =
            |error: io::Error| Problem::failed("signals", format!("cannot listen to signals: {error}"));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(cannot)?,
            terminate: signal(SignalKind::terminate()).map_err(cannot)?,
            hangup: signal(SignalKind::hangup()).map_err(cannot)?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.terminate.recv() => Told::Stop,
            _ = self.hangup.recv() => Told::Roll,
        }
    }
}

/// Keeps processes of the program until it is told to stop; answers when the last one has ended.
pub(crate) async fn supervise(
    program: WorkerProgram,
    settings: ScaleSettings,
    backlog: Backlog,
    (client, engine): (Client, Option<Backstop>),
    mut signals: SupervisorSignals,
    app: &App,
) -> Result<Exit, Problem> {
    let client = Arc::new(client);
    let mut looks = BacklogLooks::begin(backlog, client.clone());
    let mut supervisor = Supervisor::new(program, settings, CrashReports::new(client, engine), app);
    loop {
        supervisor.settle().await?;
        if let Some(exit) = supervisor.done() {
            return Ok(exit);
        }
        tokio::select! {
            Some(ended) = supervisor.tasks.join_next_with_id() => supervisor.ended(ended),
            Some(told) = supervisor.deaths.tasks.join_next() => supervisor.told(told),
            told = signals.next() => match told {
                Told::Stop => supervisor.stop(),
                Told::Roll => supervisor.roll(),
            },
            look = looks.next() => supervisor.look(look).await,
            () = at(supervisor.not_before) => supervisor.not_before = None,
        }
        looks.tell_workers(supervisor.roll.is_some());
    }
}

struct Supervisor<'a> {
    app: &'a App,
    program: WorkerProgram,
    scaler: Scaler,
    began: Instant,
    /// In the order in which they were started.
    processes: Vec<WorkerProcess>,
    tasks: JoinSet<ProcessEnd>,
    deaths: CrashReports,
    restarts: Restarts,
    /// Nothing is started before this.
    not_before: Option<Instant>,
    generation: u64,
    roll: Option<Roll>,
    /// True when it was told to stop.
    stopping: bool,
    /// True when a process had to be killed.
    killed: bool,
    /// True when one was ever started.
    has_started: bool,
    /// True while the backlog cannot be read.
    unreadable: bool,
}

impl<'a> Supervisor<'a> {
    fn new(program: WorkerProgram, settings: ScaleSettings, deaths: CrashReports, app: &'a App) -> Self {
        Self {
            app,
            program,
            scaler: Scaler::new(settings, Timestamp::EPOCH),
            began: Instant::now(),
            processes: Vec::new(),
            tasks: JoinSet::new(),
            deaths,
            restarts: Restarts::default(),
            not_before: None,
            generation: 0,
            roll: None,
            stopping: false,
            killed: false,
            has_started: false,
            unreadable: false,
        }
    }

    fn tell(&self, notice: SupervisorNotice) {
        notice.tell(&self.app.out);
    }

    /// How it ends, once it was told to and nobody is left.
    fn done(&self) -> Option<Exit> {
        let over = self.stopping && self.processes.is_empty() && self.deaths.tasks.is_empty();
        over.then_some(if self.killed { Exit::Failed } else { Exit::Done })
    }

    /// Starts who is missing and stops who is too many.
    async fn settle(&mut self) -> Result<(), Problem> {
        let wanted = usize::try_from(self.scaler.processes()).unwrap_or(usize::MAX);
        while self.serving().count() < wanted && self.may_start() {
            self.start().await?;
        }
        while !self.stopping && self.serving().count() > wanted {
            self.drain(self.surplus());
        }
        Ok(())
    }

    /// Those that stop still take memory and connections, so they count too; a roll has one more than the maximum.
    fn may_start(&self) -> bool {
        let most = usize::try_from(self.scaler.settings().processes.max()).unwrap_or(usize::MAX);
        let most = most.saturating_add(usize::from(self.roll.is_some()));
        !self.stopping && self.not_before.is_none() && self.processes.len() < most
    }

    /// Those that count: not the ones that stop, nor one that is to take the place of another.
    fn serving(&self) -> impl Iterator<Item = &WorkerProcess> {
        let newcomer = |task: Id| self.roll.as_ref().is_some_and(|roll| roll.starts(task));
        self.processes.iter().filter(move |process| !process.draining && !newcomer(process.task))
    }

    /// Who goes first: an old one while others take over, else the one that was started last.
    fn surplus(&self) -> Option<Id> {
        let old = self.serving().find(|process| process.generation < self.generation);
        old.or_else(|| self.serving().last()).map(|process| process.task)
    }

    fn drain(&mut self, task: Option<Id>) {
        self.processes.iter_mut().filter(|process| Some(process.task) == task).for_each(WorkerProcess::drain);
    }

    /// Starts one; none when that has failed.
    async fn start(&mut self) -> Result<Option<Id>, Problem> {
        let grace = self.app.settings.grace + HAND_BACK;
        let started = WorkerProcess::start(&self.program, self.generation, grace, &mut self.tasks).await;
        match started {
            Ok(process) => {
                self.has_started = true;
                let (pid, task) = (process.pid, process.task);
                self.processes.push(process);
                self.tell(SupervisorNotice::new(
                    "started",
                    format!("process {pid} started"),
                    json!({ "pid": pid }),
                ));
                Ok(Some(task))
            }
            // Who asked is still there to read it. Later the program may be just being replaced.
            Err(error) if !self.has_started => Err(cannot_start(&self.program, &error)),
            Err(error) => {
                let wait = self.restarts.wait_after(Duration::ZERO);
                self.not_before = Some(Instant::now() + wait);
                let text =
                    format!("{}: the next try is in {}", cannot_start(&self.program, &error), length(wait));
                self.tell(SupervisorNotice::new("not_started", text, json!({})).warning());
                Ok(None)
            }
        }
    }

    fn ended(&mut self, ended: Result<(Id, ProcessEnd), JoinError>) {
        let (task, end) = ended.unwrap_or_else(|error| {
            let task = error.id();
            (task, ProcessEnd::unknown(io::Error::other(error)))
        });
        let Some(place) = self.processes.iter().position(|process| process.task == task) else { return };
        let process = self.processes.remove(place);
        // One that stopped well has handed everything back itself.
        if !process.draining || !end.status.as_ref().is_ok_and(|status| status.success()) {
            self.deaths.send(process.pid, &end);
        }
        if process.draining {
            self.killed |= end.killed;
            self.tell(SupervisorNotice::stopped(&process, &end));
        } else {
            let wait = self.restarts.wait_after(process.started.elapsed());
            // One that lived long and one that did not may end together: the later moment holds.
            let next = (!wait.is_zero()).then(|| Instant::now() + wait);
            self.not_before = self.not_before.max(next);
            self.tell(SupervisorNotice::died(&process, &end, wait, self.restarts.in_a_row()));
        }
        match &self.roll {
            Some(roll) if roll.starts(task) => self.give_up_rolling(),
            Some(roll) if roll.stops(task) => self.roll = Some(Roll::Next),
            _ => {}
        }
    }

    /// The store has heard of a death, or could not.
    fn told(&self, told: Result<Option<SupervisorNotice>, JoinError>) {
        if let Ok(Some(notice)) = told {
            self.tell(notice);
        }
    }

    /// Told to stop: once they may finish what they have, the second time they may not.
    fn stop(&mut self) {
        if self.stopping {
            self.processes.iter_mut().for_each(WorkerProcess::kill);
            return self.tell(SupervisorNotice::new("killing", "killing what is left", json!({})));
        }
        self.stopping = true;
        self.roll = None;
        self.processes.iter_mut().for_each(WorkerProcess::drain);
        let left = u64::try_from(self.processes.len()).unwrap_or(u64::MAX);
        let text = format!(
            "stopping: {} may go on for {}; a second signal ends them at once",
            counted_processes(left),
            length(self.app.settings.grace)
        );
        self.tell(SupervisorNotice::new("stopping", text, json!({ "processes": left })));
    }

    /// Told to roll: those who run now are replaced.
    fn roll(&mut self) {
        if self.stopping {
            return;
        }
        self.generation += 1;
        self.roll.get_or_insert(Roll::Next);
        let old = u64::try_from(self.serving().count()).unwrap_or(u64::MAX);
        let text = format!("rolling: replacing {}, one at a time", counted_processes(old));
        self.tell(SupervisorNotice::new("rolling", text, json!({ "processes": old })));
    }

    async fn look(&mut self, look: BacklogLook) {
        if self.stopping {
            return;
        }
        match &look.queues {
            Ok(queues) => self.scale(queues),
            Err(problem) if !self.unreadable => {
                self.unreadable = true;
                let held = counted_processes(u64::from(self.scaler.processes()));
                let text = format!("cannot read the backlog: {problem}; it stays at {held}");
                self.tell(SupervisorNotice::new("backlog_unreadable", text, json!({})).warning());
            }
            Err(_) => {}
        }
        self.roll_on(look).await;
    }

    fn scale(&mut self, queues: &[QueueScale]) {
        if std::mem::take(&mut self.unreadable) {
            self.tell(SupervisorNotice::new("backlog_readable", "the backlog can be read again", json!({})));
        }
        let settings = self.scaler.settings();
        let (from, up_after) = (self.scaler.processes(), settings.up_after);
        let loads = queues.iter().map(|row| {
            let load = QueueLoad {
                depth: row.depth,
                oldest_wait: Duration::from_millis(row.oldest_wait_ms),
                running: row.running,
                slots: settings.slots.of(&row.queue),
                most_running: row.most_running,
            };
            (load.wanted_of(from, up_after), &row.queue, load)
        });
        let most = loads.max_by_key(|(wanted, _, load)| (*wanted, load.oldest_wait));
        let wanted = most.as_ref().map_or(0, |(wanted, ..)| *wanted);
        let quiet = self.scaler.quiet_time();
        let to = self.scaler.look(Timestamp::EPOCH.after(self.began.elapsed()), wanted);
        match most {
            Some((_, queue, load)) if to > from => self.tell(SupervisorNotice::up(from, to, queue, &load)),
            _ if to < from => self.tell(SupervisorNotice::down(from, to, quiet)),
            _ => {}
        }
    }

    /// Takes the next step of a roll.
    async fn roll_on(&mut self, look: BacklogLook) {
        let old = self.serving().find(|process| process.generation < self.generation).map(|old| old.task);
        match (&self.roll, old, look.workers) {
            (Some(Roll::Next), None, _) => {
                self.roll = None;
                self.tell(SupervisorNotice::new("rolled", "rolled: every process is new", json!({})));
            }
            (Some(Roll::Next), Some(_), Some(known)) if self.may_start() => match self.start().await {
                Ok(Some(task)) => {
                    self.roll = Some(Roll::Starting { task, started: Instant::now(), known });
                }
                _ => self.give_up_rolling(),
            },
            (Some(roll @ Roll::Starting { .. }), old, workers) if roll.is_up(workers.as_ref()) => {
                self.drain(old);
                self.roll = Some(old.map_or(Roll::Next, |task| Roll::Stopping { task }));
            }
            _ => {}
        }
    }

    /// A new process did not live: the old ones stay.
    fn give_up_rolling(&mut self) {
        self.roll = None;
        let generation = self.generation;
        self.processes.iter_mut().for_each(|process| process.generation = generation);
        let text = "the roll was given up because a new process did not stay up; the old ones go on: fix the program, \
                    then send SIGHUP again";
        self.tell(SupervisorNotice::new("roll_given_up", text, json!({})).warning());
    }
}

fn counted_processes(count: u64) -> String {
    if count == 1 { "1 process".to_owned() } else { format!("{} processes", grouped(count)) }
}

fn cannot_start(program: &WorkerProgram, error: &io::Error) -> Problem {
    let name = program.name();
    let message = match error.kind() {
        io::ErrorKind::NotFound => format!("cannot start `{name}`: there is no such program"),
        io::ErrorKind::PermissionDenied => format!("cannot start `{name}`: it may not be executed"),
        _ => format!("cannot start `{name}`: {error}"),
    };
    Problem::failed("program", message).hint("name a program that can be run, behind `--`")
}
