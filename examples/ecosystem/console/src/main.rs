//! Timers to watch in tokio-console: an interval, and a sleep with a timeout.
//!
//! ```text
//! RUSTFLAGS="--cfg tokio_unstable" cargo run -p console
//! tokio-console        # in another terminal; `r` shows resources
//! ```

use std::time::Duration;

use hairspring::{Timer, interval, sleep, timeout};

#[tokio::main]
async fn main() {
    console_subscriber::init();
    Timer::builder().name("main").install().expect("the first timer of this runtime");
    let mut ticks = interval(Duration::from_secs(1));
    loop {
        ticks.tick().await;
        let _ = timeout(Duration::from_secs(3), sleep(Duration::from_secs(2))).await;
    }
}
