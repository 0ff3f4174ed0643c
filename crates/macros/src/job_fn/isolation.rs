//! The keys of `#[job(...)]` that give runs a process of their own.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::Error;
use syn::meta::ParseNestedMeta;

use crate::{attrs, duration};

/// The word in the attribute, and the name of its variant.
const MODES: [(&str, &str); 3] = [("never", "Never"), ("always", "Always"), ("after_crash", "AfterCrash")];

/// What follows a number of bytes.
const UNITS: [(&str, u64); 4] = [("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10), ("B", 1)];

/// What the attribute asks for.
#[derive(Default)]
pub(super) struct IsolationArguments {
    isolate: Option<Ident>,
    memory_limit: Option<u64>,
    cpu_limit: Option<Duration>,
}

impl IsolationArguments {
    /// Takes the value of one of its keys.
    pub(super) fn take(&mut self, meta: &ParseNestedMeta<'_>, key: &'static str) -> syn::Result<()> {
        match key {
            "isolate" => attrs::once(meta, key, &mut self.isolate, mode(meta)?),
            "memory_limit" => attrs::once(meta, key, &mut self.memory_limit, size(meta)?),
            _ => attrs::once(meta, key, &mut self.cpu_limit, seconds(meta)?),
        }
    }

    /// The settings, when anything was asked for.
    pub(super) fn settings(&self) -> Option<TokenStream> {
        let isolate = self.isolate.as_ref().map(|mode| quote!(.isolate(::backstop::Isolation::#mode)));
        let memory = self.memory_limit.map(|bytes| quote!(.memory_limit(#bytes)));
        let cpu = self.cpu_limit.map(|time| {
            let time = duration::expression(time);
            quote!(.cpu_limit(#time))
        });
        if isolate.is_none() && memory.is_none() && cpu.is_none() {
            return None;
        }
        let settings = quote!(<::backstop::IsolationSettings as ::core::default::Default>::default());
        Some(quote!(.isolation(#settings #isolate #memory #cpu)))
    }
}

fn mode(meta: &ParseNestedMeta<'_>) -> syn::Result<Ident> {
    let text = attrs::text(meta, "isolate", "always")?;
    let given = text.value();
    let mode = MODES.iter().find(|(word, _)| *word == given).map(|(_, mode)| *mode);
    mode.map(|mode| Ident::new(mode, Span::call_site()))
        .ok_or_else(|| Error::new(text.span(), attrs::unknown("mode", &given, &MODES.map(|(word, _)| word))))
}

fn size(meta: &ParseNestedMeta<'_>) -> syn::Result<u64> {
    let text = attrs::text(meta, "memory_limit", "256MB")?;
    let given = text.value();
    let split = UNITS.iter().find_map(|(unit, factor)| Some((given.strip_suffix(unit)?, *factor)));
    let bytes = split.and_then(|(number, factor)| number.trim_end().parse::<u64>().ok()?.checked_mul(factor));
    match bytes {
        Some(0) => Err(Error::new(
            text.span(),
            "no run can do with no memory: leave `memory_limit` out for no limit",
        )),
        Some(bytes) => Ok(bytes),
        None => {
            let problem =
                format!("`{given}` is not a size: write a whole number with KB, MB or GB, such as \"256MB\"");
            Err(Error::new(text.span(), problem))
        }
    }
}

fn seconds(meta: &ParseNestedMeta<'_>) -> syn::Result<Duration> {
    let (time, text) = attrs::duration(meta, "cpu_limit")?;
    if time.as_secs() == 0 {
        return Err(Error::new(
            text.span(),
            "processor time is counted in whole seconds: the minimum is \"1s\"",
        ));
    }
    Ok(time)
}
