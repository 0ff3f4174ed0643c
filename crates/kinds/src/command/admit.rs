//! From a payload to what is started, or a refusal. Everything a payload says is checked here and nowhere else.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use backstop::Outcome;

use super::Command;
use super::settings::{Arguments, CommandSettings, Program};
use crate::brief;

/// Arguments of one call.
const ARGUMENTS_MAX: usize = 1_024;
/// Bytes of arguments and variables together: the kernel takes 128 KiB for one, and a program needs room for its own.
const BYTES_MAX: usize = 96 * 1024;

/// What is started.
#[derive(Debug)]
pub(super) struct Admitted {
    /// The real path of the program.
    pub(super) program: PathBuf,
    /// Its file name, for sentences.
    pub(super) name: String,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) dir: PathBuf,
    pub(super) stdin: Option<Vec<u8>>,
}

/// Checks what can be checked without settings: such a payload can never be run.
pub(super) fn shape(
    argv: &[String],
    env: &BTreeMap<String, String>,
    dir: Option<&str>,
    timeout_ms: Option<u64>,
) -> Result<(), String> {
    let Some(program) = argv.first() else {
        return Err("`argv` is empty: its first text is the path of the program".to_owned());
    };
    if !program.starts_with('/') {
        return Err(format!(
            "`{}` is not an absolute path: programs are not searched for, write the whole path",
            brief(program)
        ));
    }
    let texts =
        argv.iter().map(String::as_str).chain(env.iter().flat_map(|(name, value)| [&**name, &**value]));
    let mut bytes = 0;
    for text in texts.chain(dir) {
        bytes += text.len() + 1;
        if text.contains('\0') {
            return Err(format!("`{}` has a NUL in it, and no program can be given one", brief(text)));
        }
    }
    if argv.len() > ARGUMENTS_MAX {
        return Err(format!("`argv` has {} texts, the limit is {ARGUMENTS_MAX}", argv.len()));
    }
    if bytes > BYTES_MAX {
        return Err(format!("`argv` and `env` have {bytes} bytes, the limit is {BYTES_MAX}: use `stdin`"));
    }
    if timeout_ms == Some(0) {
        return Err("`timeout_ms` is 0: nothing could run".to_owned());
    }
    Ok(())
}

/// Checks a payload against what the worker allows.
pub(super) fn admit<C>(command: &Command<C>, settings: &CommandSettings) -> Result<Admitted, Outcome> {
    let program = program(&command.argv[0], settings)?;
    let args = command.argv[1..].to_vec();
    if program.arguments == Arguments::Plain {
        plain(&args, &program.path)?;
    }
    Ok(Admitted {
        name: file_name(&program.path),
        program: program.path.clone(),
        args,
        env: environment(&command.env, settings)?,
        dir: directory(command.dir.as_deref(), settings)?,
        stdin: command.stdin.as_ref().or(command.input.as_ref()).map(|json| json.get().as_bytes().to_vec()),
    })
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// The entry of the list that this path really leads to. A path that leads nowhere is answered alike, so that nobody
/// learns by refusals which files there are.
fn program<'s>(path: &str, settings: &'s CommandSettings) -> Result<&'s Program, Outcome> {
    let real = Path::new(path).canonicalize().ok();
    let listed = real.and_then(|real| settings.programs.iter().find(|program| program.path == real));
    listed.ok_or_else(|| {
        Outcome::permanent(format!(
            "program `{}` may not be run: handlers.command.allow does not list it",
            brief(path)
        ))
    })
}

/// No option may come from a payload: arguments that begin with `-` stand behind a `--`.
fn plain(args: &[String], program: &Path) -> Result<(), Outcome> {
    let option = args.iter().take_while(|arg| *arg != "--").find(|arg| arg.starts_with('-'));
    match option {
        None => Ok(()),
        Some(option) => Err(Outcome::permanent(format!(
            "argument `{}` of `{}` begins with `-`: put `--` before it, or allow the program any arguments",
            brief(option),
            program.display()
        ))),
    }
}

fn environment(
    given: &BTreeMap<String, String>,
    settings: &CommandSettings,
) -> Result<Vec<(OsString, OsString)>, Outcome> {
    if let Some(name) = given.keys().find(|name| !settings.payload_env.contains(*name)) {
        return Err(Outcome::permanent(format!(
            "variable `{}` may not be set: handlers.command.env does not list it",
            brief(name)
        )));
    }
    let kept = settings.kept_env.iter().filter(|name| !given.contains_key(*name));
    let kept = kept.filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    Ok(kept.chain(given.iter().map(|(name, value)| (name.into(), value.into()))).collect())
}

fn directory(given: Option<&str>, settings: &CommandSettings) -> Result<PathBuf, Outcome> {
    let Some(given) = given else { return Ok(settings.dir.clone()) };
    let real = Path::new(given).canonicalize().ok().filter(|real| real.is_dir() && given.starts_with('/'));
    real.filter(|real| settings.payload_dirs.iter().any(|dir| real.starts_with(dir))).ok_or_else(|| {
        Outcome::permanent(format!(
            "directory `{}` may not be used: handlers.command.dirs does not hold it",
            brief(given)
        ))
    })
}
