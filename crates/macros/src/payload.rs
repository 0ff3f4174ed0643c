//! `#[derive(Serialize, Deserialize)]` of the prelude: serde's own derives, reached through `backstop`.
//!
//! Serde's derives name the crate `serde`, which a program that depends on `backstop` alone does not have. Their
//! attribute `crate` says where else it is, but a derive cannot add an attribute to the type it stands on. So the type
//! is repeated inside a block, as serde's remote definition of the first one, and that is where the attribute goes.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, Data, DeriveInput, Fields, Visibility, parse2};

/// Which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DerivedTrait {
    Serialize,
    Deserialize,
}

impl DerivedTrait {
    const fn name(self) -> &'static str {
        match self {
            Self::Serialize => "Serialize",
            Self::Deserialize => "Deserialize",
        }
    }
}

/// Keys of serde that say themselves where things are.
const OWN_KEYS: [&str; 2] = ["crate", "remote"];

pub(crate) fn expand(input: TokenStream, which: DerivedTrait) -> syn::Result<TokenStream> {
    let input: DeriveInput = parse2(input)?;
    let name = which.name();
    let elsewhere = |what: &str| {
        format!(
            "the prelude's `{name}` is not for {what}: add serde to your dependencies and derive `serde::{name}`"
        )
    };
    if !input.generics.params.is_empty() {
        return Err(syn::Error::new_spanned(&input.generics, elsewhere("generic types")));
    }
    if let Some(attr) = input.attrs.iter().find(|attr| says_where(attr)) {
        return Err(syn::Error::new_spanned(attr, elsewhere("types with `crate` or `remote`")));
    }
    let (this, derive) = (input.ident.clone(), format_ident!("{name}"));
    let shadow = format_ident!("__Backstop{this}");
    let remote = this.to_string();
    let definition = definition(input, shadow.clone());
    let implementation = implementation(which, &this, &shadow);
    Ok(quote! {
        const _: () = {
            #[derive(::backstop::__private::serde::#derive)]
            #[serde(crate = "::backstop::__private::serde", remote = #remote)]
            #[allow(dead_code)]
            #definition
            #implementation
        };
    })
}

fn implementation(which: DerivedTrait, this: &syn::Ident, shadow: &syn::Ident) -> TokenStream {
    match which {
        DerivedTrait::Serialize => quote! {
            impl ::backstop::__private::serde::Serialize for #this {
                fn serialize<S: ::backstop::__private::serde::Serializer>(
                    &self,
                    serializer: S,
                ) -> ::core::result::Result<S::Ok, S::Error> {
                    #shadow::serialize(self, serializer)
                }
            }
        },
        DerivedTrait::Deserialize => quote! {
            impl<'de> ::backstop::__private::serde::Deserialize<'de> for #this {
                fn deserialize<D: ::backstop::__private::serde::Deserializer<'de>>(
                    deserializer: D,
                ) -> ::core::result::Result<Self, D::Error> {
                    #shadow::deserialize(deserializer)
                }
            }
        },
    }
}

/// The same type under another name, with nothing on it but what serde reads.
fn definition(mut input: DeriveInput, shadow: syn::Ident) -> DeriveInput {
    input.ident = shadow;
    input.vis = Visibility::Inherited;
    keep_serde(&mut input.attrs);
    match &mut input.data {
        Data::Struct(data) => clean(&mut data.fields),
        Data::Enum(data) => {
            for variant in &mut data.variants {
                keep_serde(&mut variant.attrs);
                clean(&mut variant.fields);
            }
        }
        Data::Union(_) => {}
    }
    input
}

fn clean(fields: &mut Fields) {
    for field in fields {
        keep_serde(&mut field.attrs);
    }
}

fn keep_serde(attrs: &mut Vec<Attribute>) {
    attrs.retain(|attr| attr.path().is_ident("serde"));
}

/// True for an attribute of serde that says itself where serde or the type is.
fn says_where(attr: &Attribute) -> bool {
    let mut found = false;
    if attr.path().is_ident("serde") {
        // Keys with values of any shape are serde's to understand; only their names matter here.
        let _ = attr.parse_nested_meta(|meta| {
            found |= OWN_KEYS.iter().any(|key| meta.path.is_ident(key));
            if meta.input.peek(syn::Token![=]) {
                meta.value()?.parse::<syn::Expr>()?;
            } else if meta.input.peek(syn::token::Paren) {
                let content;
                syn::parenthesized!(content in meta.input);
                content.parse::<TokenStream>()?;
            }
            Ok(())
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(item: &str, which: DerivedTrait) -> syn::Result<String> {
        let packed = |code: TokenStream| code.to_string().replace(char::is_whitespace, "");
        expand(item.parse().expect("tokens"), which).map(packed)
    }

    #[test]
    fn serde_is_reached_through_backstop_and_its_attributes_stay() {
        let item = r#"#[serde(rename_all = "camelCase")]
            pub struct Mail { /** To whom. */ #[serde(default)] to_whom: String }"#;
        let code = expanded(item, DerivedTrait::Serialize).expect("a good struct");
        for part in [
            r#"#[serde(crate="::backstop::__private::serde",remote="Mail")]"#,
            r#"#[serde(rename_all="camelCase")]struct__BackstopMail{#[serde(default)]to_whom:String}"#,
            "impl::backstop::__private::serde::SerializeforMail",
        ] {
            assert!(code.contains(part), "{part}\nnot in\n{code}");
        }
    }

    #[test]
    fn what_it_cannot_do_is_said_with_the_way_out() {
        for item in [
            "struct Mail<T> { to: T }",
            "struct Mail<'a> { to: &'a str }",
            r#"#[serde(crate = "other::serde")] struct Mail { to: String }"#,
            r#"#[serde(rename_all = "camelCase", remote = "Other")] struct Mail { to: String }"#,
        ] {
            let problem = expanded(item, DerivedTrait::Deserialize).expect_err(item).to_string();
            assert!(problem.contains("derive `serde::Deserialize`"), "{problem}");
        }
    }
}
