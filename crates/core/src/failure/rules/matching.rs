//! Which failures a rule is about: globs over names, a cause, and a pattern over the sanitized message.

use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use super::{RuleError, RuleInput, TEXT_CHARS, at_most, is_governable};
use crate::failure::Cause;
use crate::limits::Limits;

/// Bytes that a compiled pattern may take. The engine is linear in the message whatever the pattern; this
/// bounds what `(a{1000}){1000}` costs before any message is seen.
const COMPILED_BYTES: usize = 256 * 1024;

/// The conditions of a rule. All that are given must hold; at least one is given.
///
/// `kind`, `queue` and `error_type` are globs over the whole text, in which `*` stands for any characters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RuleMatch))]
#[serde(default, deny_unknown_fields)]
pub struct RuleMatch {
    /// The job's kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The job's queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The error's type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// The cause, one of those that are failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// A regular expression that is searched in the sanitized message. It sees bytes: `(?i)`, `\w`, `\d` and
    /// `\b` mean ASCII, so that a rule means the same in every program whatever its build knows of Unicode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl RuleMatch {
    /// Checks every condition and makes the pattern ready.
    pub(super) fn compile(&self) -> Result<Option<Regex>, RuleError> {
        if *self == Self::default() {
            return Err(RuleError::EmptyMatch);
        }
        let name_chars = Limits::default().name_chars;
        for (field, glob) in [("kind", &self.kind), ("queue", &self.queue)] {
            glob.as_deref().map_or(Ok(()), |glob| check_name_glob(field, glob, name_chars))?;
        }
        self.error_type.as_deref().map_or(Ok(()), |glob| check_glob("error_type", glob, name_chars))?;
        match self.cause {
            Some(Cause::Signature) => return Err(RuleError::Signature),
            Some(cause) if !is_governable(cause) => return Err(RuleError::NoFailure { cause }),
            _ => {}
        }
        self.text.as_deref().map(pattern).transpose()
    }

    /// True when every condition but the pattern holds for `facts`.
    pub(super) fn fits(&self, facts: &RuleInput<'_>) -> bool {
        let glob = |glob: &Option<String>, text: &str| glob.as_deref().is_none_or(|glob| matches(glob, text));
        self.cause.is_none_or(|cause| cause == facts.cause)
            && glob(&self.kind, facts.kind)
            && glob(&self.queue, facts.queue)
            && glob(&self.error_type, facts.error_type)
    }
}

/// Refuses what `crate::admit` lets into no name.
fn check_name_glob(field: &'static str, glob: &str, limit: usize) -> Result<(), RuleError> {
    check_glob(field, glob, limit)?;
    let cannot = |problem: String| Err(RuleError::CannotMatch { field, problem });
    if let Some(control) = glob.chars().find(|c| c.is_control()) {
        let code = u32::from(control);
        return cannot(format!("no name contains the control character U+{code:04X}; remove it"));
    }
    if glob.trim() != glob {
        return cannot("no name begins or ends with whitespace; remove it".to_owned());
    }
    Ok(())
}

fn check_glob(field: &'static str, glob: &str, limit: usize) -> Result<(), RuleError> {
    if glob.is_empty() {
        return Err(RuleError::EmptyField { field });
    }
    at_most(field, glob, TEXT_CHARS)?;
    let fixed = glob.chars().filter(|c| *c != '*').count();
    if fixed > limit {
        let problem = format!(
            "it has {fixed} characters besides `*` and a name has {limit} at most; put `*` for some of them"
        );
        return Err(RuleError::CannotMatch { field, problem });
    }
    Ok(())
}

fn pattern(text: &str) -> Result<Regex, RuleError> {
    if text.is_empty() {
        return Err(RuleError::EmptyField { field: "text" });
    }
    at_most("text", text, TEXT_CHARS)?;
    RegexBuilder::new(text).unicode(false).size_limit(COMPILED_BYTES).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => RuleError::CostlyText,
        error => located(&error.to_string()),
    })
}

/// Reads the place and the problem out of the parser's drawing, which ends with `error: ` and has the pattern
/// indented by four with a caret below.
fn located(drawing: &str) -> RuleError {
    let caret = drawing.lines().find_map(|line| {
        let column = line.find('^')?;
        line.trim().chars().all(|c| c == '^').then(|| column.saturating_sub(3))
    });
    let problem = drawing.lines().rev().find_map(|line| line.strip_prefix("error: "));
    let problem = problem.map_or_else(|| crate::text::one_line(drawing).into_owned(), str::to_owned);
    RuleError::InvalidText { problem, at: caret }
}

/// True when `glob` covers the whole of `text`. Taking the first place where each part fits is enough, because
/// a later place leaves less room for the parts that follow.
fn matches(glob: &str, text: &str) -> bool {
    let Some((head, rest)) = glob.split_once('*') else { return glob == text };
    let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(text) = text.strip_prefix(head).and_then(|text| text.strip_suffix(tail)) else { return false };
    middle
        .split('*')
        .try_fold(text, |text, part| text.find(part).map(|at| &text[at + part.len()..]))
        .is_some()
}
