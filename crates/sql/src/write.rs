//! Writes the sum of a transaction, in a handful of statements and in one fixed order of tables.

use std::collections::BTreeSet;

use backstop_core::workflow::EndNote;
use backstop_core::{JobId, Timestamp};
use backstop_store::Drawer;
use backstop_store::working_set::{LaneKey, LineWrites, ReadyRow, Writes, lane_of};

use crate::columns::{Cells, Columns};
use crate::counting;
use crate::encode;
use crate::failure::SqlFailure;
use crate::lanes::{LaneIds, Lanes};
use crate::session::Session;
use crate::statement::{Request, Statement};

/// What is to be written, and the lanes it mentions. When failures are counted, the last request does that, because
/// everybody who fails alike waits for it.
pub(crate) struct Prepared {
    pub(crate) requests: Vec<Request>,
    pub(crate) lanes: LaneIds,
}

/// Makes the requests for what a transaction changed.
pub(crate) async fn prepare(
    session: &mut dyn Session,
    lanes: &Lanes,
    writes: &Writes,
    now: Timestamp,
) -> Result<Prepared, SqlFailure> {
    let ids = lanes.ids(session, mentioned(writes)).await?;
    let requests = requests(writes, &ids, now)?;
    Ok(Prepared { requests, lanes: ids })
}

fn mentioned(writes: &Writes) -> BTreeSet<LaneKey> {
    // Whatever moves is counted, but a job that goes back to where it was is not.
    let rows = writes.ready_in.iter().chain(&writes.ready_out).map(|row| &row.lane);
    let records = writes.records_in.iter().map(|row| &row.lane);
    let done = writes.done.iter().map(|row| &row.lane);
    let mut lanes: BTreeSet<LaneKey> = writes.tally.keys().cloned().collect();
    for lane in rows.chain(records).chain(done) {
        if !lanes.contains(lane) {
            lanes.insert(lane.clone());
        }
    }
    lanes
}

fn requests(writes: &Writes, ids: &LaneIds, now: Timestamp) -> Result<Vec<Request>, SqlFailure> {
    let mut out = Out(Vec::new());
    let mut lanes = Numbers { ids, latest: None };
    out.keys(Statement::InsertIdempotencyKeys, &writes.idempotency);
    out.keys(Statement::DeleteBusinessKeys, &writes.keys_out);
    out.keys(Statement::InsertBusinessKeys, &writes.keys_in);
    out.try_rows(Statement::InsertJobs, &writes.jobs, |row, (job, run_at)| {
        encode::job(row, job, *run_at, lanes.of(&lane_of(&job.spec)))
    })?;
    let tags = writes.jobs.iter().flat_map(|(job, _)| job.spec.tags.iter().map(|tag| (tag, job.spec.id)));
    out.rows(Statement::InsertTags, tags, |row, (tag, id)| {
        row.text(tag).job(id);
    });
    let mut gone: Vec<&ReadyRow> = writes.ready_out.iter().collect();
    // In the order of the key, as everybody locks them.
    gone.sort_by_key(|row| (ids.get(&row.lane), row.run_at, row.id));
    out.rows(Statement::DeleteReady, gone, |row, gone| {
        row.maybe_int(lanes.of(&gone.lane)).at(gone.run_at).job(gone.id);
    });
    out.rows(Statement::DeleteTurns, &writes.turns_out, |row, turn| {
        row.maybe_int(lanes.of(&turn.lane)).text(&turn.key).at(turn.run_at).job(turn.id);
    });
    out.rows(Statement::InsertTurns, &writes.turns_in, |row, turn| {
        row.maybe_int(lanes.of(&turn.lane)).text(&turn.key).at(turn.run_at).job(turn.id);
    });
    out.rows(Statement::DeletePermits, &writes.permits_out, |row, permit| {
        row.text(&permit.shared.text()).job(permit.id);
    });
    out.try_rows(Statement::SaveRecords, &writes.records_in, |row, record| {
        encode::record(row, record, lanes.of(&record.lane))
    })?;
    out.rows(Statement::DeleteRecords, &writes.records_out, |row, id| {
        row.job(*id);
    });
    out.rows(Statement::InsertReady, &writes.ready_in, |row, ready| {
        encode::ready(row, ready, lanes.of(&ready.lane));
    });
    out.try_rows(Statement::InsertDone, &writes.done, |row, done| {
        encode::done(row, done, lanes.of(&done.lane))
    })?;
    out.try_rows(Statement::InsertAttempts, &writes.attempts, |row, (job, run)| {
        encode::attempt(row, *job, run)
    })?;
    out.lines(&writes.lines);
    let (spent, kept): (Vec<_>, Vec<_>) = writes.claims.iter().partition(|claim| claim.is_spent());
    out.rows(Statement::DeleteClaims, spent, |row, claim| {
        row.int(claim.fence.0);
    });
    out.rows(Statement::UpdateClaims, kept, |row, claim| {
        row.int(claim.fence.0).bytes(claim.encode_slots());
    });
    let tally = writes.tally.iter().filter(|(_, counts)| counts.iter().any(|count| *count != 0));
    out.rows(Statement::InsertTally, tally, |row, (lane, counts)| {
        row.maybe_int(lanes.of(lane));
        for count in counts {
            row.int(*count);
        }
    });
    out.documents(writes, now)?;
    counting::write(&mut out.0, writes, now);
    Ok(out.0)
}

