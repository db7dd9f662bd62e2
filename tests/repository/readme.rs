//! The test in README.md, word for word: `docs.rs` compares them, because rustdoc does not compile tests.

use hairspring::{Duration, Instant, pause, sleep};

#[tokio::test(flavor = "multi_thread")]
async fn an_hour_passes() {
    pause();
    let start = Instant::now();
    sleep(Duration::from_secs(3_600)).await;
    assert_eq!(start.elapsed(), Duration::from_secs(3_600));
}
