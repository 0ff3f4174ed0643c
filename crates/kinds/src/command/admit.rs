//! From a payload to what is started, or a refusal. Everything a payload says is checked here and nowhere else.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Command;
use super::program::{Arguments, Patterns, Program};
use super::settings::CommandSettings;
use crate::refusal::{PayloadRefusal, RefusalCode, brief};

/// Arguments of one call.
const ARGUMENTS_MAX: usize = 1_024;
/// Bytes of arguments and variables together: the kernel takes 128 KiB for one, and a program needs room for its own.
const BYTES_MAX: usize = 96 * 1024;

/// What is started.
#[derive(Debug)]
pub(super) struct AdmittedCommand {
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
) -> Result<(), PayloadRefusal> {
    let Some(program) = argv.first() else {
        let told = "`argv` is empty: its first item is the path of the program";
        return Err(PayloadRefusal::new(RefusalCode::CommandNoProgram, told));
    };
    if !program.starts_with('/') {
        let told = format!(
            "`{}` is not an absolute path: programs are not searched for, write the whole path",
            brief(program)
        );
        return Err(PayloadRefusal::new(RefusalCode::CommandRelativePath, told));
    }
    let texts =
        argv.iter().map(String::as_str).chain(env.iter().flat_map(|(name, value)| [&**name, &**value]));
    let mut bytes = 0;
    for text in texts.chain(dir) {
        bytes += text.len() + 1;
        if text.contains('\0') {
            let told = format!("`{}` has a NUL in it, and no program can be given one", brief(text));
            return Err(PayloadRefusal::new(RefusalCode::CommandNul, told));
        }
    }
    if argv.len() > ARGUMENTS_MAX {
        let told = format!("`argv` has {} items, the limit is {ARGUMENTS_MAX}: use `stdin`", argv.len());
        return Err(PayloadRefusal::new(RefusalCode::CommandTooManyArguments, told));
    }
    if bytes > BYTES_MAX {
        let told = format!("`argv` and `env` have {bytes} bytes, the limit is {BYTES_MAX}: use `stdin`");
        return Err(PayloadRefusal::new(RefusalCode::CommandTooLarge, told));
    }
    if timeout_ms == Some(0) {
        let told = "`timeout_ms` is 0: nothing could run, leave it out or make it longer";
        return Err(PayloadRefusal::new(RefusalCode::CommandZeroTimeout, told));
    }
    Ok(())
}

/// Checks a payload against what the worker allows.
pub(super) fn admit<C>(
    command: &Command<C>,
    settings: &CommandSettings,
) -> Result<AdmittedCommand, PayloadRefusal> {
    let program = program(&command.argv[0], settings)?;
    let args = command.argv[1..].to_vec();
    match &program.arguments {
        Arguments::Plain => plain(&args, &program.path)?,
        Arguments::Matching(patterns) => matching(&args, patterns, &program.path)?,
        Arguments::Any => {}
    }
    Ok(AdmittedCommand {
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
fn program<'s>(path: &str, settings: &'s CommandSettings) -> Result<&'s Program, PayloadRefusal> {
    let real = Path::new(path).canonicalize().ok();
    let listed = real.and_then(|real| settings.programs.iter().find(|program| program.path == real));
    listed.ok_or_else(|| {
        let told =
            format!("program `{}` may not be run: handlers.command.allow does not list it", brief(path));
        PayloadRefusal::new(RefusalCode::CommandProgramNotAllowed, told)
    })
}

/// No option may come from a payload: arguments that begin with `-` stand behind a `--`.
fn plain(args: &[String], program: &Path) -> Result<(), PayloadRefusal> {
    let option = args.iter().take_while(|arg| *arg != "--").find(|arg| arg.starts_with('-'));
    match option {
        None => Ok(()),
        Some(option) => {
            let told = format!(
                "argument `{}` of `{}` begins with `-`: put `--` before it, or say in its `args` what it may get",
                brief(option),
                program.display()
            );
            Err(PayloadRefusal::new(RefusalCode::CommandOptionNotAllowed, told))
        }
    }
}

/// Every argument is one that the entry names, wherever it stands.
fn matching(args: &[String], patterns: &Patterns, program: &Path) -> Result<(), PayloadRefusal> {
    let Some((at, other)) = args.iter().enumerate().find(|(_, arg)| !patterns.allow(arg)) else {
        return Ok(());
    };
    let told = format!(
        "argument {} of `{}`, `{}`, may not be given: no pattern in its `args` of handlers.command.allow matches \
         the whole of it; add one if that is intended",
        at + 1,
        program.display(),
        brief(other)
    );
    Err(PayloadRefusal::new(RefusalCode::CommandArgumentNotAllowed, told))
}

fn environment(
    given: &BTreeMap<String, String>,
    settings: &CommandSettings,
) -> Result<Vec<(OsString, OsString)>, PayloadRefusal> {
    if let Some(name) = given.keys().find(|name| !settings.payload_env.contains(*name)) {
        let told =
            format!("variable `{}` may not be set: handlers.command.env does not list it", brief(name));
        return Err(PayloadRefusal::new(RefusalCode::CommandVariableNotAllowed, told));
    }
    let kept = settings.kept_env.iter().filter(|name| !given.contains_key(*name));
    let kept = kept.filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    Ok(kept.chain(given.iter().map(|(name, value)| (name.into(), value.into()))).collect())
}

fn directory(given: Option<&str>, settings: &CommandSettings) -> Result<PathBuf, PayloadRefusal> {
    let Some(given) = given else { return Ok(settings.dir.clone()) };
    let real = Path::new(given).canonicalize().ok().filter(|real| real.is_dir() && given.starts_with('/'));
    real.filter(|real| settings.payload_dirs.iter().any(|dir| real.starts_with(dir))).ok_or_else(|| {
        let told = format!(
            "directory `{}` may not be used: handlers.command.dirs does not include it",
            brief(given)
        );
        PayloadRefusal::new(RefusalCode::CommandDirectoryNotAllowed, told)
    })
}
