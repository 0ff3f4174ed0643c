//! `#[job]` on an `async fn`: a struct out of its parameters, and a `Job` that calls it.
//!
//! It writes what a user would write by hand and nothing else; whatever the `Job` trait can do beyond the keys here
//! is done by implementing the trait.

mod backoff;
mod isolation;
mod options;
mod signature;

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::{Attribute, Error, FnArg, Item, ItemFn};

use crate::attrs::Problems;
use options::JobArguments;
use signature::HandlerParams;

/// The function, its struct and its `Job`.
pub(crate) fn expand(args: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let mut function = function(item)?;
    let mut problems = Problems::default();
    let options = problems.check(JobArguments::read(args));
    let signature = problems.check(HandlerParams::read(&function.sig));
    let name = problems.check(struct_name(&function.sig.ident));
    let (Some(options), Some(signature), Some(name)) = (options, signature, name) else {
        return problems.unless_any(TokenStream::new());
    };
    let payload = payload(&function, &name, &signature);
    let job = implementation(&function, &name, &signature, &options);
    for input in &mut function.sig.inputs {
        // They have gone to the fields, and most mean nothing on a parameter.
        if let FnArg::Typed(parameter) = input {
            parameter.attrs.clear();
        }
    }
    Ok(quote!(#function #payload #job))
}

fn function(item: TokenStream) -> syn::Result<ItemFn> {
    match syn::parse2(item)? {
        Item::Fn(function) => Ok(function),
        other @ (Item::Struct(_) | Item::Enum(_)) => Err(Error::new_spanned(
            other,
            "`#[job]` goes on an async fn; on an error type, put `#[job(...)]` below `#[derive(JobError)]`",
        )),
        other => Err(Error::new_spanned(other, "`#[job]` goes on an async fn")),
    }
}

/// The function's name in CamelCase.
fn struct_name(function: &Ident) -> syn::Result<Ident> {
    let snake = function.unraw().to_string();
    let mut camel = String::with_capacity(snake.len());
    for word in snake.split('_') {
        let mut letters = word.chars();
        camel.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        camel.push_str(letters.as_str());
    }
    syn::parse_str::<Ident>(&camel).map(|name| Ident::new(&name.to_string(), function.span())).map_err(|_| {
        Error::new(
            function.span(),
            format_args!(
                "`{camel}` cannot be the name of the job's struct: rename the function, such as send_email"
            ),
        )
    })
}

fn payload(function: &ItemFn, name: &Ident, signature: &HandlerParams) -> TokenStream {
    let vis = &function.vis;
    let kept = function.attrs.iter().filter(|attr| attr.path().is_ident("doc") || is_cfg(attr));
    let fields = signature.fields.iter().map(|field| {
        let (attrs, name, ty) = (&field.attrs, &field.name, &field.ty);
        quote!(#(#attrs)* #vis #name: #ty)
    });
    // A parameter seldom has documentation of its own, and a user's lint would ask for it on each public field.
    quote! {
        #(#kept)*
        #[derive(
            ::core::clone::Clone,
            ::core::fmt::Debug,
            ::backstop::__private::serde::Serialize,
            ::backstop::__private::serde::Deserialize,
        )]
        #[serde(crate = "::backstop::__private::serde")]
        #[allow(missing_docs)]
        #vis struct #name { #(#fields,)* }
    }
}

fn implementation(
    function: &ItemFn,
    name: &Ident,
    signature: &HandlerParams,
    options: &JobArguments,
) -> TokenStream {
    let called = &function.sig.ident;
    let output = match &function.sig.output {
        syn::ReturnType::Default => quote!(()),
        syn::ReturnType::Type(_, answer) => quote!(#answer),
    };
    let cfgs: Vec<_> = function.attrs.iter().filter(|attr| is_cfg(attr)).collect();
    let kind = options.kind.as_ref().map_or_else(|| called.unraw().to_string(), syn::LitStr::value);
    let version = options.version.map(|version| quote!(const VERSION: u32 = #version;));
    let context = signature.context.as_ref().map_or_else(|| quote!(()), |context| quote!(#context));
    let defaults = options.defaults();
    // A name of its own kind, so that it never hides a function called `cx`.
    let cx = Ident::new("cx", Span::mixed_site());
    let parameter = if signature.context.is_some() { quote!(#cx) } else { quote!(_) };
    let arguments = signature.arguments(&cx);
    quote! {
        #(#cfgs)*
        impl ::backstop::Job for #name {
            const KIND: &'static str = #kind;
            #version
            type Context = #context;
            type Output = #output;

            async fn run(self, #parameter: ::backstop::JobContext<Self::Context>) -> Self::Output {
                #called(#(#arguments),*).await
            }
            #defaults
        }
        #(#cfgs)*
        const _: () = {
            ::backstop::__private::inventory::submit! { ::backstop::__private::RegistryEntry::of::<#name>() }
        };
    }
}

fn is_cfg(attr: &Attribute) -> bool {
    attr.path().is_ident("cfg")
}

#[cfg(test)]
mod tests;
