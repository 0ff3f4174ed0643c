//! Which program may work on which tables: the same rule for every store that keeps tables on a server.

use crate::Error;

/// What a database says of its tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The migrations they have seen.
    pub version: i64,
    /// The oldest program that may still work on them.
    pub oldest: i64,
}

impl Versions {
    /// True when a program that knows `newest` migrations can use the tables as they are, false when it is to migrate
    /// them first. `found` is none where there are no tables.
    ///
    /// # Errors
    /// [`Error::Unusable`] when the tables are too new, or have to be migrated and the program may not.
    pub fn accept(found: Option<Self>, newest: i64, location: &str, migrate: bool) -> Result<bool, Error> {
        let unusable = |problem: String, hint: &str| {
            Err(Error::Unusable { location: location.to_owned(), problem, hint: hint.to_owned() })
        };
        match found {
            // A newer program was here. During a deploy both work side by side, as long as the tables allow it.
            Some(Self { version, oldest }) if version >= newest && oldest <= newest => Ok(true),
            Some(Self { version, .. }) if version > newest => unusable(
                format!(
                    "it was written by a newer Backstop (schema {version}, this program knows up to {newest})"
                ),
                "use that version of the program",
            ),
            _ if migrate => Ok(false),
            Some(Self { version, .. }) => unusable(
                format!("its schema is version {version}, this program needs {newest}"),
                "run `backstop migrate`",
            ),
            None => unusable("it has no Backstop tables".to_owned(), "run `backstop migrate`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_used_migrated_or_refused() {
        for (found, migrate, expected) in [
            (Some((4, 1)), false, Some(true)),
            (Some((4, 1)), true, Some(true)),
            // Newer ones that this program may still work on, and those that it may not.
            (Some((6, 3)), false, Some(true)),
            (Some((6, 5)), false, None),
            (Some((6, 5)), true, None),
            (Some((3, 1)), true, Some(false)),
            (Some((3, 1)), false, None),
            (None, true, Some(false)),
            (None, false, None),
        ] {
            let versions = found.map(|(version, oldest)| Versions { version, oldest });
            let accepted = Versions::accept(versions, 4, "a place", migrate);
            assert_eq!(accepted.ok(), expected, "{found:?} {migrate}");
        }
    }
}
