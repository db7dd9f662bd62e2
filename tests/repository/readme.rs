//! The test in README.md, word for word, because rustdoc does not run tests: `docs.rs` compares them.

use hairspring::{Duration, Instant, sleep};

#[hairspring::test(workers = 2)]
async fn an_hour_passes() {
    let start = Instant::now();
    sleep(Duration::from_secs(3_600)).await;
    assert_eq!(start.elapsed(), Duration::from_secs(3_600));
}
