//! Futures that end when a token is cancelled, as with tokio-util's `FutureExt`.

use std::future::{pending, ready};

use crate::common::ms;
use hairspring::{FutureExt, Instant, sleep};
use tokio_util::sync::CancellationToken;

#[tokio::test(start_paused = true)]
async fn a_future_ends_when_its_token_is_cancelled() {
    let (token, start) = (CancellationToken::new(), Instant::now());
    let canceller = token.clone();
    let task = tokio::spawn(async move {
        sleep(ms(30)).await;
        canceller.cancel();
    });
    assert_eq!(sleep(ms(50)).with_cancellation_token(&token).await, None);
    assert_eq!(start.elapsed(), ms(30));
    task.await.unwrap();

    let token = CancellationToken::new();
    assert_eq!(sleep(ms(50)).with_cancellation_token(&token).await, Some(()));
    assert_eq!(start.elapsed(), ms(80));
}

#[tokio::test(start_paused = true)]
async fn the_owned_form_can_be_spawned() {
    let token = CancellationToken::new();
    let task = tokio::spawn(pending::<()>().timeout(ms(50)).with_cancellation_token_owned(token.clone()));
    sleep(ms(10)).await;
    token.cancel();
    assert_eq!(task.await.unwrap(), None);
    assert_eq!(ready(7).with_cancellation_token_owned(CancellationToken::new()).await, Some(7));
}
