//! What an async test becomes.

use proc_macro2::{Group, TokenStream};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Attribute, Error, Result, Signature, Visibility};

use crate::settings::Settings;

/// A function whose body nobody has looked into: what is wrong there is for the compiler to tell.
struct Function {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    signature: Signature,
    body: Group,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Function> {
        Ok(Function {
            attributes: input.call(Attribute::parse_outer)?,
            visibility: input.parse()?,
            signature: input.parse()?,
            body: input.parse()?,
        })
    }
}

pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    match syn::parse2::<Function>(item.clone()).and_then(|function| function.check().map(|()| function)) {
        Ok(function) => match Settings::parse.parse2(arguments) {
            Ok(settings) => function.in_a_bubble(&settings),
            // Without a test, the errors of the body would be missing, and what only it uses would count as unused.
            Err(error) => [error.to_compile_error(), function.in_a_bubble(&Settings::default())].into_iter().collect(),
        },
        Err(error) => [error.to_compile_error(), item].into_iter().collect(),
    }
}

impl Function {
    /// Whether it can be a test.
    fn check(&self) -> Result<()> {
        let signature = &self.signature;
        if signature.asyncness.is_none() {
            return Err(Error::new(
                signature.fn_token.span,
                "`#[hairspring::test]` is for an `async fn`: use `#[test]` here, or write `async`",
            ));
        }
        if !signature.inputs.is_empty() {
            return Err(Error::new_spanned(&signature.inputs, "a test takes no arguments"));
        }
        if !signature.generics.params.is_empty() {
            return Err(Error::new_spanned(&signature.generics, "a test has no generic parameters"));
        }
        match self.attributes.iter().find(|attribute| attribute.path().is_ident("test")) {
            Some(second) => Err(Error::new_spanned(second, "`#[hairspring::test]` adds `#[test]`: leave this out")),
            None => Ok(()),
        }
    }

    /// The function stays as it is, inside a test of its name. So `return`, `?` and the messages of the compiler are
    /// those of an async function.
    fn in_a_bubble(mut self, settings: &Settings) -> TokenStream {
        let asynchronous = self.signature.to_token_stream();
        self.signature.asyncness = None;
        let Function { attributes, visibility, signature, body } = self;
        let (name, hairspring, set) = (&signature.ident, settings.hairspring(), settings.calls());
        quote! {
            #(#attributes)*
            #[::core::prelude::v1::test]
            #visibility #signature {
                #asynchronous #body
                #hairspring::test_util::Bubble::new()
                    .named(::core::concat!(::core::module_path!(), "::", ::core::stringify!(#name)))
                    #set
                    .run(#name)
            }
        }
    }
}
