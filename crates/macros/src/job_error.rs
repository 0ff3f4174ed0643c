//! `#[derive(JobError)]`: reads the marks on an error type and writes how each of its values answers for them (F6).
//!
//! It must not clash with other derives on the same type: thiserror's attributes are looked at, never required.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::{Attribute, Data, DeriveInput, Error, Field, Fields, LitStr, Member, Meta};

use crate::attrs::{self, Problems};
use crate::duration;

const MARKS: [&str; 5] = ["permanent", "invalid", "transient", "retry_in", CIRCUIT];
/// What an error says of its dependency (H4); it stands beside a mark.
const CIRCUIT: &str = "circuit";
const RESULTS: [(&str, &str); 3] = [("counts", "Failure"), ("neutral", "Neutral"), ("ignored", "Ignored")];

/// The `JobError` of a type, and its entry in the list that the engine searches.
pub(crate) fn expand(input: TokenStream) -> syn::Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let name = &input.ident;
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &input.generics,
            format_args!(
                "JobError cannot be derived for a generic type: an error is recognized at run time by its concrete \
                 type; give `{name}` concrete fields, or box what differs"
            ),
        ));
    }
    let shapes = shapes(&input)?;
    let marks = shapes.iter().map(|shape| shape.mark_arm(&name.to_string()));
    let stands_for = stands_for(&shapes);
    let call_result = call_result(&shapes);
    let subject = if shapes.is_empty() { quote!(*self) } else { quote!(self) };
    let type_name = name.to_string();
    Ok(quote! {
        #[automatically_derived]
        #[allow(deprecated)]
        impl ::backstop::marks::JobError for #name {
            fn mark(&self) -> ::core::option::Option<::backstop::marks::Mark> {
                match #subject { #(#marks)* }
            }
            #stands_for
            #call_result
        }
        ::backstop::__private::inventory::submit! { ::backstop::marks::Probe::of::<#name>(#type_name) }
    })
}

/// What an author said of an error's chances.
#[derive(Clone)]
enum Mark {
    Permanent(Option<LitStr>),
    Invalid(Option<LitStr>),
    Transient(LitStr),
    RetryIn(Duration),
}

/// One variant of an enum, or a struct as its own only one.
struct Shape<'a> {
    path: TokenStream,
    /// Empty for a struct.
    variant: String,
    mark: Option<Mark>,
    /// The variant of `CallResult` that it counts as.
    circuit: Option<&'static str>,
    transparent: bool,
    fields: &'a Fields,
}

