//! The keys of `#[job(...)]` on a function, and the defaults they come to.

use std::time::Duration;

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::{Error, LitStr};

use super::backoff::BackoffArguments;
use super::isolation::IsolationArguments;
use crate::attrs;
use crate::duration;

const KEYS: [&str; 16] = [
    "kind",
    "version",
    "queue",
    "priority",
    "max_retries",
    "max_crashes",
    "backoff",
    "timeout",
    "delay",
    "max_wait",
    "expires_in",
    "dependency",
    "dependency_from",
    "isolate",
    "memory_limit",
    "cpu_limit",
];

/// The engine's levels: the word in the attribute, and the name of its constant.
const PRIORITIES: [(&str, &str); 5] =
    [("lowest", "Lowest"), ("low", "Low"), ("normal", "Normal"), ("high", "High"), ("critical", "Critical")];

/// What the attribute asks for; none is the engine's default.
#[derive(Default)]
pub(super) struct JobArguments {
    pub(super) kind: Option<LitStr>,
    pub(super) version: Option<u32>,
    queue: Option<LitStr>,
    priority: Option<Ident>,
    max_retries: Option<u32>,
    max_crashes: Option<u32>,
    backoff: Option<BackoffArguments>,
    timeout: Option<Duration>,
    delay: Option<Duration>,
    max_wait: Option<Duration>,
    expires_in: Option<Duration>,
    dependency: Option<LitStr>,
    dependency_from: Option<LitStr>,
    isolation: IsolationArguments,
}

impl JobArguments {
    /// Reads what stands in the attribute's parentheses.
    pub(super) fn read(args: TokenStream) -> syn::Result<Self> {
        let mut options = Self::default();
        syn::meta::parser(|meta| options.take(&meta)).parse2(args)?;
        if let (Some(pointer), None) = (&options.dependency_from, &options.dependency) {
            let message = "`dependency_from` needs `dependency` beside it: the name that its values follow";
            return Err(Error::new(pointer.span(), message));
        }
        Ok(options)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        if meta.path.is_ident("name") {
            return Err(
                meta.error("unknown key `name`: the name of a job is its kind, write kind = \"send_email\"")
            );
        }
        let key = attrs::key(meta, &KEYS)?;
        match key {
            "kind" => attrs::once(meta, key, &mut self.kind, attrs::text(meta, key, "send_email")?),
            "version" => attrs::once(meta, key, &mut self.version, version(meta)?),
            "queue" => attrs::once(meta, key, &mut self.queue, attrs::text(meta, key, "mail")?),
            "priority" => attrs::once(meta, key, &mut self.priority, priority(meta)?),
            "max_retries" => attrs::once(meta, key, &mut self.max_retries, attrs::number(meta, key, 5)?),
            "max_crashes" => attrs::once(meta, key, &mut self.max_crashes, attrs::number(meta, key, 3)?),
            "backoff" => attrs::once(meta, key, &mut self.backoff, BackoffArguments::read(meta)?),
            "timeout" => attrs::once(meta, key, &mut self.timeout, timeout(meta)?),
            "delay" => attrs::once(meta, key, &mut self.delay, attrs::duration(meta, key)?.0),
            "max_wait" => attrs::once(meta, key, &mut self.max_wait, attrs::duration(meta, key)?.0),
            "expires_in" => attrs::once(meta, key, &mut self.expires_in, attrs::duration(meta, key)?.0),
            "dependency" => attrs::once(meta, key, &mut self.dependency, attrs::text(meta, key, "smtp")?),
            "dependency_from" => attrs::once(meta, key, &mut self.dependency_from, pointer(meta, key)?),
            _ => self.isolation.take(meta, key),
        }
    }

    /// The `defaults` of the job, when anything was asked for.
    pub(super) fn defaults(&self) -> Option<TokenStream> {
        let queue = self.queue.as_ref().map(|queue| quote!(.queue(#queue)));
        let priority = self.priority.as_ref().map(|level| quote!(.priority(::backstop::Priority::#level)));
        let policy = self.policy().map(|policy| quote!(.policy(#policy)));
        let dependency = self.dependency.as_ref().map(|name| quote!(.dependency(#name)));
        let from = self.dependency_from.as_ref().map(|pointer| quote!(.dependency_from(#pointer)));
        let isolation = self.isolation.settings();
        let parts = [queue, priority, policy, dependency, from, isolation];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        if parts.is_empty() {
            return None;
        }
        Some(quote! {
            fn defaults() -> ::backstop::Defaults {
                <::backstop::Defaults as ::core::default::Default>::default() #(#parts)*
            }
        })
    }

    fn policy(&self) -> Option<TokenStream> {
        let counts = [(quote!(max_retries), self.max_retries), (quote!(max_crashes), self.max_crashes)];
        let counts =
            counts.into_iter().filter_map(|(name, count)| count.map(|count| quote!(#name: Some(#count))));
        let times = [
            (quote!(timeout), self.timeout),
            (quote!(delay), self.delay),
            (quote!(max_wait), self.max_wait),
            (quote!(expires_in), self.expires_in),
        ];
        let times = times.into_iter().filter_map(|(name, time)| {
            let time = duration::expression(time?);
            Some(quote!(#name: Some(#time)))
        });
        let waits = self.backoff.as_ref().map(BackoffArguments::fields).unwrap_or_default();
        let fields: Vec<_> = counts.chain(times).chain(waits).collect();
        let defaults = quote!(..<::backstop::JobDefaults as ::core::default::Default>::default());
        (!fields.is_empty()).then(|| quote!(::backstop::JobDefaults { #(#fields,)* #defaults }))
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

/// Where a payload says something: a JSON pointer.
fn pointer(meta: &ParseNestedMeta<'_>, key: &str) -> syn::Result<LitStr> {
    let text = attrs::text(meta, key, "/host")?;
    if text.value().starts_with('/') {
        return Ok(text);
    }
    Err(Error::new(text.span(), "a JSON pointer begins with a slash: write dependency_from = \"/host\""))
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
