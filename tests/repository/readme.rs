//! The test in README.md, word for word, because rustdoc does not run tests: `docs.rs` compares them.

use hairspring::{Duration, Instant, sleep, test_util::Bubble};

#[test]
fn an_hour_passes() {
    Bubble::new().workers(2).run(|| async {
        let start = Instant::now();
        sleep(Duration::from_secs(3_600)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(3_600));
    });
}
