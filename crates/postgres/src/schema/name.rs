//! The names of our tables.

use std::borrow::Cow;

use backstop_sql::open::is_plain_name;

/// The names of our tables: the schema they are in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema(String);

/// The schema that the statements are written for.
const DEFAULT_SCHEMA: &str = "backstop";

impl Schema {
    /// A schema by name.
    ///
    /// # Errors
    /// A sentence, when the name is none that needs no quotes.
    pub fn named(name: &str) -> Result<Self, String> {
        let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        if starts_well && is_plain_name(name, 50) {
            return Ok(Self(name.to_owned()));
        }
        Err(format!(
            "the schema {name:?} is not a valid name: use lowercase letters, digits and _, at most 50"
        ))
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// A statement as it stands for this schema.
    #[must_use]
    pub fn text<'a>(&self, sql: &'a str) -> Cow<'a, str> {
        if self.0 == DEFAULT_SCHEMA {
            return Cow::Borrowed(sql);
        }
        Cow::Owned(sql.replace("backstop.", &format!("{}.", self.0)))
    }

    /// The schema that the location of an open store names, as [`backstop_store::StoreInfo`] tells it.
    #[must_use]
    pub fn of_location(location: &str) -> Self {
        let named = location.rsplit_once("?schema=").map(|(_, name)| Self::named(name));
        named.and_then(Result::ok).unwrap_or_default()
    }
}

impl Default for Schema {
    fn default() -> Self {
        Self(DEFAULT_SCHEMA.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_move_with_their_schema() {
        let sql = "SELECT 1 FROM backstop.job JOIN backstop.done USING (id)";
        assert_eq!(Schema::default().text(sql), sql);
        let other = Schema::named("jobs_2").expect("a plain name");
        assert_eq!(other.text(sql), "SELECT 1 FROM jobs_2.job JOIN jobs_2.done USING (id)");
    }

    #[test]
    fn names_that_need_quotes_are_refused() {
        // E10
        for name in ["", "Jobs", "a b", "x\"; DROP SCHEMA public", "1st", &"x".repeat(51)] {
            assert!(Schema::named(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_schema_is_found_in_a_stores_location() {
        assert_eq!(Schema::of_location("postgres://db:5432/app"), Schema::default());
        assert_eq!(Schema::of_location("postgres://a:1,b:2/app?schema=jobs_2").name(), "jobs_2");
    }
}
