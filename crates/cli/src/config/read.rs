//! Walks a file along the schema. Every fault is found in one pass, each with its place in the file.

use std::ops::Range;
use std::time::Duration;

use backstop::Jitter;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::nearest::nearest;
use super::schema::{FILE, Key, Kind, Shape};
use super::settings::Source;
use crate::output::{brief, span};

/// A value that stands in the file.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Where: `["queues", "mail", "timeout"]`. The `_ms` form of a duration has the name without it.
    pub(crate) path: Vec<String>,
    /// What, checked against its shape.
    pub(crate) value: Plain,
    /// Its place.
    pub(crate) place: Range<usize>,
    /// What the schema says of it.
    pub(crate) key: &'static Key,
    /// Who says it.
    pub(crate) source: Source,
}

/// A checked value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Plain {
    Text(String),
    Count(u64),
    Span(Duration),
    Texts(Vec<String>),
    /// What this version does not use, as it stands there.
    Other(Value),
}

/// Something that may not stand in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Where.
    pub(crate) place: Range<usize>,
    /// The key, in full.
    pub(crate) key: String,
    /// What is wrong, naming the way out.
    pub(crate) message: String,
}

/// Reads a file's text.
pub(crate) fn read(text: &str) -> Result<Vec<Found>, Vec<Fault>> {
    let table = DeTable::parse(text).map_err(|error| {
        let message = format!("not TOML: {}", error.message());
        vec![Fault { place: error.span().unwrap_or(0..0), key: String::new(), message }]
    })?;
    let mut walk = Walk::default();
    walk.section(table.get_ref(), FILE);
    walk.twice();
    if walk.faults.is_empty() { Ok(walk.found) } else { Err(walk.faults) }
}

#[derive(Default)]
struct Walk {
    path: Vec<String>,
    found: Vec<Found>,
    faults: Vec<Fault>,
}

impl Walk {
    fn section(&mut self, table: &DeTable<'_>, keys: &'static [Key]) {
        for (name, value) in table {
            self.path.push(name.get_ref().to_string());
            match keys.iter().find(|key| key.name == name.get_ref()) {
                Some(key) => self.entry(key, value),
                None => self.unknown(name, keys),
            }
            self.path.pop();
        }
    }

    fn unknown(&mut self, name: &Spanned<std::borrow::Cow<'_, str>>, keys: &'static [Key]) {
        let place = match self.path.len() {
            1 => "at the top level".to_owned(),
            depth => format!("in [{}]", self.path[..depth - 1].join(".")),
        };
        let shown = brief(name.get_ref(), 60);
        let message = match nearest(name.get_ref(), keys.iter().map(|key| key.name)) {
            Some(word) => format!("unknown key `{shown}` {place}: did you mean `{word}`?"),
            None => {
                let known: Vec<_> = keys.iter().map(|key| key.name).collect();
                format!("unknown key `{shown}` {place}: known are {}", known.join(", "))
            }
        };
        self.fault(name.span(), message);
    }

    fn fault(&mut self, place: Range<usize>, message: String) {
        self.faults.push(Fault { place, key: self.path.join("."), message });
    }

    fn entry(&mut self, key: &'static Key, value: &Spanned<DeValue<'_>>) {
        match key.shape {
            Shape::Section(keys) => match value.get_ref().as_table() {
                Some(table) => self.section(table, keys),
                None => self.mismatch(value, "a table"),
            },
            Shape::Named(keys) => match value.get_ref().as_table() {
                Some(table) => self.named(table, keys),
                None => self.mismatch(value, "a table of tables"),
            },
            Shape::Value(kind) => match plain(kind, value.get_ref()) {
                Ok(plain) => self.keep(key, kind, plain, value.span()),
                Err(expected) => self.mismatch(value, &expected),
            },
            Shape::Open => {
                let path = self.path.clone();
                let other = Plain::Other(as_json(value.get_ref()));
                self.found.push(Found { path, value: other, place: value.span(), key, source: Source::File });
            }
        }
    }