/// Requests under construction. One without rows is left out.
struct Out(Vec<Request>);

impl Out {
    fn try_rows<T>(
        &mut self,
        statement: Statement,
        all: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Cells<'_>, T) -> Result<(), SqlFailure>,
    ) -> Result<(), SqlFailure> {
        let mut columns = Columns::default();
        for one in all {
            write(&mut columns.row(), one)?;
        }
        if columns.rows() > 0 {
            self.0.push(statement.rows(columns));
        }
        Ok(())
    }

    fn rows<T>(
        &mut self,
        statement: Statement,
        all: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Cells<'_>, T),
    ) {
        let mut columns = Columns::default();
        all.into_iter().for_each(|one| write(&mut columns.row(), one));
        if columns.rows() > 0 {
            self.0.push(statement.rows(columns));
        }
    }

    /// Notes beside each change that the turn may have to pass on. That is for another transaction: this one may be a
    /// caller's, which stays open for long, and nobody waits for it here.
    fn lines(&mut self, lines: &LineWrites) {
        self.rows(Statement::InsertPlaces, &lines.joined, |row, (key, id)| {
            row.text(key).job(*id);
        });
        self.rows(Statement::DeletePlaces, &lines.left, |row, (_, id)| {
            row.job(*id);
        });
        self.rows(Statement::DeleteHeads, &lines.heads_left, |row, (key, id)| {
            row.text(key).job(*id);
        });
        self.rows(Statement::MarkHeads, &lines.blocked, |row, (key, id, blocked)| {
            row.text(key).job(*id).bool(*blocked);
        });
        self.rows(Statement::InsertLineChanges, lines.changed(), |row, key| {
            row.text(key);
        });
    }

    /// What a transaction leaves in drawers.
    fn documents(&mut self, writes: &Writes, now: Timestamp) -> Result<(), SqlFailure> {
        // Raised alerts (D3). A moment and a job name one death: whoever wrote it before wrote the same.
        self.try_rows(Statement::SaveDocuments, &writes.alerts, |row, notice| {
            row.text(Drawer::Alerts.as_str()).text(&notice.key()).int(1).json(Some(notice))?;
            Ok(())
        })?;
        self.rows(Statement::SaveDocuments, &EndNote::documents(&writes.ended), |row, ends| {
            row.text(Drawer::WorkflowEnds.as_str()).text(&ends.key(now)).int(1).text(&ends.body);
        });
        let noted = writes.noted.iter().chain(&writes.outbox);
        self.rows(Statement::SaveDocuments, noted, |row, (drawer, key, body)| {
            row.text(drawer.as_str()).text(key).int(1).text(body);
        });
        Ok(())
    }

    fn keys(&mut self, statement: Statement, keys: &[(String, JobId)]) {
        self.rows(statement, keys, |row, (key, job)| {
            row.text(key).job(*job);
        });
    }
}

/// The ids of lanes. Rows of one lane mostly follow each other, so the one before is tried first.
struct Numbers<'i> {
    ids: &'i LaneIds,
    latest: Option<(LaneKey, Option<i64>)>,
}

impl Numbers<'_> {
    fn of(&mut self, lane: &LaneKey) -> Option<i64> {
        match &self.latest {
            Some((latest, id)) if latest == lane => *id,
            _ => {
                let id = self.ids.get(lane).copied();
                self.latest = Some((lane.clone(), id));
                id
            }
        }
    }
}