impl Shape<'_> {
    fn mark_arm(&self, type_name: &str) -> TokenStream {
        let (path, variant) = (&self.path, &self.variant);
        let shown = if variant.is_empty() { type_name.to_owned() } else { format!("{type_name}::{variant}") };
        let reason = |given: &Option<LitStr>, kind: &str| {
            given.as_ref().map_or_else(|| format!("`{shown}` is marked as {kind}"), LitStr::value)
        };
        let kind = match &self.mark {
            Some(Mark::Permanent(given)) => {
                let reason = reason(given, "permanent");
                quote!(Permanent { reason: #reason })
            }
            Some(Mark::Invalid(given)) => {
                let reason = reason(given, "invalid");
                quote!(Invalid { reason: #reason })
            }
            Some(Mark::Transient(dependency)) => quote!(Transient { dependency: #dependency }),
            Some(Mark::RetryIn(delay)) => {
                let delay = duration::expression(*delay);
                quote!(RetryIn { delay: #delay })
            }
            // What it wraps knows better.
            None if self.transparent || source_field(self.fields).is_some() => {
                return quote!(#path { .. } => ::core::option::Option::None,);
            }
            None => quote!(Plain),
        };
        quote! {
            #path { .. } => ::core::option::Option::Some(::backstop::marks::Mark {
                variant: #variant,
                kind: ::backstop::marks::MarkKind::#kind,
            }),
        }
    }

    /// The field that a transparent value hides: its `source()` is the field's source, never the field itself.
    fn hidden_field(&self) -> Option<Member> {
        let hides = self.transparent && self.mark.is_none();
        hides.then(|| source_field(self.fields).or_else(|| self.fields.members().next())).flatten()
    }
}

/// The method that says what values mean for their dependency, when any does.
fn call_result(shapes: &[Shape<'_>]) -> Option<TokenStream> {
    let arms: Vec<_> = shapes
        .iter()
        .filter_map(|shape| {
            let (path, result) = (&shape.path, quote::format_ident!("{}", shape.circuit?));
            let result = quote!(::backstop::circuits::CallResult::#result);
            Some(quote!(#path { .. } => ::core::option::Option::Some(#result),))
        })
        .collect();
    if arms.is_empty() {
        return None;
    }
    let rest = (arms.len() < shapes.len()).then(|| quote!(_ => ::core::option::Option::None,));
    Some(quote! {
        fn call_result(&self) -> ::core::option::Option<::backstop::circuits::CallResult> {
            match self { #(#arms)* #rest }
        }
    })
}

/// The method that leads to hidden fields, when there are any.
fn stands_for(shapes: &[Shape<'_>]) -> Option<TokenStream> {
    let arms: Vec<_> = shapes
        .iter()
        .filter_map(|shape| {
            let (path, field) = (&shape.path, shape.hidden_field()?);
            Some(quote!(#path { #field: inner, .. } => ::core::option::Option::Some(inner.as_error()),))
        })
        .collect();
    if arms.is_empty() {
        return None;
    }
    let rest = (arms.len() < shapes.len()).then(|| quote!(_ => ::core::option::Option::None,));
    Some(quote! {
        fn stands_for(&self) -> ::core::option::Option<&(dyn ::std::error::Error + 'static)> {
            use ::backstop::marks::AsError as _;
            match self { #(#arms)* #rest }
        }
    })
}

fn shapes(input: &DeriveInput) -> syn::Result<Vec<Shape<'_>>> {
    let mut problems = Problems::default();
    let (whole, whole_circuit) = problems.check(read_mark(&input.attrs)).unwrap_or_default();
    let whole_transparent = is_transparent(&input.attrs);
    let mut shapes = Vec::new();
    match &input.data {
        Data::Struct(data) => {
            refuse_marked_fields(&data.fields, &mut problems);
            let (variant, transparent) = (String::new(), whole_transparent);
            shapes.push(Shape {
                path: quote!(Self),
                variant,
                mark: whole,
                circuit: whole_circuit,
                transparent,
                fields: &data.fields,
            });
        }
        Data::Enum(data) => {
            for variant in &data.variants {
                refuse_marked_fields(&variant.fields, &mut problems);
                let (own, circuit) = problems.check(read_mark(&variant.attrs)).unwrap_or_default();
                let ident = &variant.ident;
                shapes.push(Shape {
                    path: quote!(Self::#ident),
                    variant: syn::ext::IdentExt::unraw(ident).to_string(),
                    mark: own.or_else(|| whole.clone()),
                    circuit: circuit.or(whole_circuit),
                    transparent: whole_transparent || is_transparent(&variant.attrs),
                    fields: &variant.fields,
                });
            }
        }
        Data::Union(data) => problems.push(Error::new(
            data.union_token.span,
            "JobError cannot be derived for a union: use an enum or a struct",
        )),
    }
    problems.unless_any(shapes)
}

fn read_mark(attrs: &[Attribute]) -> syn::Result<(Option<Mark>, Option<&'static str>)> {
    let mut first: Option<(&str, Mark)> = None;
    let mut circuit = None;
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("job")) {
        let before = first.is_some() || circuit.is_some();
        if matches!(attr.meta, Meta::List(_)) {
            attr.parse_nested_meta(|meta| {
                let key = attrs::key(&meta, &MARKS)?;
                if key == CIRCUIT {
                    circuit = Some(read_circuit(&meta)?);
                    return Ok(());
                }
                if let Some((other, _)) = &first {
                    return Err(meta.error(format_args!(
                        "a second mark: `{other}` is already given, and an error has one meaning; remove one"
                    )));
                }
                first = Some((key, mark(&meta, key)?));
                Ok(())
            })?;
        }
        if !before && first.is_none() && circuit.is_none() {
            let message = "an empty mark: write `permanent`, `invalid`, `transient = \"dependency\"`, \
                           `retry_in = \"30s\"` or `circuit = \"ignored\"` in it, or remove it";
            return Err(Error::new_spanned(attr, message));
        }
    }
    Ok((first.map(|(_, mark)| mark), circuit))
}

fn read_circuit(meta: &ParseNestedMeta<'_>) -> syn::Result<&'static str> {
    let given = attrs::text(meta, CIRCUIT, "word")?;
    let found = RESULTS.iter().find(|(word, _)| *word == given.value());
    found.map(|(_, result)| *result).ok_or_else(|| {
        Error::new_spanned(&given, "what a circuit counts it as: \"counts\", \"neutral\" or \"ignored\"")
    })
}

fn mark(meta: &ParseNestedMeta<'_>, key: &str) -> syn::Result<Mark> {
    Ok(match key {
        "permanent" => Mark::Permanent(attrs::optional_text(meta, key)?),
        "invalid" => Mark::Invalid(attrs::optional_text(meta, key)?),
        "transient" => Mark::Transient(attrs::text(meta, key, "name of the dependency")?),
        _ => Mark::RetryIn(attrs::duration(meta, key)?.0),
    })
}

/// A mark on a field would be dropped without a word, because the compiler allows the attribute there.
fn refuse_marked_fields(fields: &Fields, problems: &mut Problems) {
    let marked = fields.iter().flat_map(|field| &field.attrs).filter(|attr| attr.path().is_ident("job"));
    for attr in marked {
        problems.push(Error::new_spanned(attr, "a mark goes on the variant or the struct, not on its field"));
    }
}

/// The field that thiserror and the like take as an error's source.
fn source_field(fields: &Fields) -> Option<Member> {
    let is_source = |field: &Field| {
        field.attrs.iter().any(|attr| attr.path().is_ident("from") || attr.path().is_ident("source"))
            || field.ident.as_ref().is_some_and(|name| name == "source")
    };
    fields.iter().zip(fields.members()).find(|(field, _)| is_source(field)).map(|(_, member)| member)
}

/// Whether thiserror was told to pass a value off as the error inside it.
fn is_transparent(attrs: &[Attribute]) -> bool {
    attrs
        .iter()
        .filter(|attr| attr.path().is_ident("error"))
        .any(|attr| matches!(&attr.meta, Meta::List(list) if list.tokens.to_string() == "transparent"))
}

#[cfg(test)]
mod tests;
