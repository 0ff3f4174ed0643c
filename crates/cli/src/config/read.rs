//! Walks a file along the schema. Every fault is found in one pass, each with its place in the file.

use std::ops::Range;
use std::time::Duration;

use backstop::Jitter;
use backstop::rejects::RejectPercent;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::nearest::nearest;
use super::rate;
use super::schema::{ConfigKey, FILE, KeyShape, ValueKind};
use super::source::SettingSource;
use crate::output::{brief, span};

/// A value that stands in the file.
#[derive(Debug, Clone)]
pub(crate) struct FileValue {
    /// Where: `["queues", "mail", "timeout"]`. The `_ms` form of a duration has the name without it.
    pub(crate) path: Vec<String>,
    /// What, checked against its shape.
    pub(crate) value: PlainValue,
    /// Its place.
    pub(crate) place: Range<usize>,
    /// What the schema says of it.
    pub(crate) key: &'static ConfigKey,
    /// Who says it.
    pub(crate) source: SettingSource,
}

/// A checked value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PlainValue {
    Text(String),
    Count(u64),
    Percent(RejectPercent),
    Span(Duration),
    Texts(Vec<String>),
    /// What this version does not use, as it stands there.
    Other(Value),
}

/// Something that may not stand in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigFault {
    /// Where.
    pub(crate) place: Range<usize>,
    /// The key, in full.
    pub(crate) key: String,
    /// What is wrong, naming the way out.
    pub(crate) message: String,
}

/// Reads a file's text.
pub(crate) fn read(text: &str) -> Result<Vec<FileValue>, Vec<ConfigFault>> {
    let table = DeTable::parse(text).map_err(|error| {
        let message = format!("not TOML: {}", error.message());
        vec![ConfigFault { place: error.span().unwrap_or(0..0), key: String::new(), message }]
    })?;
    let mut walk = Walk::default();
    walk.section(table.get_ref(), FILE);
    walk.twice();
    if walk.faults.is_empty() { Ok(walk.found) } else { Err(walk.faults) }
}

#[derive(Default)]
struct Walk {
    path: Vec<String>,
    found: Vec<FileValue>,
    faults: Vec<ConfigFault>,
}

impl Walk {
    fn section(&mut self, table: &DeTable<'_>, keys: &'static [ConfigKey]) {
        for (name, value) in table {
            self.path.push(name.get_ref().to_string());
            match keys.iter().find(|key| key.name == name.get_ref()) {
                Some(key) => self.entry(key, value),
                None => self.unknown(name, keys),
            }
            self.path.pop();
        }
    }

    fn unknown(&mut self, name: &Spanned<std::borrow::Cow<'_, str>>, keys: &'static [ConfigKey]) {
        let place = match self.path.len() {
            1 => "at the top level".to_owned(),
            depth => format!("in [{}]", self.path[..depth - 1].join(".")),
        };
        let shown = brief(name.get_ref(), 60);
        let message = match nearest(name.get_ref(), keys.iter().map(|key| key.name)) {
            Some(word) => format!("unknown key `{shown}` {place}: did you mean `{word}`?"),
            None => {
                let known: Vec<_> = keys.iter().map(|key| key.name).collect();
                format!("unknown key `{shown}` {place}: use one of {}", known.join(", "))
            }
        };
        self.fault(name.span(), message);
    }

    fn fault(&mut self, place: Range<usize>, message: String) {
        self.faults.push(ConfigFault { place, key: self.path.join("."), message });
    }

    fn entry(&mut self, key: &'static ConfigKey, value: &Spanned<DeValue<'_>>) {
        match key.shape {
            KeyShape::Section(keys) => match value.get_ref().as_table() {
                Some(table) => self.section(table, keys),
                None => self.mismatch(value, "a table"),
            },
            KeyShape::Named(keys) => match value.get_ref().as_table() {
                Some(table) => self.named(table, keys),
                None => self.mismatch(value, "a table of tables"),
            },
            KeyShape::SectionAndNamed(own, keys) => match value.get_ref().as_table() {
                Some(table) => self.mixed(table, own, keys),
                None => self.mismatch(value, "a table"),
            },
            KeyShape::Value(kind) => match plain(kind, value.get_ref()) {
                Ok(plain) => self.keep(key, kind, plain, value.span()),
                Err(expected) => self.mismatch(value, &expected),
            },
            KeyShape::Open => {
                let path = self.path.clone();
                let other = PlainValue::Other(as_json(value.get_ref()));
                self.found.push(FileValue {
                    path,
                    value: other,
                    place: value.span(),
                    key,
                    source: SettingSource::File,
                });
            }
        }
    }

    fn named(&mut self, table: &DeTable<'_>, keys: &'static [ConfigKey]) {
        for (name, value) in table {
            self.path.push(name.get_ref().to_string());
            match value.get_ref().as_table() {
                Some(table) => self.section(table, keys),
                None => self.mismatch(value, "a table"),
            }
            self.path.pop();
        }
    }

