//! The keys of `#[job(...)]` on a function, and the defaults they come to.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::{Error, LitStr};

use crate::attrs;
use crate::duration;

const KEYS: [&str; 6] = ["kind", "version", "queue", "priority", "max_retries", "timeout"];

/// The engine's levels: the word in the attribute, and the name of its constant.
const PRIORITIES: [(&str, &str); 5] =
    [("lowest", "Lowest"), ("low", "Low"), ("normal", "Normal"), ("high", "High"), ("critical", "Critical")];

/// What the attribute asks for; none is the engine's default.
#[derive(Default)]
pub(super) struct Options {
    pub(super) kind: Option<LitStr>,
    pub(super) version: Option<u32>,
    queue: Option<LitStr>,
    priority: Option<Ident>,
    max_retries: Option<u32>,
    timeout: Option<Duration>,
}

impl Options {
    /// Reads what stands in the attribute's parentheses.
    pub(super) fn read(args: TokenStream) -> syn::Result<Self> {
        let mut options = Self::default();
        syn::meta::parser(|meta| options.take(&meta)).parse2(args)?;
        Ok(options)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let key = attrs::key(meta, &KEYS)?;
        match key {
            "kind" => attrs::once(meta, key, &mut self.kind, attrs::text(meta, key, "send_email")?),
            "version" => attrs::once(meta, key, &mut self.version, version(meta)?),
            "queue" => attrs::once(meta, key, &mut self.queue, attrs::text(meta, key, "mail")?),
            "priority" => attrs::once(meta, key, &mut self.priority, priority(meta)?),
            "max_retries" => attrs::once(meta, key, &mut self.max_retries, attrs::number(meta, key, 5)?),
            _ => attrs::once(meta, key, &mut self.timeout, timeout(meta)?),
        }
    }

    /// The `defaults` of the job, when anything was asked for.
    pub(super) fn defaults(&self) -> Option<TokenStream> {
        let queue = self.queue.as_ref().map(|queue| quote!(.queue(#queue)));
        let priority = self.priority.as_ref().map(|level| quote!(.priority(::backstop::Priority::#level)));
        let policy = self.policy().map(|policy| quote!(.policy(#policy)));
        if queue.is_none() && priority.is_none() && policy.is_none() {
            return None;
        }
        Some(quote! {
            fn defaults() -> ::backstop::Defaults {
                <::backstop::Defaults as ::core::default::Default>::default() #queue #priority #policy
            }
        })
    }

    fn policy(&self) -> Option<TokenStream> {
        let retries = self.max_retries.map(|retries| quote!(.retries(#retries)));
        let timeout = self.timeout.map(|timeout| {
            let timeout = duration::expression(timeout);
            quote!(.timeout(#timeout))
        });
        let asked = retries.is_some() || timeout.is_some();
        asked.then(
            || quote!(<::backstop::JobDefaults as ::core::default::Default>::default() #retries #timeout),
        )
    }
}

fn version(meta: &ParseNestedMeta<'_>) -> syn::Result<u32> {
    match attrs::number(meta, "version", 2)? {
        0 => Err(meta.error("versions count from 1, which is also the default")),
        version => Ok(version),
    }
}

fn priority(meta: &ParseNestedMeta<'_>) -> syn::Result<Ident> {
    let text = attrs::text(meta, "priority", "high")?;
    let given = text.value();
    let level = PRIORITIES.iter().find(|(word, _)| *word == given).map(|(_, level)| *level);
    level.map(|level| Ident::new(level, Span::call_site())).ok_or_else(|| {
        Error::new(text.span(), attrs::unknown("priority", &given, &PRIORITIES.map(|(word, _)| word)))
    })
}

fn timeout(meta: &ParseNestedMeta<'_>) -> syn::Result<Duration> {
    let (timeout, text) = attrs::duration(meta, "timeout")?;
    if timeout.is_zero() {
        return Err(Error::new(
            text.span(),
            "no run can end within a timeout of zero: leave `timeout` out for no limit",
        ));
    }
    Ok(timeout)
}
