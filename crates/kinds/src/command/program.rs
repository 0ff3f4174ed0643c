//! A program that may be run, and which arguments it takes from payloads.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use regex::Regex;

use super::danger::{Danger, danger};
use super::settings::real;
use crate::error::SettingsError;
use crate::refusal::brief;

/// Which arguments a program takes from payloads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Arguments {
    /// None that begins with `-`, unless a `--` stands before it: no payload can switch options on.
    #[default]
    Plain,
    /// Any.
    Any,
    /// Those that a pattern matches.
    Matching(Patterns),
}

/// Regular expressions for arguments; one of them must match the whole of each.
#[derive(Debug, Clone)]
pub struct Patterns(Vec<Regex>);

impl Patterns {
    fn new(path: &Path, texts: &[impl AsRef<str>]) -> Result<Self, SettingsError> {
        let compiled = texts.iter().map(|text| whole(path, text.as_ref()));
        compiled.collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn allow(&self, argument: &str) -> bool {
        self.0.iter().any(|pattern| pattern.is_match(argument))
    }
}

impl PartialEq for Patterns {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().map(Regex::as_str).eq(other.0.iter().map(Regex::as_str))
    }
}

impl Eq for Patterns {}

/// The pattern for a whole argument. It must be one by itself too: `a)|(b` would otherwise slip out of its brackets.
fn whole(path: &Path, text: &str) -> Result<Regex, SettingsError> {
    Regex::new(text).and_then(|_| Regex::new(&format!(r"\A(?:{text})\z"))).map_err(|problem| {
        let problem = problem.to_string();
        let problem = problem.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        SettingsError::ArgumentPattern { path: path.to_owned(), pattern: brief(text), problem }
    })
}

/// A program that may be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub(super) path: PathBuf,
    pub(super) arguments: Arguments,
}

impl Program {
    /// The program at this real path, with plain arguments.
    ///
    /// # Errors
    /// When the path is not absolute, leads through a symbolic link or `..`, or to no program; when the program is
    /// known to do nearly anything by its arguments or its input.
    pub fn new(path: impl Into<PathBuf>) -> Result<Self, SettingsError> {
        let path = listed(path.into())?;
        match danger(&path) {
            None => Ok(Self { path, arguments: Arguments::Plain }),
            Some(Danger::ByArguments(what)) => Err(SettingsError::ByArguments { path, what }),
            Some(Danger::ByInput(what)) => Err(SettingsError::ByInput { path, what }),
        }
    }

    /// The program at this real path, with arguments that one of the patterns matches as a whole: regular expressions
    /// of the crate `regex`. Without a pattern it takes no argument. `--` is an argument like any other.
    ///
    /// # Errors
    /// When the path is not absolute, leads through a symbolic link or `..`, or to no program; when a pattern is none;
    /// when the program is known to do nearly anything by its input, which no pattern sees.
    pub fn with_arguments(
        path: impl Into<PathBuf>,
        patterns: &[impl AsRef<str>],
    ) -> Result<Self, SettingsError> {
        let path = listed(path.into())?;
        if let Some(Danger::ByInput(what)) = danger(&path) {
            return Err(SettingsError::ByInput { path, what });
        }
        let arguments = Arguments::Matching(Patterns::new(&path, patterns)?);
        Ok(Self { path, arguments })
    }

    /// The same with any argument allowed. Patterns stay: some programs are allowed only because of them.
    #[must_use]
    pub fn any_arguments(mut self) -> Self {
        if self.arguments == Arguments::Plain {
            self.arguments = Arguments::Any;
        }
        self
    }
}

/// A link in the list would allow whatever else leads to the same file: think of one binary with many names.
fn listed(path: PathBuf) -> Result<PathBuf, SettingsError> {
    let real = real(&path)?;
    if real != path {
        return Err(SettingsError::Detour { path, real });
    }
    let data = path.metadata();
    if !data.is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0) {
        return Err(SettingsError::NoProgram { path });
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real_path(path: &str) -> PathBuf {
        Path::new(path).canonicalize().expect("a program")
    }

    #[test]
    fn the_list_holds_real_programs_only() {
        // E4
        let real = real_path("/usr/bin/id");
        assert!(Program::new(&real).is_ok());
        assert!(matches!(Program::new("id"), Err(SettingsError::Relative { .. })));
        assert!(matches!(Program::new("/no/such/program"), Err(SettingsError::Missing { .. })));
        assert!(matches!(Program::new("/etc/passwd"), Err(SettingsError::NoProgram { .. })));
        assert!(matches!(Program::new("/"), Err(SettingsError::NoProgram { .. })));
        let detour = PathBuf::from(format!("/etc/..{}", real.display()));
        assert_eq!(Program::new(&detour), Err(SettingsError::Detour { path: detour.clone(), real }));
    }

    #[test]
    fn far_reaching_programs_need_patterns_and_shells_have_no_way_in() {
        // E4
        let (find, shell) = (real_path("/usr/bin/find"), real_path("/bin/sh"));
        let told = Program::new(&find).expect_err("it runs programs").to_string();
        let path = format!("`{}` runs other programs by its arguments", find.display());
        assert!(
            told.contains(&path) && told.contains("behind `--` too") && told.contains("args = ["),
            "{told}"
        );
        let bounded = Program::with_arguments(&find, &["/srv/[a-z]+"]).expect("it says which");
        assert_eq!(bounded.clone().any_arguments(), bounded);
        let told = Program::new(&shell).expect_err("it runs anything").to_string();
        assert!(told.contains("its input") && told.contains("whatever its arguments are"), "{told}");
        assert_eq!(Program::with_arguments(&shell, &["a"]).expect_err("it reads").to_string(), told);
    }

    #[test]
    fn a_pattern_matches_a_whole_argument_or_not_at_all() {
        // E4
        for (patterns, allowed, refused) in [
            (&["[a-z]+"][..], &["a", "abc"][..], &["", "a1", "1a", "-a", "a\n", "\na", "a b", "A", "ä"][..]),
            (&["--quiet", "[0-9]+"], &["--quiet", "7"], &["--quiet7", "--quie", "--quiet=1", "--"]),
            (&["a|b"], &["a", "b"], &["ab", "ac", "cb"]),
            (&["a|"], &["a", ""], &["b"]),
            (&["^x$"], &["x"], &["x\n", "xx", "y\nx"]),
            (&["(?m)^x$"], &["x"], &["x\ny", "y\nx"]),
            (&[".*"], &["", "-exec", "ä"], &["a\nb"]),
            (&[r"\d"], &["1"], &["12", "-1"]),
            (&[], &[], &["", "a", "--"]),
        ] {
            let patterns = Patterns::new(Path::new("/x"), patterns).expect("patterns");
            allowed.iter().for_each(|it| assert!(patterns.allow(it), "{patterns:?} {it:?}"));
            refused.iter().for_each(|it| assert!(!patterns.allow(it), "{patterns:?} {it:?}"));
        }
        for wrong in ["(", "a)|(b", "[", "*", "(?x)a #", "\\"] {
            let told = Patterns::new(Path::new("/x"), &[wrong]).expect_err(wrong).to_string();
            assert!(told.starts_with("`/x`: `") && !told.contains('\n'), "{told}");
        }
    }
}
