//! `backoff(exponential, base = "1s", cap = "10m", jitter = "full")`: what is left out is said by the queue or the
//! engine.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::Error;
use syn::meta::ParseNestedMeta;

use crate::attrs;
use crate::duration;

const KEYS: [&str; 7] = ["none", "fixed", "linear", "exponential", "base", "cap", "jitter"];

/// The engine's ways to grow: the word in the attribute, and the name of its constant.
const GROWTHS: [(&str, &str); 4] =
    [("none", "None"), ("fixed", "Fixed"), ("linear", "Linear"), ("exponential", "Exponential")];

/// The engine's own cap, beyond which no wait grows that names no other.
const USUAL_CAP: Duration = Duration::from_secs(30);

const WAY_OUT: &str = "write backoff(exponential, base = \"1s\", cap = \"10m\")";

/// What the attribute says of waits.
#[derive(Default)]
pub(super) struct BackoffArguments {
    growth: Option<Ident>,
    base: Option<Duration>,
    cap: Option<Duration>,
    jitter: Option<TokenStream>,
}

impl BackoffArguments {
    /// Reads what stands in the parentheses of `backoff(...)`.
    pub(super) fn read(meta: &ParseNestedMeta<'_>) -> syn::Result<Self> {
        if !meta.input.peek(syn::token::Paren) {
            return Err(meta.error(format_args!("`backoff` takes a list: {WAY_OUT}")));
        }
        let mut backoff = Self::default();
        meta.parse_nested_meta(|part| backoff.take(&part))?;
        backoff.check().map_err(|problem| meta.error(problem))?;
        Ok(backoff)
    }

    fn take(&mut self, part: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let key = attrs::key(part, &KEYS)?;
        match key {
            "base" => attrs::once(part, key, &mut self.base, attrs::duration(part, key)?.0),
            "cap" => attrs::once(part, key, &mut self.cap, attrs::duration(part, key)?.0),
            "jitter" => attrs::once(part, key, &mut self.jitter, jitter(part)?),
            word => {
                let growth =
                    GROWTHS.iter().find(|(known, _)| *known == word).map_or("Fixed", |(_, name)| *name);
                let growth = Ident::new(growth, Span::call_site());
                match self.growth.replace(growth) {
                    Some(_) => {
                        Err(part.error("waits grow in one way: name one of none, fixed, linear, exponential"))
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// Refuses waits that would not be what they look like.
    fn check(&mut self) -> Result<(), String> {
        let Some(base) = self.base else { return Ok(()) };
        match self.cap {
            Some(cap) if cap < base => {
                Err("`cap` is shorter than `base`: every wait would be the cap".to_owned())
            }
            // A fixed wait has no use for a cap.
            None if self.growth.as_ref().is_some_and(|growth| growth == "Fixed") => {
                self.cap = Some(base);
                Ok(())
            }
            None if base > USUAL_CAP => Err(format!(
                "`cap` is missing: without one no wait is longer than {USUAL_CAP:?}, `base` included"
            )),
            _ => Ok(()),
        }
    }

    /// The fields of `JobDefaults` that it says something of.
    pub(super) fn fields(&self) -> Vec<TokenStream> {
        let growth = self.growth.as_ref().map(|growth| quote!(growth: Some(::backstop::Growth::#growth)));
        let base = self.base.map(|base| (quote!(base), base));
        let cap = self.cap.map(|cap| (quote!(cap), cap));
        let durations = [base, cap].into_iter().flatten().map(|(name, value)| {
            let value = duration::expression(value);
            quote!(#name: Some(#value))
        });
        let jitter = self.jitter.as_ref().map(|jitter| quote!(jitter: Some(::backstop::Jitter::#jitter)));
        growth.into_iter().chain(durations).chain(jitter).collect()
    }
}

/// A jitter as configuration writes it: `none`, `full`, `equal`, or percents such as `20%`.
fn jitter(part: &ParseNestedMeta<'_>) -> syn::Result<TokenStream> {
    let text = attrs::text(part, "jitter", "full")?;
    let word = text.value();
    let percent = word.strip_suffix('%').and_then(|digits| digits.parse::<u8>().ok()).filter(|it| *it <= 100);
    match (word.as_str(), percent) {
        ("none", _) => Ok(quote!(None)),
        ("full", _) => Ok(quote!(Full)),
        ("equal", _) => Ok(quote!(Equal)),
        (_, Some(percent)) => Ok(quote!(Percent(#percent))),
        _ => Err(Error::new(
            text.span(),
            format_args!(
                "unknown jitter `{word}`: write `none`, `full`, `equal`, or percents up to 100, such as `20%`"
            ),
        )),
    }
}
