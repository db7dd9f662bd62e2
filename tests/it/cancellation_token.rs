//! Futures that end when a token is cancelled, as with tokio-util's `FutureExt`.

use std::future::{pending, ready};

use crate::common::ms;
use hairspring::{FutureExt, Instant, sleep};
use tokio_util::sync::CancellationToken;

#[tokio::test(start_paused = true)]
async fn a_future_ends_when_its_token_is_cancelled() {
    let (token, start) = (CancellationToken::new(), Instant::now());
    let owns = tokio::spawn(pending::<()>().timeout(ms(50)).with_cancellation_token_owned(token.clone()));
    let canceller = token.clone();
    tokio::spawn(async move {
        sleep(ms(30)).await;
        canceller.cancel();
    });
    assert_eq!(sleep(ms(50)).with_cancellation_token(&token).await, None);
    assert_eq!((owns.await.unwrap(), start.elapsed()), (None, ms(30)));

    let token = CancellationToken::new();
    assert_eq!(sleep(ms(50)).with_cancellation_token(&token).await, Some(()));
    assert_eq!(ready(7).with_cancellation_token_owned(token).await, Some(7));
    assert_eq!(start.elapsed(), ms(80));
}
