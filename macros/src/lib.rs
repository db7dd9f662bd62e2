//! The attribute `hairspring::test`. The crate hairspring exports it with its feature `test-util`, and documents it
//! there.

mod expand;
mod settings;

use proc_macro::TokenStream;

#[proc_macro_attribute]
#[expect(missing_docs, reason = "its documentation would follow the one that it has in hairspring")]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(arguments.into(), item.into()).into()
}