    fn named(&mut self, table: &DeTable<'_>, keys: &'static [Key]) {
        for (name, value) in table {
            self.path.push(name.get_ref().to_string());
            match value.get_ref().as_table() {
                Some(table) => self.section(table, keys),
                None => self.mismatch(value, "a table"),
            }
            self.path.pop();
        }
    }

    fn mismatch(&mut self, value: &Spanned<DeValue<'_>>, expected: &str) {
        let message = format!("`{}` must be {expected}", brief(&self.path.join("."), 80));
        self.fault(value.span(), message);
    }

    fn keep(&mut self, key: &'static Key, kind: Kind, value: Plain, place: Range<usize>) {
        let mut path = self.path.clone();
        if let (Kind::Millis, Some(last)) = (kind, path.last_mut()) {
            last.truncate(last.len() - "_ms".len());
        }
        self.found.push(Found { path, value, place, key, source: Source::File });
    }

    /// A duration may be written in two ways, but not in both at once.
    fn twice(&mut self) {
        for (at, found) in self.found.iter().enumerate() {
            if self.found[..at].iter().any(|other| other.path == found.path) {
                let key = found.path.join(".");
                let message = format!("`{}` is given twice, as text and in ms: keep one", brief(&key, 80));
                self.faults.push(Fault { place: found.place.clone(), key, message });
            }
        }
    }
}

/// What is never removed.
const FOREVER: &str = "forever";

/// The value in its kind, or what it must be.
fn plain(kind: Kind, value: &DeValue<'_>) -> Result<Plain, String> {
    match kind {
        Kind::Text => text(value).map(Plain::Text).ok_or_else(|| "a text in quotes".to_owned()),
        Kind::Count => count(value).map(Plain::Count).ok_or_else(|| "a whole number from 0".to_owned()),
        Kind::Flag => value
            .as_bool()
            .map(|flag| Plain::Other(Value::Bool(flag)))
            .ok_or_else(|| "true or false".to_owned()),
        Kind::Span => {
            let given =
                text(value).ok_or_else(|| "a duration in quotes, such as \"30s\" or \"5 min\"".to_owned())?;
            let wrong = |_| "a duration with its unit, such as \"250ms\", \"30s\" or \"5 min\"".to_owned();
            span::parse(&given).map(Plain::Span).map_err(wrong)
        }
        Kind::Keep => match text(value).as_deref() {
            Some(FOREVER) => Ok(Plain::Text(FOREVER.to_owned())),
            given => given
                .and_then(|given| span::parse(given).ok())
                .map(Plain::Span)
                .ok_or_else(|| format!("\"{FOREVER}\" or a duration in quotes, such as \"400 days\"")),
        },
        Kind::Millis => count(value)
            .map(|millis| Plain::Span(Duration::from_millis(millis)))
            .ok_or_else(|| "whole milliseconds".to_owned()),
        Kind::Texts => texts(value).map(Plain::Texts).ok_or_else(|| "a list of texts".to_owned()),
        Kind::Word(words) => text(value)
            .filter(|given| words.contains(&given.as_str()))
            .map(Plain::Text)
            .ok_or_else(|| format!("one of \"{}\"", words.join("\", \""))),
        Kind::Jitter => text(value)
            .filter(|given| given.parse::<Jitter>().is_ok())
            .map(Plain::Text)
            .ok_or_else(|| "\"none\", \"full\", \"equal\" or a percentage such as \"20%\"".to_owned()),
    }
}

fn text(value: &DeValue<'_>) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn count(value: &DeValue<'_>) -> Option<u64> {
    let integer = value.as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| text(item.get_ref())).collect()
}

/// The value as JSON, for `config check` to show.
fn as_json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::Array(items) => items.iter().map(|item| as_json(item.get_ref())).collect(),
        DeValue::Table(table) => {
            table.iter().map(|(name, value)| (name.get_ref().to_string(), as_json(value.get_ref()))).collect()
        }
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Integer(_) => match count(value) {
            Some(count) => count.into(),
            None => Value::String(value.as_integer().map_or_else(String::new, |integer| integer.to_string())),
        },
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Float(float) => Value::String(float.to_string()),
        DeValue::Datetime(moment) => Value::String(moment.to_string()),
    }
}
