//! The compiler's own errors are at the tokens of the body.

use hairspring::{Duration, sleep};

#[hairspring::test(workers = 2)]
async fn wrong_argument() {
    sleep(5).await;
    //    ^ mismatched types
}

#[hairspring::test]
async fn last_statement() {
    sleep(Duration::ZERO).await;
    5
    // <- mismatched types
}

#[hairspring::test]
async fn nothing_is_returned() -> Result<(), std::io::Error> {
    //                                                       ^ mismatched types
    sleep(Duration::ZERO).await;
}

#[hairspring::test]
async fn wrong_return() -> Result<(), std::num::ParseIntError> {
    return Ok(5);
    //        ^ mismatched types
}

#[hairspring::test]
async fn unused() {
    let unused = 5;
    //  ^^^^^^ unused variable: `unused`
}

#[hairspring::test]
async fn no_termination() -> u32 {
    //                       ^^^ the trait bound `u32: Termination` is not satisfied
    5
}

#[hairspring::test]
async fn question_mark() {
    "5".parse::<u32>()?;
    //                ^ the `?` operator can only be used in an async function that returns `Result` or `Option`
}
