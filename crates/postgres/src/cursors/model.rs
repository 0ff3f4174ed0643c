//! Cursors against every order of events: two processes that claim and look, transactions that submit, pause and resume
//! and are committed late or not at all, jobs that expire, and the removal of arrivals. The database is modeled down to
//! its snapshots; the cursors are the real ones.
//!
//! The property (L2): a claim takes nothing while a job of a better rank is free that could be seen when it began. Each
//! part of the mechanism is taken away once, and then the search must find the job that is passed by: without the first
//! two parts cursors work as they did before.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::*;

/// Every due time of the model is before this moment, which is that of every claim.
const MOMENT: i64 = 10;

/// The parts of the mechanism.
#[derive(Clone, Copy)]
struct Parts {
    /// Arrivals of transactions that were not seen are looked at.
    looks_behind: bool,
    /// A cursor stays at the first job that can be seen, whoever has it; otherwise it goes to the job that was taken.
    stays_at_seen: bool,
    /// What a claim learned counts only where it began.
    checks_version: bool,
    /// Cursors from before the floor are not believed.
    minds_floor: bool,
    /// What has expired comes back as an arrival only; otherwise it may be claimed again where it stands.
    expires_for_good: bool,
}

const ALL: Parts = Parts {
    looks_behind: true,
    stays_at_seen: true,
    checks_version: true,
    minds_floor: true,
    expires_for_good: true,
};

/// What may still happen.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Left {
    /// Lanes and due times of jobs that will be submitted.
    submits: Vec<(i64, i64)>,
    pauses: u8,
    /// Jobs that expire, and are driven again at some time.
    expiries: u8,
    /// Claims and looks are about one of so many lanes.
    lanes: i64,
    /// Both are claims of one process, at the same time.
    together: bool,
    /// Every transaction is committed sooner or later.
    all_commit: bool,
    claims: [u8; 2],
    looks: [u8; 2],
    removals: u8,
}

/// A row of `ready`. Rows of transactions that were rolled back were made by nobody.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Row {
    lane: i64,
    at: Position,
    made: Option<i64>,
    /// Who took it, or has it locked to do so.
    gone: Option<i64>,
    paused: bool,
    expired: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct World {
    last_xid: i64,
    open: BTreeSet<i64>,
    /// Open transactions that are not claims.
    writers: BTreeSet<i64>,
    ready: Vec<Row>,
    /// Transaction, lane, due time.
    arrivals: Vec<(i64, i64, i64)>,
    floor: i64,
    next_floor: i64,
    processes: [Process; 2],
    left: Left,
}

#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Process {
    state: CursorState,
    claim: Option<Claiming>,
}

/// A claim under way: between its parts anything can happen.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Claiming {
    lane: i64,
    begin: ClaimStart,
    known: Option<KnownCursors>,
    update: CursorUpdate,
    stage: Stage,
    xid: Option<i64>,
    taken: Option<Position>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Began,
    Looked,
    Picked,
    Reached,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Submit(usize),
    Pause(usize),
    Resume(usize),
    Expire(usize),
    Revive(usize),
    End { writer: i64, commits: bool },
    ClaimStart { process: usize, lane: i64 },
    Go { process: usize },
    Finish { process: usize, commits: bool },
    Look { process: usize, lane: i64 },
    Remove,
}

fn at(run_at: i64, id: u128) -> Position {
    (Timestamp::from_micros(run_at), JobId::from_u128(id))
}

fn queue(lane: i64) -> Option<Arc<str>> {
    Some(lane.to_string().into())
}

impl World {
    /// Two jobs wait in the first lane and one in the second.
    fn new(left: Left) -> Self {
        let row = |lane, run_at, id| Row {
            lane,
            at: at(run_at, id),
            made: Some(0),
            gone: None,
            paused: false,
            expired: false,
        };
        Self { ready: vec![row(0, 3, 1), row(0, 5, 2), row(1, 4, 3)], left, ..Self::default() }
    }

    fn snapshot(&self) -> TransactionSnapshot {
        TransactionSnapshot::below(self.last_xid + 1, self.open.iter().copied())
    }

    fn start_transaction(&mut self) -> i64 {
        self.last_xid += 1;
        self.open.insert(self.last_xid);
        self.last_xid
    }

    fn insert(&mut self, lane: i64, at: Position) {
        let xid = self.start_transaction();
        self.writers.insert(xid);
        self.ready.push(Row { lane, at, made: Some(xid), gone: None, paused: false, expired: false });
        self.arrivals.push((xid, lane, at.0.as_micros()));
    }

