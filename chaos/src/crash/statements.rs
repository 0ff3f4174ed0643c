//! Watches every statement that this process runs on SQLite, and ends the process at one of them.
//!
//! SQLite itself tells: it calls a function for every connection that is opened, and another one for every statement.
//! The store under test does not know of it.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

use rusqlite::ffi;

use super::trap::{CrashTrap, die_once};

/// What is left of the words to come, and the statement whose end is waited for.
struct Watch {
    trap: CrashTrap,
    last: Option<usize>,
}

static WATCH: Mutex<Option<Watch>> = Mutex::new(None);

/// Watches the connections that are opened from now on.
///
/// # Panics
/// When SQLite does not let itself be watched: a campaign would kill nobody.
#[allow(unsafe_code, reason = "no safe call sees the statements of connections that others open")]
pub fn watch(trap: CrashTrap) {
    *WATCH.lock().unwrap_or_else(PoisonError::into_inner) = Some(Watch { trap, last: None });
    // SAFETY: `connected` has the signature that SQLite asks for, and lives as long as the process.
    let answer = unsafe { ffi::sqlite3_auto_extension(Some(connected)) };
    assert_eq!(answer, ffi::SQLITE_OK, "SQLite lets itself be watched");
}

#[allow(unsafe_code, reason = "SQLite calls it")]
unsafe extern "C" fn connected(
    connection: *mut ffi::sqlite3,
    _message: *mut *mut c_char,
    _routines: *const ffi::sqlite3_api_routines,
) -> c_int {
    let events = ffi::SQLITE_TRACE_STMT | ffi::SQLITE_TRACE_PROFILE;
    // SAFETY: the connection is the one that SQLite has just opened; `traced` needs no context.
    unsafe { ffi::sqlite3_trace_v2(connection, events, Some(traced), std::ptr::null_mut()) }
}

#[allow(unsafe_code, reason = "SQLite calls it")]
unsafe extern "C" fn traced(
    event: c_uint,
    _context: *mut c_void,
    statement: *mut c_void,
    _detail: *mut c_void,
) -> c_int {
    if event == ffi::SQLITE_TRACE_PROFILE {
        ended(statement as usize);
        return 0;
    }
    // SAFETY: for this event SQLite passes a statement that is alive; the text is ours, and is given back.
    let text = unsafe {
        let text = ffi::sqlite3_expanded_sql(statement.cast());
        if text.is_null() {
            return 0;
        }
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        ffi::sqlite3_free(text.cast());
        copy
    };
    began(statement as usize, &text);
    0
}

/// A statement is about to run, with its values in place.
fn began(statement: usize, text: &str) {
    let mut watch = WATCH.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(Watch { trap, last }) = &mut *watch else { return };
    if !trap.words.first().is_some_and(|word| text.contains(word)) {
        return;
    }
    trap.words.remove(0);
    if !trap.words.is_empty() {
        return;
    }
    if trap.after {
        *last = Some(statement);
    } else {
        die_once();
    }
}

/// A statement has done what it does.
fn ended(statement: usize) {
    let mut watch = WATCH.lock().unwrap_or_else(PoisonError::into_inner);
    if watch.as_ref().is_some_and(|watch| watch.last == Some(statement)) {
        *watch = None;
        die_once();
    }
}
