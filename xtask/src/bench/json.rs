//! Just enough JSON: drivers answer in it, and results are kept in it.
//!
//! Reads what drivers print and what this module writes. Numbers are doubles, which hold every count of a benchmark.

use std::fmt::{self, Write};

/// One JSON value; an object keeps the order of its members.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Flag(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// A text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A number, or null for what is none: JSON has no word for it.
    pub(crate) fn number(number: f64) -> Self {
        if number.is_finite() { Self::Number(number) } else { Self::Null }
    }

    /// An object of these members.
    pub(crate) fn object<const N: usize>(members: [(&str, Json); N]) -> Self {
        Self::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// The member of an object.
    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        let Self::Object(members) = self else { return None };
        members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
    }

    /// The member of an object, as a number.
    pub(crate) fn number_at(&self, name: &str) -> Option<f64> {
        if let Some(Self::Number(number)) = self.get(name) { Some(*number) } else { None }
    }

    /// The member of an object, as a text.
    pub(crate) fn text_at(&self, name: &str) -> Option<&str> {
        if let Some(Self::Text(text)) = self.get(name) { Some(text) } else { None }
    }

    /// The member of an object, as a list of numbers.
    pub(crate) fn numbers_at(&self, name: &str) -> Option<Vec<f64>> {
        let Some(Self::List(items)) = self.get(name) else { return None };
        items.iter().map(|item| if let Self::Number(number) = item { Some(*number) } else { None }).collect()
    }

    /// Reads one value and nothing behind it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value()?;
        reader.space();
        if reader.at == text.len() { Ok(value) } else { Err(reader.complaint("the end")) }
    }

    /// The value over several lines, for files that people read and compare.
    pub(crate) fn pretty(&self) -> String {
        let mut out = String::new();
        self.spread(&mut out, 0);
        out.push('\n');
        out
    }

    fn spread(&self, out: &mut String, depth: usize) {
        let indent = |depth: usize| "  ".repeat(depth);
        match self {
            Self::Object(members) if !members.is_empty() => {
                out.push_str("{\n");
                for (at, (name, value)) in members.iter().enumerate() {
                    out.push_str(&indent(depth + 1));
                    quote(name, out);
                    out.push_str(": ");
                    value.spread(out, depth + 1);
                    out.push_str(if at + 1 < members.len() { ",\n" } else { "\n" });
                }
                out.push_str(&indent(depth));
                out.push('}');
            }
            Self::List(items) if items.iter().any(|item| matches!(item, Self::Object(_))) => {
                out.push_str("[\n");
                for (at, item) in items.iter().enumerate() {
                    out.push_str(&indent(depth + 1));
                    item.spread(out, depth + 1);
                    out.push_str(if at + 1 < items.len() { ",\n" } else { "\n" });
                }
                out.push_str(&indent(depth));
                out.push(']');
            }
            // Writing to a string does not fail.
            other => drop(write!(out, "{other}")),
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => out.write_str("null"),
            Self::Flag(flag) => write!(out, "{flag}"),
            Self::Number(number) => write!(out, "{number}"),
            Self::Text(text) => {
                let mut quoted = String::new();
                quote(text, &mut quoted);
                out.write_str(&quoted)
            }
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(Json::to_string).collect();
                write!(out, "[{}]", items.join(", "))
            }
            Self::Object(members) => {
                let mut quoted = String::from("{");
                for (at, (name, value)) in members.iter().enumerate() {
                    quoted.push_str(if at > 0 { ", " } else { "" });
                    quote(name, &mut quoted);
                    write!(quoted, ": {value}")?;
                }
                write!(out, "{quoted}}}")
            }
        }
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn complaint(&self, wanted: &str) -> String {
        let rest: String = self.rest().chars().take(20).collect();
        format!("expected {wanted} at byte {}, found `{rest}`", self.at)
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Takes `token` when it comes next.
    fn takes(&mut self, token: &str) -> bool {
        self.space();
        let next = self.rest().starts_with(token);
        self.at += if next { token.len() } else { 0 };
        next
    }

    fn value(&mut self) -> Result<Json, String> {
        for (word, value) in [("null", Json::Null), ("true", Json::Flag(true)), ("false", Json::Flag(false))]
        {
            if self.takes(word) {
                return Ok(value);
            }
        }
        if self.takes("[") {
            return self.items("]", Self::value).map(Json::List);
        }
        if self.takes("{") {
            return self.items("}", Self::member).map(Json::Object);
        }
        if self.takes("\"") { self.text().map(Json::Text) } else { self.number() }
    }

    fn items<T>(&mut self, end: &str, item: fn(&mut Self) -> Result<T, String>) -> Result<Vec<T>, String> {
        let mut items = Vec::new();
        if self.takes(end) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.takes(end) {
                return Ok(items);
            }
            if !self.takes(",") {
                return Err(self.complaint("a comma"));
            }
        }
    }

    fn member(&mut self) -> Result<(String, Json), String> {
        if !self.takes("\"") {
            return Err(self.complaint("a name"));
        }
        let name = self.text()?;
        if !self.takes(":") {
            return Err(self.complaint("a colon"));
        }
        Ok((name, self.value()?))
    }

    /// The rest of a string whose first quote was taken.
    fn text(&mut self) -> Result<String, String> {
        let mut read = String::new();
        loop {
            let Some(c) = self.rest().chars().next() else { return Err(self.complaint("a quote")) };
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(read),
                '\\' => read.push(self.escaped()?),
                c => read.push(c),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, String> {
        let Some(c) = self.rest().chars().next() else { return Err(self.complaint("an escape")) };
        self.at += c.len_utf8();
        let hex = |reader: &Self| {
            let code = u32::from_str_radix(reader.rest().get(..4)?, 16).ok()?;
            // One half of a pair stands for a character that no driver writes.
            Some(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
        };
        Ok(match c {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => {
                let found = hex(self).ok_or_else(|| self.complaint("four hexadecimal digits"))?;
                self.at += 4;
                found
            }
            other => other,
        })
    }

    fn number(&mut self) -> Result<Json, String> {
        let belongs = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
        let length = self.rest().find(|c| !belongs(c)).unwrap_or(self.rest().len());
        let number = self.rest()[..length].parse().map_err(|_| self.complaint("a value"))?;
        self.at += length;
        Ok(Json::Number(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let value = Json::object([
            ("text", Json::text("a \"b\" \\ \n ü \u{1}")),
            ("list", Json::List(vec![Json::Number(1.5), Json::Null, Json::Flag(true)])),
            ("objects", Json::List(vec![Json::object([("a", Json::Number(-2.0))])])),
            ("empty", Json::Object(Vec::new())),
        ]);
        assert_eq!(Json::parse(&value.to_string()), Ok(value.clone()));
        assert_eq!(Json::parse(&value.pretty()), Ok(value));
    }

    #[test]
    fn members_are_found_by_name_and_kind() {
        let value = Json::parse(r#" {"jobs": 10, "seconds": 2.5e0, "name": "a\u00e9", "waits_us":[1,2]} "#);
        let value = value.unwrap();
        assert_eq!((value.number_at("jobs"), value.number_at("seconds")), (Some(10.0), Some(2.5)));
        assert_eq!((value.text_at("name"), value.number_at("name")), (Some("aé"), None));
        assert_eq!(value.numbers_at("waits_us"), Some(vec![1.0, 2.0]));
        assert_eq!(value.get("none"), None);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in ["", "{", "[1,", "{\"a\" 1}", "nope", "1 2", "\"open", "{\"a\":\"\\u12\"}"] {
            assert!(Json::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_null() {
        assert_eq!(Json::number(f64::NAN).to_string(), "null");
    }
}