    fn end(&mut self, xid: i64, commits: bool) {
        self.open.remove(&xid);
        self.writers.remove(&xid);
        if commits {
            return;
        }
        self.arrivals.retain(|(by, ..)| *by != xid);
        for row in &mut self.ready {
            row.made = row.made.filter(|by| *by != xid);
            row.paused &= row.gone != Some(xid);
            row.gone = row.gone.filter(|by| *by != xid);
        }
    }

    /// The first row of a lane from `from` on that can be seen.
    fn first(
        &self,
        lane: i64,
        from: Position,
        seen: &TransactionSnapshot,
        own: Option<i64>,
        free: bool,
    ) -> Option<usize> {
        let sees = |xid: i64| seen.sees(xid) || Some(xid) == own;
        let rows = self.ready.iter().enumerate().filter(|(_, row)| {
            row.lane == lane
                && !row.expired
                && row.at >= from
                && row.made.is_some_and(sees)
                && !row.gone.is_some_and(sees)
                && !(free && row.gone.is_some())
        });
        rows.min_by_key(|(_, row)| row.at).map(|(index, _)| index)
    }

    /// What a claim or a look learns of arrivals.
    fn look_behind(&self, known: Option<&KnownCursors>, update: &mut CursorUpdate, parts: Parts) {
        let Some(known) = known.filter(|known| !parts.minds_floor || known.seen.first() >= self.floor) else {
            return;
        };
        update.known = true;
        let mut behind = BTreeMap::new();
        for (xid, lane, run_at) in &self.arrivals {
            let new = !self.open.contains(xid) && !known.seen.sees(*xid) && *run_at <= known.farthest;
            if new && parts.looks_behind {
                let first = behind.entry(*lane).or_insert(*run_at);
                *first = (*first).min(*run_at);
            }
        }
        update.behind = Some(behind);
    }

    /// How a transaction can end.
    fn ways(&self) -> impl Iterator<Item = bool> {
        [true, false].into_iter().filter(|commits| *commits || !self.left.all_commit)
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        steps.extend((0..self.left.submits.len()).map(Step::Submit));
        for (index, row) in self.ready.iter().enumerate() {
            let there = row.lane < self.left.lanes
                && row.made.is_some_and(|xid| !self.open.contains(&xid))
                && row.gone.is_none();
            if there && self.left.pauses > 0 {
                steps.push(Step::Pause(index));
            }
            if there && !row.expired && self.left.expiries > 0 {
                steps.push(Step::Expire(index));
            }
            if there && row.expired {
                steps.push(Step::Revive(index));
            }
            if row.paused && row.gone.is_some_and(|xid| !self.open.contains(&xid)) {
                steps.push(Step::Resume(index));
            }
        }
        for writer in &self.writers {
            steps.extend(self.ways().map(|commits| Step::End { writer: *writer, commits }));
        }
        for process in 0..2 {
            match &self.processes[process].claim {
                None if self.left.claims[process] > 0 => {
                    steps.extend((0..self.left.lanes).map(|lane| Step::ClaimStart { process, lane }));
                }
                Some(claim) if claim.stage == Stage::Reached => {
                    steps.extend(self.ways().map(|commits| Step::Finish { process, commits }));
                }
                Some(_) => steps.push(Step::Go { process }),
                None => {}
            }
            if self.left.looks[process] > 0 {
                steps.extend((0..self.left.lanes).map(|lane| Step::Look { process, lane }));
            }
        }
        steps.extend((self.left.removals > 0).then_some(Step::Remove));
        steps
    }

    fn take(&mut self, step: Step, parts: Parts) -> Result<(), String> {
        match step {
            Step::Submit(index) => {
                let (lane, run_at) = self.left.submits.remove(index);
                let id = u128::try_from(self.last_xid).unwrap_or(0) + 100;
                self.insert(lane, at(run_at, id));
            }
            Step::Pause(index) => {
                self.left.pauses -= 1;
                let xid = self.start_transaction();
                self.writers.insert(xid);
                (self.ready[index].gone, self.ready[index].paused) = (Some(xid), true);
            }
            Step::Resume(index) => {
                self.ready[index].paused = false;
                let Row { lane, at, .. } = self.ready[index];
                self.insert(lane, at);
            }
            Step::Expire(index) => {
                self.left.expiries -= 1;
                self.ready[index].expired = true;
            }
            Step::Revive(index) if parts.expires_for_good => {
                let Row { lane, at, .. } = self.ready[index];
                self.insert(lane, at);
                self.ready[index].gone = Some(self.last_xid);
            }
            Step::Revive(index) => self.ready[index].expired = false,
            Step::End { writer, commits } => self.end(writer, commits),
            Step::ClaimStart { process, lane } => self.begin(process, lane),
            Step::Go { process } => return self.go(process, parts),
            Step::Finish { process, commits } => self.finish(process, commits, parts),
            Step::Look { process, lane } => self.look(process, lane, parts),
            Step::Remove => {
                self.left.removals -= 1;
                self.floor = self.floor.max(self.next_floor);
                self.next_floor = self.snapshot().first();
                let (floor, open) = (self.floor, &self.open);
                self.arrivals.retain(|(xid, ..)| *xid >= floor || open.contains(xid));
            }
        }
        Ok(())
    }

