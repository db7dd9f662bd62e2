//! Timers to watch in tokio-console: a sleep, an interval and a timeout, each in a loop.
//!
//! ```text
//! RUSTFLAGS="--cfg tokio_unstable" cargo run -p console
//! tokio-console        # in another terminal; `r` shows resources
//! ```

use std::future::pending;
use std::time::Duration;

use hairspring::{Timer, interval, sleep, timeout};

#[tokio::main]
async fn main() {
    console_subscriber::init();
    Timer::builder().name("main").install().expect("the first timer of this runtime");
    tokio::spawn(async {
        loop {
            sleep(Duration::from_secs(2)).await;
        }
    });
    tokio::spawn(async {
        let mut ticks = interval(Duration::from_secs(1));
        loop {
            ticks.tick().await;
        }
    });
    loop {
        let _ = timeout(Duration::from_secs(3), pending::<()>()).await;
    }
}
