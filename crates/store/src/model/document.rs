//! Documents, and the operations on jobs that go with their changes.

use backstop_core::Timestamp;
use backstop_core::outbox::OutboxKey;

use super::submit::{Undo, all_stored};
use super::tables::{ModelCommit, Tables};
use crate::{
    Amend, Amended, Document, DocumentRange, Documents, Drawer, Edit, Error, Expect, OutboxBacklog,
    check_names,
};

impl Tables {
    pub(super) fn read_documents(&self, range: &DocumentRange, now: Timestamp) -> Result<Documents, Error> {
        let begin = (range.drawer, range.prefix.clone());
        let is_behind =
            |key: &String, after: &String| if range.last_first { key < after } else { key > after };
        let mut rows: Vec<Document> = self
            .documents
            .range(begin..)
            .take_while(|((drawer, key), _)| *drawer == range.drawer && key.starts_with(&range.prefix))
            .filter(|((_, key), _)| range.after.as_ref().is_none_or(|after| is_behind(key, after)))
            .map(|((_, key), (revision, body))| Document {
                key: key.clone(),
                revision: *revision,
                body: body.clone(),
            })
            .collect();
        if range.last_first {
            rows.reverse();
        }
        let page = super::query::cut(rows.into_iter(), range.limit, |_| ())?;
        Ok(Documents { now, items: page.items, more: page.next.is_some() })
    }

    pub(super) fn named_documents(&self, names: &[(Drawer, String)]) -> Result<Vec<Option<Document>>, Error> {
        check_names(names.len())?;
        let read = |(drawer, key): &(Drawer, String)| {
            let (revision, body) = self.documents.get(&(*drawer, key.clone()))?;
            Some(Document { key: key.clone(), revision: *revision, body: body.clone() })
        };
        Ok(names.iter().map(read).collect())
    }

    pub(super) fn outbox_backlog(&self, sink: &str, now: Timestamp) -> OutboxBacklog {
        let prefix = OutboxKey::prefix(sink);
        let mine = |(drawer, key): &&(Drawer, String)| *drawer == Drawer::Outbox && key.starts_with(&prefix);
        OutboxBacklog::of(now, self.documents.keys().filter(mine).map(|(_, key)| key.as_str()))
    }

    pub(super) fn amend(&mut self, amend: &Amend, commit: &mut ModelCommit) -> Result<Amended, Error> {
        amend.check_size()?;
        if let Some(term) = &amend.term {
            self.expect_term(term, term.duty, commit.now)?;
        }
        if let Some(edit) = amend.edits.iter().find(|edit| !self.is_expected(edit)) {
            return Ok(Amended::Conflict { drawer: edit.drawer, key: edit.key.clone() });
        }
        let before = amend.strict.then(|| self.clone());
        let mut undo = Undo::default();
        let stored: Vec<_> = amend.jobs.iter().map(|new| self.submit_one(new, &mut undo, commit)).collect();
        let submitted = match all_stored(stored) {
            Ok(submitted) => submitted,
            Err((index, refusal)) => {
                self.undo(undo);
                *commit = ModelCommit::at(commit.now, commit.wants.clone());
                return Ok(Amended::Refused { index, refusal });
            }
        };
        for edit in &amend.edits {
            let place = (edit.drawer, edit.key.clone());
            let revision = self.documents.get(&place).map_or(0, |(revision, _)| *revision) + 1;
            match &edit.body {
                Some(body) => self.documents.insert(place, (revision, body.clone())),
                None => self.documents.remove(&place),
            };
        }
        let operated: Vec<_> =
            amend.operations.iter().map(|(job, what)| self.operate_one(*job, what, commit)).collect();
        if let Some((index, refusal)) = amend.first_unchanged(operated.iter().cloned()) {
            *self = before.unwrap_or_default();
            *commit = ModelCommit::at(commit.now, commit.wants.clone());
            return Ok(Amended::Refused { index, refusal });
        }
        Ok(Amended::Done { now: commit.now, operated, submitted })
    }

    fn is_expected(&self, edit: &Edit) -> bool {
        let found = self.documents.get(&(edit.drawer, edit.key.clone())).map(|(revision, _)| *revision);
        match edit.expect {
            Expect::Any => true,
            Expect::Absent => found.is_none(),
            Expect::Revision(revision) => found == Some(revision),
        }
    }
}