    fn update(&self) -> CursorUpdate {
        let seen = self.snapshot();
        CursorUpdate { server: 1, seen, known: false, own: None, behind: None, reached: None, turns: None }
    }

    fn state(&mut self, process: usize) -> &mut CursorState {
        let process = if self.left.together { 0 } else { process };
        &mut self.processes[process].state
    }

    fn begin(&mut self, process: usize, lane: i64) {
        self.left.claims[process] -= 1;
        let update = self.update();
        let state = self.state(process);
        let (begin, known) = (state.start([&*lane.to_string()]), state.known.clone());
        self.processes[process].claim =
            Some(Claiming { lane, begin, known, update, stage: Stage::Began, xid: None, taken: None });
    }

    /// The next part of a claim, in the order of `schema::cursor::TAKE`.
    fn go(&mut self, process: usize, parts: Parts) -> Result<(), String> {
        let Some(mut claim) = self.processes[process].claim.take() else { return Ok(()) };
        claim.stage = match claim.stage {
            Stage::Began => {
                self.look_behind(claim.known.as_ref(), &mut claim.update, parts);
                Stage::Looked
            }
            Stage::Looked => {
                self.pick(&mut claim)?;
                Stage::Picked
            }
            Stage::Picked | Stage::Reached => {
                let first = self.first(claim.lane, claim.cursor(), &self.snapshot(), claim.xid, false);
                let seen = first.map_or(at(MOMENT, 0), |index| self.ready[index].at);
                let (run_at, id) = claim.taken.filter(|_| !parts.stays_at_seen).unwrap_or(seen);
                claim.update.reached = Some(vec![(claim.lane, run_at.as_micros(), id.as_uuid())]);
                claim.update.own = claim.xid;
                Stage::Reached
            }
        };
        self.processes[process].claim = Some(claim);
        Ok(())
    }

    fn pick(&mut self, claim: &mut Claiming) -> Result<(), String> {
        let best = self.first(claim.lane, at(i64::MIN, 0), &claim.update.seen, None, true);
        let found = self.first(claim.lane, claim.cursor(), &self.snapshot(), None, true);
        let (best, place) = (best.map(|index| self.ready[index].at), found.map(|index| self.ready[index].at));
        if best.is_some_and(|best| place.is_none_or(|place| place > best)) {
            return Err(format!("{best:?} was free, and {place:?} was taken"));
        }
        if let Some(index) = found {
            let xid = self.start_transaction();
            self.ready[index].gone = Some(xid);
            (claim.xid, claim.taken) = (Some(xid), place);
        }
        Ok(())
    }

    fn finish(&mut self, process: usize, commits: bool, parts: Parts) {
        let Some(mut claim) = self.processes[process].claim.take() else { return };
        if let Some(xid) = claim.xid {
            self.end(xid, commits);
        }
        let state = self.state(process);
        if commits {
            if !parts.checks_version {
                claim.begin.version = state.version;
            }
            state.learn(&claim.begin, claim.update, queue);
        }
    }

    /// A look is one statement: it sees one snapshot.
    fn look(&mut self, process: usize, lane: i64, parts: Parts) {
        self.left.looks[process] -= 1;
        let state = self.state(process);
        let (begin, known) = (state.start([&*lane.to_string()]), state.known.clone());
        let mut update = self.update();
        self.look_behind(known.as_ref(), &mut update, parts);
        let from = cursor(known.as_ref(), &update, lane);
        let first = self.first(lane, from, &update.seen, None, false);
        let (run_at, id) = first.map_or(at(MOMENT, 0), |index| self.ready[index].at);
        update.reached = Some(vec![(lane, run_at.as_micros(), id.as_uuid())]);
        self.state(process).learn(&begin, update, queue);
    }
}

