//! Settings from the environment: `BACKSTOP_WORKERS__LEASE=10s` is `lease` in `[workers]`.
//!
//! Every key of the file can be given so: two underscores stand between its parts, names are written in capitals and
//! read in lower case. A list is written with commas or as in the file.

use serde_json::Value;

use super::read::{FileValue, read};
use super::schema::{self, KeyShape, ValueKind};
use super::source::SettingSource;

const PREFIX: &str = "BACKSTOP_";
const BETWEEN: &str = "__";

/// The variables of this process that are settings.
pub(crate) fn variables() -> Vec<(String, String)> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        let name = name.into_string().ok()?;
        is_setting(&name).then(|| (name, value.to_string_lossy().into_owned()))
    };
    std::env::vars_os().filter_map(text).collect()
}

/// The variable that stands for a key.
pub(super) fn name(path: &[&str]) -> String {
    format!("{PREFIX}{}", path.join(BETWEEN).to_uppercase())
}

/// The variable that a value came from.
pub(super) fn variable(found: &FileValue) -> String {
    let mut path: Vec<&str> = found.path.iter().map(String::as_str).collect();
    // The path has the name of a duration without its `_ms`.
    if let Some(last) = path.last_mut() {
        *last = found.key.name;
    }
    name(&path)
}

fn is_setting(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|rest| rest.contains(BETWEEN))
}

/// What the variables say, or what is wrong with each that cannot be taken.
pub(super) fn settings(variables: &[(String, String)]) -> Result<Vec<FileValue>, Vec<String>> {
    let (mut found, mut faults) = (Vec::new(), Vec::new());
    for (name, value) in variables {
        match setting(name, value) {
            Ok(one) => {
                found.extend(one.into_iter().map(|one| FileValue { source: SettingSource::Env, ..one }))
            }
            Err(message) => faults.push(format!("{name}: {message}")),
        }
    }
    if faults.is_empty() { Ok(found) } else { Err(faults) }
}

/// One variable, read as the line of the file that it stands for.
fn setting(name: &str, value: &str) -> Result<Vec<FileValue>, String> {
    let parts: Vec<String> = name[PREFIX.len()..].split(BETWEEN).map(str::to_lowercase).collect();
    let quoted: Vec<String> = parts.iter().map(|part| Value::from(part.as_str()).to_string()).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let line =
        format!("{} = {}", quoted.join("."), written(schema::find(&parts).map(|key| key.shape), value)?);
    read(&line).map_err(|faults| faults.into_iter().map(|fault| fault.message).collect::<Vec<_>>().join("; "))
}

/// A value as the file would say it.
fn written(shape: Option<KeyShape>, value: &str) -> Result<String, String> {
    let plain = value.trim();
    if plain.contains(|c: char| c.is_control()) {
        return Err("it contains a control character: write it in one line".to_owned());
    }
    let text = |text: &str| Value::from(text).to_string();
    Ok(match shape {
        Some(
            KeyShape::Value(ValueKind::Count | ValueKind::Percent | ValueKind::Millis | ValueKind::Flag)
            | KeyShape::Open,
        ) => plain.to_owned(),
        Some(KeyShape::Value(ValueKind::Texts)) if !plain.starts_with('[') => {
            let items = plain.split(',').map(str::trim).filter(|item| !item.is_empty());
            format!("[{}]", items.map(text).collect::<Vec<_>>().join(", "))
        }
        Some(KeyShape::Value(ValueKind::Texts)) => plain.to_owned(),
        _ => text(plain),
    })
}
