//! What an error of SQLite means here. The only place that knows SQLite's codes.

use backstop_store::Error;
use rusqlite::ErrorCode;

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum SqliteFailure {
    /// The database failed: whatever the command wrote must be rolled back.
    Sql(rusqlite::Error),
    /// A rule refused it before anything was written: this is the command's answer, and nothing is rolled back.
    Refused(Error),
    /// A row that this program cannot have written.
    Unreadable(String),
    /// The command panicked.
    Panicked(String),
}

impl From<rusqlite::Error> for SqliteFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<Error> for SqliteFailure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<serde_json::Error> for SqliteFailure {
    fn from(error: serde_json::Error) -> Self {
        Self::Unreadable(format!("a JSON column is not valid: {error}"))
    }
}

impl SqliteFailure {
    /// The failure of a command that panicked, with its message.
    pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::Panicked(text.unwrap_or("no message").to_owned())
    }

    /// The error that callers see.
    pub(crate) fn into_error(self, location: &str) -> Error {
        match self {
            Self::Sql(error) => meaning(&error, location),
            Self::Refused(error) => error,
            Self::Unreadable(problem) => Error::Corrupt { location: location.to_owned(), problem },
            Self::Panicked(message) => Error::Backend {
                location: location.to_owned(),
                problem: format!(
                    "a command panicked and was rolled back ({message}); this is a fault of Backstop, please report it"
                ),
                source: None,
            },
        }
    }

    /// True when another connection holds a lock and a retry can succeed.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Sql(error) if is_busy(error))
    }
}

/// True when another connection holds a lock and a retry can succeed.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::SchemaChanged
        )
    )
}

/// What an error of the driver means to the caller of the store.
pub(crate) fn meaning(error: &rusqlite::Error, location: &str) -> Error {
    let location = location.to_owned();
    let Some(code) = error.sqlite_error_code() else {
        // Not from SQLite but from reading a row: a type or a value that was never written here.
        return Error::Corrupt { location, problem: error.to_string() };
    };
    let source = copy_of(error);
    let unavailable =
        |problem: String| Error::Unavailable { location: location.clone(), problem, source: copy_of(error) };
    match code {
        ErrorCode::DiskFull => Error::DiskFull { location, source },
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => unavailable(
            "another process kept the file locked for longer than the busy timeout; look for a long transaction \
                 or a stopped process that has it open"
                .to_owned(),
        ),
        ErrorCode::SystemIoFailure => {
            unavailable(format!("the disk or its file system failed ({error}); check them, then try again"))
        }
        ErrorCode::OutOfMemory | ErrorCode::OperationInterrupted | ErrorCode::SchemaChanged => {
            unavailable(format!("SQLite failed ({error}); try again"))
        }
        ErrorCode::DatabaseCorrupt => Error::Corrupt { location, problem: format!("{error}; restore it from a \
             backup") },
        ErrorCode::NotADatabase => unusable(location, "it is not an SQLite database", "name another file, or \
             move this one away"),
        ErrorCode::ReadOnly => unusable(location, "it cannot be written to", "give this user write access to \
             the file and its directory"),
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied => unusable(
            location,
            "it cannot be opened or created",
            "check that its directory exists and that this user may read and write there",
        ),
        _ => Error::Backend { location, problem: error.to_string(), source },
    }
}

/// What a failed COMMIT means: after a failing disk nobody knows what a restart will find.
pub(crate) fn meaning_of_commit(error: &rusqlite::Error, location: &str) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::SystemIoFailure) => {
            Error::Unknown { location: location.to_owned(), source: copy_of(error) }
        }
        _ => meaning(error, location),
    }
}

/// The error of a store that cannot be used until somebody fixes it.
pub(crate) fn unusable(location: String, problem: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::Unusable { location, problem: problem.into(), hint: hint.into() }
}

/// A copy of the driver's error, because one failure may be reported to many callers.
fn copy_of(error: &rusqlite::Error) -> Option<Box<dyn std::error::Error + Send + Sync>> {
    match error {
        rusqlite::Error::SqliteFailure(code, message) => {
            Some(Box::new(rusqlite::Error::SqliteFailure(*code, message.clone())))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_for(extended: i32) -> &'static str {
        let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(extended), None);
        meaning(&error, "jobs.db").code()
    }

    #[test]
    fn each_code_has_one_meaning() {
        use rusqlite::ffi;
        assert_eq!(code_for(ffi::SQLITE_FULL), "disk_full");
        for busy in
            [ffi::SQLITE_BUSY, ffi::SQLITE_BUSY_SNAPSHOT, ffi::SQLITE_BUSY_RECOVERY, ffi::SQLITE_LOCKED]
        {
            assert_eq!(code_for(busy), "store_unavailable");
        }
        assert_eq!(code_for(ffi::SQLITE_IOERR_FSYNC), "store_unavailable");
        assert_eq!(code_for(ffi::SQLITE_CORRUPT), "store_corrupt");
        for unusable in [
            ffi::SQLITE_NOTADB,
            ffi::SQLITE_READONLY,
            ffi::SQLITE_READONLY_DIRECTORY,
            ffi::SQLITE_CANTOPEN,
            ffi::SQLITE_PERM,
        ] {
            assert_eq!(code_for(unusable), "store_unusable");
        }
        assert_eq!(code_for(ffi::SQLITE_CONSTRAINT), "store_failed");
    }

    #[test]
    fn a_failed_sync_at_commit_leaves_the_outcome_unknown() {
        let error = rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC),
            None,
        );
        assert!(meaning_of_commit(&error, "jobs.db").is_unknown());
        let full =
            rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL), None);
        assert_eq!(meaning_of_commit(&full, "jobs.db").code(), "disk_full");
    }
}
