//! `[handlers.*]`: what the built-in kinds may do (E4, E5, E6); `[webhooks]`: where messages may go, by the same words
//! (V2). No message repeats a secret.

use std::mem::take;

use backstop_kinds::command::ProcessLimits;
use backstop_kinds::{
    CommandSettings, EventSettings, HttpSettings, Kinds, Program, PublishSettings, SettingsError,
};
use backstop_server::ReportSettings;
use serde_json::Value;

use super::read::{ConfigFault, FileValue, PlainValue};

/// What the file opens; without a word of it everything is closed.
pub(super) fn kinds(found: &[FileValue]) -> Result<Kinds, Vec<ConfigFault>> {
    let (mut kinds, mut limits) = (Kinds::default(), ProcessLimits::default());
    let mut faults = Vec::new();
    // The user last: a group that is named goes before the one that belongs to it.
    let is_user = |one: &&FileValue| one.path == ["handlers", "command", "user"];
    for one in found.iter().filter(|one| !is_user(one)).chain(found.iter().filter(is_user)) {
        let path: Vec<&str> = one.path.iter().map(String::as_str).collect();
        let taken = match path[..] {
            ["handlers", "command", word] => {
                process_limit(&mut limits, word, &one.value);
                command(take(&mut kinds.command), word, &one.value).map(|taken| kinds.command = taken)
            }
            ["handlers", "http", word] => {
                http(take(&mut kinds.http), word, &one.value).map(|taken| kinds.http = taken)
            }
            ["handlers", "event", word] => {
                event(take(&mut kinds.event), word, &one.value).map(|taken| kinds.event = taken)
            }
            ["handlers", "publish", word] => {
                publish(take(&mut kinds.publish), word, &one.value).map(|taken| kinds.publish = taken)
            }
            _ => Ok(()),
        };
        if let Err(message) = taken {
            faults.push(ConfigFault { place: one.place.clone(), key: one.path.join("."), message });
        }
    }
    kinds.command = kinds.command.limits(limits);
    if faults.is_empty() { Ok(kinds) } else { Err(faults) }
}

/// Where messages to webhooks may go; without a word of it, to public addresses.
pub(super) fn webhooks(found: &[FileValue]) -> Result<HttpSettings, Vec<ConfigFault>> {
    let mut faults = Vec::new();
    let mut settings = ReportSettings::default().webhooks;
    for one in found {
        let ["webhooks", word] = one.path.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
            continue;
        };
        match http(take(&mut settings), word, &one.value) {
            Ok(taken) => settings = taken,
            Err(message) => {
                faults.push(ConfigFault { place: one.place.clone(), key: one.path.join("."), message });
            }
        }
    }
    if faults.is_empty() { Ok(settings) } else { Err(faults) }
}

fn told(error: SettingsError) -> String {
    error.to_string()
}

fn command(settings: CommandSettings, word: &str, value: &PlainValue) -> Result<CommandSettings, String> {
    let identity =
        |count: u64| u32::try_from(count).map_err(|_| format!("{count} is not a user or group id"));
    Ok(match (word, value) {
        ("allow", PlainValue::Other(programs)) => {
            let list = programs.as_array().ok_or_else(|| PROGRAMS.to_owned())?;
            let allowed =
                list.iter().try_fold(settings, |settings, entry| Ok(settings.allow(program(entry)?)));
            return allowed;
        }
        ("dir", PlainValue::Text(dir)) => settings.dir(dir).map_err(told)?,
        ("dirs", PlainValue::Texts(dirs)) => {
            dirs.iter().try_fold(settings, CommandSettings::allow_dir).map_err(told)?
        }
        ("env", PlainValue::Texts(names)) => names
            .iter()
            .try_fold(settings, |settings, name| settings.allow_env(name.as_str()))
            .map_err(told)?,
        ("keep_env", PlainValue::Texts(names)) => {
            names.iter().fold(settings, |settings, name| settings.keep_env(name.as_str()))
        }
        ("timeout", PlainValue::Span(span)) => settings.timeout(*span).map_err(told)?,
        ("grace", PlainValue::Span(span)) => settings.grace(*span).map_err(told)?,
        ("user", PlainValue::Count(id)) => settings.user(identity(*id)?).map_err(told)?,
        ("group", PlainValue::Count(id)) => settings.group(identity(*id)?),
        _ => settings,
    })
}

const PROGRAMS: &str = "`handlers.command.allow` must be a list of paths, or of tables such as \
                        { path = \"/usr/bin/find\", args = [\"/srv/[a-z]+\"] }";