impl Claiming {
    fn cursor(&self) -> Position {
        cursor(self.known.as_ref(), &self.update, self.lane)
    }
}

/// Where to begin in a lane, as `schema::cursor::open_lanes` says.
fn cursor(known: Option<&KnownCursors>, update: &CursorUpdate, lane: i64) -> Position {
    let known = known.filter(|_| update.known).and_then(|known| known.lanes.get(&lane));
    let Some(known) = known.map(|cursor| cursor.at) else { return at(i64::MIN, 0) };
    let behind = update.behind.as_ref().and_then(|behind| behind.get(&lane));
    behind.map_or(known, |run_at| known.min(at(*run_at, 0)))
}

/// Plays every order of steps; answers how many states there are, or a way to where a job is passed by.
fn explore(left: Left, parts: Parts) -> Result<usize, String> {
    let (hasher, mut met) = (RandomState::new(), HashSet::new());
    let mut way: Vec<(World, Vec<Step>, Option<Step>)> = Vec::new();
    let first = World::new(left);
    way.push((first.clone(), first.steps(), None));
    while let Some((world, steps, _)) = way.last_mut() {
        let Some(step) = steps.pop() else {
            way.pop();
            continue;
        };
        let mut next = world.clone();
        if let Err(fault) = next.take(step, parts) {
            let steps: Vec<Step> = way.iter().filter_map(|(.., step)| *step).chain([step]).collect();
            return Err(format!("{fault} after {steps:?}"));
        }
        if met.insert(hasher.hash_one(&next)) {
            let steps = next.steps();
            way.push((next, steps, Some(step)));
        }
    }
    Ok(met.len())
}

/// A transaction that is committed late, and two processes.
fn late() -> Left {
    Left { submits: vec![(0, 4)], lanes: 1, claims: [2, 1], ..Left::default() }
}

/// A job with a due time in the past, and a process that looks as well as it claims.
fn early() -> Left {
    Left { submits: vec![(0, 1)], lanes: 1, claims: [2, 0], looks: [2, 0], ..Left::default() }
}

fn paused() -> Left {
    Left { pauses: 1, lanes: 1, all_commit: true, claims: [2, 1], ..Left::default() }
}

/// Jobs expire, are passed by, and are driven again.
fn expired() -> Left {
    Left { expiries: 1, lanes: 1, all_commit: true, claims: [2, 1], looks: [1, 0], ..Left::default() }
}

/// Arrivals are removed while a transaction is open and while a process does not claim.
fn removed() -> Left {
    Left { submits: vec![(0, 4)], lanes: 1, claims: [3, 0], removals: 3, ..Left::default() }
}

/// Two claims of one process, about different lanes.
fn together() -> Left {
    Left {
        submits: vec![(0, 7)],
        lanes: 2,
        together: true,
        all_commit: true,
        claims: [3, 1],
        ..Left::default()
    }
}

/// The property holds in every order of steps.
fn holds(left: Left) {
    match explore(left, ALL) {
        Ok(states) => println!("{states} states"),
        Err(fault) => panic!("{fault}"),
    }
}

/// Without a part of the mechanism some order of steps passes a job by.
fn breaks(left: Left, parts: Parts) {
    println!("{}", explore(left, parts).expect_err("every job was found"));
}

#[test]
fn a_late_commit_is_claimed_in_its_ranks_turn() {
    // L2, L3
    holds(late());
    breaks(late(), Parts { looks_behind: false, ..ALL });
    breaks(late(), Parts { stays_at_seen: false, ..ALL });
}

#[test]
fn an_early_due_time_is_claimed_in_its_ranks_turn() {
    // L2, L3
    holds(early());
    breaks(early(), Parts { looks_behind: false, ..ALL });
}

#[test]
fn a_resumed_job_is_claimed_in_its_ranks_turn() {
    // L2, L3, L8
    holds(paused());
    breaks(paused(), Parts { looks_behind: false, ..ALL });
}

#[test]
fn an_expired_job_is_passed_by_and_claimed_when_it_is_driven_again() {
    // L2, L3, L19
    holds(expired());
    breaks(expired(), Parts { looks_behind: false, ..ALL });
    breaks(expired(), Parts { expires_for_good: false, ..ALL });
}

#[test]
fn removed_arrivals_are_not_missed() {
    // L2
    holds(removed());
    breaks(removed(), Parts { minds_floor: false, ..ALL });
}

#[test]
fn claims_of_one_process_do_not_mix_what_they_learned() {
    // L2
    holds(together());
    breaks(together(), Parts { checks_version: false, ..ALL });
}
