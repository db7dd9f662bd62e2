//! Functions that cannot be such a test.

#[hairspring::test]
fn not_async() {}
// <- `#[hairspring::test]` is for an `async fn`: use `#[test]` here, or write `async`

#[hairspring::test]
async fn with_arguments(_number: u32, _text: &str) {}
//                      ^^^^^^^^^^^^^^^^^^^^^^^^^ a test takes no arguments

#[hairspring::test]
async fn generic<T: Default>() {}
//              ^^^^^^^^^^^^ a test has no generic parameters

#[hairspring::test]
#[test]
// <- `#[hairspring::test]` adds `#[test]`: leave this out
async fn second_attribute() {}
// <- async functions cannot be used for tests

#[hairspring::test]
struct NoFunction;
// <- expected `fn`