fn program(entry: &Value) -> Result<Program, String> {
    if let Some(path) = entry.as_str() {
        return Program::new(path).map_err(told);
    }
    let table = entry.as_object().ok_or_else(|| PROGRAMS.to_owned())?;
    if let Some(word) = table.keys().find(|word| !matches!(word.as_str(), "path" | "args")) {
        return Err(format!("unknown key `{word}` of a program: use path or args"));
    }
    let path = table.get("path").and_then(Value::as_str).ok_or_else(|| PROGRAMS.to_owned())?;
    let form = || format!("`args` of `{path}` must be \"plain\", \"any\" or a list of patterns");
    match table.get("args") {
        None => Program::new(path).map_err(told),
        Some(Value::Array(patterns)) => {
            let patterns: Option<Vec<&str>> = patterns.iter().map(Value::as_str).collect();
            Program::with_arguments(path, &patterns.ok_or_else(form)?).map_err(told)
        }
        Some(word) => match word.as_str() {
            Some("plain") => Program::new(path).map_err(told),
            Some("any") => Program::new(path).map(Program::any_arguments).map_err(told),
            _ => Err(form()),
        },
    }
}

fn process_limit(limits: &mut ProcessLimits, word: &str, value: &PlainValue) {
    let PlainValue::Count(count) = value else { return };
    let place = match word {
        "memory_bytes" => &mut limits.memory_bytes,
        "cpu_seconds" => &mut limits.cpu_seconds,
        "open_files" => &mut limits.open_files,
        "file_bytes" => &mut limits.file_bytes,
        "processes" => &mut limits.processes,
        _ => return,
    };
    *place = Some(*count);
}

fn http(settings: HttpSettings, word: &str, value: &PlainValue) -> Result<HttpSettings, String> {
    Ok(match (word, value) {
        ("allow_private", PlainValue::Other(Value::Bool(allow))) => settings.allow_private(*allow),
        ("allow", PlainValue::Texts(targets)) => {
            targets.iter().try_fold(settings, |settings, target| settings.allow(target)).map_err(told)?
        }
        ("ports", PlainValue::Other(ports)) => settings.ports(port_list(ports)?),
        ("methods", PlainValue::Texts(methods)) => settings.methods(methods).map_err(told)?,
        ("redirects", PlainValue::Count(count)) => settings.redirects(*count).map_err(told)?,
        ("redirects_carry", PlainValue::Other(Value::Bool(carry))) => settings.redirects_carry(*carry),
        ("timeout", PlainValue::Span(span)) => settings.timeout(*span).map_err(told)?,
        ("connect_timeout", PlainValue::Span(span)) => settings.connect_timeout(*span).map_err(told)?,
        ("secrets", PlainValue::Other(secrets)) => {
            let form = "`handlers.http.secrets` must be a table of names, each with `keys` and `hosts`";
            let table = secrets.as_object().ok_or_else(|| form.to_owned())?;
            table.iter().try_fold(settings, |settings, (name, one)| {
                let known = |part: &str| part == "keys" || part == "hosts";
                let one = one.as_object().filter(|one| one.keys().all(|part| known(part)));
                let one = one.ok_or_else(|| form.to_owned())?;
                let list = |part: &str| -> Vec<&str> {
                    one.get(part).and_then(Value::as_array).into_iter().flatten().map(text).collect()
                };
                settings.secret(name, &list("keys"), &list("hosts")).map_err(told)
            })?
        }
        _ => settings,
    })
}

/// The text, or one that is no secret.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn port_list(ports: &Value) -> Result<Vec<u16>, String> {
    let port =
        |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    let read = ports.as_array().and_then(|list| list.iter().map(port).collect());
    read.ok_or_else(|| "`ports` must be a list of numbers from 1 to 65535".to_owned())
}

fn publish(settings: PublishSettings, word: &str, value: &PlainValue) -> Result<PublishSettings, String> {
    match (word, value) {
        ("allow", PlainValue::Texts(patterns)) => patterns
            .iter()
            .try_fold(settings, |settings, pattern| settings.allow(pattern.as_str()))
            .map_err(told),
        _ => Ok(settings),
    }
}

fn event(settings: EventSettings, word: &str, value: &PlainValue) -> Result<EventSettings, String> {
    match (word, value) {
        ("allow", PlainValue::Texts(patterns)) => patterns
            .iter()
            .try_fold(settings, |settings, pattern| settings.allow(pattern.as_str()))
            .map_err(told),
        _ => Ok(settings),
    }
}
