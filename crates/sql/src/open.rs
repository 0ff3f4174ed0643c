//! What the URLs of all database servers have in common, and how the version of their tables is read.

use std::time::Duration;

use backstop_store::{Error, Versions};

use crate::failure::SqlFailure;
use crate::session::Session;
use crate::value::Query;

/// A store that cannot be used until a person changes something.
pub fn unusable(location: &str, problem: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::Unusable { location: location.to_owned(), problem: problem.into(), hint: hint.into() }
}

/// Takes a pair of the URL that any store knows: `connections`, or in seconds `deadline` and `lock_wait`; false when it
/// is about something else.
///
/// # Errors
/// When the value is not a positive number.
pub fn take_setting(
    (name, value): (&str, &str),
    connections: &mut usize,
    deadline: &mut Duration,
    lock_wait: &mut Duration,
) -> Result<bool, String> {
    let number = || {
        let number = value.parse::<u64>().ok().filter(|number| *number > 0);
        number.ok_or_else(|| format!("{value:?} is not a positive number"))
    };
    match name {
        "connections" => *connections = usize::try_from(number()?).unwrap_or(1),
        "deadline" => *deadline = Duration::from_secs(number()?),
        "lock_wait" => *lock_wait = Duration::from_secs(number()?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Goes through the settings of a URL. `take` answers whether a pair is ours; all others are the driver's. Answers the
/// URL without settings, and the driver's.
///
/// # Errors
/// [`Error::Unusable`] when `take` says what is wrong with a value.
pub fn each_setting(
    url: &str,
    mut take: impl FnMut(&str, &str) -> Result<bool, String>,
) -> Result<(&str, Vec<String>), Error> {
    let wrong = |problem: String| unusable(&without_password(url), problem, "fix this part of the URL");
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let mut theirs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !take(name, value).map_err(wrong)? {
            theirs.push(pair.to_owned());
        }
    }
    Ok((base, theirs))
}

/// True when a name of tables needs no quotes.
#[must_use]
pub fn is_plain_name(name: &str, most: usize) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.chars().all(plain) && name.len() <= most
}

/// A URL as people may see it.
#[must_use]
pub fn without_password(url: &str) -> String {
    let (base, _) = url.split_once('?').unwrap_or((url, ""));
    match (base.find("://"), base.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => {
            let user = base[scheme + 3..at].split(':').next().unwrap_or_default();
            format!("{}{user}{}", &base[..scheme + 3], &base[at..])
        }
        _ => base.to_owned(),
    }
}

/// The version of the tables; none when there are none. `tables` finds the table that `versions` reads.
///
/// # Errors
/// Those of the session.
pub async fn versions(
    session: &mut dyn Session,
    tables: Query,
    versions: Query,
) -> Result<Option<Versions>, SqlFailure> {
    if session.one(tables).await?.is_empty() {
        return Ok(None);
    }
    let Some(mut row) = session.one(versions).await?.into_iter().next() else { return Ok(None) };
    Ok(row.maybe_int()?.zip(row.maybe_int()?).map(|(version, oldest)| Versions { version, oldest }))
}
