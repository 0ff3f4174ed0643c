//! The names of our tables.

use std::borrow::Cow;

use backstop_sql::open::is_plain_name;

/// The names of our tables: what they begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix(String);

/// The prefix that the statements are written for.
pub(crate) const DEFAULT_PREFIX: &str = "backstop_";

impl Prefix {
    /// A prefix.
    ///
    /// # Errors
    /// A sentence, when a table's name that begins with it would need quotes.
    pub fn named(name: &str) -> Result<Self, String> {
        let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase());
        if starts_well && is_plain_name(name, 40) {
            return Ok(Self(name.to_owned()));
        }
        Err(format!(
            "the prefix {name:?} is not a plain name: start with a lowercase letter, then use lowercase letters, \
             digits and _, 40 characters at most"
        ))
    }

    /// The prefix.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// A statement as it stands for this prefix.
    #[must_use]
    pub fn text<'a>(&self, sql: &'a str) -> Cow<'a, str> {
        if self.0 == DEFAULT_PREFIX {
            return Cow::Borrowed(sql);
        }
        Cow::Owned(sql.replace(DEFAULT_PREFIX, &self.0))
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self(DEFAULT_PREFIX.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_move_with_their_prefix() {
        let sql = "SELECT 1 FROM backstop_job JOIN backstop_done USING (id)";
        assert_eq!(Prefix::default().text(sql), sql);
        let other = Prefix::named("jobs2_").expect("a plain name");
        assert_eq!(other.text(sql), "SELECT 1 FROM jobs2_job JOIN jobs2_done USING (id)");
    }

    #[test]
    fn names_that_need_quotes_are_refused() {
        // E10
        for name in ["", "Jobs", "a b", "x`; DROP TABLE y", "1st", "_x", &"x".repeat(41)] {
            assert!(Prefix::named(name).is_err(), "{name}");
        }
    }
}
