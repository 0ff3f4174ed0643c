//! What both macros share of reading `#[job(...)]`: keys, values, and messages that name the way out.

use std::fmt::Display;
use std::time::Duration;

use syn::meta::ParseNestedMeta;
use syn::{Error, LitInt, LitStr, Token};

use crate::duration;

/// All that is wrong with one item, so that a user sees it in one go.
#[derive(Debug, Default)]
pub(crate) struct Problems(Option<Error>);

impl Problems {
    /// Adds one more.
    pub(crate) fn push(&mut self, problem: Error) {
        match &mut self.0 {
            Some(first) => first.combine(problem),
            None => self.0 = Some(problem),
        }
    }

    /// The value of `result`, or none with its problem kept.
    pub(crate) fn check<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|problem| self.push(problem)).ok()
    }

    /// `value`, unless there was a problem.
    pub(crate) fn unless_any<T>(self, value: T) -> syn::Result<T> {
        self.0.map_or(Ok(value), Err)
    }
}

/// The key of `meta` if it is one of `known`.
pub(crate) fn key(meta: &ParseNestedMeta<'_>, known: &[&'static str]) -> syn::Result<&'static str> {
    if let Some(key) = known.iter().find(|key| meta.path.is_ident(key)) {
        return Ok(key);
    }
    let given = meta.path.get_ident().map_or_else(|| "this".to_owned(), ToString::to_string);
    Err(meta.error(unknown("key", &given, known)))
}

/// Keeps `value` in `place`, which a second one of the same key finds taken.
pub(crate) fn once<T>(
    meta: &ParseNestedMeta<'_>,
    key: &str,
    place: &mut Option<T>,
    value: T,
) -> syn::Result<()> {
    match place.replace(value) {
        Some(_) => Err(meta.error(format_args!("`{key}` is given twice: remove one"))),
        None => Ok(()),
    }
}

/// The text of `key = "text"`; the example shows how it is written.
pub(crate) fn text(meta: &ParseNestedMeta<'_>, key: &str, example: &str) -> syn::Result<LitStr> {
    let way_out = format!("`{key}` takes a text: write {key} = \"{example}\"");
    let text: LitStr = value(meta, &way_out)?;
    if text.value().trim().is_empty() {
        return Err(Error::new(
            text.span(),
            format_args!("the text of `{key}` is empty: write {key} = \"{example}\""),
        ));
    }
    Ok(text)
}

/// The text of `key = "text"`, or none for `key` alone.
pub(crate) fn optional_text(meta: &ParseNestedMeta<'_>, key: &str) -> syn::Result<Option<LitStr>> {
    if !meta.input.peek(Token![=]) {
        return Ok(None);
    }
    let text: LitStr = value(meta, &format!("`{key}` takes a reason as text: write {key} = \"reason\""))?;
    if text.value().trim().is_empty() {
        return Err(Error::new(
            text.span(),
            format_args!("the reason is empty: say why, or write `{key}` alone"),
        ));
    }
    Ok(Some(text))
}

/// The number of `key = 5`.
pub(crate) fn number(meta: &ParseNestedMeta<'_>, key: &str, example: u32) -> syn::Result<u32> {
    let literal: LitInt =
        value(meta, &format!("`{key}` takes a whole number without quotes: write {key} = {example}"))?;
    literal.base10_parse().map_err(|_| {
        Error::new(literal.span(), format_args!("`{key}` takes a whole number from 0 to {}", u32::MAX))
    })
}

/// The duration of `key = "30s"`, with its text for further messages.
pub(crate) fn duration(meta: &ParseNestedMeta<'_>, key: &str) -> syn::Result<(Duration, LitStr)> {
    let text = text(meta, key, "30s")?;
    let duration = duration::parse(&text.value()).map_err(|problem| Error::new(text.span(), problem))?;
    Ok((duration, text))
}

/// What to say of a word that is none of `known`, with the nearest one as a guess.
pub(crate) fn unknown(what: &str, given: &str, known: &[&str]) -> String {
    let list = known.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match nearest(given, known) {
        Some(guess) => format!("unknown {what} `{given}`: did you mean `{guess}`? use one of {list}"),
        None => format!("unknown {what} `{given}`: use one of {list}"),
    }
}

fn value<T: syn::parse::Parse>(meta: &ParseNestedMeta<'_>, way_out: &dyn Display) -> syn::Result<T> {
    if !meta.input.peek(Token![=]) {
        return Err(meta.error(way_out));
    }
    let input = meta.value()?;
    let at = input.span();
    input.parse().map_err(|_| Error::new(at, way_out))
}

/// The word of `known` that `given` was probably meant to be: at most a third of it is mistyped, or it is a part.
fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let length = given.chars().count();
    let mistyped = known
        .iter()
        .map(|word| (edits(given, word), *word))
        .min_by_key(|(edits, _)| *edits)
        .filter(|(edits, _)| *edits <= length / 3 + 1)
        .map(|(_, word)| word);
    mistyped.or_else(|| known.iter().find(|word| length >= 4 && word.contains(given)).copied())
}

/// How many characters must be added, removed or changed to turn one word into the other.
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, b) in to.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (from, to, count) in [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("queue", "queu", 1)]
        {
            assert_eq!(edits(from, to), count, "{from} {to}");
            assert_eq!(edits(to, from), count, "{to} {from}");
        }
    }

    #[test]
    fn a_guess_is_made_only_for_near_words() {
        let known = ["permanent", "invalid", "transient", "retry_in"];
        for (given, guess) in [
            ("permanant", Some("permanent")),
            ("retryin", Some("retry_in")),
            ("retry", Some("retry_in")),
            ("fatal", None),
            ("x", None),
        ] {
            assert_eq!(nearest(given, &known), guess, "{given}");
        }
    }
}
