//! Which parameters of a job's function are stored with the job, and which one is the context.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{Attribute, Error, FnArg, GenericArgument, Pat, PatType, Path, PathArguments, Safety, Type};

use crate::attrs::Problems;

/// A function's parameters, sorted.
pub(super) struct HandlerParams {
    /// What the struct holds, in the order of the parameters.
    pub(super) fields: Vec<Field>,
    /// The application's type, if the function asks for the context.
    pub(super) context: Option<Type>,
    /// How many fields come before the context.
    context_at: usize,
}

/// A parameter that is stored with the job.
pub(super) struct Field {
    pub(super) attrs: Vec<Attribute>,
    pub(super) name: Ident,
    pub(super) ty: Type,
}

impl HandlerParams {
    /// Sorts the parameters of a function that can be a job; all that is wrong with one that cannot.
    pub(super) fn read(sig: &syn::Signature) -> syn::Result<Self> {
        let mut problems = Problems::default();
        check_qualifiers(sig, &mut problems);
        let mut signature = Self { fields: Vec::new(), context: None, context_at: 0 };
        for input in &sig.inputs {
            let taken = match input {
                FnArg::Receiver(receiver) => Err(Error::new_spanned(
                    receiver,
                    "a job's function has no `self`: move it out of the impl, or implement `Job` for the type",
                )),
                FnArg::Typed(parameter) => signature.take(parameter),
            };
            problems.check(taken);
        }
        problems.unless_any(signature)
    }

    /// The call's arguments, in the order of the parameters.
    pub(super) fn arguments(&self, cx: &Ident) -> Vec<TokenStream> {
        let mut arguments: Vec<_> = self.fields.iter().map(|Field { name, .. }| quote!(self.#name)).collect();
        if self.context.is_some() {
            arguments.insert(self.context_at, quote!(#cx));
        }
        arguments
    }

    fn take(&mut self, parameter: &PatType) -> syn::Result<()> {
        if let Some(path) = context_path(&parameter.ty) {
            return self.take_context(parameter, path);
        }
        check_storable(&parameter.ty)?;
        let (attrs, ty) = (parameter.attrs.clone(), (*parameter.ty).clone());
        self.fields.push(Field { attrs, name: field_name(&parameter.pat)?, ty });
        Ok(())
    }

    fn take_context(&mut self, parameter: &PatType, path: &Path) -> syn::Result<()> {
        if let Type::Reference(reference) = &*parameter.ty {
            return Err(Error::new_spanned(reference, "the context comes by value: remove the `&`"));
        }
        if self.context.is_some() {
            return Err(Error::new_spanned(parameter, "a second context: a job's function has one at most"));
        }
        let Some(application) = application(path) else {
            return Err(Error::new_spanned(
                path,
                "the application's type is missing: write `JobContext<App>`, or `JobContext<()>` for none",
            ));
        };
        self.context = Some(application.clone());
        self.context_at = self.fields.len();
        Ok(())
    }
}

fn check_qualifiers(sig: &syn::Signature, problems: &mut Problems) {
    if sig.asyncness.is_none() {
        problems.push(Error::new(sig.fn_token.span, "a job's function is async: write `async fn`"));
    }
    if !sig.generics.params.is_empty() {
        let message = "a job's function cannot be generic: a stored job must name one concrete type";
        problems.push(Error::new_spanned(&sig.generics, message));
    }
    if let Safety::Unsafe(token) = &sig.safety {
        problems.push(Error::new(token.span, "a job's function cannot be unsafe: the engine calls it"));
    }
    if let Some(abi) = &sig.abi {
        problems.push(Error::new_spanned(abi, "a job's function has Rust's own ABI: remove the `extern`"));
    }
}

/// The path of a type that is the context, also behind a reference.
fn context_path(ty: &Type) -> Option<&Path> {
    match ty {
        Type::Path(ty) => {
            Some(&ty.path).filter(|path| path.segments.last().is_some_and(|s| s.ident == "JobContext"))
        }
        Type::Reference(reference) => context_path(&reference.elem),
        Type::Group(group) => context_path(&group.elem),
        Type::Paren(paren) => context_path(&paren.elem),
        _ => None,
    }
}

fn application(path: &Path) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &path.segments.last()?.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

fn field_name(pattern: &Pat) -> syn::Result<Ident> {
    match pattern {
        Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => Ok(name.ident.clone()),
        Pat::Wild(wild) => {
            Err(Error::new_spanned(wild, "the parameter becomes a field of the job's struct: give it a name"))
        }
        other => Err(Error::new_spanned(
            other,
            "the parameter becomes a field of the job's struct: give it a plain name, and take it apart in the body",
        )),
    }
}

fn check_storable(ty: &Type) -> syn::Result<()> {
    match borrow_or_impl(ty.to_token_stream()) {
        None => Ok(()),
        Some((Found::Impl, at)) => {
            Err(Error::new(at, "a parameter is stored with the job: name a concrete type instead of `impl`"))
        }
        Some((Found::Borrow, at)) => {
            let instead =
                owned(ty).map_or_else(|| "take it owned".to_owned(), |owned| format!("take `{owned}`"));
            let message = format!("a parameter is stored with the job, so it cannot be borrowed: {instead}");
            // The whole type when that is what is borrowed, otherwise the `&` inside of it.
            let whole = matches!(ty, Type::Reference(_));
            Err(if whole { Error::new_spanned(ty, message) } else { Error::new(at, message) })
        }
    }
}

enum Found {
    Borrow,
    Impl,
}

/// The first `&` or `impl` anywhere in a type.
fn borrow_or_impl(tokens: TokenStream) -> Option<(Found, Span)> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Punct(punct) if punct.as_char() == '&' => Some((Found::Borrow, punct.span())),
        TokenTree::Ident(ident) if ident == "impl" => Some((Found::Impl, ident.span())),
        TokenTree::Group(group) => borrow_or_impl(group.stream()),
        _ => None,
    })
}

/// What to write instead of a borrowed type, where that is short to say.
fn owned(ty: &Type) -> Option<String> {
    let Type::Reference(reference) = ty else {
        return None;
    };
    match &*reference.elem {
        Type::Slice(_) => Some("Vec".to_owned()),
        Type::Path(ty) => {
            let name = ty.path.get_ident()?.to_string();
            let owned = match name.as_str() {
                "str" => "String",
                "Path" => "PathBuf",
                "OsStr" => "OsString",
                other => other,
            };
            Some(owned.to_owned())
        }
        _ => None,
    }
}