    /// A table whose keys are known ones, or names of tables.
    fn mixed(&mut self, table: &DeTable<'_>, own: &'static [ConfigKey], keys: &'static [ConfigKey]) {
        let is_named = |name: &str, value: &Spanned<DeValue<'_>>| {
            value.get_ref().is_table() && own.iter().all(|key| key.name != name)
        };
        let (mut named, mut plain) = (DeTable::new(), DeTable::new());
        for (name, value) in table {
            let into = if is_named(name.get_ref(), value) { &mut named } else { &mut plain };
            into.insert(name.clone(), value.clone());
        }
        self.section(&plain, own);
        self.named(&named, keys);
    }

    fn mismatch(&mut self, value: &Spanned<DeValue<'_>>, expected: &str) {
        let message = format!("`{}` must be {expected}", brief(&self.path.join("."), 80));
        self.fault(value.span(), message);
    }

    fn keep(&mut self, key: &'static ConfigKey, kind: ValueKind, value: PlainValue, place: Range<usize>) {
        let mut path = self.path.clone();
        if let (ValueKind::Millis, Some(last)) = (kind, path.last_mut()) {
            last.truncate(last.len() - "_ms".len());
        }
        self.found.push(FileValue { path, value, place, key, source: SettingSource::File });
    }

    /// A duration may be written in two ways, but not in both at once.
    fn twice(&mut self) {
        for (at, found) in self.found.iter().enumerate() {
            if self.found[..at].iter().any(|other| other.path == found.path) {
                let key = found.path.join(".");
                let message = format!("`{}` is given twice, as text and in ms: keep one", brief(&key, 80));
                self.faults.push(ConfigFault { place: found.place.clone(), key, message });
            }
        }
    }
}

/// What is never removed.
const FOREVER: &str = "forever";

/// The value in its kind, or what it must be.
fn plain(kind: ValueKind, value: &DeValue<'_>) -> Result<PlainValue, String> {
    match kind {
        ValueKind::Text => text(value).map(PlainValue::Text).ok_or_else(|| "a string in quotes".to_owned()),
        ValueKind::Count => {
            count(value).map(PlainValue::Count).ok_or_else(|| "a whole number from 0".to_owned())
        }
        ValueKind::Percent => percent(value)
            .map(PlainValue::Percent)
            .ok_or_else(|| "a number from 0 to 100 with at most four decimals, such as 5 or 0.5".to_owned()),
        ValueKind::Flag => value
            .as_bool()
            .map(|flag| PlainValue::Other(Value::Bool(flag)))
            .ok_or_else(|| "true or false".to_owned()),
        ValueKind::Span => {
            let given =
                text(value).ok_or_else(|| "a duration in quotes, such as \"30s\" or \"5 min\"".to_owned())?;
            let wrong = |_| "a duration with its unit, such as \"250ms\", \"30s\" or \"5 min\"".to_owned();
            span::parse(&given).map(PlainValue::Span).map_err(wrong)
        }
        ValueKind::Keep => match text(value).as_deref() {
            Some(FOREVER) => Ok(PlainValue::Text(FOREVER.to_owned())),
            given => given
                .and_then(|given| span::parse(given).ok())
                .map(PlainValue::Span)
                .ok_or_else(|| format!("\"{FOREVER}\" or a duration in quotes, such as \"400 days\"")),
        },
        ValueKind::Millis => count(value)
            .map(|millis| PlainValue::Span(Duration::from_millis(millis)))
            .ok_or_else(|| "whole milliseconds".to_owned()),
        ValueKind::Texts => texts(value).map(PlainValue::Texts).ok_or_else(|| "a list of strings".to_owned()),
        ValueKind::Word(words) => text(value)
            .filter(|given| words.contains(&given.as_str()))
            .map(PlainValue::Text)
            .ok_or_else(|| format!("one of \"{}\"", words.join("\", \""))),
        ValueKind::Range => text(value)
            .or_else(|| count(value).map(|number| number.to_string()))
            .map(PlainValue::Text)
            .ok_or_else(|| "a number, or a range in quotes such as \"1..8\"".to_owned()),
        ValueKind::Rate => match (text(value), value) {
            (Some(given), _) => rate::parse(&given),
            (None, DeValue::Table(_)) => rate::of_table(&as_json(value)),
            _ => Err(rate::EXPECTED.to_owned()),
        }
        .map(|rate| PlainValue::Other(serde_json::to_value(rate).unwrap_or_default())),
        ValueKind::Jitter => text(value)
            .filter(|given| given.parse::<Jitter>().is_ok())
            .map(PlainValue::Text)
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

fn percent(value: &DeValue<'_>) -> Option<RejectPercent> {
    let number: f64 = match value {
        DeValue::Float(float) => float.as_str().replace('_', "").parse().ok()?,
        _ => f64::from(u32::try_from(count(value)?).ok()?),
    };
    number.try_into().ok()
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
